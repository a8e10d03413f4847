# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds the bytecode beside the sources of a tree, or beside one source, and has it judged.

Beside `m.py` it is in `__pycache__`, one file for every interpreter and optimization level, or it is `m.pyc`, which
Python uses only once `m.py` is gone. Bytecode that lives apart from its sources is found by _bytecode_prefix.
"""

from __future__ import annotations

import errno
import functools
import os
from typing import AbstractSet, Callable, NamedTuple

from ansible_collections.blackwell.inference.plugins.module_utils._bytecode_files import (
    FOLDER_NO_LINK,
    Base,
    FileId,
    ReplacedError,
    Sealing,
    Suspect,
    folder_below,
    open_base,
    source_folder,
)
from ansible_collections.blackwell.inference.plugins.module_utils._bytecode_judge import (
    Findings,
    Judge,
    Left,
    Place,
    Sources,
)
from ansible_collections.blackwell.inference.plugins.module_utils._bytecode_mounts import Mounts, mounts_of
from ansible_collections.blackwell.inference.plugins.module_utils._bytecode_parallel import share_out
from ansible_collections.blackwell.inference.plugins.module_utils._bytecode_pyc import ALL_LEVELS, is_tagged

CACHE = "__pycache__"
_DEEPEST = 400  # levels below the given folder; each one holds a file descriptor
_FOLDERS_WORTH_SHARING = 256
NO_FOLDER_NOW = (errno.ELOOP, errno.ENOTDIR)


class _Tree(NamedTuple):
    """A tree that is being searched; `skip` are folders that are searched in another way."""

    base: Base
    skip: AbstractSet[FileId]
    mounts: Mounts


def scan_tree(path: str, skip: AbstractSet[FileId], found: Findings) -> None:
    """Judge all bytecode beside the sources below a folder. Links to folders are not followed.

    Large trees are shared out among processes.
    """
    descriptor, base = open_base(path)
    os.close(descriptor)
    tree = _Tree(base, skip, mounts_of(path))
    level = [base.path.rstrip("/")]
    while level and len(level) < _FOLDERS_WORTH_SHARING:
        level = [folder for parent in level for folder in _scan_folder_at(tree, parent, found)]
    for part in share_out(level, functools.partial(_scan_below, tree, found.sealing), _processes()):
        found.add(part)


def scan_source(path: str, found: Findings) -> None:
    """Judge the bytecode beside one source."""
    folder, name = os.path.split(path)
    descriptor, base = open_base(folder)
    try:
        tree = _Tree(base, frozenset(), mounts_of(folder))
        sources = Sources(base, folder.rstrip("/"), descriptor)
        _add_source(tree, sources, name, os.path.islink(path))
        with os.scandir(descriptor) as entries:
            beside = [_obstacle(entry) for entry in entries if entry.name == name + "c"]
        for obstacle in beside:
            _judge_beside(base, sources, name + "c", obstacle, found)
        _judge_cache(tree, sources, found, only_these=True)
    finally:
        os.close(descriptor)


def scan_again(suspect: Suspect, found: Findings) -> None:
    """Judge a pyc that was replaced since it was judged, or find that it is gone."""
    owner = (os.path.basename(suspect.source), suspect.tag, suspect.optimization)
    try:
        with folder_below(suspect.base, suspect.folder) as folder, source_folder(suspect) as below:
            sources = Sources(suspect.source_base, os.path.dirname(suspect.source), below)
            Judge(Place(suspect.base, suspect.folder, folder, sources, False), found).one(suspect.name, owner)
    except ReplacedError:
        return
    except OSError as error:
        found.failed(suspect.path, error)


def _processes() -> int:
    """A few processes even on few processors: most of their time they wait for the disk."""
    return max(4, min(8, len(os.sched_getaffinity(0))))


def _scan_folder_at(tree: _Tree, folder: str, found: Findings) -> list[str]:
    """Judge one folder, given by its path; returns the paths of the folders in it."""
    try:
        with folder_below(tree.base, folder) as descriptor:
            return [folder + "/" + name for name in _scan_folder(tree, folder, descriptor, found)]
    except ReplacedError:
        return []
    except OSError as error:
        found.failed(folder, error)
        return []


def _scan_below(tree: _Tree, sealing: Sealing | None, top: str) -> Findings:
    """Judge a folder and everything below it."""
    found = Findings(sealing)
    try:
        with folder_below(tree.base, top) as descriptor:
            descend(top, descriptor, functools.partial(_scan_folder, tree, found=found), found)
    except ReplacedError:
        pass
    except OSError as error:
        found.failed(top, error)
    return found


def descend(top: str, descriptor: int, visit: Callable[[str, int], list[str]], found: Findings) -> None:
    """Visit a folder and all below it, depth first, so that only the folders on the way down are open.

    `visit` gets path and descriptor of a folder and returns the names of those folders in it that are to be visited.
    """
    way = [(descriptor, top, visit(top, descriptor))]
    while way:
        descriptor, folder, below = way[-1]
        if not below:
            way.pop()
            if way:
                os.close(descriptor)
            continue
        child = folder + "/" + below[-1]
        opened = open_folder(below.pop(), descriptor, child, found)
        if opened is not None and len(way) < _DEEPEST:
            way.append((opened, child, visit(child, opened)))
        elif opened is not None:
            os.close(opened)
            found.left.append(Left(child, "too_deep"))


def open_folder(name: str, parent: int, path: str, found: Findings) -> int | None:
    """Open a folder that is no link; None if that is impossible, which is noted."""
    try:
        return os.open(name, FOLDER_NO_LINK, dir_fd=parent)
    except OSError as error:
        if error.errno in NO_FOLDER_NOW:
            found.left.append(Left(path, "link"))
        else:
            found.failed(path, error)
        return None


def _scan_folder(tree: _Tree, folder: str, descriptor: int, found: Findings) -> list[str]:
    """Judge the bytecode of the sources in one folder; returns the names of the folders in it."""
    sources = Sources(tree.base, folder, descriptor)
    folders: list[str] = []
    beside: list[tuple[str, str]] = []
    try:
        with os.scandir(descriptor) as entries:
            for entry in entries:
                name = entry.name
                if entry.is_dir(follow_symlinks=False):
                    folders.append(name)
                elif name[-3:] == ".py":
                    _add_source(tree, sources, name, entry.is_symlink())
                elif name[-4:] == ".pyc":
                    beside.append((name, _obstacle(entry)))
                elif name == "pyvenv.cfg":
                    found.environments.append(folder)
                elif entry.is_symlink():
                    _note_link(tree.base, folder + "/" + name, found)
    except OSError as error:
        found.failed(folder, error)
    if CACHE in folders:
        folders.remove(CACHE)
        _judge_cache(tree, sources, found)
    for name, obstacle in beside:
        _judge_beside(tree.base, sources, name, obstacle, found)
    return [name for name in folders if not _is_skipped(tree, name, descriptor)] if tree.skip else folders


def _obstacle(entry: os.DirEntry[str]) -> str:
    """Why a file can't be judged by what it is; empty for a regular file."""
    return "" if entry.is_file(follow_symlinks=False) else "link" if entry.is_symlink() else "special"


def _add_source(tree: _Tree, sources: Sources, name: str, is_link: bool) -> None:
    sources.names.add(name)
    if is_link or (tree.mounts.points and sources.folder + "/" + name in tree.mounts.points):
        sources.elsewhere.add(name)


def _is_skipped(tree: _Tree, name: str, descriptor: int) -> bool:
    try:
        status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
    except OSError:
        return False
    return (status.st_dev, status.st_ino) in tree.skip


def _note_link(base: Base, path: str, found: Findings) -> None:
    """Name a link to a folder that hides bytecode from this search: a cache, or one that leaves the tree."""
    if os.path.isdir(path):
        inside = (os.path.realpath(path) + "/").startswith(os.path.realpath(base.path).rstrip("/") + "/")
        if not inside or os.path.basename(path) == CACHE:
            found.left.append(Left(path, "link"))


def _judge_cache(tree: _Tree, sources: Sources, found: Findings, only_these: bool = False) -> None:
    path = sources.folder + "/" + CACHE
    descriptor = open_folder(CACHE, sources.descriptor, path, found)
    if descriptor is None:
        return
    try:
        times_count = tree.mounts.have_ctime and path not in tree.mounts.points
        place = Place(tree.base, path, descriptor, sources, times_count, tree.mounts.seals_hold)
        Judge(place, found).cache(only_these)
    except OSError as error:
        found.failed(path, error)
    finally:
        os.close(descriptor)


def _judge_beside(base: Base, sources: Sources, name: str, obstacle: str, found: Findings) -> None:
    """Judge a pyc outside `__pycache__`. Without a source it is the module itself."""
    if not obstacle and name[:-1] in sources.names:
        place = Place(base, sources.folder, sources.descriptor, sources, False)
        Judge(place, found).one(name, (name[:-1], None, ALL_LEVELS))
    else:
        found.examined += 1
        sourceless = "orphan" if is_tagged(name) else "sourceless"
        found.left.append(Left(sources.folder + "/" + name, obstacle or sourceless))
