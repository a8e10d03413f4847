# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Removes the bytecode that was not compiled from the present source: find, judge, prove, remove."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from functools import partial
from typing import Callable, Iterable, NamedTuple

from ansible_collections.blackwell.inference.plugins.module_utils._bytecode_files import (
    ReplacedError,
    Sealing,
    Suspect,
    file_id,
    remove,
    seal_suspect,
)
from ansible_collections.blackwell.inference.plugins.module_utils._bytecode_judge import Findings, Left
from ansible_collections.blackwell.inference.plugins.module_utils._bytecode_mounts import devices
from ansible_collections.blackwell.inference.plugins.module_utils._bytecode_parallel import LostWorkError
from ansible_collections.blackwell.inference.plugins.module_utils._bytecode_places import (
    PathError,
    Targets,
    check_paths,
    check_prefix,
    check_pythons,
    interpreters_of,
)
from ansible_collections.blackwell.inference.plugins.module_utils._bytecode_prefix import (
    Wanted,
    prefixes_in_use,
    scan_prefix,
)
from ansible_collections.blackwell.inference.plugins.module_utils._bytecode_prove import (
    REPLACED,
    SAME,
    UNPROVED,
    Interpreters,
    prove,
)
from ansible_collections.blackwell.inference.plugins.module_utils._bytecode_pyc import Identity
from ansible_collections.blackwell.inference.plugins.module_utils._bytecode_scan import (
    scan_again,
    scan_source,
    scan_tree,
)

__all__ = ["Left", "LostWorkError", "Outcome", "PathError", "Removed", "Request", "invalidate"]

_MOST_ROUNDS = 3


class Request(NamedTuple):
    """What the caller asks for; see the documentation of the module pyc_invalidate.

    `prefix` is None to search the trees that are in use on this node, and empty to search none.
    """

    paths: list[str]
    pythons: list[str]
    prefix: str | None = None
    prove: bool = True
    dry_run: bool = False


class Removed(NamedTuple):
    """A pyc that was removed, or would be."""

    path: str
    source: str
    reason: str


class Outcome:
    """What was done and seen. `errors` is not empty where something that had to be done could not be done."""

    def __init__(self) -> None:
        self.removed: list[Removed] = []
        self.left: list[Left] = []
        self.kept = 0
        self.examined = 0
        self.proved = 0
        self.prefixes: list[str] = []
        self.errors: list[tuple[str, OSError]] = []
        self.warnings: list[str] = []
        self.links: dict[Identity, Identity] = {}  # what removed files are known as under their other names


def invalidate(request: Request) -> Outcome:
    """Judge all bytecode of the given paths and remove what was not compiled from the present source.

    A pyc that is replaced while it is being judged is judged again. Raises PathError before anything is touched if
    the request cannot be meant, and LostWorkError if a process that judged was killed.
    """
    outcome = Outcome()
    targets = check_paths(request.paths)
    check_pythons(request.pythons)
    outcome.prefixes = prefixes_in_use() if request.prefix is None else check_prefix(request.prefix)
    sealing = None if request.dry_run else Sealing(time.time_ns(), devices())
    found = _scan(targets, outcome.prefixes, Findings(sealing))
    interpreters = Interpreters(_pythons(request, targets, found))
    try:
        for _round in range(_MOST_ROUNDS):
            again = _settle(request, found, interpreters, outcome)
            found = _scan_again(again, Findings(sealing))
        # Somebody is writing these faster than they can be judged.
        outcome.left += [Left(suspect.path, "busy") for suspect in again]
        outcome.examined += len(again)
    finally:
        interpreters.stop()
    outcome.warnings += [f"an interpreter could not be used: {reason}" for reason in interpreters.unusable]
    return outcome


def _scan(targets: Targets, prefixes: list[str], found: Findings) -> Findings:
    wanted = Wanted([os.path.realpath(folder) for folder in targets.folders], {})
    for source in targets.sources:
        folder, name = os.path.split(source)
        wanted.files.setdefault(os.path.realpath(folder), set()).add(name)
    skip = frozenset(filter(None, map(file_id, prefixes)))
    searches: list[tuple[str, Callable[[], None]]] = [
        *((folder, partial(scan_tree, folder, skip, found)) for folder in targets.folders),
        *((source, partial(scan_source, source, found)) for source in targets.sources),
        *((prefix, partial(scan_prefix, prefix, wanted, found)) for prefix in prefixes),
    ]
    for path, search in searches:
        try:
            search()
        except OSError as error:
            found.errors.append((path, error))
    return found


def _scan_again(suspects: Iterable[Suspect], found: Findings) -> Findings:
    for suspect in suspects:
        scan_again(suspect, found)
    return found


def _pythons(request: Request, targets: Targets, found: Findings) -> list[str]:
    """The interpreters that may prove: the given ones, or those of the environments and the running one."""
    if not request.prove:
        return []
    places = [*found.environments, *targets.folders, *map(os.path.dirname, targets.sources)]
    return request.pythons or [*interpreters_of(places), sys.executable]


def _settle(request: Request, found: Findings, interpreters: Interpreters, outcome: Outcome) -> list[Suspect]:
    """Prove what is doubtful and remove what has to go; returns what was replaced meanwhile."""
    outcome.examined += found.examined
    outcome.kept += found.fresh
    outcome.left += found.left
    outcome.errors += found.errors
    again: list[Suspect] = []
    doomed = list(found.stale)
    unproved: Counter[str] = Counter()
    for verdict in prove(found.doubtful, interpreters):
        if verdict.result == REPLACED:
            again.append(verdict.suspect)
        elif verdict.result == SAME or (verdict.result == UNPROVED and verdict.suspect.is_current):
            outcome.kept += 1
            if verdict.result == SAME:
                seal_suspect(verdict.suspect, found.sealing)
        else:
            doomed.append((verdict.suspect, verdict.result))
            unproved[verdict.why] += verdict.result == UNPROVED
        outcome.proved += verdict.result not in (REPLACED, UNPROVED) and not verdict.suspect.is_current
    for suspect, reason in doomed:
        _remove(request, suspect, reason, outcome, again)
    outcome.examined -= len(again)
    if request.prove:
        outcome.warnings += [f"{number} unproved: {why}" for why, number in unproved.items() if number]
    return again


def _remove(request: Request, suspect: Suspect, reason: str, outcome: Outcome, again: list[Suspect]) -> None:
    judged = suspect.pyc_identity
    try:
        now = remove(suspect._replace(pyc_identity=outcome.links.get(judged, judged)), request.dry_run)
    except ReplacedError:
        again.append(suspect)
    except OSError as error:
        failed = f"{reason}, and it can't be removed: {error.strerror}"
        outcome.errors.append((suspect.path, OSError(error.errno or 0, failed)))
    else:
        outcome.links[judged] = now
        outcome.removed.append(Removed(suspect.path, suspect.source, reason))
