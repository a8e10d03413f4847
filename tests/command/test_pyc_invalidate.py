# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""pyc_invalidate as a person types it, in a checkout: by its short name and by its full one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.blackwell.inference.tests.unit.plugins.module_utils.bytecode_case import Project

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project with a stale module."""
    project = Project(tmp_path / "app")
    project.write("m.py", "V = 1\n")
    project.value()
    project.write("m.py", "V = 2\n")
    return project


@pytest.mark.parametrize("name", ["pyc_invalidate", "blackwell.inference.pyc_invalidate"])
def test_ansible_runs_it_by_both_names(project: Project, name: str) -> None:
    ansible = Path(sys.executable).with_name("ansible")
    if not ansible.exists():
        pytest.skip("no ansible beside this interpreter")
    host = ["localhost", "-i", "localhost,", "-c", "local", "-e", f"ansible_python_interpreter={sys.executable}"]
    command = [str(ansible), *host, "-m", name, "-a", f"path={project.root}"]
    environment = {**os.environ, "ANSIBLE_CALLBACK_RESULT_FORMAT": "json"}
    done = subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("localhost | CHANGED"), done.stdout + done.stderr
    assert "1 removed (1 code_differs)" in done.stdout
