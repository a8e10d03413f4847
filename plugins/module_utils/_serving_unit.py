# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What systemd knows about a server's unit, and the log of one invocation of it."""

from __future__ import annotations

from typing import Callable, List, NamedTuple, Tuple

PROPERTIES = "LoadState,ActiveState,SubState,InvocationID,NRestarts,Result,ExecMainStatus,MainPID"
QUICK = "20"  # seconds for a question; systemctl itself would wait for a systemd that hangs

# Runs a command and gives its exit status, output and errors; raises OSError when it cannot be started.
Run = Callable[[List[str]], Tuple[int, str, str]]


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


def unit_state(run: Run, unit: str) -> UnitState:
    """The unit now; raises UnitError."""
    return parse_state(unit, _ask(run, ["systemctl", "show", unit, "--property=" + PROPERTIES]))


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


def invocation_log(run: Run, unit: str, invocation: str, lines: int) -> str:
    """The last lines that this invocation wrote to the journal; '' when the journal cannot be read."""
    match = f"_SYSTEMD_INVOCATION_ID={invocation}" if invocation else f"_SYSTEMD_UNIT={unit}"
    command = ["journalctl", "--no-pager", "--quiet", "--all", "--output=cat", f"--lines={lines}", match]
    try:
        return _ask(run, command)
    except UnitError:
        return ""


def _ask(run: Run, command: list[str]) -> str:
    """The output of a command; raises UnitError."""
    try:
        status, output, errors = run(["timeout", QUICK, *command])
    except OSError as error:
        raise UnitError(f"{command[0]} cannot be run: {error}. Is systemd running on this node?") from error
    if status != 0:
        said = " ".join(errors.split()) or ("no answer" if status == 124 else "no message")
        raise UnitError(f"{' '.join(command[:3])} failed with {status}: {said}")
    return output
