# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role refuses on the node before it writes anything, on a directory that stands for one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[4]
PLAY = """\
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.include_role: {name: blackwell.inference.inference_server, tasks_from: refuse}
"""


def refused(node: Path, *options: str, model: str = "glm4") -> str:
    """The role's refusal; empty if there is none."""
    (node / "play.yml").write_text(PLAY)
    variables = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "inference_server_environment_directory": str(node / "environment"),
        "inference_server_model": str(node / "models" / model),
    }
    (node / "nodes.json").write_text(json.dumps({"all": {"hosts": {"node": variables}}}))
    command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "nodes.json", "play.yml", *options]
    environment = {**os.environ, "ANSIBLE_CONFIG": str(TOP / "ansible.cfg")}
    ran = subprocess.run(command, cwd=node, env=environment, capture_output=True, text=True, check=False)
    return " ".join(ran.stdout.split()) if ran.returncode else ""


@pytest.fixture
def node(tmp_path: Path) -> Path:
    (tmp_path / "models" / "glm4").mkdir(parents=True)
    (tmp_path / "environment" / "bin").mkdir(parents=True)
    (tmp_path / "environment" / "bin" / "python").touch()
    return tmp_path


def test_a_model_that_is_there_is_not_refused(node: Path) -> None:
    assert refused(node, "--check") == ""


@pytest.mark.parametrize("options", [["--check"], []])
def test_a_missing_model_is_refused_with_the_fact_and_the_next_command(node: Path, options: list[str]) -> None:
    said = refused(node, *options, model="gln4")
    assert f"inference_server_model is {node}/models/gln4, and that is no directory on node" in said
    assert "rsync -a" in said


def test_a_bare_host_can_not_tell_in_check_mode(node: Path) -> None:
    (node / "environment" / "bin" / "python").unlink()
    assert refused(node, "--check", model="gln4") == ""
    assert "no directory" in refused(node, model="gln4")
