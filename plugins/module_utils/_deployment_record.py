# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The deployments of a node: one record a deployment, never changed once it is written, and going back to one.

Layout of the directory, which only root may read: ``<id>.json``, ``objects/<sha256>``, and the ``lock`` of _lock. An id
is ``<instance>-<number>-<digest>``; numbers count up. A record names the one before it, so that going back twice goes
back two deployments: going back writes a record as well, and what is before it is what is before its model.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from typing import Any, Iterator, NamedTuple, Sequence

from ansible_collections.blackwell.inference.plugins.module_utils._deployment_files import (
    ABSENT,
    FILE,
    LINK,
    Change,
    FilesError,
    Kept,
    files_below,
    is_plain,
    is_staged,
    keep_content,
    kept_from,
    load_content,
    look,
    make_directories,
    place_of,
    refuse_links,
    remove_staged,
    replace_file,
)
from ansible_collections.blackwell.inference.plugins.module_utils._patch_store import (
    load_manifest,
    load_original,
    manifest_during,
)

FORMAT = 1
NOT_IN_FORCE = "fail"  # the decision of a deployment that was taken back


class RecordError(Exception):
    """A deployment can't be recorded or given back; says why, and what to do."""


class Scope(NamedTuple):
    """Which files belong to a deployment: single ones, all below directories, and the sources that are patched."""

    files: list[str]
    trees: list[str]
    patches: str  # directory of the manifest of engine_patch, or empty


class Record(NamedTuple):
    """A deployment. `before` is the id of the one before it; `restores` that of the one that this one gave back."""

    id: str
    instance: str
    time: str
    before: str
    restores: str
    about: dict[str, Any]
    files: list[Kept]
    trees: list[str]


# --- reading ----------------------------------------------------------------------------------------------------------


class Records(NamedTuple):
    """The readable records of an instance, the oldest first, what could not be read, and the next free number."""

    known: list[Record]
    damaged: list[str]
    next_number: int
    newest_damaged: bool


def read_records(directory: str, instance: str) -> Records:
    """All records of an instance. Raises RecordError."""
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", instance):
        raise RecordError(f"{instance!r} is no name of an instance; letters, digits, '_', '-' and '.' make one")
    records, damaged = [], []
    names = _names(directory, instance)
    for _number, name in names:
        path = os.path.join(directory, name)
        try:
            with open(path, encoding="utf-8") as file:
                records.append(_record_from(json.load(file), name))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, FilesError) as error:
            damaged.append(f"{path} can't be read, and is passed over: {error}")
    newest = bool(names) and not (records and names[-1][1] == records[-1].id + ".json")
    return Records(records, damaged, names[-1][0] + 1 if names else 1, newest)


def _names(directory: str, instance: str) -> list[tuple[int, str]]:
    pattern = re.compile(re.escape(instance) + r"-([0-9]{4,})-[0-9a-f]{12}\.json")
    matches = [pattern.fullmatch(name) for name in _listed(directory)]
    return sorted((int(match[1]), match[0]) for match in matches if match)


def _listed(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RecordError(f"{directory} can't be read: {error.strerror}") from error


def _record_from(fields: dict[str, Any], name: str) -> Record:
    if fields.pop("format") != FORMAT:
        raise ValueError(f"it is of another format than {FORMAT}")
    record = Record(**{**fields, "files": [kept_from(item) for item in fields["files"]]})
    if record.id + ".json" != name or not name.startswith(f"{record.instance}-"):
        raise ValueError(f"it is the record of {record.id}")
    if not isinstance(record.about, dict) or not isinstance(record.trees, list):
        raise ValueError("what it is about, or its trees, can't be understood")
    strange = [tree for tree in record.trees if not is_plain(tree)]
    if strange:
        raise ValueError(f"it names the tree {strange[0]!r}")
    return record


def in_force(records: Sequence[Record]) -> Record | None:
    """The newest deployment that was not taken back; None when there is none."""
    kept = [record for record in records if record.about.get("decision") != NOT_IN_FORCE]
    return kept[-1] if kept else None


def find(records: Records, wanted: str) -> Record:
    """A record by its id; without one, that before the deployment in force. Raises RecordError, which names all."""
    present = in_force(records.known)
    known = ", ".join(record.id for record in records.known) or "none"
    if not wanted and records.newest_damaged:
        raise RecordError(f"{records.damaged[-1]}. So which one was before is not known; name one of: {known}")
    if not wanted and (present is None or not present.before):
        raise RecordError("there is no deployment before the present one" if present else "no deployment is recorded")
    name = wanted or (present.before if present else "")
    for record in records.known:
        if record.id == name:
            return record
    raise RecordError(f"no deployment {name} is recorded; recorded are: {known}")


# --- recording --------------------------------------------------------------------------------------------------------


class Seen(NamedTuple):
    """What belongs to a deployment now, with the contents by digest."""

    files: list[Kept]
    trees: list[str]
    contents: dict[str, bytes]


def survey(scope: Scope) -> Seen:
    """Look at all files of a deployment. Raises FilesError or StoreError for one that can't be kept."""
    files, contents = [], {}
    trees = [place_of(tree, follow=True) for tree in scope.trees]
    single = [place_of(path) for path in [*scope.files, *_of_patches(scope.patches)]]
    # what a killed run of ours has left there is no part of any deployment
    for path in sorted({*single, *(path for path in _in_trees(trees) if not is_staged(path))}):
        kept, content = look(path)
        files.append(kept)
        if kept.kind == FILE:
            contents[kept.what] = content
    return Seen(files, trees, contents)


def _in_trees(trees: Sequence[str]) -> list[str]:
    return [path for tree in trees for path in files_below(tree)]


def _of_patches(directory: str) -> list[str]:
    """The manifest, the originals that it names, and the patched sources."""
    if not directory:
        return []
    manifest = load_manifest(directory)
    originals = [os.path.join(directory, "originals", record.pristine) for record in manifest.values()]
    return [os.path.join(directory, "manifest.json"), *originals, *manifest]


def patches_of(directory: str) -> list[dict[str, str]]:
    """Each applied patch with the source that it changed and its digests: before all patches, and with all of them."""
    manifest = load_manifest(directory) if directory else {}
    return [
        {"id": patch.id, "path": path, "release": record.release, "before": record.pristine, "after": record.result}
        for path, record in sorted(manifest.items())
        for patch in record.patches
    ]


def first_is_recorded(records: Records) -> bool:
    """Whether something is recorded. Raises RecordError when that can't be read: now is not before it."""
    if not records.known and records.damaged:
        raise RecordError(
            f"{records.damaged[0]}. It says what was there before the first deployment; put it back from a backup, or "
            "remove it, and what is there now counts as that"
        )
    return bool(records.known)


def next_record(records: Records, instance: str, seen: Seen, about: dict[str, Any], time: str) -> Record | None:
    """The record to write; None when the last one says the same."""
    last = records.known[-1] if records.known else None
    if last is not None and (last.files, last.trees, last.about) == (seen.files, seen.trees, about):
        return None
    present = in_force(records.known)
    return Record(
        id=f"{instance}-{records.next_number:04d}-{_digest(seen.files, about)}",
        instance=instance,
        time=time,
        before=present.id if present else "",
        restores="",
        about=about,
        files=seen.files,
        trees=seen.trees,
    )


def restoring_record(records: Records, restored: Record, time: str) -> Record | None:
    """The record of having gone back; None when that is written already."""
    last = records.known[-1] if records.known else None
    if last is not None and last.restores == restored.id:
        return None
    return restored._replace(
        id=f"{restored.instance}-{records.next_number:04d}-{_digest(restored.files, restored.about)}",
        time=time,
        restores=restored.id,
    )


def _digest(files: Sequence[Kept], about: dict[str, Any]) -> str:
    text = json.dumps([[list(kept) for kept in files], about], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def write_record(directory: str, record: Record, contents: dict[str, bytes]) -> None:
    """Keep the contents, then the record: one that is there can be given back. OSError when that is impossible."""
    store = os.path.join(directory, "objects")
    os.makedirs(store, mode=0o700, exist_ok=True)
    for digest, content in contents.items():
        keep_content(store, digest, content)
    fields = {"format": FORMAT, **record._asdict(), "files": [kept._asdict() for kept in record.files]}
    text = json.dumps(fields, indent=1, sort_keys=True) + "\n"
    remove_staged([kept.path for kept in record.files])
    replace_file(os.path.join(directory, record.id + ".json"), text.encode(), 0o600)


# --- going back -------------------------------------------------------------------------------------------------------


def changes_to(directory: str, record: Record, patches: str) -> list[Change]:
    """What has to become otherwise so that all files are what the record says.

    Files that came into the record's trees go, and sources that were patched since get their original bytes. The
    manifest comes last: a run that is killed before still finds in it which sources were patched. Raises FilesError,
    RecordError or StoreError for something that can't be given back, before anything is changed.
    """
    for folder in sorted({*record.trees, *(os.path.dirname(kept.path) for kept in record.files)}):
        refuse_links(folder)
    store = os.path.join(directory, "objects")
    then = {kept.path: kept for kept in record.files}
    for path in _in_trees(record.trees):
        then.setdefault(path, Kept(path, ABSENT))
    changes = []
    for kept in then.values():
        now = look(kept.path)[0]
        if now != kept:
            changes.append(Change(now, kept, load_content(store, kept.what) if kept.kind == FILE else b""))
    return sorted([*changes, *_unpatched(patches, then)], key=lambda change: _turn(change.then.path, patches))


def _turn(path: str, patches: str) -> int:
    """Originals, then sources and all else, then the manifest."""
    if not patches:
        return 1
    if path == place_of(os.path.join(patches, "manifest.json")):
        return 2
    return 0 if os.path.dirname(path) == place_of(os.path.join(patches, "originals")) else 1


def announce(changes: Sequence[Change], patches: str) -> None:
    """Let the manifest name what sources may be while files are given back. OSError when that is impossible.

    After a run that was killed, engine_patch then recognises each source, whether it was replaced already or not.
    """
    for change in changes:
        if patches and _turn(change.then.path, patches) == 2 and change.then.kind == FILE:
            path, then = change.then.path, change.then
            make_directories(os.path.dirname(path))
            replace_file(path, manifest_during(patches, change.content), int(then.mode, 8), (then.uid, then.gid))


def _unpatched(directory: str, known: dict[str, Kept]) -> Iterator[Change]:
    for path, patched in (load_manifest(directory) if directory else {}).items():
        now = look(path)[0]
        if place_of(path) in known or now.kind != FILE or now.what == patched.pristine:
            continue
        original = load_original(directory, patched.pristine)
        if original is None or now.what not in (patched.result, *patched.earlier):
            raise RecordError(f"{path} was edited after it was patched, or its original is lost; reinstall the engine")
        link = patched.link
        yield Change(now, now._replace(what=patched.pristine) if link is None else Kept(path, LINK, link), original)


def sources_of(record: Record, records: Sequence[Record], patches: str) -> list[str]:
    """The sources that are patched now, are in a record, or were in another: bytecode depends on them.

    After a run that gave back the files and was killed, only the other records still know of some.
    """
    others = {path for other in records for path in _python_files(other) if os.path.exists(path)}
    return sorted({*_python_files(record), *others, *(load_manifest(patches) if patches else {})})


def _python_files(record: Record) -> list[str]:
    return [kept.path for kept in record.files if kept.path.endswith(".py")]


# --- what Ansible reads as ansible_local.specdecode -------------------------------------------------------------------

FACTS = ("engine", "release", "model", "draft", "decision", "reasons", "digest", "endpoint", "accept_length", "speedup")


def write_facts(directory: str, path: str, check_mode: bool) -> bool:
    """Keep the file of local facts up to date; True when it was not, or would not be after this run."""
    content = (json.dumps(facts_of(directory), indent=1, sort_keys=True) + "\n").encode()
    if look(path)[1] == content:
        return False
    if not check_mode:
        make_directories(os.path.dirname(path))
        replace_file(path, content, 0o644)
    return True


def facts_of(directory: str) -> dict[str, Any]:
    """For each instance with a record, the deployment in force in a few words."""
    matches = [re.fullmatch(r"(.+)-[0-9]{4,}-[0-9a-f]{12}\.json", name) for name in _listed(directory)]
    names = {match[1] for match in matches if match}
    instances = {}
    for instance in sorted(names):
        record = in_force(read_records(directory, instance).known)
        if record is not None:
            facts = {key: record.about[key] for key in FACTS if key in record.about}
            instances[instance] = {"id": record.id, "time": record.time, **facts}
    return {"instances": instances}
