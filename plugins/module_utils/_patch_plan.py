# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decides what each patch is on this node. Writes nothing.

The installed release says whether a patch is wanted; the source says whether it is there, fits, or meets something
else. All patches of a run are judged before anything is written, so that what is wrong is said at once and completely.
"""

from __future__ import annotations

import os
from typing import NamedTuple, Sequence

from ansible_collections.blackwell.inference.plugins.module_utils._patch_chain import Chains, Results
from ansible_collections.blackwell.inference.plugins.module_utils._patch_entry import Condition, Edit, Entry
from ansible_collections.blackwell.inference.plugins.module_utils._patch_release import matches
from ansible_collections.blackwell.inference.plugins.module_utils._patch_sources import (
    Engine,
    Misfit,
    Sources,
    read_source,
)
from ansible_collections.blackwell.inference.plugins.module_utils._patch_store import AppliedPatch, FileRecord, Manifest
from ansible_collections.blackwell.inference.plugins.module_utils._patch_targets import Target, Verdict, reinstall_hint

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
    paths: Sequence[str] = ()
    limits: Sequence[str] = ()  # what the patch does not achieve on this release
    invalidates: Sequence[str] = ()  # compiled artefacts that it outdates


class Plan(NamedTuple):
    """What each patch is, and what has to be done; nothing may be done when a report is a failure."""

    reports: list[Report]
    results: Results


def plan_applied(
    sources: Sources, manifest: Manifest, stamp: Stamp, entries: Sequence[Entry], exclusive: bool = False
) -> Plan:
    """Plan that every entry which its installed engine's release needs is in the sources.

    exclusive: patches that are recorded for the environment, and are not among the entries, are taken out.
    """
    judge = _Judge(sources, manifest, stamp, entries)
    if entries and not any(judge.engines[entry.engine] for entry in entries):
        reason = f"no engine that a patch is for is installed for {sources.python}; set python to the environment's own"
        return judge.plan([Report(entry.id, "unsupported", reason) for entry in entries])
    listed = {entry.id for entry in entries}
    others = [name for name in judge.recorded_ids() if exclusive and name not in listed]
    return judge.plan([*map(judge.apply, entries), *(judge.revert(name, None) for name in others)])


def plan_reverted(sources: Sources, manifest: Manifest, stamp: Stamp, entries: Sequence[Entry]) -> Plan:
    """Plan that the entries' patches are in no source; without entries, that no patch of the environment is."""
    judge = _Judge(sources, manifest, stamp, entries)
    if entries:
        return judge.plan([judge.revert(entry.id, entry) for entry in entries])
    return judge.plan([judge.revert(name, None) for name in judge.recorded_ids()])


class _Judge:
    """Finds the verdict on each patch, and collects what follows for the files."""

    def __init__(self, sources: Sources, manifest: Manifest, stamp: Stamp, entries: Sequence[Entry]) -> None:
        self._sources = sources
        self._stamp = stamp
        files: dict[str, set[str]] = {}
        for entry in entries:
            files.setdefault(entry.engine, set()).update(item["file"] for item in [*entry.edits, *entry.upstream])
        for record in manifest.values():
            files.setdefault(record.engine, set()).add(record.file)
        self.engines = {name: sources.engine(name, sorted(wanted)) for name, wanted in files.items()}
        self._chains = Chains(sources, manifest, self.engines)

    def plan(self, reports: list[Report]) -> Plan:
        """Put the verdicts and the files together; a conflict between patches becomes a failure of its patch."""
        results = self._chains.results()
        conflicts = [Report(conflict.id, "drifted", conflict.reason) for conflict in results.conflicts]
        return Plan(reports + conflicts, results)

    def apply(self, entry: Entry) -> Report:
        """Give an entry to its files, or find why it doesn't belong there. Raises ValueError for an invalid edit."""
        engine = self.engines[entry.engine]
        if engine is None:
            return Report(entry.id, "not_applicable", f"{entry.engine} is not installed for {self._sources.python}")
        try:
            report, keep = self._verdict(entry, engine)
            self._chains.withdraw(entry.id, keep)
        except Verdict as verdict:
            return Report(entry.id, verdict.status, verdict.reason)
        except ValueError as error:
            raise ValueError(f"patch {entry.id}: {error}") from error
        return report

    def _verdict(self, entry: Entry, engine: Engine) -> tuple[Report, list[str]]:
        """The verdict and the keys of the files that get the patch. Raises Verdict for a failure."""
        try:
            targets = self._prepare(entry, engine)
        except Verdict as verdict:
            if verdict.status in FAILURES:
                raise
            return Report(entry.id, verdict.status, verdict.reason), []
        reason = f"{entry.engine} {engine.release} needs it"
        paths = [target.path for target in targets]
        limits = entry.limits_for(engine.release)
        report = Report(entry.id, "applied", reason, paths, limits, entry.invalidates)
        return report, [target.key for target in targets]

    def _prepare(self, entry: Entry, engine: Engine) -> list[Target]:
        """Give an entry to its files, and return them. Raises Verdict when it is anything but applied."""
        _require_verified(entry, engine)
        upstream = Verdict("upstream", f"{entry.engine} {engine.release} has it. {entry.link or entry.clears_when}")
        conditions = entry.conditions_for(engine.release)
        if conditions and all(self._holds(engine, condition) for condition in conditions):
            raise upstream
        edits = entry.edits_for(engine.release) if matches(engine.release, entry.releases) else []
        if not edits:
            raise self._why_not(entry, engine, upstream)
        by_file = _by_file(edits)
        targets = {file: self._chains.locate(engine, file) for file in by_file}
        present = [flag for file, part in by_file.items() for flag in self._present(targets[file], part)]
        _require_one_state(present, list(targets.values()), engine, upstream)
        for file, part in by_file.items():
            self._chains.add(targets[file], AppliedPatch(entry.id, part, entry.invalidates, *self._stamp))
        return list(targets.values())

    def _holds(self, engine: Engine, condition: Condition) -> bool:
        source = self._pristine(engine, condition["file"])
        return source is not None and self._sources.holds(source, condition)

    def _pristine(self, engine: Engine, file: str) -> bytes | None:
        """A file as the release has it: what this module wrote says nothing about the release."""
        try:
            return self._chains.locate(engine, file).base
        except Verdict:
            return read_source(os.path.join(engine.package, file))

    def _why_not(self, entry: Entry, engine: Engine, upstream: Verdict) -> Verdict:
        """A verified release that is given no edit has the effect of the edits, or lacks what is edited."""
        reason = f"{entry.engine} {engine.release}: {entry.reason_against(engine.release)}"
        flags = []
        for file, edits in _by_file(entry.edits_for(engine.release)).items():
            try:
                flags += self._sources.edit(self._pristine(engine, file) or b"", edits)[1]
            except Misfit:
                return Verdict("not_applicable", reason)
        return upstream if flags and all(flags) else Verdict("not_applicable", reason)

    def _present(self, target: Target, edits: list[Edit]) -> list[bool]:
        """Which of the edits the pristine text has already, apart from those that only enable others."""
        try:
            dummy, present = self._sources.edit(target.base, edits)
        except Misfit as misfit:
            hint = (
                "The entry does not describe this release: correct it (docs/guides/writing_a_patch.md), or leave it out"
            )
            raise Verdict("drifted", f"{target.path}: {misfit}. {hint}") from misfit
        decisive = [flag for edit, flag in zip(edits, present) if edit["kind"] not in _ENABLING_KINDS]
        return decisive or present

    def recorded_ids(self) -> list[str]:
        """All patches that are recorded for this environment."""
        return sorted({patch.id for record in self._chains.records() for patch in record.patches})

    def revert(self, name: str, entry: Entry | None) -> Report:
        """Take a patch out of all its files."""
        records = list(self._chains.records(name))
        try:
            if not records and entry is not None:
                return self._never_applied(entry)
            self._chains.withdraw(name)
        except Verdict as verdict:
            return Report(name, verdict.status, verdict.reason)
        paths = [path for path in map(self._chains.path, records) if os.path.exists(path)]
        return Report(name, "reverted", "the sources have their original text", paths, (), _caches(records, name))

    def _never_applied(self, entry: Entry) -> Report:
        engine = self.engines[entry.engine]
        if engine is None:
            return Report(entry.id, "reverted", f"{entry.engine} is not installed for {self._sources.python}")
        files = sorted({edit["file"] for edit in entry.edits})
        existing = [file for file in files if os.path.exists(os.path.join(engine.package, file))]
        paths = [self._chains.locate(engine, file).path for file in existing]
        return Report(entry.id, "reverted", "it was not applied", paths)


def _by_file(edits: Sequence[Edit]) -> dict[str, list[Edit]]:
    by_file: dict[str, list[Edit]] = {}
    for edit in edits:
        by_file.setdefault(edit["file"], []).append({key: value for key, value in edit.items() if key != "file"})
    return by_file


def _caches(records: Sequence[FileRecord], name: str) -> list[str]:
    patches = [patch for record in records for patch in record.patches if patch.id == name]
    return sorted({cache for patch in patches for cache in patch.invalidates})


def _require_verified(entry: Entry, engine: Engine) -> None:
    if matches(engine.release, entry.verified):
        return
    raise Verdict(
        "unsupported",
        f"{entry.engine} {engine.release} is none of the releases that it was verified on "
        f"({' or '.join(entry.verified)}). Try it on the source of that release as docs/guides/writing_a_patch.md "
        "says, then add the release to `verified`",
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
