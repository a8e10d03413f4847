# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes as /proc shows them: which files they have open or mapped, and whether anybody still looks after them."""

from __future__ import annotations

import re
from typing import Any, Callable, NamedTuple, Sequence

from ansible_collections.blackwell.inference.plugins.module_utils._gpu_files import Tree, UnreadableError

PROCESS_FACTS = ("name", "state", "parent", "session", "uid", "unit", "orphan")

_UNIT = re.compile(r"[^/]+\.(?:service|scope)")


class Scan(NamedTuple):
    """What a look into all processes showed."""

    paths: dict[int, set[str]]  # by process: the wanted files that it has open or mapped
    unseen: int  # processes that may not be looked into (without root: those of other users)


def scan_processes(tree: Tree, wanted: Callable[[str], bool], mapped: bool) -> Scan:
    """Look through the open files of all processes, and through the mapped ones if asked to.

    Raises UnreadableError if there is no /proc. A process that ends meanwhile is passed over.
    """
    paths: dict[int, set[str]] = {}
    unseen = 0
    for pid in (int(name) for name in tree.names("/proc") if re.fullmatch("[0-9]{1,10}", name)):
        try:
            held = _open_paths(tree, pid) + (_mapped_paths(tree, pid) if mapped else [])
        except UnreadableError as error:
            unseen += error.denied
            continue
        found = set(filter(wanted, held))
        if found:
            paths[pid] = found
    return Scan(paths, unseen)


def describe_process(tree: Tree, pid: int) -> dict[str, Any]:
    """Name, state, parent, session, user and systemd unit of a process, and whether it is an orphan.

    An orphan's parent is PID 1, and the leader of its session is gone: what a killed server or a closed shell leaves. A
    service's main process has PID 1 as its parent too, but leads its own session. Raises UnreadableError if there is
    no such process.
    """
    lines = [line.partition(":") for line in tree.text(f"/proc/{pid}/status").splitlines()]
    status = {key: value.split() for key, colon, value in lines if colon}
    parent, session, user = (_first_number(status.get(key)) for key in ("PPid", "NSsid", "Uid"))
    orphan = None
    if parent is not None and session:
        orphan = parent == 1 and not tree.exists(f"/proc/{session}")
    return {
        "name": " ".join(status.get("Name", [])) or None,
        "state": status["State"][0] if status.get("State") else None,
        "parent": parent,
        "session": session,
        "uid": user,
        "unit": _unit(tree, pid),
        "orphan": orphan,
    }


def _open_paths(tree: Tree, pid: int) -> list[str]:
    """What the file descriptors of a process point to. One that is closed meanwhile is no error."""
    paths = []
    for descriptor in tree.names(f"/proc/{pid}/fd"):
        try:
            paths.append(tree.target(f"/proc/{pid}/fd/{descriptor}"))
        except UnreadableError:
            continue
    return paths


def _mapped_paths(tree: Tree, pid: int) -> list[str]:
    """The files that a process maps. A file stays in use when its descriptor is closed after mapping."""
    mappings = (line.split(None, 5) for line in tree.text(f"/proc/{pid}/maps").splitlines())
    return [fields[5] for fields in mappings if len(fields) == 6]


def _first_number(words: Sequence[str] | None) -> int | None:
    return int(words[0]) if words and re.fullmatch("[0-9]{1,10}", words[0]) else None


def _unit(tree: Tree, pid: int) -> str:
    """The innermost systemd service or scope of a process; empty if it is in none."""
    try:
        lines = tree.text(f"/proc/{pid}/cgroup").splitlines()
    except UnreadableError:
        return ""
    groups = [line.split(":", 2)[-1] for line in lines if line.startswith("0::") or ":name=systemd:" in line]
    units = [part for group in groups for part in group.split("/") if _UNIT.fullmatch(part)]
    return units[-1] if units else ""
