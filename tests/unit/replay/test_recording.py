# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recordings are checked before anything is written, and never written outside their directory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.inference.tests.replay import hosts, recording

REPLAY = Path(recording.__file__).parent


def empty(**changes: Any) -> dict[str, Any]:
    return {"format": recording.FORMAT, "version": 1, "title": "t", "commands": [], "files": {}, **changes}


class TestCheck:
    @pytest.mark.parametrize("name", hosts.HOSTS)
    def test_invented_hosts_are_recordings(self, name: str) -> None:
        host = hosts.recording(name)
        assert recording.check(json.loads(json.dumps(host))) == host

    @pytest.mark.parametrize(
        ("damaged", "reason"),
        [
            ([], "no blackwell.inference recording"),
            (empty(format="other"), "no blackwell.inference recording"),
            (empty(version=2), "version 2 is not 1"),
            (empty(files=[]), "files an object"),
            (empty(commands=["-q"]), "no list of arguments"),
            (empty(commands=[{"arguments": ["-q"], "output": ""}]), "no status"),
            (empty(files={"/proc/a": None}), "no known form"),
            (empty(files={"/proc/a": {"size": -1}}), "no known form"),
            (empty(files={"/proc/a": {"size": 1 << 40}}), "no known form"),
            (empty(files={"/proc/a": {"size": 1, "bytes": {"0": "zz"}}}), "bytes of /proc/a"),
            (empty(files={"/proc/a": {"size": 1, "bytes": {"1": "00"}}}), "lie outside"),
            (empty(files={"/proc/a": {"link": ""}}), "no known form"),
        ],
    )
    def test_refused(self, damaged: object, reason: str) -> None:
        with pytest.raises(recording.BadRecordingError, match=reason):
            recording.check(damaged)

    @pytest.mark.parametrize(
        "path",
        [
            "proc/a",
            "/etc/passwd",
            "/proc/../etc/passwd",
            "/proc//a",
            "/proc/a/",
            "/dev/null",
            "/process/a",
            "/proc/a\0b",
        ],
    )
    def test_paths_outside(self, path: str) -> None:
        with pytest.raises(recording.BadRecordingError, match="no path below"):
            recording.check(empty(files={path: ""}))


class TestUnpack:
    def test_every_form_of_entry(self, tmp_path: Path) -> None:
        files = {
            "/proc/text": "a\n",
            "/proc/1/fd": {"directory": True},
            "/proc/1/fd/0": {"link": "/dev/null"},
            "/sys/config": {"size": 8, "bytes": {"0": "2210", "6": "ff"}},
        }
        recording.unpack(empty(files=files), tmp_path)
        assert (tmp_path / "proc/text").read_text() == "a\n"
        assert os.readlink(tmp_path / "proc/1/fd/0") == "/dev/null"
        assert (tmp_path / "sys/config").read_bytes() == b"\x22\x10\0\0\0\0\xff\0"
        assert (tmp_path / "dev/shm").is_dir()
        assert not (tmp_path / "nvidia-smi").exists()

    def test_nothing_is_written_through_a_link(self, tmp_path: Path) -> None:
        victim = tmp_path / "victim"
        victim.mkdir()
        files = {"/proc/1/fd/0": {"link": str(victim)}, "/proc/1/fd/0/passwd": "mine"}
        with pytest.raises(recording.BadRecordingError, match="leads through"):
            recording.unpack(empty(files=files), tmp_path / "host")
        assert list(victim.iterdir()) == []
        assert not (tmp_path / "host").exists()

    def test_directory_that_holds_something(self, tmp_path: Path) -> None:
        (tmp_path / "thesis.tex").write_text("")
        with pytest.raises(FileExistsError, match="not empty"):
            recording.unpack(empty(), tmp_path)


class TestPrograms:
    """As a user calls them, without the collection on the path."""

    def test_unpack_a_printed_host_and_ask_it(self, tmp_path: Path) -> None:
        printed = subprocess.run(
            [sys.executable, REPLAY / "hosts.py", "workstation-2x"], check=True, capture_output=True, text=True
        )
        command = [sys.executable, str(REPLAY / "recording.py"), "unpack", "-", str(tmp_path / "host")]
        subprocess.run(command, input=printed.stdout, check=True, text=True)
        smi = tmp_path / "host" / "nvidia-smi" / "nvidia-smi"
        answer = subprocess.run([smi, "topo", "-m"], check=True, capture_output=True, text=True)
        assert answer.stdout == hosts.topology(hosts.HOSTS["workstation-2x"])
        assert (smi.parent / "calls").read_text() == '["topo", "-m"]\n'

    def test_what_was_not_recorded_is_not_invented(self, tmp_path: Path) -> None:
        recording.unpack(hosts.recording("workstation-2x"), tmp_path / "host")
        smi = tmp_path / "host" / "nvidia-smi" / "nvidia-smi"
        answer = subprocess.run([smi, "-L"], check=False, capture_output=True, text=True)
        assert (answer.returncode, answer.stdout) == (97, "")
        assert "was not recorded" in answer.stderr

    def test_recorded_failure(self, tmp_path: Path) -> None:
        recording.unpack(hosts.recording("driver-dead"), tmp_path / "host")
        smi = tmp_path / "host" / "nvidia-smi" / "nvidia-smi"
        answer = subprocess.run([smi, "-q", "-x"], check=False, capture_output=True, text=True)
        assert (answer.returncode, answer.stdout) == (9, hosts.COMMUNICATE)

    def test_list_of_hosts(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert hosts.main([]) == 0
        assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(hosts.HOSTS)

    def test_unknown_host(self) -> None:
        assert hosts.main(["nobody"]) == 2

    @pytest.mark.parametrize("content", ["", "{}", "[1"])
    def test_file_that_is_no_recording(self, content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "host.json").write_text(content)
        assert recording.main(["unpack", str(tmp_path / "host.json"), str(tmp_path / "host")]) == 1
        assert "host.json: " in capsys.readouterr().err
        assert not (tmp_path / "host").exists()

    @pytest.mark.parametrize("arguments", [[], ["unpack"], ["pack", "a", "b"]])
    def test_usage(self, arguments: list[str]) -> None:
        assert recording.main(arguments) == 2
