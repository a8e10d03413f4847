# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose bytes a source has: the wheel's, this module's, or somebody's.

A source is pristine when it has the digest that the engine's installer recorded (RECORD of the wheel) or that of the
stored original. It is ours when the manifest names its digest. Where no installer recorded a digest (an editable
installation), the structure of the source has to tell. Everything else is drifted, and is never touched.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from ansible_collections.blackwell.inference.plugins.module_utils._patch_sources import (
    Engine,
    Sources,
    canonical_path,
    read_source,
)
from ansible_collections.blackwell.inference.plugins.module_utils._patch_store import FileRecord, Manifest, digest_of


class Verdict(Exception):
    """What a patch is on this node, where that is found out before its edits are planned."""

    def __init__(self, status: str, reason: str) -> None:
        """status: as reported; reason: a sentence for the operator."""
        super().__init__(reason)
        self.status = status
        self.reason = reason


class Target(NamedTuple):
    """One source: where it is, what it holds, and its pristine text."""

    path: str  # as an import sees it
    key: str  # without symlinks above the package
    file: str  # inside the package
    engine: str
    release: str
    actual: bytes
    base: bytes
    edited: bool  # not the bytes that this module wrote, although it wrote some here
    link: str | None  # where the installer's symlink points or pointed


def locate(sources: Sources, engine: Engine, file: str, manifest: Manifest) -> Target:
    """Find a file of an installed engine, and its pristine text.

    Raises Verdict (drifted) when the file is missing, is nobody's bytes, or its original is lost.
    """
    path = os.path.join(engine.package, *file.split("/"))
    try:
        key = canonical_path(engine.package, file)
    except ValueError as error:
        raise Verdict("drifted", str(error)) from error
    actual = read_source(path)
    if actual is None:
        raise Verdict("drifted", f"{path}: expected the file; found none. {reinstall_hint(engine)}")
    record = manifest.get(key)
    recorded = engine.recorded.get(file)
    ours = record is not None and is_ours(record, actual) and recorded != digest_of(actual)
    known = record is not None and digest_of(actual) == record.pristine
    if not ours and not known and recorded not in (None, digest_of(actual)):
        raise Verdict("drifted", _drifted(path, digest_of(actual), recorded, engine))
    base = _original(sources, record, path, engine) if record is not None and ours else actual
    link = os.readlink(path) if os.path.islink(path) else record.link if record and (ours or known) else None
    edited = record is not None and not ours and not known and recorded is None
    return Target(path, key, file, engine.name, engine.release, actual, base, edited, link)


def is_ours(record: FileRecord, actual: bytes) -> bool:
    """Whether a content is one that this module wrote, or was about to write when it was killed."""
    return digest_of(actual) in {record.result, *record.earlier}


def _original(sources: Sources, record: FileRecord, path: str, engine: Engine) -> bytes:
    original = sources.original(record.pristine)
    if original is None:
        reason = (
            f"{path}: it is patched, but its original ({record.pristine[:12]}...) is missing from the state directory"
        )
        raise Verdict("drifted", f"{reason}. {reinstall_hint(engine)}")
    return original


def _drifted(path: str, actual: str, recorded: str | None, engine: Engine) -> str:
    return (
        f"{path}: expected the file of the wheel (sha256 {str(recorded)[:12]}... in its RECORD) or one written by this "
        f"module; found {actual[:12]}..., edited by something else. {reinstall_hint(engine)}"
    )


def reinstall_hint(engine: Engine) -> str:
    """The command that brings back an engine's own files."""
    requirement = f"{engine.distribution}=={engine.release}"
    command = f"uv pip install --python {engine.python} --reinstall --no-deps {requirement}"
    return f"Bring back the engine's own files: {command}"
