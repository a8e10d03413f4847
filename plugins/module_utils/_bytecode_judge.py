# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges the pycs of one folder as far as their headers and times can tell: fresh, stale, doubtful, or left alone."""

from __future__ import annotations

import errno
import os
import stat
import time
from typing import NamedTuple, Tuple

from ansible_collections.blackwell.inference.plugins.module_utils._bytecode_files import (
    FILE_NO_LINK,
    LARGEST_SOURCE,
    Base,
    ReplacedError,
    Sealing,
    Suspect,
    read_judged_source,
    seal,
)
from ansible_collections.blackwell.inference.plugins.module_utils._bytecode_hash import computes_quickly, source_hash
from ansible_collections.blackwell.inference.plugins.module_utils._bytecode_pyc import (
    FLAG_HASH,
    HEADER_SIZE,
    SECOND,
    SETTLED_AT_ONCE,
    Owner,
    compiled_after_last_change,
    identity,
    is_sealed,
    left_as_written,
    may_be_cut_off,
    owner_of,
    parse_header,
    plain_header,
    stamp_matches,
)

GONE = (errno.ENOENT, errno.ESTALE)


class Left(NamedTuple):
    """Something that was looked at and not touched."""

    path: str
    reason: str


class Findings:
    """What was seen. Every pyc counts once in `examined`, and as fresh, stale, doubtful, left or failed.

    `sealing` decides whether what is fresh can be sealed; it is None if nothing may be written.
    """

    def __init__(self, sealing: Sealing | None = None) -> None:
        self.sealing = sealing
        self.examined = 0
        self.fresh = 0
        self.stale: list[tuple[Suspect, str]] = []
        self.doubtful: list[Suspect] = []
        self.left: list[Left] = []
        self.errors: list[tuple[str, OSError]] = []
        self.environments: list[str] = []
        # Sealed pycs come in crowds. After the first one, the others are recognised by two statuses and not opened.
        self.sealed_seen = False

    def add(self, other: Findings) -> None:
        """Take over the findings of another part of the tree."""
        self.examined += other.examined
        self.fresh += other.fresh
        self.stale += other.stale
        self.doubtful += other.doubtful
        self.left += other.left
        self.errors += other.errors
        self.environments += other.environments

    def failed(self, path: str, error: OSError) -> bool:
        """Note what could not be looked at, and say so. What has vanished needs no judgement and is no failure."""
        if error.errno in GONE:
            return False
        self.errors.append((path, error))
        return True


class Sources:
    """The sources in one folder, and how they are reached."""

    def __init__(self, base: Base | None, folder: str, descriptor: int) -> None:
        self.base = base  # None for a pycache_prefix tree: see Suspect
        self.folder = folder
        self.descriptor = descriptor
        self.names: set[str] = set()
        self.elsewhere: set[str] = set()  # links and mount points: their ctime is not that of the last change here
        self._status: dict[str, os.stat_result | None] = {}

    def status(self, name: str) -> os.stat_result | None:
        """The status of a source as the interpreter sees it, through links; None if there is no regular file."""
        if name in self._status:
            return self._status[name]
        try:
            found: os.stat_result | None = os.stat(name, dir_fd=self.descriptor)
        except OSError as error:
            if error.errno not in (*GONE, errno.ELOOP):
                raise
            found = None
        if found is not None and not stat.S_ISREG(found.st_mode):
            found = None
        self._status[name] = found
        return found


class Place(NamedTuple):
    """A folder with pycs. `times_count` says whether times can prove anything here."""

    base: Base
    folder: str
    descriptor: int
    sources: Sources
    times_count: bool
    seals_hold: bool = False  # what is cleared for nothing may be sealed: see Mounts


# Name, owner, first bytes and status of a pyc, and the status of its source. A plain tuple: a large tree has many.
_Seen = Tuple[str, Owner, bytes, os.stat_result, os.stat_result]


class Judge:
    """Judges pycs of one folder into `found`."""

    def __init__(self, place: Place, found: Findings) -> None:
        self._place = place
        self._found = found
        self._now = time.time_ns()
        self._calm: list[tuple[_Seen, bool]] = []  # seem fresh, by their times or by a hash; the folder may object

    def cache(self, only_these: bool = False) -> None:
        """Judge all tagged pycs; with `only_these` those of the listed sources only."""
        folder_changed = os.fstat(self._place.descriptor).st_ctime_ns
        newest = 0
        names = self._place.sources.names
        with os.scandir(self._place.descriptor) as entries:
            for entry in entries:
                if entry.name[-4:] != ".pyc":
                    continue
                owner = owner_of(entry.name, names)
                if owner is None or not entry.is_file(follow_symlinks=False):
                    self._pass_over(entry, owner, only_these)
                    continue
                pyc = self._judge(entry.name, owner)
                # An interpreter renames its pyc into the folder, so that the folder changes at the same time.
                if pyc is not None and newest < pyc.st_ctime_ns and left_as_written(pyc):
                    newest = pyc.st_ctime_ns
        self._settle(folder_changed, newest)

    def one(self, name: str, owner: Owner) -> None:
        """Judge a single pyc in a place where times do not count."""
        self._judge(name, owner)
        for seen, _by_times in self._calm:
            self._keep(seen, may_seal=False)

    def _settle(self, folder_changed: int, newest: int) -> None:
        """Let the folder object: something was moved here after the newest pyc, or a pyc was written again in place.

        The newest one is never sealed: its times clear what can't be, or was not yet, beside it.
        """
        moved = folder_changed > newest + SETTLED_AT_ONCE
        for seen, by_times in self._calm:
            pyc = seen[3]
            if (moved and by_times) or pyc.st_mtime_ns > folder_changed:
                self._found.doubtful.append(self._suspect(seen))
            else:
                self._keep(seen, may_seal=pyc.st_ctime_ns != newest)

    def _keep(self, seen: _Seen, may_seal: bool) -> None:
        if may_be_cut_off(seen[3]):
            self._found.doubtful.append(self._suspect(seen)._replace(is_current=True))
            return
        self._found.fresh += 1
        name, _owner, _header, pyc, source = seen
        # It was cleared for nothing. A seal that does not hold, or holds under one of its names, would only spoil its
        # times; and where no time has fractions of a second (ext3), there is no room for one.
        if may_seal and self._place.seals_hold and pyc.st_nlink == 1 and pyc.st_ctime_ns % SECOND:
            seal(name, self._place.descriptor, identity(pyc), identity(source), self._found.sealing)

    def _pass_over(self, entry: os.DirEntry[str], owner: Owner | None, only_these: bool) -> None:
        if owner is not None or not only_these:
            self._found.examined += 1
            self._leave(entry.name, "orphan" if owner is None else "link" if entry.is_symlink() else "special")

    def _judge(self, name: str, owner: Owner) -> os.stat_result | None:
        """Judge a pyc; returns its status, or None where there is nothing to judge, which is noted."""
        self._found.examined += 1
        try:
            sealed = self._sealed(name, owner) if self._found.sealed_seen else None
            if sealed is not None:
                return sealed
            file = os.open(name, FILE_NO_LINK, dir_fd=self._place.descriptor)
            try:
                pyc = os.fstat(file)
                header = os.read(file, HEADER_SIZE) if stat.S_ISREG(pyc.st_mode) else None
            finally:
                os.close(file)
            source = self._place.sources.status(owner[0])
        except OSError as error:
            self._not_seen(name, error)
            return None
        if header is None or source is None:
            self._leave(name, "special" if header is None else "orphan")
            return None
        # The common case first: an ordinary header, and times that leave no doubt.
        if header == plain_header(owner[1], source) and self._times_prove(owner[0], pyc, source):
            self._calm.append(((name, owner, header, pyc, source), True))
        else:
            self._judge_closely((name, owner, header, pyc, source))
        return pyc

    def _sealed(self, name: str, owner: Owner) -> os.stat_result | None:
        """The status of a pyc that an earlier run has sealed, without opening it; None if that is not so."""
        pyc = os.stat(name, dir_fd=self._place.descriptor, follow_symlinks=False)
        source = self._place.sources.status(owner[0])
        if source is None or not stat.S_ISREG(pyc.st_mode) or not is_sealed(name, pyc, source):
            return None
        self._found.fresh += 1
        return pyc

    def _seal_holds(self, seen: _Seen) -> bool:
        holds = is_sealed(seen[0], seen[3], seen[4])
        self._found.sealed_seen = self._found.sealed_seen or holds
        return holds

    def _not_seen(self, name: str, error: OSError) -> None:
        if error.errno == errno.ELOOP:
            self._leave(name, "link")
        elif error.errno in (errno.ENXIO, errno.ENODEV):
            self._leave(name, "special")
        elif not self._found.failed(self._place.folder + "/" + name, error):
            self._found.examined -= 1

    def _leave(self, name: str, reason: str) -> None:
        self._found.left.append(Left(self._place.folder + "/" + name, reason))

    def _judge_closely(self, seen: _Seen) -> None:
        name, owner, data = seen[:3]
        header = parse_header(data, owner[1])
        if header is None:
            self._leave(name, "unusable_header")
        elif header.flags & FLAG_HASH:
            self._judge_hash(seen)
        else:
            self._judge_stamp(seen, header.stamp)

    def _times_prove(self, source_name: str, pyc: os.stat_result, source: os.stat_result) -> bool:
        return (
            self._place.times_count
            and compiled_after_last_change(pyc, source, self._now)
            and source_name not in self._place.sources.elsewhere
        )

    def _judge_stamp(self, seen: _Seen, stamp: bytes) -> None:
        _name, owner, _header, pyc, source = seen
        same_mtime, same_size = stamp_matches(stamp, source)
        if not same_size:
            self._found.stale.append((self._suspect(seen), "size_differs"))
        elif same_mtime and self._times_prove(owner[0], pyc, source):
            self._calm.append((seen, True))
        elif self._seal_holds(seen):
            self._found.fresh += 1
        else:
            self._found.doubtful.append(self._suspect(seen))

    def _judge_hash(self, seen: _Seen) -> None:
        suspect = self._suspect(seen)
        if suspect.source_identity[2] > LARGEST_SOURCE or not computes_quickly(suspect.magic):
            self._found.doubtful.append(suspect)
            return
        try:
            source = read_judged_source(suspect, self._place.sources.descriptor)
        except (OSError, ReplacedError):
            self._found.doubtful.append(suspect)
            return
        if source_hash(suspect.magic, source) != suspect.hash_stamp:
            self._found.stale.append((suspect, "hash_differs"))
        elif self._seal_holds(seen):
            self._found.fresh += 1
        else:
            self._calm.append((seen, False))

    def _suspect(self, seen: _Seen) -> Suspect:
        name, (source_name, tag, optimization), header, pyc, source = seen
        return Suspect(
            base=self._place.base,
            source_base=self._place.sources.base,
            folder=self._place.folder,
            name=name,
            source=self._place.sources.folder + "/" + source_name,
            tag=tag,
            optimization=optimization,
            header=header,
            pyc_identity=identity(pyc),
            source_identity=identity(source),
        )
