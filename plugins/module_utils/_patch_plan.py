# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decides what each patch is on this node, and what has to be written. Writes nothing.

Every result is made from the pristine text and all patches of the file in their order, so no patch builds on the traces
of an earlier version of itself, and any of them can be taken out again.
"""

from __future__ import annotations

import os
from typing import Iterator, NamedTuple, Sequence

from ansible_collections.blackwell.inference.plugins.module_utils._patch_entry import Edit, Entry
from ansible_collections.blackwell.inference.plugins.module_utils._patch_release import matches
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

FAILURES = ("drifted", "unsupported")
# Edits that only make a name available: whether they are there already says nothing about the patch.
_ENABLING_KINDS = ("extend_import",)


class Stamp(NamedTuple):
    """When, and by whom, what is planned now is done."""

    when: str
    who: str


class Report(NamedTuple):
    """What a patch is on this node, and why; `paths` are its files as an import sees them."""

    id: str
    status: str  # applied, upstream, not_applicable, reverted; one of FAILURES stops the run
    reason: str
    paths: list[str]


class Plan(NamedTuple):
    """All that has to be done; nothing may be done when a report is a failure."""

    reports: list[Report]
    writes: list[Write]
    manifest: Manifest
    originals: list[bytes]
    leftovers: list[str]  # staged files of a run that was killed
    digests: dict[str, list[str]]  # path as an import sees it: digests before and after


def plan_applied(sources: Sources, manifest: Manifest, stamp: Stamp, entries: Sequence[Entry]) -> Plan:
    """Plan that every entry which its installed engine's release needs is in the sources."""
    draft = _Draft(sources, manifest, stamp, entries)
    if entries and not any(draft.engines[entry.engine] for entry in entries):
        reason = f"no engine that a patch is for is installed for {sources.python}; set python to the environment's own"
        return draft.finish([Report(entry.id, "unsupported", reason, []) for entry in entries])
    return draft.finish([draft.apply(entry) for entry in entries])


def plan_reverted(sources: Sources, manifest: Manifest, stamp: Stamp, entries: Sequence[Entry]) -> Plan:
    """Plan that the entries' patches are in no source; without entries, that no patch of the environment is."""
    draft = _Draft(sources, manifest, stamp, entries)
    if entries:
        return draft.finish([draft.revert(entry.id, entry) for entry in entries])
    return draft.finish([draft.revert(name, None) for name in draft.recorded_ids()])


class _Draft:
    """Collects, for each source, the patches that it shall have."""

    def __init__(self, sources: Sources, manifest: Manifest, stamp: Stamp, entries: Sequence[Entry]) -> None:
        self._sources = sources
        self._old = manifest
        self._stamp = stamp
        self._targets: dict[str, Target] = {}
        self._chains: dict[str, list[AppliedPatch]] = {}
        self._forgotten: set[str] = set()
        files: dict[str, set[str]] = {}
        for entry in entries:
            files.setdefault(entry.engine, set()).update(edit["file"] for edit in entry.edits)
        for record in manifest.values():
            files.setdefault(record.engine, set()).add(record.file)
        self.engines = {name: sources.engine(name, sorted(wanted)) for name, wanted in files.items()}

    # --- applied ---

    def apply(self, entry: Entry) -> Report:
        """Put an entry into the chains of its files, or find why it doesn't belong there."""
        engine = self.engines[entry.engine]
        if engine is None:
            return Report(entry.id, "not_applicable", f"{entry.engine} is not installed for {self._sources.python}", [])
        try:
            targets = self._prepare(entry, engine)
            reason = f"{entry.engine} {engine.release} needs it"
        except Verdict as verdict:
            if verdict.status in FAILURES:
                return Report(entry.id, verdict.status, verdict.reason, [])
            targets, status, reason = [], verdict.status, verdict.reason
        else:
            status = "applied"
        problem = self._withdraw(entry.id, [target.key for target in targets])
        if problem is not None:
            return Report(entry.id, problem.status, problem.reason, [])
        return Report(entry.id, status, reason, [target.path for target in targets])

    def _prepare(self, entry: Entry, engine: Engine) -> list[Target]:
        """Add the entry to its files' chains. Raises Verdict when it is anything but applied."""
        _require_verified(entry, engine)
        upstream = Verdict("upstream", f"{entry.engine} {engine.release} has it; {entry.link or entry.clears_when}")
        if entry.upstream and all(self._holds(engine, condition) for condition in entry.upstream):
            raise upstream
        edits = entry.edits_for(engine.release) if matches(engine.release, entry.releases) else []
        if not edits:
            raise self._why_not(entry, engine, upstream)
        by_file: dict[str, list[Edit]] = {}
        for edit in edits:
            by_file.setdefault(edit["file"], []).append({key: value for key, value in edit.items() if key != "file"})
        targets = {file: self._locate(engine, file) for file in by_file}
        present = [flag for file, part in by_file.items() for flag in self._present(targets[file], part)]
        _require_one_state(present, list(targets.values()), engine, upstream)
        for file, part in by_file.items():
            self._add(targets[file], AppliedPatch(entry.id, part, self._stamp.when, self._stamp.who))
        return list(targets.values())

    def _why_not(self, entry: Entry, engine: Engine, upstream: Verdict) -> Verdict:
        """A verified release that needs no edit has the patch, or lacks what is patched."""
        try:
            edits = entry.edits_for(engine.release)
            sources = {edit["file"]: read_source(os.path.join(engine.package, edit["file"])) for edit in edits}
            flags = [self._sources.edit(sources[edit["file"]] or b"", [edit])[1][0] for edit in edits]
        except Misfit:
            flags = []
        if flags and all(flags):
            return upstream
        reason = f"{entry.engine} {engine.release} does not need it (it is for {' or '.join(entry.releases)})"
        return Verdict("not_applicable", reason)

    def _holds(self, engine: Engine, condition: dict[str, str]) -> bool:
        source = read_source(os.path.join(engine.package, condition["file"]))
        return source is not None and self._sources.holds(source, condition)

    def _locate(self, engine: Engine, file: str) -> Target:
        target = locate(self._sources, engine, file, self._old)
        return self._targets.setdefault(target.key, target)

    def _present(self, target: Target, edits: list[Edit]) -> list[bool]:
        """Which of the edits the pristine text has already, apart from those that only enable others."""
        try:
            _, present = self._sources.edit(target.base, edits)
        except Misfit as misfit:
            raise Verdict("drifted", f"{target.path}: {misfit}") from misfit
        decisive = [flag for edit, flag in zip(edits, present) if edit["kind"] not in _ENABLING_KINDS]
        return decisive or present

    def _chain(self, target: Target) -> list[AppliedPatch]:
        """The patches that a file shall have; at first those that it has."""
        record = self._old.get(target.key)
        known = record is not None and record.pristine == digest_of(target.base)
        return self._chains.setdefault(target.key, list(record.patches) if record is not None and known else [])

    def _add(self, target: Target, patch: AppliedPatch) -> None:
        chain = self._chain(target)
        for index, known in enumerate(chain):
            if known.id == patch.id:
                chain[index] = known if known.edits == patch.edits else patch
                return
        chain.append(patch)

    # --- reverted ---

    def recorded_ids(self) -> list[str]:
        """All patches that are recorded for this environment."""
        return sorted({patch.id for record in self._records() for patch in record.patches})

    def revert(self, name: str, entry: Entry | None) -> Report:
        """Take a patch out of all its files."""
        paths = [self._path(record) for record in self._records() if _has(record, name)]
        problem = self._withdraw(name, [])
        if problem is not None:
            return Report(name, problem.status, problem.reason, [])
        if paths:
            return Report(
                name,
                "reverted",
                "the sources have their original text",
                [path for path in paths if os.path.exists(path)],
            )
        return self._never_applied(entry) if entry else Report(name, "reverted", "it is not applied", [])

    def _never_applied(self, entry: Entry) -> Report:
        engine = self.engines[entry.engine]
        if engine is None:
            return Report(entry.id, "reverted", f"{entry.engine} is not installed for {self._sources.python}", [])
        files = sorted({edit["file"] for edit in entry.edits})
        existing = [file for file in files if os.path.exists(os.path.join(engine.package, file))]
        try:
            paths = [self._locate(engine, file).path for file in existing]
        except Verdict as verdict:
            return Report(entry.id, verdict.status, verdict.reason, [])
        return Report(entry.id, "reverted", "it was not applied", paths)

    def _records(self) -> Iterator[FileRecord]:
        """The records of this environment: below its packages, or, with no package left, made through its python."""
        for record in self._old.values():
            engine = self.engines[record.engine]
            if (engine is None and record.python == self._sources.python) or (
                engine is not None and _folder(self._path(record)) == _folder(record.path)
            ):
                yield record

    def _path(self, record: FileRecord) -> str:
        engine = self.engines[record.engine]
        return os.path.join(engine.package, record.file) if engine else record.path

    def _withdraw(self, name: str, keep: Sequence[str]) -> Verdict | None:
        """Take a patch out of the files that have it, but those to keep. Returns what prevents it, if anything does."""
        for record in self._records():
            if record.path in keep or not _has(record, name):
                continue
            try:
                target = self._still_recorded(record)
            except Verdict as verdict:
                return verdict
            if target is None:
                self._forgotten.add(record.path)
            else:
                self._chains[record.path] = [patch for patch in self._chain(target) if patch.id != name]
        return None

    def _still_recorded(self, record: FileRecord) -> Target | None:
        """The file that a record speaks of; None when it is gone, or its engine was installed anew. Raises Verdict."""
        actual, engine = read_source(record.path), self.engines[record.engine]
        if actual is None:
            return None
        if engine is None:
            raise Verdict(
                "drifted", f"{record.path} is left of an engine that is gone; delete the rest of the environment"
            )
        if is_ours(record, actual) or digest_of(actual) == record.pristine:
            return self._locate(engine, record.file)
        if digest_of(actual) == engine.recorded.get(record.file):
            return None
        reason = f"{record.path}: expected what this module wrote, or the wheel's own file; found another content"
        raise Verdict("drifted", f"{reason}. {reinstall_hint(engine)}")

    # --- both ---

    def finish(self, reports: list[Report]) -> Plan:
        """Make the results; patches of one file that exclude each other turn up here."""
        plan = Plan(
            reports, [], {key: record for key, record in self._old.items() if key not in self._forgotten}, [], [], {}
        )
        for key, target in sorted(self._targets.items()):
            chain = self._chains.get(key)
            result = target.actual
            if chain is not None:
                result, failures = self._result(target, chain)
                plan.reports.extend(failures)
                self._record(plan, target, chain, result)
            if result != target.actual:
                plan.writes.append(Write(key, target.actual, result, None if chain else _link(target)))
            elif os.path.lexists(staging_path(key)):
                plan.leftovers.append(staging_path(key))
            plan.digests[target.path] = [digest_of(target.actual), digest_of(result)]
        return plan

    def _result(self, target: Target, chain: Sequence[AppliedPatch]) -> tuple[bytes, list[Report]]:
        source = target.base
        for patch in chain:
            try:
                source, _ = self._sources.edit(source, patch.edits)
            except Misfit as misfit:
                before = ", ".join(other.id for other in chain if other.id != patch.id) or "no other patch"
                return source, [Report(patch.id, "drifted", f"{target.path} with {before}: {misfit}", [])]
        return source, []

    def _record(self, plan: Plan, target: Target, chain: list[AppliedPatch], result: bytes) -> None:
        """Note in the plan's manifest what the file is going to be."""
        old = plan.manifest.pop(target.key, None)
        if not chain:
            return
        plan.manifest[target.key] = FileRecord(
            path=target.key,
            file=target.file,
            python=old.python if old else self._sources.python,
            engine=target.engine,
            release=target.release,
            pristine=digest_of(target.base),
            result=digest_of(result),
            earlier=[],
            link=target.link,
            patches=chain,
        )
        if self._sources.original(digest_of(target.base)) is None:
            plan.originals.append(target.base)


def _require_verified(entry: Entry, engine: Engine) -> None:
    if matches(engine.release, entry.verified):
        return
    raise Verdict(
        "unsupported",
        f"{entry.engine} {engine.release} is none of the releases that it was verified on "
        f"({' or '.join(entry.verified)}). Try it on the source of that release as docs/guides/writing_a_patch.md says, "
        "then add the release to `verified`",
    )


def _require_one_state(present: list[bool], targets: list[Target], engine: Engine, upstream: Verdict) -> None:
    """Either no edit is there yet, or all are and the release has the patch; between the two, something else edited."""
    if not any(present):
        return
    paths = ", ".join(target.path for target in targets)
    if not all(present):
        reason = f"{paths}: expected none or all of its edits; found {sum(present)} of {len(present)} there"
        raise Verdict("drifted", f"{reason}. {reinstall_hint(engine)}")
    if any(target.edited for target in targets):
        raise Verdict("drifted", f"{paths}: edited after this module had patched it. {reinstall_hint(engine)}")
    raise upstream


def _link(target: Target) -> str | None:
    """The symlink to restore: the installer's, while it still leads to the pristine text."""
    if target.link is None:
        return None
    pointed = read_source(os.path.join(os.path.dirname(target.key), target.link))
    return target.link if pointed == target.base else None


def _has(record: FileRecord, name: str) -> bool:
    return any(patch.id == name for patch in record.patches)


def _folder(path: str) -> str:
    return os.path.realpath(os.path.dirname(path))
