# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which processes run code of an environment that is older than the code on disk.

Bytecode says nothing about a process that runs, so a restart has to be decided from the processes themselves.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from ansible_collections.blackwell.inference.plugins.module_utils._process_code import Change, code_changes
from ansible_collections.blackwell.inference.plugins.module_utils._process_table import (
    SECOND,
    Process,
    read_processes,
)

VARIABLES = ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "__PYVENV_LAUNCHER__")
MAX_FILES = 20
MAX_COMMAND = 200
UNKNOWN_ADDRESSES = ("0", "1")  # what the kernel shows of another user's process


class Image(NamedTuple):
    """A program in memory: what forks share and exec replaces."""

    exe: str | None
    layout: tuple[str, ...]


def find_stale(roots: list[str], proc: str = "/proc") -> dict[str, Any]:
    """Look at the node once: processes of the environments below `roots`, and the changes after their start.

    Raises ValueError for a root that does not exist.
    """
    for root in roots:
        if not os.path.isabs(root) or not os.path.exists(root):
            raise ValueError(f"{root} does not exist, or is no absolute path")
    changes, unreadable = code_changes(roots)
    processes = [process for process in read_processes(proc) if process.pid != os.getpid()]
    return {
        **judge(processes, changes, [*roots, *map(os.path.realpath, roots)], _inodes(changes)),
        "unreadable": unreadable,
        "examined": len(processes),
        "hidden": sum(1 for process in processes if process.environ is None or process.mapped is None),
    }


def judge(
    processes: list[Process], changes: list[Change], roots: list[str], inodes: set[tuple[str, str]]
) -> dict[str, Any]:
    """Split the processes that belong to the roots into those older than the newest change, and the others."""
    starts = image_starts(processes)
    stale: list[dict[str, Any]] = []
    current: list[dict[str, Any]] = []
    for process in processes:
        evidence = belongs(process, roots, inodes)
        if not evidence:
            continue
        began = min(process.start, starts.get(_image(process), process.start))
        newer = [change for change in changes if change.time >= began]
        (stale if newer else current).append(_describe(process, began, evidence, newer))
    return {
        "stale": sorted(stale, key=lambda item: item["pid"]),
        "current": sorted(current, key=lambda item: item["pid"]),
        "units": sorted({item["unit"] for item in stale if item["unit"]}),
        "newest": {"path": changes[0].path, "time": _seconds(changes[0].time)} if changes else None,
        "files": len(changes),
    }


def image_starts(processes: list[Process]) -> dict[Image, int]:
    """When the oldest process of each image started: a fork carries the modules of the process that it came from."""
    starts: dict[Image, int] = {}
    for process in processes:
        image = _image(process)
        if image.exe is not None and image.layout[2:3] and image.layout[2] not in UNKNOWN_ADDRESSES:
            starts[image] = min(process.start, starts.get(image, process.start))
    return starts


def _image(process: Process) -> Image:
    return Image(process.exe, process.layout)


def belongs(process: Process, roots: list[str], inodes: set[tuple[str, str]]) -> list[str]:
    """What shows that a process uses code below the roots; nothing when it does not.

    Mapped libraries are the strongest: they survive a process that renames itself (`VLLM::EngineCore`), and by device
    and inode also another view of the file system.
    """
    found = []
    for index, word in enumerate(process.command[:4]):
        if "/" in word and not word.startswith("-") and _below(_absolute(word, process.cwd), roots):
            found.append(f"argument {index}")
    if _from_path(process, roots):
        found.append("PATH")
    environ = process.environ or {}
    found += [name for name in VARIABLES if any(_below(part, roots) for part in environ.get(name, "").split(":"))]
    mapped = process.mapped or {}
    if any(_below(path, roots) for path in mapped):
        found.append("mapped file")
    elif inodes.intersection(mapped.values()):
        found.append("mapped inode")
    return found


def _from_path(process: Process, roots: list[str]) -> bool:
    """Whether the interpreter's bare name was found below the roots, by the process's own PATH."""
    name = process.command[0] if process.command else ""
    if "/" in name or not name.startswith("python"):
        return False
    for folder in (process.environ or {}).get("PATH", "").split(":"):
        if folder.startswith("/") and os.path.exists(f"/proc/{process.pid}/root{folder}/{name}"):
            return _below(folder, roots)
    return False


def _absolute(path: str, cwd: str | None) -> str:
    return os.path.normpath(os.path.join(cwd or "/", path))


def _below(path: str, roots: list[str]) -> bool:
    return any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots)


def _inodes(changes: list[Change]) -> set[tuple[str, str]]:
    """Device and inode of the libraries among the files, as /proc/<pid>/maps writes them."""
    found = set()
    for change in changes:
        if ".so" in os.path.basename(change.path):
            try:
                about = os.stat(change.path)
            except OSError:
                continue
            device = f"{os.major(about.st_dev):02x}:{os.minor(about.st_dev):02x}"
            found.add((device, str(about.st_ino)))
    return found


def _describe(process: Process, began: int, evidence: list[str], newer: list[Change]) -> dict[str, Any]:
    return {
        "pid": process.pid,
        "ppid": process.ppid,
        "unit": process.unit,
        # Arguments may hold secrets that somebody passed there, so only the program and its first words are told.
        "command": " ".join(process.command[:3])[:MAX_COMMAND].strip(),
        "started": _seconds(process.start),
        "code_from": _seconds(began),
        "evidence": evidence,
        "changed_since": len(newer),
        "files": [change.path for change in newer[:MAX_FILES]],
    }


def _seconds(nanoseconds: int) -> float:
    return round(nanoseconds / SECOND, 3)
