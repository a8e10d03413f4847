# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was patched, on disk: a manifest, the originals by content hash, and writing all files or none.

Layout of the state directory: ``manifest.json``, ``originals/<sha256>``, and the ``lock`` of _lock. The manifest is
written before the first source is renamed into place, and names every digest that a file of ours may then have: a run
that was killed between two files leaves nothing that the next run does not recognise.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
from typing import Any, Dict, NamedTuple, Sequence

MANIFEST_VERSION = 1
_STATE_MODE, _STATE_FILE_MODE = 0o755, 0o644


class StoreError(Exception):
    """The state directory or a source can't be read or written; says what, where, and what to do."""


class AppliedPatch(NamedTuple):
    """A patch as it was applied to one file: its edits for the installed release, when, and by whom."""

    id: str
    edits: list[dict[str, Any]]
    invalidates: list[str]
    when: str
    who: str


class FileRecord(NamedTuple):
    """What is known about one patched file. Digests are sha256 in hex."""

    path: str  # without symlinks above the package
    file: str  # inside the package
    python: str
    engine: str
    release: str
    pristine: str
    result: str
    earlier: list[str]  # further digests that the file may have while files are being written
    link: str | None  # where it pointed, if the installer made it a symlink
    patches: list[AppliedPatch]


Manifest = Dict[str, FileRecord]


class Write(NamedTuple):
    """One file to be replaced: by new content, or by a symlink that leads to it."""

    path: str
    before: bytes
    after: bytes
    link_before: str | None = None
    link: str | None = None


def digest_of(content: bytes) -> str:
    """The sha256 of a content in hex."""
    return hashlib.sha256(content).hexdigest()


# --- manifest and originals -------------------------------------------------------------------------------------------


def load_manifest(directory: str) -> Manifest:
    """Read the manifest; empty when there is none. Raises StoreError for one that can't be understood."""
    path = os.path.join(directory, "manifest.json")
    try:
        with open(path, encoding="utf-8") as stream:
            return _manifest_from(json.load(stream))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(
            f"{path} can't be read ({error}); put it back from a backup, or see rollback in the docs"
        ) from error


def manifest_during(directory: str, after: bytes) -> bytes:
    """The manifest while sources become what the manifest `after` says: it describes them before and after.

    Raises StoreError when the present one can't be understood, and ValueError or KeyError for `after`.
    """
    return dump_manifest(_transition(load_manifest(directory), _manifest_from(json.loads(after))))


def _manifest_from(data: dict[str, Any]) -> Manifest:
    if data["version"] != MANIFEST_VERSION:
        raise ValueError(f"its version is {data['version']}, this module writes version {MANIFEST_VERSION}")
    return {key: _record_from(key, fields) for key, fields in data["files"].items()}


def _record_from(path: str, fields: dict[str, Any]) -> FileRecord:
    patches = [AppliedPatch(**patch) for patch in fields["patches"]]
    return FileRecord(path=path, **{**fields, "patches": patches})


def dump_manifest(manifest: Manifest) -> bytes:
    """The manifest as it is stored: stable for equal content."""
    files = {}
    for key, record in manifest.items():
        fields = {**record._asdict(), "patches": [patch._asdict() for patch in record.patches]}
        del fields["path"]
        files[key] = fields
    return (json.dumps({"version": MANIFEST_VERSION, "files": files}, indent=1, sort_keys=True) + "\n").encode("utf-8")


def load_original(directory: str, digest: str) -> bytes | None:
    """The stored original with that digest; None when it is missing or damaged."""
    try:
        with open(os.path.join(directory, "originals", digest), "rb") as stream:
            content = stream.read()
    except FileNotFoundError:
        return None
    return content if digest_of(content) == digest else None


# --- all files or none ------------------------------------------------------------------------------------------------


def staging_path(path: str) -> str:
    """Where the new content of a file waits: beside it, under a name that nothing imports, always the same."""
    return os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.engine_patch")


def commit(directory: str, writes: Sequence[Write], old: Manifest, new: Manifest, originals: Sequence[bytes]) -> None:
    """Write all files and the manifest, or leave the sources as they were.

    writes: sources to replace; old, new: manifest before and after; originals: pristine contents that `new` names.
    Whatever can fail for want of space or permission comes before the first source is renamed.
    Raises StoreError, which says what the sources are then.
    """
    try:
        for content in originals:
            _write_state(directory, os.path.join("originals", digest_of(content)), content)
        for write in writes:
            _stage(write)
        _write_state(directory, "manifest.json", dump_manifest(_transition(old, new)))
    except OSError as error:
        _abandon(directory, writes, old)
        raise StoreError(f"{_place(error, directory)}; no source was changed") from error
    _rename_all(directory, writes, old)
    try:
        _write_state(directory, "manifest.json", dump_manifest(new))
        _forget_originals(directory, new)
    except OSError as error:
        raise StoreError(f"{_place(error, directory)}; all sources are written, run the task again") from error


def remove_leftovers(paths: Sequence[str]) -> None:
    """Remove staged files, of this run or of one that was killed; those that aren't there don't matter."""
    for path in paths:
        if os.path.lexists(path):  # a read-only file system refuses to unlink even what isn't there
            os.unlink(path)


def _place(error: OSError, directory: str) -> str:
    return f"{error.filename or directory}: {error.strerror}"


def _transition(old: Manifest, new: Manifest) -> Manifest:
    """The manifest while files are being written: of each file, every digest that it may have."""
    between = dict(old)
    for key, record in new.items():
        before = old.get(key)
        earlier = [before.result, *before.earlier] if before and before.pristine == record.pristine else []
        between[key] = record._replace(earlier=sorted({*earlier, *record.earlier} - {record.result, record.pristine}))
    return between


def _abandon(directory: str, writes: Sequence[Write], old: Manifest) -> None:
    """Take back everything but sources."""
    for write in writes:
        with contextlib.suppress(OSError):
            remove_leftovers([staging_path(write.path)])
    with contextlib.suppress(OSError):  # a full disk: what stays is a manifest that also describes the old sources
        if load_manifest(directory) != old:
            _write_state(directory, "manifest.json", dump_manifest(old))
        _forget_originals(directory, old)


def _rename_all(directory: str, writes: Sequence[Write], old: Manifest) -> None:
    done: list[Write] = []
    try:
        for write in writes:
            os.replace(staging_path(write.path), write.path)
            done.append(write)
        for folder in sorted({os.path.dirname(write.path) for write in writes}):
            _sync_directory(folder)
    except OSError as error:
        lost = [write.path for write in done if not _undo(write)]
        if lost:
            raise StoreError(f"{_place(error, directory)}; these are written already: {', '.join(lost)}") from error
        _abandon(directory, writes, old)
        raise StoreError(f"{_place(error, directory)}; no source was changed") from error


def _undo(write: Write) -> bool:
    try:
        _stage(Write(write.path, write.after, write.before, write.link, write.link_before))
        os.replace(staging_path(write.path), write.path)
    except OSError:
        return False
    return True


def _stage(write: Write) -> None:
    """Put the new content beside the file: a new inode with the file's mode and owner."""
    staged = staging_path(write.path)
    remove_leftovers([staged])
    if write.link is not None:
        os.symlink(write.link, staged)
        return
    status = os.stat(write.path)
    _write_new(staged, write.after, stat.S_IMODE(status.st_mode), (status.st_uid, status.st_gid))


def _write_new(path: str, content: bytes, mode: int, owner: tuple[int, int] | None = None) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
        status = os.fstat(descriptor)
        if owner is not None and owner != (status.st_uid, status.st_gid):
            os.fchown(descriptor, *owner)
        os.fchmod(descriptor, mode)
        os.fsync(descriptor)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error
    finally:
        os.close(descriptor)


def _sync_directory(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_state(directory: str, name: str, content: bytes) -> None:
    path = os.path.join(directory, name)
    os.makedirs(os.path.dirname(path), mode=_STATE_MODE, exist_ok=True)
    remove_leftovers([staging_path(path)])
    _write_new(staging_path(path), content, _STATE_FILE_MODE)
    os.replace(staging_path(path), path)
    _sync_directory(os.path.dirname(path))


def _forget_originals(directory: str, manifest: Manifest) -> None:
    needed = {record.pristine for record in manifest.values()}
    folder = os.path.join(directory, "originals")
    with contextlib.suppress(FileNotFoundError):
        for name in set(os.listdir(folder)) - needed:
            os.unlink(os.path.join(folder, name))
