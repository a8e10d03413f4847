# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node, for every test here."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.blackwell.inference.tests.deployment.node import Node


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)
