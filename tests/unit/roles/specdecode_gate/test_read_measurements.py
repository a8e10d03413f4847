# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measurements survive a crash while one of them was written."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[4] / "roles/specdecode_gate/files/read_measurements.py"
ENTRY = json.dumps({"digest": "a", "by_prompt": [{"speed": {"median": 1.0}}], "method": {"streams": [1]}}).encode()


def read(path: Path) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-I", "-S", "-B", "-", str(path)]
    return subprocess.run(command, input=PROGRAM.read_bytes(), capture_output=True, check=False)


@pytest.mark.parametrize("length", range(1, len(ENTRY)))
def test_a_line_that_was_torn_anywhere_is_passed_over_and_told(tmp_path: Path, length: int) -> None:
    path = tmp_path / "measurements.jsonl"
    path.write_bytes(ENTRY + b"\n" + ENTRY[:length] + b"\n" + ENTRY)
    done = read(path)
    assert done.returncode == 0 and done.stdout == (ENTRY + b"\n") * 2
    assert b"line 2 is no whole measurement" in done.stderr


@pytest.mark.parametrize("line", [b"\0" * 9, b"\xff", b"[]", b"5", b"{}", b'{"digest": "a"}', b"[" * 100000])
def test_what_is_no_measurement_is_passed_over(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "measurements.jsonl"
    path.write_bytes(line + b"\n" + ENTRY + b"\n")
    assert read(path).stdout == ENTRY + b"\n"


def test_without_a_file_there_is_no_measurement(tmp_path: Path) -> None:
    done = read(tmp_path / "none")
    assert (done.returncode, done.stdout) == (0, b"")


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    done = read(tmp_path)
    assert done.returncode == 1 and str(tmp_path).encode() in done.stderr
