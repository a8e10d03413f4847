# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Trees that change between the judgement and the removal."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable

import pytest
from ansible_collections.blackwell.inference.plugins.module_utils import _bytecode, _bytecode_judge, _bytecode_prove
from ansible_collections.blackwell.inference.plugins.module_utils._bytecode_files import (
    ReplacedError,
    Sealing,
    Suspect,
    read_pyc,
    read_source,
    remove,
    seal,
    seal_suspect,
)
from ansible_collections.blackwell.inference.plugins.module_utils._bytecode_judge import Findings
from ansible_collections.blackwell.inference.plugins.module_utils._bytecode_scan import scan_tree
from ansible_collections.blackwell.inference.tests.unit.plugins.module_utils.bytecode_case import (
    LONG_AGO,
    Project,
    cache,
    left,
    reasons,
    stale_project,
)

TAG = sys.implementation.cache_tag
PYC = f"m.{TAG}.pyc"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project whose only bytecode is stale."""
    return stale_project(tmp_path / "app")


def interfere(monkeypatch: pytest.MonkeyPatch, before_removal: Callable[[], None]) -> None:
    """Do something once between the judgement and the removal."""
    actions = [before_removal]

    def remove_later(suspect: Suspect, dry_run: bool) -> None:
        if actions:
            actions.pop()()
        remove(suspect, dry_run)

    monkeypatch.setattr(_bytecode, "remove", remove_later)


def test_a_pyc_that_vanishes_is_not_counted(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    interfere(monkeypatch, (cache(project) / PYC).unlink)
    outcome = project.invalidate()
    assert (outcome.removed, outcome.errors, outcome.examined) == ([], [], 0)


def test_a_pyc_that_was_refreshed_is_judged_again_and_stays(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def refresh() -> None:
        project.compile("m.py")

    interfere(monkeypatch, refresh)
    outcome = project.invalidate()
    assert (outcome.removed, outcome.kept, outcome.examined) == ([], 1, 1)
    assert (cache(project) / PYC).exists()


def test_a_source_that_was_put_back_keeps_its_bytecode(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def put_back() -> None:
        project.write("m.py", "V = 1\n")

    interfere(monkeypatch, put_back)
    outcome = project.invalidate()
    assert (outcome.removed, outcome.kept, outcome.examined) == ([], 1, 1)


def test_a_pyc_that_was_replaced_by_a_stale_one_goes(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def replace() -> None:
        shutil.copy2(cache(project) / PYC, cache(project) / "copy")
        os.replace(cache(project) / "copy", cache(project) / PYC)

    interfere(monkeypatch, replace)
    outcome = project.invalidate()
    assert (reasons(outcome), outcome.examined) == ({PYC: "code_differs"}, 1)


def test_a_pyc_that_was_replaced_by_a_link_stays(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def replace() -> None:
        (cache(project) / PYC).rename(cache(project) / "target")
        (cache(project) / PYC).symlink_to("target")

    interfere(monkeypatch, replace)
    outcome = project.invalidate()
    assert (outcome.removed, left(outcome)) == ([], {PYC: "link"})


def test_a_pyc_that_was_replaced_after_its_proof_is_not_sealed(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replace_and_seal(suspect: Suspect, sealing: Sealing | None) -> bool:
        project.compile("m.py")
        os.utime(suspect.path, (LONG_AGO, LONG_AGO))
        return seal_suspect(suspect, sealing)

    project.compile("m.py")
    time.sleep(1.1)
    monkeypatch.setattr(_bytecode, "seal_suspect", replace_and_seal)
    assert project.invalidate().proved == 1
    assert os.stat(cache(project) / PYC).st_mtime == LONG_AGO


def test_a_pyc_that_was_replaced_after_its_times_were_read_is_not_sealed(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replace_and_seal(name: str, *arguments: Any) -> bool:
        project.compile("m.py")
        os.utime(cache(project) / name, (LONG_AGO, LONG_AGO))
        return seal(name, *arguments)

    project.write("newest.py", "V = 1\n")
    time.sleep(1.1)
    project.compile("m.py")
    project.compile("newest.py")
    monkeypatch.setattr(_bytecode_judge, "seal", replace_and_seal)
    outcome = project.invalidate()
    assert (outcome.kept, outcome.proved) == (2, 0)
    assert os.stat(cache(project) / PYC).st_mtime == LONG_AGO


def test_a_pyc_that_never_rests_is_named(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def remove_later(suspect: Suspect, dry_run: bool) -> None:
        os.utime(suspect.path)
        remove(suspect, dry_run)

    monkeypatch.setattr(_bytecode, "remove", remove_later)
    outcome = project.invalidate()
    assert (outcome.removed, left(outcome), outcome.examined) == ([], {PYC: "busy"}, 1)


def test_a_folder_swapped_for_a_link_leads_nowhere(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = tmp_path / "victim"
    shutil.copytree(cache(project), victim)

    def swap() -> None:
        shutil.rmtree(cache(project))
        cache(project).symlink_to(victim)

    interfere(monkeypatch, swap)
    outcome = project.invalidate()
    assert outcome.removed == []
    assert (victim / PYC).exists()


def test_a_root_swapped_for_another_folder_is_noticed(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = tmp_path / "victim"
    shutil.copytree(project.root, victim)

    def swap() -> None:
        project.root.rename(tmp_path / "old")
        project.root.symlink_to(victim)

    interfere(monkeypatch, swap)
    assert project.invalidate().removed == []
    assert (victim / "__pycache__" / PYC).exists()


def test_what_is_read_is_what_was_judged(project: Project) -> None:
    found = Findings()
    scan_tree(str(project.root), frozenset(), found)
    suspect = found.doubtful[0]
    assert read_source(suspect) == b"V = 2\n"
    assert read_pyc(suspect)[:16] == suspect.header
    project.write("m.py", "V = 3\n")
    project.compile("m.py")
    for read in (read_source, read_pyc):
        with pytest.raises(ReplacedError):
            read(suspect)


def test_a_source_edited_during_its_proof_is_judged_again(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    edits = ["V = 3\n"]

    def read_then_edit(suspect: Suspect) -> bytes:
        data = read_source(suspect)
        if edits:
            project.write("m.py", edits.pop())
        return data

    project.compile("m.py")
    monkeypatch.setattr(_bytecode_prove, "read_source", read_then_edit)
    assert reasons(project.invalidate()) == {PYC: "code_differs"}
    assert project.value() == "3"


def test_imports_never_fail_during_purges(tmp_path: Path) -> None:
    project = Project(tmp_path / "app")
    names = [f"m{number}" for number in range(20)]
    for name in names:
        project.write(f"{name}.py", "V = 1\n")
    imports = "; ".join(f"import {name}" for name in names)
    code = f"import sys; sys.path.insert(0, {str(project.root)!r}); {imports}"
    command = [project.python, "-S", "-c", code]
    importers = []
    for _purge in range(10):
        importers += [subprocess.Popen(command, env=project.environment) for _importer in range(10)]
        for name in names:
            project.write(f"{name}.py", "V = 2\n")
        project.invalidate(prove=False)
    assert [importer.wait() for importer in importers] == [0] * 100
