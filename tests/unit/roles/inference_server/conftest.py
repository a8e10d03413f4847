# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that the role hands to the node, loaded as modules."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

FILES = Path(__file__).parents[4] / "roles/inference_server/files"


@pytest.fixture
def load() -> Callable[[str], ModuleType]:
    """Loads a program by its name."""

    def load_program(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(name, FILES / f"{name}.py")
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load_program
