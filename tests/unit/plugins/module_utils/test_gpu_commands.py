# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nvidia-smi is asked all at once, and never waited for when it hangs."""

from __future__ import annotations

import time
from pathlib import Path

from ansible_collections.blackwell.inference.plugins.module_utils._gpu_commands import Outcome, run_together


def test_outcomes_in_the_order_of_the_commands() -> None:
    commands = [["sh", "-c", "echo one; echo two >&2; exit 9"], ["sh", "-c", 'echo "$LC_ALL"']]
    assert run_together(commands, 30) == [Outcome(9, "one\n", "two\n"), Outcome(0, "C\n", "")]


def test_all_run_at_the_same_time(tmp_path: Path) -> None:
    """Each waits for what the other does: one after the other they would never end."""
    first, second = tmp_path / "first", tmp_path / "second"
    wait = "touch {}; while [ ! -e {} ]; do sleep 0.02; done"
    commands = [["sh", "-c", wait.format(first, second)], ["sh", "-c", wait.format(second, first)]]
    assert [outcome.status for outcome in run_together(commands, 30)] == [0, 0]


def test_one_that_hangs_is_left_and_the_others_are_kept() -> None:
    started = time.monotonic()
    hung, done = run_together([["sleep", "300"], ["echo", "here"]], 0.3)
    assert time.monotonic() - started < 100
    assert hung == Outcome(None, "", "it did not end within 0.3 seconds")
    assert done == Outcome(0, "here\n", "")


def test_one_that_ignores_signals_is_not_waited_for() -> None:
    """Its child keeps the pipes open after it was killed, as a process that hangs in the kernel would."""
    started = time.monotonic()
    (outcome,) = run_together([["sh", "-c", "sleep 20 & wait"]], 0.3)
    assert outcome.status is None
    assert time.monotonic() - started < 15


def test_large_output() -> None:
    (outcome,) = run_together([["sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x"]], 30)
    assert len(outcome.output) == 3_000_000


def test_no_such_program() -> None:
    (outcome,) = run_together([["/nonexistent/nvidia-smi", "-q"]], 1)
    assert outcome == Outcome(126, "", "/nonexistent/nvidia-smi cannot be started: No such file or directory")


def test_output_that_is_no_text() -> None:
    (outcome,) = run_together([["printf", "\\377ok"]], 30)
    assert outcome.output == "\ufffdok"
