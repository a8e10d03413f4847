# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The recap for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ansible_collections.blackwell.inference.plugins.plugin_utils._recap_judge import (
    Comparison,
    caveats,
    compare_speeds,
    compare_texts,
)
from ansible_collections.blackwell.inference.plugins.plugin_utils._recap_model import DECISIONS, Node
from ansible_collections.blackwell.inference.plugins.plugin_utils._recap_say import decision_of

FORMAT = 1  # grows when a key changes its meaning or goes


def render_json(nodes: Sequence[Node]) -> dict[str, Any]:
    """A dict of nothing but what JSON has. What is not known is null; texts are cleaned."""
    decisions = Counter(decision_of(node) or "not_known" for node in nodes)
    return {
        "format": FORMAT,
        "decisions": {key: decisions[key] for key in (*DECISIONS, "not_known")},
        "nodes": [_node(node) for node in nodes],
    }


def _node(node: Node) -> dict[str, Any]:
    fields = asdict(node)
    compared = compare_texts(node)
    return {
        "host": fields.pop("host"),
        "deployment": fields.pop("deployment"),
        "comparison": {
            "speeds": [_speed(item) for item in compare_speeds(node)],
            "texts": asdict(compared) if compared else None,
            "caveats": caveats(node),
        },
        "with": fields.pop("with_"),
        **fields,
    }


def _speed(item: Comparison) -> dict[str, Any]:
    return {
        "streams": item.streams,
        "with": item.with_.median if item.with_ else None,
        "without": item.without.median if item.without else None,
        "ratio": None if item.ratio is None else round(item.ratio, 4),
        "verdict": {"higher": "faster", "lower": "slower", "same": "no difference", None: None}[item.verdict],
    }
