# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The facts about a node as they come together, and the reasons for those that stay None."""

from __future__ import annotations

from typing import Any

from ansible_collections.blackwell.inference.plugins.module_utils._gpu_files import Tree, UnreadableError


class Findings:
    """Facts and reasons. A fact that is None has a reason under its path, or under that of what it is part of."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.facts: dict[str, Any] = {}
        self.reasons: dict[str, str] = {}

    def unknown(self, path: str, reason: object) -> None:
        """Record why the fact at this path (C(links), C(gpus.3.mig)) is None. The first reason stays."""
        self.reasons.setdefault(path, str(reason))

    def text(self, path: str, file: str, limit: int = -1) -> str:
        """The content of a file, at most so many bytes; empty, and the fact unknown, if it cannot be read."""
        try:
            return self.tree.text(file, limit)
        except UnreadableError as error:
            self.unknown(path, error)
            return ""

    def names(self, path: str, directory: str) -> list[str]:
        """The names in a directory; none, and the fact unknown, if it cannot be read."""
        try:
            return self.tree.names(directory)
        except UnreadableError as error:
            self.unknown(path, error)
            return []
