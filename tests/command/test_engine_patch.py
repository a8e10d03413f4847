# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""engine_patch as Ansible runs it: from an archive, with its options, results, warnings and errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.inference.tests.unit.plugins.module_utils.patch_case import (
    PATCHED_MODEL,
    Environment,
    entry,
)

COLLECTIONS = next(path for path in Path(__file__).resolve().parents if (path / "galaxy.yml").exists()) / ".collections"


@pytest.fixture
def node(tmp_path: Path) -> Environment:
    environment = Environment(tmp_path)
    environment.install()
    return environment


def ansible(node: Environment, *options: str, **changes: Any) -> tuple[dict[str, Any], str]:
    """The module's result, and all that was said."""
    arguments = {"python": str(node.python), "state_directory": str(node.state), "patches": [entry()], **changes}
    command = [str(Path(sys.executable).with_name("ansible")), "localhost", "-m", "blackwell.inference.engine_patch"]
    settings = {
        "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
        "ANSIBLE_LOAD_CALLBACK_PLUGINS": "true",
        "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.minimal",
        "ANSIBLE_LOCALHOST_WARNING": "false",
        "ANSIBLE_INVENTORY_UNPARSED_WARNING": "false",
    }
    done = subprocess.run(
        [*command, "-a", json.dumps(arguments), *options],
        env={**os.environ, **settings},
        cwd=node.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout + done.stderr
    start = done.stdout.find("=> {")
    assert start >= 0, said
    result: dict[str, Any] = json.JSONDecoder().raw_decode(done.stdout[start + 3 :])[0]
    return result, said


def test_a_change_with_diff_and_a_limit(node: Environment) -> None:
    patch = entry(limits=[{"text": "it does not reach the moon"}])
    result, said = ansible(node, "--diff", patches=[patch])
    assert result["changed"]
    assert [item["status"] for item in result["patches"]] == ["applied"]
    assert result["files"] == [str(node.path("config.py")), str(node.path())]
    assert "delegates: it does not reach the moon" in said
    assert "+class Model(SupportsLoRA, SupportsEagle3):" in said
    assert node.path().read_text() == PATCHED_MODEL


def test_check_mode_changes_nothing(node: Environment) -> None:
    before = node.tree()
    result, dummy = ansible(node, "--check")
    assert result["changed"]
    assert "diff" not in result
    assert node.tree() == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"patches": [entry(verified="==1.0")]}, "unsupported: engine 1.2.0"),
        ({"patches": [entry(edits=[])]}, "patch delegates: missing or empty: edits"),
        ({"python": "bin/python"}, "python is an absolute path"),
        ({"python": "/nonexistent/python"}, "/nonexistent/python can't be started"),
    ],
)
def test_failures_are_messages(node: Environment, changes: dict[str, Any], message: str) -> None:
    before = node.tree()
    result, said = ansible(node, **changes)
    assert message in result["msg"]
    assert "Traceback" not in said
    assert node.tree() == before
