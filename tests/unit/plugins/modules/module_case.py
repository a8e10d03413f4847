# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a module in the process of the tests, as Ansible would on a node."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

import pytest
import yaml
from ansible.module_utils.testing import patch_module_args

Capture = pytest.CaptureFixture[str]
NOBODY = "http://127.0.0.1:9"  # where no server listens


def run_module(module: ModuleType, capture: Capture, **options: Any) -> dict[str, Any]:
    """Run a module and return its answer, which says `failed` exactly when its exit status does."""
    with patch_module_args(options), pytest.raises(SystemExit) as end:
        module.main()
    answer: dict[str, Any] = json.loads(capture.readouterr().out)
    assert bool(end.value.code) is bool(answer.get("failed"))
    return answer


def options_of(module: ModuleType) -> dict[str, Any]:
    """The documented options of a module."""
    options: dict[str, Any] = yaml.safe_load(module.DOCUMENTATION)["options"]
    return options


def keys_of(module: ModuleType) -> set[str]:
    """The documented keys of a module's answer."""
    return set(yaml.safe_load(module.RETURN))


def assert_documented(module: ModuleType, spec: dict[str, Any]) -> None:
    """The documented options are those of the module."""
    options = options_of(module)
    assert set(options) == set(spec)
    for name, option in options.items():
        for key in ("type", "default", "choices"):
            assert option.get(key) == spec[name].get(key), name
        assert option.get("required", False) == spec[name].get("required", False), name
