# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""On a node every module runs in a process of its own; here many share one."""

from __future__ import annotations

import pytest
from ansible.module_utils.common import warnings


@pytest.fixture(autouse=True)
def fresh_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    """The warnings of one test are not those of the next."""
    monkeypatch.setattr(warnings, "_global_warnings", type(warnings._global_warnings)())
