# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Walks a tree, or looks at one source, and judges every pyc as far as headers and times can tell.

Three places hold the bytecode of C(m.py): C(__pycache__) beside it (one file for every interpreter and optimization
level), the same names below a C(pycache_prefix), and C(m.pyc) beside it, which Python uses only once C(m.py) is gone.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from typing import AbstractSet, NamedTuple

from ansible_collections.blackwell.inference.plugins.module_utils._bytecode_files import (
    FILE,
    FILE_NO_LINK,
    FOLDER,
    FOLDER_NO_LINK,
    LARGEST_SOURCE,
    Base,
    Suspect,
    open_base,
    read_all,
)
from ansible_collections.blackwell.inference.plugins.module_utils._bytecode_hash import computes_quickly, source_hash
from ansible_collections.blackwell.inference.plugins.module_utils._bytecode_pyc import (
    FLAG_HASH,
    HEADER_SIZE,
    SETTLED_AT_ONCE,
    Header,
    compiled_after_last_change,
    identity,
    is_sealed,
    parse_header,
    split_hooked_name,
    split_name,
    stamp_matches,
)

CACHE = "__pycache__"
DEEPEST = 400  # levels below the given folder; each one holds a file descriptor
_GONE = (errno.ENOENT, errno.ESTALE)
_NOT_A_FOLDER_NOW = (errno.ELOOP, errno.ENOTDIR)


class Left(NamedTuple):
    """Something that was looked at and not touched."""

    path: str
    reason: str


class Findings:
    """What a scan saw. Every pyc counts once: as fresh, stale, doubtful or left."""

    def __init__(self) -> None:
        self.examined = 0
        self.fresh = 0
        self.stale: list[tuple[Suspect, str]] = []
        self.doubtful: list[Suspect] = []
        self.left: list[Left] = []
        self.errors: list[str] = []
        self.environments: list[str] = []


class Sources:
    """The sources of one folder, which of them are links, and their status once it was asked for."""

    def __init__(self, base: Base | None, folder: str, descriptor: int) -> None:
        self.base = base
        self.folder = folder
        self.descriptor = descriptor
        self.names: set[str] = set()
        self.links: set[str] = set()
        self._status: dict[str, os.stat_result | None] = {}

    def status(self, name: str) -> os.stat_result | None:
        """The status of a source as the interpreter sees it, through a link; None if it is not a regular file."""
        if name not in self._status:
            try:
                found = os.stat(name, dir_fd=self.descriptor)
            except OSError as error:
                if error.errno not in (*_GONE, errno.ELOOP):
                    raise
                self._status[name] = None
            else:
                self._status[name] = found if stat.S_ISREG(found.st_mode) else None
        return self._status[name]


class Place(NamedTuple):
    """A folder that holds pycs, and the sources that they belong to."""

    base: Base
    folder: str
    descriptor: int
    sources: Sources
    tagged: bool
    times_are_proof: bool


class Scan:
    """Judges what it is pointed at and collects the findings."""

    def __init__(
        self, skip: AbstractSet[tuple[int, int]] = frozenset(), mounts: AbstractSet[str] = frozenset()
    ) -> None:
        self.found = Findings()
        self.now = time.time_ns()
        self._skip = skip
        self._mounts = mounts
        self._cache_statuses: list[tuple[Suspect, os.stat_result]] = []

    def tree(self, path: str) -> None:
        """Judge all bytecode beside the sources below a folder. Links to folders are not followed."""
        descriptor, base = open_base(path)
        pending = [(descriptor, base.path.rstrip("/"), self._entries(base, base.path.rstrip("/"), descriptor))]
        while pending:
            descriptor, folder, below = pending[-1]
            if not below:
                os.close(descriptor)
                pending.pop()
                continue
            name = below.pop()
            child = folder + "/" + name
            if len(pending) >= DEEPEST:
                self.found.left.append(Left(child, "too_deep"))
                continue
            opened = self._open_folder(name, descriptor, child)
            if opened is not None:
                pending.append((opened, child, self._entries(base, child, opened)))

    def source(self, path: str) -> None:
        """Judge the bytecode beside one source."""
        folder, name = os.path.split(path)
        descriptor, base = open_base(folder)
        try:
            sources = Sources(base, folder, descriptor)
            self._add_source(sources, name, os.path.islink(path))
            if os.path.lexists(path + "c"):
                self._legacy(base, sources, [name + "c"])
            self._cache(base, sources, only_these=True)
        finally:
            os.close(descriptor)

    def _add_source(self, sources: Sources, name: str, is_link: bool) -> None:
        sources.names.add(name)
        if is_link or sources.folder + "/" + name in self._mounts:
            sources.links.add(name)

    def _open_folder(self, name: str, parent: int, path: str) -> int | None:
        try:
            return os.open(name, FOLDER_NO_LINK, dir_fd=parent)
        except OSError as error:
            if error.errno in _NOT_A_FOLDER_NOW:
                self.found.left.append(Left(path, "link"))
            else:
                self._failed(path, error)
            return None

    def _failed(self, path: str, error: OSError) -> None:
        """Note what could not be looked at; what has vanished meanwhile needs no judgement."""
        if error.errno not in _GONE:
            self.found.errors.append("%s: %s" % (path, error.strerror))

    def _entries(self, base: Base, folder: str, descriptor: int) -> list[str]:
        """Judge the bytecode of the sources in one folder; returns the names of the folders in it."""
        sources = Sources(base, folder, descriptor)
        folders: list[str] = []
        legacy: list[str] = []
        has_cache = False
        try:
            with os.scandir(descriptor) as entries:
                for entry in entries:
                    name = entry.name
                    if name[-3:] == ".py":
                        self._add_source(sources, name, entry.is_symlink())
                    elif name[-4:] == ".pyc":
                        legacy.append(name)
                    elif entry.is_dir(follow_symlinks=False):
                        if name == CACHE:
                            has_cache = True
                        else:
                            folders.append(name)
                    elif name == "pyvenv.cfg":
                        self.found.environments.append(folder)
                    elif entry.is_symlink():
                        self._link(base, folder, name)
        except OSError as error:
            self._failed(folder, error)
        if has_cache:
            self._cache(base, sources)
        if legacy:
            self._legacy(base, sources, legacy)
        return [name for name in folders if not self._skip or not self._is_skipped(name, descriptor)]

    def _is_skipped(self, name: str, descriptor: int) -> bool:
        try:
            status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) in self._skip

    def _link(self, base: Base, folder: str, name: str) -> None:
        """Name links to folders where they hide bytecode from this scan: out of the tree, or for a cache."""
        path = folder + "/" + name
        if not os.path.isdir(path):
            return
        target = os.path.realpath(path)
        root = os.path.realpath(base.path)
        if name == CACHE or not (target + "/").startswith(root + "/"):
            self.found.left.append(Left(path, "link"))

    def _cache(self, base: Base, sources: Sources, only_these: bool = False) -> None:
        path = sources.folder + "/" + CACHE
        descriptor = self._open_folder(CACHE, sources.descriptor, path)
        if descriptor is None:
            return
        try:
            place = Place(base, path, descriptor, sources, True, path not in self._mounts)
            self.pycs(place, only_these)
        except OSError as error:
            self._failed(path, error)
        finally:
            os.close(descriptor)

    def _legacy(self, base: Base, sources: Sources, names: list[str]) -> None:
        place = Place(base, sources.folder, sources.descriptor, sources, False, False)
        for name in names:
            if name[:-1] in sources.names:
                self._pyc(place, name, name[:-1], None, "012")
            else:
                self.found.examined += 1
                self.found.left.append(Left(sources.folder + "/" + name, "sourceless"))

    def pycs(self, place: Place, only_these: bool = False) -> None:
        """Judge the tagged pycs in one folder; with O(only_these) those of the given sources only."""
        folder_changed = os.fstat(place.descriptor).st_ctime_ns
        self._cache_statuses = []
        newest = 0
        with os.scandir(place.descriptor) as entries:
            for entry in entries:
                name = entry.name
                if name[-4:] != ".pyc":
                    continue
                stem, tag, optimization = split_name(name)
                source = stem + ".py"
                if source not in place.sources.names:
                    hooked = split_hooked_name(name)
                    source = hooked.stem + ".py" if hooked else source
                    if source not in place.sources.names:
                        if not only_these:
                            self.found.examined += 1
                            self.found.left.append(Left(place.folder + "/" + name, "orphan"))
                        continue
                    if hooked:
                        _, tag, optimization = hooked
                if entry.is_file(follow_symlinks=False):
                    newest = max(newest, self._pyc(place, name, source, tag, optimization))
                else:
                    self.found.examined += 1
                    reason = "link" if entry.is_symlink() else "special"
                    self.found.left.append(Left(place.folder + "/" + name, reason))
        self._settle(folder_changed, newest)

    def _settle(self, folder_changed: int, newest: int) -> None:
        """Trust times only where nothing happened to the folder after its newest pyc, or to a pyc after that."""
        for suspect, status in self._cache_statuses:
            if folder_changed <= newest + SETTLED_AT_ONCE and status.st_mtime_ns <= folder_changed:
                self.found.fresh += 1
            else:
                self.found.doubtful.append(suspect)

    def _pyc(self, place: Place, name: str, source_name: str, tag: str | None, optimization: str) -> int:
        """Judge one pyc; returns its ctime if an interpreter wrote it and it was left alone since, else 0."""
        self.found.examined += 1
        path = place.folder + "/" + name
        try:
            file = os.open(name, FILE_NO_LINK, dir_fd=place.descriptor)
            try:
                pyc = os.fstat(file)
                data = os.read(file, HEADER_SIZE) if stat.S_ISREG(pyc.st_mode) else None
            finally:
                os.close(file)
            source = place.sources.status(source_name)
        except OSError as error:
            self._pyc_failed(path, error)
            return 0
        if data is None:
            self.found.left.append(Left(path, "special"))
            return 0
        if source is None:
            self.found.left.append(Left(path, "orphan"))
            return 0
        header = parse_header(data, tag)
        if header is None:
            self.found.left.append(Left(path, "unusable_header"))
            return 0
        suspect = Suspect(
            place.base,
            place.sources.base,
            place.folder,
            name,
            place.sources.folder + "/" + source_name,
            tag,
            optimization,
            header.magic,
            header.stamp if header.flags & FLAG_HASH else b"",
            identity(pyc),
            identity(source),
        )
        if header.flags & FLAG_HASH:
            self._hash_pyc(suspect, place.sources.descriptor, source_name)
        else:
            self._timestamp_pyc(place, suspect, header, pyc, source)
        untouched = 0 <= pyc.st_ctime_ns - pyc.st_mtime_ns < SETTLED_AT_ONCE
        return pyc.st_ctime_ns if untouched else 0

    def _pyc_failed(self, path: str, error: OSError) -> None:
        if error.errno == errno.ELOOP:
            self.found.left.append(Left(path, "link"))
        elif error.errno in (errno.ENXIO, errno.ENODEV):
            self.found.left.append(Left(path, "special"))
        else:
            if error.errno in _GONE:
                self.found.examined -= 1
            self._failed(path, error)

    def _hash_pyc(self, suspect: Suspect, folder: int, source_name: str) -> None:
        if suspect.source_identity[2] > LARGEST_SOURCE or not computes_quickly(suspect.magic):
            self.found.doubtful.append(suspect)
            return
        try:
            file = os.open(source_name, FILE, dir_fd=folder)
        except OSError:
            self.found.doubtful.append(suspect)
            return
        try:
            source = read_all(file, LARGEST_SOURCE)
        finally:
            os.close(file)
        if source_hash(suspect.magic, source) == suspect.hash_stamp:
            self.found.fresh += 1
        else:
            self.found.stale.append((suspect, "hash_differs"))

    def _timestamp_pyc(
        self, place: Place, suspect: Suspect, header: Header, pyc: os.stat_result, source: os.stat_result
    ) -> None:
        same_mtime, same_size = stamp_matches(header.stamp, source)
        if not same_size:
            self.found.stale.append((suspect, "size_differs"))
        elif (
            same_mtime
            and place.times_are_proof
            and os.path.basename(suspect.source) not in place.sources.links
            and compiled_after_last_change(pyc, source, self.now)
        ):
            self._cache_statuses.append((suspect, pyc))
        elif is_sealed(suspect.name, pyc, source):
            self.found.fresh += 1
        else:
            self.found.doubtful.append(suspect)


def scan_prefix(scan: Scan, prefix: str, roots: list[str], files: dict[str, set[str]]) -> None:
    """Judge the pycs below a C(pycache_prefix) whose sources lie below one of O(roots) or are named in O(files).

    The interpreter builds the path of such a pyc from the path through which it found the source, so the same source
    may appear under several names; each is resolved here. O(roots) and the keys of O(files) are real paths; the values
    are the names of sources.
    """
    descriptor, base = open_base(prefix)
    top = base.path.rstrip("/")
    pending = [(descriptor, top)]
    while pending:
        descriptor, folder = pending.pop()
        try:
            _prefix_folder(scan, base, folder, descriptor, roots, files)
            with os.scandir(descriptor) as entries:
                names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
            for name in names:
                child = folder + "/" + name
                opened = scan._open_folder(name, descriptor, child)
                if opened is not None:
                    pending.append((opened, child))
        except OSError as error:
            scan._failed(folder, error)
        finally:
            os.close(descriptor)


def _prefix_folder(
    scan: Scan, base: Base, folder: str, descriptor: int, roots: list[str], files: dict[str, set[str]]
) -> None:
    source_folder = folder[len(base.path.rstrip("/")) :] or "/"
    real = os.path.realpath(source_folder)
    inside = any((real + "/").startswith(root.rstrip("/") + "/") for root in roots)
    if not inside and real not in files:
        return
    try:
        opened = os.open(source_folder, FOLDER)
    except OSError as error:
        if error.errno not in (*_GONE, *_NOT_A_FOLDER_NOW):
            raise
        opened = None
    try:
        sources = Sources(None, source_folder, opened if opened is not None else -1)
        if opened is not None:
            sources.names = {name for name in os.listdir(opened) if name[-3:] == ".py"}
            if not inside:
                sources.names &= files[real]
        scan.pycs(Place(base, folder, descriptor, sources, True, False), only_these=not inside)
    finally:
        if opened is not None:
            os.close(opened)


def mounts() -> set[str]:
    """The mount points of this machine. A file that is mounted over a source keeps the ctime of its own past."""
    try:
        with open("/proc/self/mountinfo", "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return set()
    fields = (line.split(b" ")[4] for line in lines)
    return {os.fsdecode(re.sub(rb"\\(\d{3})", lambda code: bytes([int(code[1], 8)]), field)) for field in fields}
