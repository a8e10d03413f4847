# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module as Ansible runs it: arguments, results, messages, check mode, diff mode."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.inference.plugins.modules import pyc_invalidate
from ansible_collections.blackwell.inference.tests.unit.plugins.module_utils.bytecode_case import Project
from ansible_collections.blackwell.inference.tests.unit.plugins.modules.module_case import run_module

TAG = sys.implementation.cache_tag


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project with a stale module."""
    project = Project(tmp_path / "app")
    project.write("m.py", "V = 1\n")
    project.value()
    project.write("m.py", "V = 2\n")
    return project


def run(capfd: pytest.CaptureFixture[str], **arguments: Any) -> dict[str, Any]:
    """Run the module and return its result."""
    return run_module(pyc_invalidate, capfd, **{"python": [sys.executable], "pycache_prefix": "", **arguments})


def test_the_result_says_what_was_done(project: Project, capfd: pytest.CaptureFixture[str]) -> None:
    result = run(capfd, path=[str(project.root)])
    pyc = str(project.root / f"__pycache__/m.{TAG}.pyc")
    expected = {
        "changed": True,
        "removed": [{"path": pyc, "source": str(project.root / "m.py"), "reason": "code_differs"}],
        "left": [],
        "removed_count": 1,
        "left_count": 0,
        "truncated": False,
        "reasons": {"code_differs": 1},
        "examined": 1,
        "kept": 0,
        "proved": 1,
        "prefixes": [],
        "msg": "1 pyc examined: 0 kept, 1 removed (1 code_differs); 1 compared with fresh code",
    }
    assert {key: result[key] for key in expected} == expected
    assert "diff" not in result
    assert not os.path.exists(pyc)


def test_nothing_to_do_is_no_change(project: Project, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(capfd, path=[str(project.root)])["changed"]
    result = run(capfd, path=[str(project.root)])
    assert (result["changed"], result["msg"]) == (False, "no bytecode was found")


def test_check_mode_predicts_and_diff_mode_lists(project: Project, capfd: pytest.CaptureFixture[str]) -> None:
    pyc = project.root / f"__pycache__/m.{TAG}.pyc"
    result = run(capfd, paths=[str(project.root / "m.py")], _ansible_check_mode=True, _ansible_diff=True)
    assert result["changed"]
    assert result["diff"] == {"before": f"{pyc}  (code_differs)\n", "after": ""}
    assert result["msg"].endswith("1 would be removed (1 code_differs); 1 compared with fresh code")
    assert pyc.exists()


@pytest.mark.parametrize("path", ["/does/not/exist", "/", "relative.py"])
def test_a_path_that_cannot_be_meant_fails(path: str, capfd: pytest.CaptureFixture[str]) -> None:
    result = run(capfd, path=[path])
    assert result["failed"]
    assert path in result["msg"]


@pytest.fixture
def many(tmp_path: Path) -> Project:
    """A project with seven stale modules and six without source."""
    project = Project(tmp_path / "app")
    for number in range(7):
        project.write(f"m{number}.py", "V = 1\n")
        project.value(f"m{number}")
        project.write(f"m{number}.py", "V = 2\n")
    for number in range(6):
        (project.root / f"n{number}.pyc").write_bytes(b"")
    return project


@pytest.mark.parametrize(
    ("extra", "complete"), [({}, False), ({"list_all": True}, True), ({"_ansible_verbosity": 1}, True)]
)
def test_a_person_gets_a_handful_and_true_numbers(
    many: Project, extra: dict[str, Any], complete: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    result = run(capfd, path=[str(many.root)], **extra)
    assert (len(result["removed"]), len(result["left"])) == ((7, 6) if complete else (5, 5))
    assert (result["removed_count"], result["left_count"], result["truncated"]) == (7, 6, not complete)
    assert result["reasons"] == {"code_differs": 7, "sourceless": 6}


def test_what_belongs_to_named_sources_is_always_listed(many: Project, capfd: pytest.CaptureFixture[str]) -> None:
    result = run(capfd, path=[str(many.root / f"m{number}.py") for number in range(7)])
    assert (len(result["removed"]), result["truncated"]) == (7, False)


def test_a_diff_is_always_complete(many: Project, capfd: pytest.CaptureFixture[str]) -> None:
    result = run(capfd, path=[str(many.root)], _ansible_diff=True)
    assert result["diff"]["before"].count("\n") == 7


def test_without_proof_a_warning_says_why(project: Project, capfd: pytest.CaptureFixture[str]) -> None:
    (project.root.parent / "python").write_text("#!/bin/sh\nexit 1\n")
    (project.root.parent / "python").chmod(0o755)
    result = run(capfd, path=[str(project.root)], python=[str(project.root.parent / "python")])
    assert result["reasons"] == {"unproved": 1}
    assert any("no interpreter with magic number" in str(warning) for warning in result["warnings"])
    assert any("could not be used" in str(warning) for warning in result["warnings"])


def test_links_that_hide_bytecode_are_warned_about(
    project: Project, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (project.root / "package").symlink_to(tmp_path)
    result = run(capfd, path=[str(project.root)])
    assert any("1 link" in str(warning) and "package" in str(warning) for warning in result["warnings"])


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_partial_failure_is_a_failure(many: Project, capfd: pytest.CaptureFixture[str]) -> None:
    pyc = many.root / f"__pycache__/m0.{TAG}.pyc"
    if subprocess.run(["chattr", "+i", pyc], capture_output=True, check=False).returncode:
        pytest.skip("no immutable files on this file system")
    try:
        result = run(capfd, path=[str(many.root)])
    finally:
        subprocess.run(["chattr", "-i", pyc], check=True)
    assert result["failed"]
    assert result["changed"]
    assert result["removed_count"] == 6
    assert f"lsattr -d '{pyc}'" in result["msg"]


@pytest.mark.parametrize("option", ["path", "python"])
def test_refusals_can_name_what_is_not_utf8(project: Project, capfd: pytest.CaptureFixture[str], option: str) -> None:
    arguments = {"path": [str(project.root)], option: [str(project.root / os.fsdecode(b"caf\xe9"))]}
    assert b"caf" in run(capfd, **arguments)["msg"].encode("utf-8")


def test_warnings_can_name_what_is_not_utf8(project: Project, capfd: pytest.CaptureFixture[str]) -> None:
    python = project.root / os.fsdecode(b"caf\xe9")
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)
    result = run(capfd, path=[str(project.root)], python=[str(python)])
    assert "caf\\\\xe9" in json.dumps(result["warnings"])


def test_names_that_are_not_utf8_can_be_reported(project: Project, capfd: pytest.CaptureFixture[str]) -> None:
    folder = project.root.parent / os.fsdecode(b"caf\xe9")
    project.root.rename(folder)
    result = run(capfd, path=[str(folder.parent)])
    assert result["removed"][0]["source"].endswith("caf\\xe9/m.py")
