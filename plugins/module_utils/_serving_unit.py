# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What systemd knows about a server's unit, and the log of one invocation of it."""

from __future__ import annotations

import subprocess
from typing import NamedTuple

PROPERTIES = "LoadState,ActiveState,SubState,InvocationID,NRestarts,Result,ExecMainStatus,MainPID"
QUICK = 20.0


class UnitError(Exception):
    """systemd does not answer, or does not know the unit."""


class UnitState(NamedTuple):
    """A unit at one moment. `invocation` identifies one start of it."""

    active: str
    sub: str
    invocation: str
    restarts: int
    result: str
    status: int
    pid: int


def parse_state(unit: str, text: str) -> UnitState:
    """Read the output of `systemctl show`; raises UnitError for a unit that systemd does not know."""
    given = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    if given.get("LoadState") in (None, "not-found", "error", "bad-setting", "masked"):
        raise UnitError(
            f"systemd has no usable unit {unit} (LoadState {given.get('LoadState', 'unknown')}). "
            f"Look at it with: systemctl status {unit}"
        )
    return UnitState(
        given.get("ActiveState", ""),
        given.get("SubState", ""),
        given.get("InvocationID", ""),
        _number(given.get("NRestarts", "")),
        given.get("Result", ""),
        _number(given.get("ExecMainStatus", "")),
        _number(given.get("MainPID", "")),
    )


def _number(text: str) -> int:
    return int(text) if text.isdigit() else 0


def unit_state(unit: str) -> UnitState:
    """The unit now; raises UnitError."""
    return parse_state(unit, _run(["systemctl", "show", unit, "--property=" + PROPERTIES]))


def death(first: UnitState, now: UnitState) -> str:
    """Why the invocation that was seen first no longer runs, or '' while it does."""
    how = f"result {now.result}, exit status {now.status}"
    if now.sub == "auto-restart":
        return f"the process ended ({how}) and systemd is about to start it again"
    if first.invocation and now.invocation and now.invocation != first.invocation:
        return "the process ended and systemd started it again"
    if now.restarts > first.restarts:
        return f"the process ended and systemd started it again ({now.restarts} restarts)"
    if now.active in ("failed", "inactive", "deactivating"):
        return f"the unit is {now.active} ({how})"
    return ""


def invocation_log(unit: str, invocation: str, lines: int) -> str:
    """The last lines that this invocation wrote to the journal; '' when the journal cannot be read."""
    match = f"_SYSTEMD_INVOCATION_ID={invocation}" if invocation else f"_SYSTEMD_UNIT={unit}"
    command = ["journalctl", "--no-pager", "--quiet", "--all", "--output=cat", f"--lines={lines}", match]
    try:
        return _run(command)
    except UnitError:
        return ""


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, timeout=QUICK, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise UnitError(f"{command[0]} does not answer: {error}. Is systemd running on this node?") from error
    if done.returncode != 0:
        message = done.stderr.decode("utf-8", "replace").strip()
        raise UnitError(f"{' '.join(command[:3])} failed with {done.returncode}: {message}")
    return done.stdout.decode("utf-8", "replace")
