# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files below a given folder, reached so that no link can lead out of it, however the tree changes meanwhile.

Every step below the given folder is opened relative to the one before and refuses links (`O_NOFOLLOW`).
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from typing import Iterator, NamedTuple, Tuple

from ansible_collections.blackwell.inference.plugins.module_utils._bytecode_mounts import Devices
from ansible_collections.blackwell.inference.plugins.module_utils._bytecode_pyc import (
    FLAG_HASH,
    HEADER_SIZE,
    SEAL_OFFSET_SECONDS,
    SECOND,
    Identity,
    identity,
    seal_nanoseconds,
)

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
FOLDER_NO_LINK = FOLDER | os.O_NOFOLLOW
FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
FILE_NO_LINK = FILE | os.O_NOFOLLOW
# Bigger sources are neither compiled nor hashed: compiling takes about a hundred times their size in memory.
LARGEST_SOURCE = 8 << 20
_CHANGED = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ESTALE)
# Bytecode may be ten times as large as its source. What is larger than this is not read.
LARGEST_PYC = 64 << 20


FileId = Tuple[int, int]  # device and inode


class Base(NamedTuple):
    """A folder that the caller named. Nothing outside it is removed or written."""

    path: str
    device: int
    inode: int


class Suspect(NamedTuple):
    """A pyc whose fate is still open, or sealed, with all that was seen when it was judged.

    `tag` is None for a pyc outside `__pycache__`. `source_base` is None where the source belongs to a
    `pycache_prefix` tree and is reached by its path, as the interpreter reaches it. `is_current` says that the pyc was
    compiled from the source as it is, and that only its completeness is open.
    """

    base: Base
    source_base: Base | None
    folder: str
    name: str
    source: str
    tag: str | None
    optimization: str
    header: bytes
    pyc_identity: Identity
    source_identity: Identity
    is_current: bool = False

    @property
    def path(self) -> str:
        """The path of the pyc."""
        return self.folder + "/" + self.name

    @property
    def magic(self) -> bytes:
        """The first four bytes of the pyc, which name the interpreter that wrote it."""
        return self.header[:4]

    @property
    def hash_stamp(self) -> bytes:
        """The hash of the source in a hash pyc, empty for a timestamp pyc."""
        return self.header[8:HEADER_SIZE] if self.header[4] & FLAG_HASH else b""


class Sealing(NamedTuple):
    """What decides whether a seal can be trusted: when the search began, in nanoseconds, and which devices do."""

    started: int
    devices: Devices


class ReplacedError(Exception):
    """A file is no longer the one that was judged."""


def open_base(path: str) -> tuple[int, Base]:
    """Open a folder that the caller named; links in this path are the caller's own and are followed."""
    descriptor = os.open(path, FOLDER)
    status = os.fstat(descriptor)
    return descriptor, Base(path, status.st_dev, status.st_ino)


def file_id(path: str) -> FileId | None:
    """Device and inode of a file, or None if it is gone."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_dev, status.st_ino)


@contextlib.contextmanager
def folder_below(base: Base, folder: str) -> Iterator[int]:
    """A descriptor of `folder`, which lies below or is `base`; ReplacedError if the way there has changed."""
    descriptor, now = open_base(base.path)
    try:
        if now != base:
            raise ReplacedError(base.path)
        for part in folder[len(base.path) :].split("/"):
            if part:
                below = os.open(part, FOLDER_NO_LINK, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = below
        yield descriptor
    except OSError as error:
        if error.errno in _CHANGED:
            raise ReplacedError(folder) from error
        raise
    finally:
        os.close(descriptor)


def read_pyc(suspect: Suspect) -> bytes:
    """The bytes of the pyc that was judged; ReplacedError if it is another one by now, OSError if it is too large."""
    if suspect.pyc_identity[2] > LARGEST_PYC:  # half of it would look broken
        raise OSError(errno.EFBIG, f"it is larger than {LARGEST_PYC >> 20} MiB")
    with folder_below(suspect.base, suspect.folder) as folder:
        return _read_judged(suspect.name, FILE_NO_LINK, folder, suspect.pyc_identity)


def read_source(suspect: Suspect) -> bytes:
    """The bytes of the source that was judged; ReplacedError if it is another one by now."""
    with source_folder(suspect) as folder:
        return read_judged_source(suspect, folder)


def read_judged_source(suspect: Suspect, folder: int) -> bytes:
    """Like read_source, where the descriptor of the source's folder is at hand."""
    return _read_judged(os.path.basename(suspect.source), FILE, folder, suspect.source_identity)


def _read_judged(name: str, flags: int, folder: int, expected: Identity) -> bytes:
    with _opened(name, flags, folder) as file:
        before = identity(os.fstat(file))
        data = read_all(file, LARGEST_PYC)
        if not before == identity(os.fstat(file)) == expected:
            raise ReplacedError(name)
        return data


def read_all(file: int, limit: int) -> bytes:
    """Everything in an open file, but not more than `limit` bytes."""
    parts = []
    while limit > 0:
        part = os.read(file, min(limit, 1 << 20))
        if not part:
            break
        parts.append(part)
        limit -= len(part)
    return b"".join(parts)


def remove(suspect: Suspect, dry_run: bool) -> Identity:
    """Remove the pyc that was judged; with `dry_run` only find out whether that would work.

    Returns what the file is known as from now on: removing one of several hard links changes it under its other names.
    Raises ReplacedError where it is gone or another one by now, or where the source has changed since, and OSError
    where it cannot be removed.
    """
    if not source_unchanged(suspect):
        raise ReplacedError(suspect.source)
    with folder_below(suspect.base, suspect.folder) as folder:
        now = os.stat(suspect.name, dir_fd=folder, follow_symlinks=False)
        if identity(now) != suspect.pyc_identity:
            raise ReplacedError(suspect.path)
        if dry_run:
            _check_removable(folder, now)
        elif now.st_nlink == 1:
            os.unlink(suspect.name, dir_fd=folder)
        else:
            return _unlinked(suspect.name, folder, suspect.pyc_identity)
        return suspect.pyc_identity


def _unlinked(name: str, folder: int, expected: Identity) -> Identity:
    """Remove one of several hard links; returns what the file is known as from now on."""
    with _opened(name, FILE_NO_LINK, folder) as file:
        if identity(os.fstat(file)) != expected:
            raise ReplacedError(name)
        os.unlink(name, dir_fd=folder)
        return identity(os.fstat(file))


def _check_removable(folder: int, file: os.stat_result) -> None:
    """Raise what `unlink` would raise, but for what only the file system knows (immutable files)."""
    if os.fstatvfs(folder).f_flag & os.ST_RDONLY:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))
    if not os.access(".", os.W_OK | os.X_OK, dir_fd=folder, effective_ids=True):
        raise PermissionError(errno.EACCES, "the folder is not writable")
    status = os.fstat(folder)
    if status.st_mode & stat.S_ISVTX and os.geteuid() not in (0, status.st_uid, file.st_uid):
        raise PermissionError(errno.EPERM, "the folder is shared (sticky) and the file belongs to somebody else")


def seal(name: str, folder: int, pyc: Identity, source: Identity, sealing: Sealing | None) -> bool:
    """Remember on a pyc that it was found to belong to its source; True if that was possible.

    Only the modification time is set, which no interpreter looks at. What it says binds pyc and source as they were
    judged, so it is void if either has changed since. That shows in the ctime of the source, so nothing is sealed
    where there is none, nor if the source had just been changed when the search started: a second change might leave
    no trace. `sealing` is None where nothing may be written.
    """
    if sealing is None or sealing.started - source[4] < SECOND or not sealing.devices.have_ctime(source[0]):
        return False
    back = SEAL_OFFSET_SECONDS * SECOND - seal_nanoseconds(name, pyc, source)
    try:
        with _opened(name, FILE_NO_LINK, folder) as file:
            status = os.fstat(file)
            if identity(status) != pyc:
                return False
            now = int(time.time())
            os.utime(file, ns=(status.st_atime_ns, now * SECOND - back))
            there = os.fstat(file).st_ctime_ns // SECOND
            if abs(there - now) > 1:  # a server has a clock of its own
                os.utime(file, ns=(status.st_atime_ns, there * SECOND - back))
            return True
    except (OSError, ReplacedError):
        return False


def seal_suspect(suspect: Suspect, sealing: Sealing | None) -> bool:
    """Like seal, for a pyc whose folder is no longer open."""
    try:
        with folder_below(suspect.base, suspect.folder) as folder:
            return seal(suspect.name, folder, suspect.pyc_identity, suspect.source_identity, sealing)
    except (OSError, ReplacedError):
        return False


def source_unchanged(suspect: Suspect) -> bool:
    """Whether the source is still the file that was judged."""
    try:
        with source_folder(suspect) as folder:
            return identity(os.stat(os.path.basename(suspect.source), dir_fd=folder)) == suspect.source_identity
    except (OSError, ReplacedError):
        return False


@contextlib.contextmanager
def source_folder(suspect: Suspect) -> Iterator[int]:
    """A descriptor of the folder of the source, reached as far as possible without links."""
    parent = os.path.dirname(suspect.source)
    if suspect.source_base:
        with folder_below(suspect.source_base, parent) as folder:
            yield folder
    else:
        with _opened(parent, FOLDER, None) as folder:
            yield folder


@contextlib.contextmanager
def _opened(name: str, flags: int, folder: int | None) -> Iterator[int]:
    try:
        descriptor = os.open(name, flags, dir_fd=folder)
    except OSError as error:
        if error.errno in _CHANGED:
            raise ReplacedError(name) from error
        raise
    try:
        yield descriptor
    finally:
        os.close(descriptor)
