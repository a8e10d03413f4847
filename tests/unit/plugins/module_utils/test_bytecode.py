# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is removed and what stays, in the situations that matter most. The complete table is in test_bytecode_table."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.blackwell.inference.plugins.module_utils._bytecode import PathError, Request, invalidate
from ansible_collections.blackwell.inference.tests.unit.plugins.module_utils.bytecode_case import Project, reasons
from ansible_collections.blackwell.inference.tests.unit.plugins.module_utils.bytecode_pythons import chosen

TAG = sys.implementation.cache_tag
PYC = f"m.{TAG}.pyc"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project with one module that was imported once."""
    project = Project(tmp_path / "app")
    project.write("m.py", "V = 1\n")
    assert project.value() == "1"
    return project


def test_an_untouched_project_is_left_alone(project: Project) -> None:
    outcome = project.invalidate()
    assert (outcome.removed, outcome.kept, outcome.examined) == ([], 1, 1)


def test_an_edit_that_keeps_size_and_mtime_is_found(project: Project) -> None:
    project.write("m.py", "V = 2\n")
    assert project.value() == "1", "the trap this module exists for"
    assert reasons(project.invalidate()) == {PYC: "code_differs"}
    assert project.value() == "2"


def test_the_second_run_reports_nothing(project: Project) -> None:
    project.write("m.py", "V = 2\n")
    project.invalidate()
    project.value()
    assert project.invalidate().removed == []


def test_a_touched_source_keeps_its_bytecode(project: Project) -> None:
    os.utime(project.root / "m.py")
    outcome = project.invalidate()
    assert (outcome.removed, outcome.kept) == ([], 1)


def test_an_unchecked_hash_pyc_is_compared_with_the_source(project: Project) -> None:
    project.compile("m.py", "UNCHECKED_HASH")
    assert project.invalidate().removed == []
    project.write("m.py", "V = 22\n", None)
    assert project.value() == "1"
    assert reasons(project.invalidate()) == {PYC: "hash_differs"}


def test_every_optimization_level_is_judged(project: Project) -> None:
    project.value("m", "-O")
    project.value("m", "-OO")
    project.write("m.py", "V = 2\n")
    assert set(reasons(project.invalidate("m.py"))) == {PYC, f"m.{TAG}.opt-1.pyc", f"m.{TAG}.opt-2.pyc"}


def test_a_source_is_judged_alone(project: Project) -> None:
    project.write("other.py", "V = 1\n")
    project.value("other")
    project.write("m.py", "V = 2\n")
    project.write("other.py", "V = 2\n")
    assert set(reasons(project.invalidate("m.py"))) == {PYC}


@pytest.mark.parametrize("level", [0, 1, 2])
def test_bytecode_beside_its_source_may_be_of_any_level(project: Project, level: int) -> None:
    project.write("n.py", "V = 1\ndef f():\n    'Words.'\n    assert V\n")
    project.compile("n.py", cfile=str(project.root / "n.pyc"), optimize=level)
    assert project.invalidate("n.py").kept == 1
    project.write("n.py", "V = 2\ndef f():\n    'Words.'\n    assert V\n")
    assert reasons(project.invalidate("n.py")) == {"n.pyc": "code_differs"}


def test_without_proof_the_doubtful_goes(project: Project) -> None:
    assert reasons(project.invalidate(prove=False)) == {PYC: "unproved"}


def test_check_mode_writes_nothing(project: Project) -> None:
    project.write("m.py", "V = 2\n")
    before = os.stat(project.root / "__pycache__" / PYC)
    assert reasons(project.invalidate(check=True)) == {PYC: "code_differs"}
    after = os.stat(project.root / "__pycache__" / PYC)
    # not the time of access: it was read
    assert (after.st_ino, after.st_mtime_ns, after.st_ctime_ns) == (
        before.st_ino,
        before.st_mtime_ns,
        before.st_ctime_ns,
    )


def test_a_module_without_source_stays(project: Project) -> None:
    os.rename(project.root / "__pycache__" / PYC, project.root / "n.pyc")
    outcome = project.invalidate()
    assert outcome.removed == []
    assert [(os.path.basename(left.path), left.reason) for left in outcome.left] == [("n.pyc", "sourceless")]
    assert project.value("n") == "1"


@pytest.mark.parametrize("path", ["relative/m.py", "/", "/does/not/exist", "/dev/null", ""])
def test_a_path_that_cannot_be_meant_is_refused(path: str) -> None:
    with pytest.raises(PathError):
        invalidate(Request([path], [], ""))


@pytest.mark.parametrize("name", chosen())
def test_every_python_of_a_node_runs_it(project: Project, name: str) -> None:
    project.write("m.py", "V = 2\n")
    code = (
        "import sys; sys.path[:0] = sys.argv[3:]\n"
        "from ansible_collections.blackwell.inference.plugins.module_utils._bytecode import Request, invalidate\n"
        "print([(r.reason, r.path) for r in invalidate(Request([sys.argv[1]], [sys.argv[2]])).removed])"
    )
    collections = [path for path in sys.path if os.path.isdir(os.path.join(path, "ansible_collections"))]
    command = [chosen()[name], "-B", "-c", code, str(project.root), sys.executable, *collections]
    done = subprocess.run(command, env=project.environment, capture_output=True, text=True, check=False)
    assert done.stdout == f"[('code_differs', '{project.root}/__pycache__/{PYC}')]\n", done.stderr
