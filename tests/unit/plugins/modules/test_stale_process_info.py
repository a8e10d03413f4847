# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module: results, failures, warnings. What it finds is tested with the rooms below it."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.blackwell.inference.plugins.modules import stale_process_info
from ansible_collections.blackwell.inference.tests.unit.plugins.modules.module_case import Capture, keys_of, run_module


def test_stale_processes_are_returned_with_every_documented_key(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("")
    answer = run_module(stale_process_info, capsys, path=[str(tmp_path)])
    assert keys_of(stale_process_info) <= set(answer)
    assert answer["changed"] is False and answer["stale"] == [] and answer["files"] == 1


def test_an_environment_that_does_not_exist_fails(capsys: Capture) -> None:
    assert "does not exist" in run_module(stale_process_info, capsys, path=["/does/not/exist"])["msg"]


def test_what_could_not_be_read_is_warned_of(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"hidden": 3, "unreadable": ["/x: Permission denied"], "stale": []}
    warnings: list[str] = []
    monkeypatch.setattr(stale_process_info, "find_stale", lambda _roots: found)
    monkeypatch.setattr(AnsibleModule, "warn", lambda _module, text: warnings.append(text))
    run_module(stale_process_info, capsys, path=["/"])
    assert "3 processes" in warnings[0] and "Permission denied" in warnings[1]
