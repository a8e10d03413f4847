# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the queries of C(nvidia-smi), all at once, and never wait for one that hangs.

With a wedged GPU the tool can hang in the kernel, where no signal reaches it. So a query that takes too long is killed,
and left: waiting for its end would hang as well.
"""

from __future__ import annotations

import os
import subprocess
import time
from typing import NamedTuple, Sequence

_CANNOT_START = 126  # as a shell says it


class Outcome(NamedTuple):
    """How a command ended."""

    status: int | None  # None: it did not end in time
    output: str
    errors: str


def run_together(commands: Sequence[Sequence[str]], timeout: float) -> list[Outcome]:
    """Run all commands at the same time, for so many seconds at most, and return their outcomes in the same order."""
    deadline = time.monotonic() + timeout
    started = [_start(command) for command in commands]
    return [
        process if isinstance(process, Outcome) else _finish(process, deadline - time.monotonic(), timeout)
        for process in started
    ]


def _start(command: Sequence[str]) -> subprocess.Popen[bytes] | Outcome:
    try:
        # run_command waits for what it killed, and runs one command at a time
        return subprocess.Popen(  # pylint: disable=ansible-bad-function
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "LC_ALL": "C"},
        )
    except OSError as error:
        return Outcome(_CANNOT_START, "", f"{command[0]} cannot be started: {error.strerror}")


def _finish(process: subprocess.Popen[bytes], seconds: float, timeout: float) -> Outcome:
    try:
        output, errors = process.communicate(timeout=max(seconds, 0.01))
    except subprocess.TimeoutExpired:
        process.kill()
        return Outcome(None, "", f"it did not end within {timeout:g} seconds")
    return Outcome(process.returncode, output.decode("utf-8", "replace"), errors.decode("utf-8", "replace"))
