# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which patches each source shall have, and what it then looks like. Writes nothing.

A result is always made from the pristine text and all patches of the file in their order. So no patch builds on traces
of an earlier version of itself, and any of them can be taken out again.
"""

from __future__ import annotations

import os
from typing import Iterator, NamedTuple, Sequence

from ansible_collections.blackwell.inference.plugins.module_utils._patch_sources import (
    Engine,
    Misfit,
    Sources,
    read_source,
)
from ansible_collections.blackwell.inference.plugins.module_utils._patch_store import (
    AppliedPatch,
    FileRecord,
    Manifest,
    Write,
    digest_of,
    staging_path,
)
from ansible_collections.blackwell.inference.plugins.module_utils._patch_targets import (
    Target,
    Verdict,
    is_ours,
    locate,
    reinstall_hint,
)


class Conflict(NamedTuple):
    """A patch that does not fit a file together with the file's other patches."""

    id: str
    reason: str


class Results(NamedTuple):
    """What has to be written so that every file has its patches, or which of them exclude each other."""

    writes: list[Write]
    manifest: Manifest
    originals: list[bytes]
    leftovers: list[str]  # staged files of a run that was killed
    digests: dict[str, tuple[str, str]]  # by path as an import sees it: before and after
    conflicts: list[Conflict]


class Chains:
    """For each source of an environment, the patches that it shall have; at first those that the manifest records."""

    def __init__(self, sources: Sources, manifest: Manifest, engines: dict[str, Engine | None]) -> None:
        """sources: the node; manifest: what is recorded; engines: all that entries and records name."""
        self._sources = sources
        self._old = manifest
        self._engines = engines
        self._targets: dict[str, Target] = {}
        self._chains: dict[str, list[AppliedPatch]] = {}
        self._forgotten: set[str] = set()

    def locate(self, engine: Engine, file: str) -> Target:
        """Find a file of an engine and its pristine text. Raises Verdict (drifted)."""
        target = locate(self._sources, engine, file, self._old)
        return self._targets.setdefault(target.key, target)

    def add(self, target: Target, patch: AppliedPatch) -> None:
        """Let a file have a patch; one that it has in the same form keeps its record."""
        chain = self._chain(target)
        for index, known in enumerate(chain):
            if known.id == patch.id:
                same = (known.edits, known.invalidates) == (patch.edits, patch.invalidates)
                chain[index] = known if same else patch
                return
        chain.append(patch)

    def withdraw(self, name: str, keep: Sequence[str] = ()) -> None:
        """Take a patch out of all files of the environment that have it, but those with the keys to keep.

        Raises Verdict (drifted) when a file is no longer what this module wrote.
        """
        for record in self.records(name):
            if record.path in keep:
                continue
            target = self._still_recorded(record)
            if target is None:
                self._forgotten.add(record.path)
            else:
                self._chains[record.path] = [patch for patch in self._chain(target) if patch.id != name]

    def records(self, name: str | None = None) -> Iterator[FileRecord]:
        """The records of this environment, of one patch or of all.

        An environment's records lie below its packages; where a package is gone, they were made through its python.
        """
        for record in self._old.values():
            engine = self._engines[record.engine]
            here = (
                _folder(self.path(record)) == _folder(record.path) if engine else record.python == self._sources.python
            )
            if here and (name is None or any(patch.id == name for patch in record.patches)):
                yield record

    def path(self, record: FileRecord) -> str:
        """Where an import would find a recorded file."""
        engine = self._engines[record.engine]
        return os.path.join(engine.package, record.file) if engine else record.path

    def results(self) -> Results:
        """Make the results. Patches of one file that exclude each other turn up here."""
        manifest = {key: record for key, record in self._old.items() if key not in self._forgotten}
        results = Results([], manifest, [], [], {}, [])
        for key, target in sorted(self._targets.items()):
            chain = self._chains.get(key)
            source = target.actual if chain is None else self._patched(target, chain, results.conflicts)
            if chain is not None:
                self._record(results, target, chain, source)
            if source != target.actual:
                link = os.readlink(key) if os.path.islink(key) else None
                results.writes.append(Write(key, target.actual, source, link, None if chain else _link(target)))
            elif os.path.lexists(staging_path(key)):
                results.leftovers.append(staging_path(key))
            results.digests[target.path] = (digest_of(target.actual), digest_of(source))
        return results

    def _chain(self, target: Target) -> list[AppliedPatch]:
        record = self._old.get(target.key)
        known = record is not None and record.pristine == digest_of(target.base)
        return self._chains.setdefault(target.key, list(record.patches) if record is not None and known else [])

    def _still_recorded(self, record: FileRecord) -> Target | None:
        """The file that a record speaks of; None when it is gone, or its engine was installed anew."""
        actual, engine = read_source(record.path), self._engines[record.engine]
        if actual is None:
            return None
        if engine is None:
            raise Verdict(
                "drifted", f"{record.path} is left of an engine that is gone; delete the rest of the environment"
            )
        if digest_of(actual) == engine.recorded.get(record.file) != record.pristine:
            return None
        if is_ours(record, actual) or digest_of(actual) == record.pristine:
            return self.locate(engine, record.file)
        reason = f"{record.path}: expected what this module wrote, or the wheel's own file; found another content"
        raise Verdict("drifted", f"{reason}. {reinstall_hint(engine)}")

    def _patched(self, target: Target, chain: Sequence[AppliedPatch], conflicts: list[Conflict]) -> bytes:
        source = target.base
        for patch in chain:
            try:
                source, dummy = self._sources.edit(source, patch.edits)
            except Misfit as misfit:
                others = ", ".join(other.id for other in chain if other.id != patch.id) or "no other patch"
                reason = f"{target.path} together with {others}: {misfit}. Leave one of them out"
                conflicts.append(Conflict(patch.id, reason))
        return source

    def _record(self, results: Results, target: Target, chain: list[AppliedPatch], source: bytes) -> None:
        """Note in the results' manifest what a file is going to be."""
        old = results.manifest.pop(target.key, None)
        if not chain:
            return
        results.manifest[target.key] = FileRecord(
            path=target.key,
            file=target.file,
            python=old.python if old else self._sources.python,
            engine=target.engine,
            release=target.release,
            pristine=digest_of(target.base),
            result=digest_of(source),
            earlier=[],
            link=target.link,
            patches=chain,
        )
        if self._sources.original(digest_of(target.base)) is None:
            results.originals.append(target.base)


def _link(target: Target) -> str | None:
    """The symlink to restore: the installer's, while it still leads to the pristine text."""
    if target.link is None:
        return None
    pointed = read_source(os.path.join(os.path.dirname(target.key), target.link))
    return target.link if pointed == target.base else None


def _folder(path: str) -> str:
    return os.path.realpath(os.path.dirname(path))
