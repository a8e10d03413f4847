# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When the code below some directories last changed, file by file."""

from __future__ import annotations

import os
import stat
from typing import NamedTuple

SUFFIXES = (".py", ".so", ".pth")


class Change(NamedTuple):
    """A file of code and when it last changed, in nanoseconds of the wall clock."""

    time: int
    path: str


def change_time(file: os.stat_result, folder: os.stat_result) -> int:
    """When the content behind a name last changed, as far as the file system tells (nanoseconds).

    The inode's change time, because the modification time can be put back. With more than one link it is not enough:
    linking the file into another environment changes it, too (uv does so). Then the file is as new as its own
    modification, or as a replacement of the name, which its folder shows.
    """
    if file.st_nlink == 1:
        return file.st_ctime_ns
    return max(file.st_mtime_ns, min(file.st_ctime_ns, folder.st_mtime_ns))


def code_changes(roots: list[str]) -> tuple[list[Change], list[str]]:
    """Every file of code below the roots (files or directories), newest first, and what could not be read.

    Directory links are not followed, so that `lib64` does not count twice. Bytecode in `__pycache__` is no source; a
    module that exists as bytecode alone is.
    """
    changes: list[Change] = []
    unreadable: list[str] = []
    for root in roots:
        folder = root if os.path.isdir(root) else os.path.dirname(root) or "."
        if folder != root:
            changes.append(Change(change_time(os.stat(root), os.stat(folder)), root))
        else:
            _collect(root, changes, unreadable)
    return sorted(changes, reverse=True), sorted(unreadable)


def _collect(root: str, changes: list[Change], unreadable: list[str]) -> None:
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        try:
            about = os.stat(folder)
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name != "__pycache__":
                            waiting.append(entry.path)
                    elif entry.name.endswith(SUFFIXES) or entry.name.endswith(".pyc") or ".so." in entry.name:
                        _add(entry, about, changes)
        except OSError as error:
            unreadable.append(f"{folder}: {error.strerror}")


def _add(entry: os.DirEntry[str], folder: os.stat_result, changes: list[Change]) -> None:
    try:
        about = entry.stat()
    except OSError:
        return  # a dangling link, or gone by now
    if stat.S_ISREG(about.st_mode):
        changes.append(Change(change_time(about, folder), entry.path))
