# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Removes the bytecode that was not compiled from the present source: find, judge, prove, remove."""

from __future__ import annotations

import os
import sys
from typing import NamedTuple

from ansible_collections.blackwell.inference.plugins.module_utils._bytecode_files import (
    ReplacedError,
    Suspect,
    remove,
    seal,
)
from ansible_collections.blackwell.inference.plugins.module_utils._bytecode_places import (
    PathError,
    Targets,
    check_paths,
    interpreters_of,
)
from ansible_collections.blackwell.inference.plugins.module_utils._bytecode_prove import (
    REPLACED,
    SAME,
    UNPROVED,
    Interpreters,
    prove,
)
from ansible_collections.blackwell.inference.plugins.module_utils._bytecode_scan import (
    Findings,
    Left,
    Scan,
    mounts,
    scan_prefix,
)

__all__ = ["Outcome", "PathError", "Removed", "Request", "invalidate"]

_MOST_ROUNDS = 3


class Request(NamedTuple):
    """What the caller asks for; see the documentation of the module pyc_invalidate."""

    paths: list[str]
    pythons: list[str]
    prefixes: list[str]
    prove: bool = True
    dry_run: bool = False


class Removed(NamedTuple):
    """A pyc that was removed, or would be."""

    path: str
    source: str
    reason: str


class Outcome:
    """What was done and seen. O(errors) is not empty where something that had to be done could not be done."""

    def __init__(self) -> None:
        self.removed: list[Removed] = []
        self.left: list[Left] = []
        self.kept = 0
        self.examined = 0
        self.proved = 0
        self.errors: list[str] = []
        self.warnings: list[str] = []


def invalidate(request: Request) -> Outcome:
    """Judge all bytecode of the given paths and remove what was not compiled from the present source.

    A pyc that is replaced while it is being judged is judged again.
    """
    outcome = Outcome()
    targets = check_paths(request.paths)
    for last in (False, False, True):
        again = _round(request, targets, outcome, last)
        if not again:
            break
        targets = Targets([], sorted(again))
    return outcome


def _round(request: Request, targets: Targets, outcome: Outcome, last: bool) -> set[str]:
    """Find, judge, prove and remove once; returns the sources to look at again."""
    found = _scan(request, targets)
    outcome.examined += found.examined
    outcome.kept += found.fresh
    outcome.left += found.left
    outcome.errors += found.errors
    again: set[str] = set()
    for suspect, reason in [*found.stale, *_decide(request, targets, found, outcome, again)]:
        try:
            remove(suspect, request.dry_run)
        except (ReplacedError, FileNotFoundError):
            again.add(suspect.source)
        except OSError as error:
            outcome.errors.append("%s: %s" % (suspect.path, error.strerror))
        else:
            outcome.removed.append(Removed(suspect.path, suspect.source, reason))
    return again


def _scan(request: Request, targets: Targets) -> Findings:
    skip = {(status.st_dev, status.st_ino) for status in map(os.stat, request.prefixes)}
    scan = Scan(skip, mounts())
    for folder in targets.folders:
        scan.tree(folder)
    files: dict[str, set[str]] = {}
    for source in targets.sources:
        scan.source(source)
        folder, name = os.path.split(source)
        files.setdefault(os.path.realpath(folder), set()).add(name)
    for prefix in request.prefixes:
        scan_prefix(scan, prefix, [os.path.realpath(folder) for folder in targets.folders], files)
    return scan.found


def _decide(
    request: Request, targets: Targets, found: Findings, outcome: Outcome, again: set[str]
) -> list[tuple[Suspect, str]]:
    """Prove what is doubtful; returns what has to go, and remembers what may stay."""
    if not request.prove:
        return [(suspect, UNPROVED) for suspect in found.doubtful]
    pythons = request.pythons or [
        *interpreters_of([*targets.folders, *map(os.path.dirname, targets.sources), *found.environments]),
        sys.executable,
    ]
    interpreters = Interpreters(pythons)
    doomed: list[tuple[Suspect, str]] = []
    try:
        for verdict in prove(found.doubtful, interpreters):
            if verdict.result == REPLACED:
                again.add(verdict.suspect.source)
                outcome.examined -= 1
            elif verdict.result == SAME:
                outcome.proved += 1
                outcome.kept += 1
                if not request.dry_run:
                    seal(verdict.suspect)
            else:
                outcome.proved += verdict.result != UNPROVED
                doomed.append((verdict.suspect, verdict.result))
    finally:
        interpreters.stop()
    return doomed
