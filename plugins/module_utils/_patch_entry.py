# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Catalogue entries: what a patch must say about itself, checked before anything is looked at.

The format is described in docs/guides/writing_a_patch.md.
"""

from __future__ import annotations

import re
from typing import Any, Dict, Mapping, NamedTuple, Sequence

from ansible_collections.blackwell.inference.plugins.module_utils._patch_release import matches
from ansible_collections.blackwell.inference.plugins.module_utils._source_diff import parse_hunks, split_by_file

Edit = Dict[str, Any]
Condition = Dict[str, Any]
_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
_REQUIRED = ("id", "engine", "why", "releases", "verified", "edits", "clears_when", "evidence")
_OPTIONAL = ("upstream", "not_for", "limits", "invalidates")
# Compiled artefacts that some kernels' patches outdate; the role registry_patches knows where they lie.
CACHES = ("deep_gemm", "flashinfer", "torch_inductor", "triton")
# The keys of each kind of edit and their types; `file` is common to all, `releases` may restrict any.
_NAMES, _TEXT, _COUNT, _VALUES = "a list of names", "a text", "a number from 1", "a list of plain values"
_KEYS: dict[str, dict[str, str]] = {
    "diff": {"text": _TEXT},
    "extend_bases": {"class": _TEXT, "names": _NAMES},
    "extend_import": {"module": _TEXT, "names": _NAMES},
    "extend_list": {"target": _TEXT, "items": _VALUES},
    "insert_methods": {"class": _TEXT, "before": _TEXT, "text": _TEXT},
    "insert_statements": {"text": _TEXT},
    "replace_expression": {"expression": _TEXT, "replacement": _TEXT, "count": _COUNT},
}
_MAY: dict[str, dict[str, str]] = {
    "extend_list": {"scope": _TEXT},
    "insert_statements": {"scope": _TEXT, "before": _TEXT, "after": _TEXT},
    "replace_expression": {"scope": _TEXT},
}


class Entry(NamedTuple):
    """A checked catalogue entry."""

    id: str
    engine: str
    releases: list[str]
    verified: list[str]
    edits: list[Edit]
    upstream: list[Condition]
    link: str
    not_for: list[dict[str, Any]]
    limits: list[dict[str, Any]]
    clears_when: str
    invalidates: list[str]

    def edits_for(self, release: str) -> list[Edit]:
        """The edits that a release needs, without the keys that only selected them."""
        return [_without(edit, "releases") for edit in self.edits if _concerns(edit, release)]

    def conditions_for(self, release: str) -> list[Condition]:
        """What tells that a release has the patch; none for a release that nothing was declared for."""
        return [_without(item, "releases") for item in self.upstream if _concerns(item, release)]

    def reason_against(self, release: str) -> str:
        """Why a verified release gets no edit."""
        reasons = [str(item["reason"]) for item in self.not_for if _concerns(item, release)]
        return reasons[0] if reasons else f"it is for {self.engine} {' or '.join(self.releases)}"

    def limits_for(self, release: str) -> list[str]:
        """What the patch does not achieve on a release."""
        return [str(item["text"]) for item in self.limits if _concerns(item, release)]


def _concerns(item: Mapping[str, Any], release: str) -> bool:
    return "releases" not in item or matches(release, item["releases"])


def _without(item: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key not in keys}


def read_entry(data: Mapping[str, Any]) -> Entry:
    """Check a catalogue entry. Raises ValueError that names the patch, the key, and what is expected there."""
    name = data.get("id")
    if not isinstance(name, str) or not _ID.fullmatch(name):
        raise ValueError(f"a patch needs an id of lower-case letters, digits, '.', '_' and '-'; got {name!r}")
    try:
        return _read(data)
    except ValueError as error:
        raise ValueError(f"patch {name}: {error}") from error


def _read(data: Mapping[str, Any]) -> Entry:
    _check_keys(data)
    engine = data["engine"]
    upstream = data.get("upstream") or {}
    return Entry(
        id=data["id"],
        engine=engine,
        releases=_specifiers("releases", data["releases"]),
        verified=_specifiers("verified", data["verified"]),
        edits=[edit for item in _list_of_mappings("edits", data["edits"]) for edit in _read_edit(item, engine)],
        upstream=[_read_condition(item) for item in _list_of_mappings("upstream.when", upstream.get("when") or [])],
        link=str(upstream.get("link") or ""),
        not_for=_notes("not_for", data, "reason"),
        limits=_notes("limits", data, "text"),
        clears_when=str(data["clears_when"]),
        invalidates=data.get("invalidates") or [],
    )


def _check_keys(data: Mapping[str, Any]) -> None:
    """Check what is there, and the keys that need no further reading."""
    missing = [key for key in _REQUIRED if not data.get(key)]
    unknown = sorted(set(data) - {*_REQUIRED, *_OPTIONAL})
    if missing or unknown:
        missing_text, unknown_text = (", ".join(keys) or "nothing" for keys in (missing, unknown))
        raise ValueError(f"missing or empty: {missing_text}; unknown: {unknown_text}")
    engine, upstream, invalidates = (data.get(key) for key in ("engine", "upstream", "invalidates"))
    if not isinstance(engine, str) or not engine.isidentifier():
        raise ValueError(f"engine is the name of an import package, such as vllm or sglang; got {engine!r}")
    if upstream and (not isinstance(upstream, dict) or set(upstream) - {"link", "when"}):
        raise ValueError(f"upstream is a mapping with link and when; got {upstream!r}")
    if invalidates and (not isinstance(invalidates, list) or not set(invalidates) <= set(CACHES)):
        raise ValueError(f"invalidates lists caches among {', '.join(CACHES)}; got {invalidates!r}")
    _check_evidence(data["evidence"])


def _check_evidence(evidence: object) -> None:
    for item in _list_of_mappings("evidence", evidence):
        if set(item) != {"date", "where", "what"}:
            raise ValueError(f"each piece of evidence has date, where and what; got {item!r}")


def _notes(key: str, data: Mapping[str, Any], text: str) -> list[dict[str, Any]]:
    """A list of remarks on some releases: each has `text`, and `releases` unless it is about all."""
    notes = []
    for item in _list_of_mappings(key, data.get(key) or []):
        if set(item) - {"releases"} != {text} or not isinstance(item[text], str):
            raise ValueError(f"each item of {key} has {text}, and may have releases; got {item!r}")
        notes.append(_with_specifiers(item, key))
    return notes


def _with_specifiers(item: dict[str, Any], where: str) -> dict[str, Any]:
    if "releases" not in item:
        return item
    return {**item, "releases": _specifiers(f"releases in {where}", item["releases"])}


def _list_of_mappings(key: str, value: object) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise ValueError(f"{key} is a list of mappings; got {value!r}")
    return value


def _specifiers(key: str, value: object) -> list[str]:
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list) or not items or not all(isinstance(item, str) for item in items):
        raise ValueError(f"{key} is a release specifier or a list of such, each a string in quotes; got {value!r}")
    try:
        matches("0", items)
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from error
    return items


def _read_edit(edit: dict[str, Any], engine: str) -> list[Edit]:
    """Check one edit; a diff without `file` becomes one edit for each file that it changes."""
    kind = edit.get("kind")
    if not isinstance(kind, str) or kind not in _KEYS:
        raise ValueError(f"kind is one of {', '.join(sorted(_KEYS))}; got {kind!r}")
    edit = _with_specifiers(edit, kind)
    needed = _KEYS[kind]
    allowed = {**needed, **_MAY.get(kind, {})}
    for key, value in edit.items():
        if key not in {"kind", "file", "releases", *allowed}:
            raise ValueError(f"{kind} has no key {key}; it has file, releases, {', '.join(sorted(allowed))}")
        if key in allowed and not _fits(allowed[key], value):
            raise ValueError(f"{kind}: {key} is {allowed[key]}; got {value!r}")
    absent = [key for key in needed if key not in edit]
    if absent or (kind == "insert_statements" and ("before" in edit) == ("after" in edit)):
        raise ValueError(f"{kind} needs {', '.join(absent) or 'either before or after'}")
    if kind == "diff":
        return _read_diff(edit, engine)
    _check_file(edit.get("file"))
    return [edit]


def _fits(expected: str, value: object) -> bool:
    if expected == _COUNT:
        return isinstance(value, int) and not isinstance(value, bool) and value >= 1
    if expected == _TEXT:
        return isinstance(value, str) and bool(value.strip())
    kinds = (str,) if expected == _NAMES else (str, int, float, bool)
    return isinstance(value, list) and bool(value) and all(isinstance(item, kinds) for item in value)


def _read_diff(edit: Edit, engine: str) -> list[Edit]:
    if "file" in edit:
        _check_file(edit["file"])
        parse_hunks(edit["text"])
        return [edit]
    parts = split_by_file(edit["text"])
    edits = [{**edit, "file": _inside_package(path, engine), "text": text} for path, text in parts.items()]
    for part in edits:
        parse_hunks(part["text"])
    return edits


def _inside_package(path: str, engine: str) -> str:
    """The package-relative part of a repository path such as python/sglang/srt/utils.py."""
    parts = path.split("/")
    if engine not in parts[:-1]:
        raise ValueError(f"the diff changes {path}, which is no file of the package {engine}; take it out of the diff")
    return "/".join(parts[parts.index(engine) + 1 :])


def _check_file(file: object) -> None:
    parts = file.split("/") if isinstance(file, str) else []
    if not parts or not str(file).endswith(".py") or any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise ValueError(f"file is a path inside the package, such as model_executor/models/glm4.py; got {file!r}")


def _read_condition(condition: dict[str, Any]) -> Condition:
    _check_file(condition.get("file"))
    keys = set(condition) - {"file", "scope", "releases"}
    texts = all(isinstance(value, str) for key, value in condition.items() if key != "releases")
    if not texts or keys not in ({"present"}, {"absent"}):
        raise ValueError(
            f"a condition of upstream.when has file, present or absent, and maybe scope and releases; got {condition!r}"
        )
    return _with_specifiers(condition, "upstream.when")


def read_entries(data: Sequence[Mapping[str, Any]]) -> list[Entry]:
    """Check a list of entries; each id occurs once. Raises ValueError."""
    entries = [read_entry(item) for item in data]
    ids = [entry.id for entry in entries]
    twice = sorted({name for name in ids if ids.count(name) > 1})
    if twice:
        raise ValueError(f"declared more than once: {', '.join(twice)}")
    return entries
