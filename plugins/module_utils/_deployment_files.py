# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What files of a deployment are, by content, mode and owner, and giving exactly that back.

Contents are kept once, by their digest, in a directory that only root may read: settings may hold an API key. A file
that is written back gets a new inode by rename, so nobody ever sees half of it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
from typing import Any, NamedTuple, Sequence

LARGEST_FILE = 16 * 1024 * 1024  # settings and sources are far smaller; weights of a model are not kept
FILE, LINK, ABSENT = "file", "link", "absent"
_STAGED = ".deployment_record"


class FilesError(Exception):
    """A file can't be kept or given back; says which, why, and what to do."""


class Kept(NamedTuple):
    """What a path is. `what` is the sha256 of a file in hex, or where a link points; `mode` is octal."""

    path: str
    kind: str
    what: str = ""
    mode: str = ""
    uid: int = 0
    gid: int = 0


def kept_from(fields: dict[str, Any]) -> Kept:
    """What a record says about a path. Raises FilesError for a record that nobody may follow."""
    try:
        kept = Kept(**fields)
    except TypeError as error:
        raise FilesError(f"a file of the record can't be understood: {error}") from error
    if not is_plain(kept.path) or not _makes_sense(kept):
        raise FilesError(f"the record names {kept.path!r} as {kept.kind!r}, which is no file that can be given back")
    return kept


def _makes_sense(kept: Kept) -> bool:
    if kept.kind != FILE:
        return kept.kind == ABSENT or (kept.kind == LINK and isinstance(kept.what, str) and kept.what != "")
    is_content = isinstance(kept.what, str) and re.fullmatch("[0-9a-f]{64}", kept.what)
    has_mode = isinstance(kept.mode, str) and re.fullmatch("[0-7]{4}", kept.mode)
    return bool(is_content and has_mode) and isinstance(kept.uid, int) and isinstance(kept.gid, int)


def is_plain(path: Any) -> bool:
    """Whether something is a path that only one spelling leads to, and not the root of everything."""
    return (
        isinstance(path, str) and os.path.isabs(path) and os.path.normpath(path) == path and path[1:2] not in ("", "/")
    )


def place_of(path: str, follow: bool = False) -> str:
    """The path without links above it, and with `follow` without a last one. Raises FilesError for a relative one.

    Recorded like that, a link that is found above it later was not there: nothing is written or removed behind it.
    """
    if not os.path.isabs(path) or os.path.normpath(path).strip(os.sep) == "":
        raise FilesError(f"{path!r} is no absolute path below /; name the file or directory in full")
    place = os.path.normpath(path)
    if follow:
        return os.path.realpath(place)
    return os.path.join(os.path.realpath(os.path.dirname(place)), os.path.basename(place))


def refuse_links(directory: str) -> None:
    """Raises FilesError for a directory that a link leads elsewhere from, where none was when it was recorded."""
    real = os.path.realpath(directory)
    if real != directory:
        raise FilesError(
            f"{directory} leads to {real} through a link that was not there when it was recorded; nothing is changed "
            "behind it. Move the link away, and run again"
        )


def look(path: str) -> tuple[Kept, bytes]:
    """What a path is now, and its content if it is a file. Raises FilesError for anything else than file and link."""
    try:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            return Kept(path, LINK, os.readlink(path)), b""
        if not stat.S_ISREG(status.st_mode):
            raise FilesError(f"{path} is neither a file nor a link; move it away")
        if status.st_size > LARGEST_FILE:
            raise FilesError(f"{path} has {status.st_size} bytes; at most {LARGEST_FILE} are kept; link to it instead")
        with open(path, "rb") as file:
            content = file.read()
    except (FileNotFoundError, NotADirectoryError):
        return Kept(path, ABSENT), b""
    except OSError as error:
        raise FilesError(f"{path} can't be read: {error.strerror}") from error
    mode = format(stat.S_IMODE(status.st_mode), "04o")
    return Kept(path, FILE, digest_of(content), mode, status.st_uid, status.st_gid), content


def files_below(directory: str) -> list[str]:
    """All files and links below a directory; links to directories are not followed. None there: none."""

    def refuse(error: OSError) -> None:
        if not isinstance(error, (FileNotFoundError, NotADirectoryError)):
            raise FilesError(f"{error.filename} can't be read: {error.strerror}") from error

    found = []
    for folder, folders, names in os.walk(directory, onerror=refuse):
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        found += [os.path.join(folder, name) for name in names + links]
    return sorted(found)


def digest_of(content: bytes) -> str:
    """The sha256 of a content in hex."""
    return hashlib.sha256(content).hexdigest()


# --- contents, kept by digest -----------------------------------------------------------------------------------------


def keep_content(store: str, digest: str, content: bytes) -> None:
    """Keep a content, once; one that is damaged is kept anew."""
    try:
        load_content(store, digest)
    except FilesError:
        replace_file(os.path.join(store, digest), content, 0o600)


def load_content(store: str, digest: str) -> bytes:
    """The kept content with that digest. Raises FilesError when it is missing or damaged."""
    path = os.path.join(store, digest)
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise FilesError(f"{path} can't be read ({error.strerror}), so the files can't be given back") from error
    if digest_of(content) != digest:
        raise FilesError(f"{path} is damaged: its content has another digest than its name")
    return content


# --- giving back ------------------------------------------------------------------------------------------------------


class Change(NamedTuple):
    """A path that has to become something else; `content` is that of a file."""

    now: Kept
    then: Kept
    content: bytes = b""


def apply(changes: Sequence[Change]) -> None:
    """Give back all files. What needs space comes first: no file is replaced before all new ones are on the disk.

    A run that dies in between leaves some files old and some new; planned again, the rest follows. Raises FilesError.
    """
    try:
        for change in changes:
            if change.then.kind != ABSENT:
                _stage(change)
        for change in changes:
            if change.then.kind == ABSENT:
                _remove(change.then.path)
            else:
                os.replace(_staged(change.then.path), change.then.path)
        for folder in sorted({os.path.dirname(change.then.path) for change in changes}):
            _sync(folder)
    except OSError as error:
        for change in changes:
            with contextlib.suppress(OSError):
                os.unlink(_staged(change.then.path))
        raise FilesError(f"{error.filename}: {error.strerror}; make room or give the right, and run again") from error


def replace_file(path: str, content: bytes, mode: int, owner: tuple[int, int] | None = None) -> None:
    """Put a file in place at once; OSError when that is impossible."""
    _write(_staged(path), content, mode, owner)
    os.replace(_staged(path), path)
    _sync(os.path.dirname(path))


def _staged(path: str) -> str:
    """Where a new file waits: hidden, and under a name that neither systemd nor Python reads."""
    return os.path.join(os.path.dirname(path), f".{os.path.basename(path)}{_STAGED}")


def is_staged(path: str) -> bool:
    """Whether a file is what a run that was killed has left waiting."""
    name = os.path.basename(path)
    return name.startswith(".") and name.endswith(_STAGED)


def remove_staged(paths: Sequence[str]) -> None:
    """Remove what a run that was killed has left beside these files: it may hold an API key. OSError if impossible."""
    for path in paths:
        if os.path.lexists(_staged(path)):
            os.unlink(_staged(path))


def make_directories(path: str) -> None:
    """Make a directory and those above it, readable whatever the umask is: the server has to get through."""
    if not os.path.isdir(path):
        make_directories(os.path.dirname(path))
        os.mkdir(path)
        os.chmod(path, 0o755)


def _stage(change: Change) -> None:
    then = change.then
    make_directories(os.path.dirname(then.path))
    if then.kind == LINK:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_staged(then.path))
        os.symlink(then.what, _staged(then.path))
    else:
        _write(_staged(then.path), change.content, int(then.mode, 8), (then.uid, then.gid))


def _write(path: str, content: bytes, mode: int, owner: tuple[int, int] | None) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            status = os.fstat(file.fileno())
            if owner is not None and owner != (status.st_uid, status.st_gid):
                os.fchown(file.fileno(), *owner)
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error  # of a descriptor, errors name no file


def _remove(path: str) -> None:
    """Remove a file or link, and its directory if that becomes empty."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        os.unlink(path)
    with contextlib.suppress(OSError):
        os.rmdir(os.path.dirname(path))


def _sync(directory: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
