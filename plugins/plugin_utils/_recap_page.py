# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The recap as the page shows it: every text and number that the template needs, none of it escaped yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ansible_collections.blackwell.inference.plugins.plugin_utils import _recap_charts as charts
from ansible_collections.blackwell.inference.plugins.plugin_utils import _recap_figures as figures
from ansible_collections.blackwell.inference.plugins.plugin_utils import _recap_say as say
from ansible_collections.blackwell.inference.plugins.plugin_utils._recap_judge import compare_speeds
from ansible_collections.blackwell.inference.plugins.plugin_utils._recap_model import Finding, Node, Past
from ansible_collections.blackwell.inference.plugins.plugin_utils._recap_words import (
    NOT_KNOWN,
    count,
    figure,
    is_moment,
    moment,
)

MOST_ROWS = 50  # of bytecode and of earlier deployments; the JSON has them all


def render_page(nodes: Sequence[Node]) -> dict[str, Any]:
    """What the template shows. Its time is that of the latest deployment, so that the same nodes give the same page."""
    times = [node.deployment.time or "" for node in nodes if node.deployment and is_moment(node.deployment.time)]
    return {
        "title": "Recap of the deployment",
        "summary": say.summary(nodes),
        "time": moment(max(times)) if times else "",
        "nodes": [_node(index, node) for index, node in enumerate(nodes, 1)],
    }


def _node(index: int, node: Node) -> dict[str, Any]:
    decision = say.decision_of(node)
    return {
        "anchor": f"node-{index}",
        "host": node.host,
        "known": say.known(node),
        "decision": {
            "key": decision or "unknown",
            "label": say.LABELS[decision],
            "meaning": say.MEANINGS[decision],
            "reasons": (node.deployment.reasons if node.deployment else None) or [],
        },
        "overview": {"speed": _overview_speed(node), "length": figures.length(node), "texts": say.texts(node)},
        "tiles": figures.tiles(node),
        "served": [{"name": name, "value": value} for name, value in say.served(node)],
        "measured": figures.measured(node),
        "patches": _patches(node),
        "nccl": _nccl(node),
        "findings": {"said": say.found(node), "rows": [_finding(item) for item in node.findings or []]},
        "history": _history(node),
        "unread": node.unread,
    }


def _overview_speed(node: Node) -> dict[str, str]:
    """The speed-up of the fewest streams, which is what one user feels."""
    compared = compare_speeds(node)
    if not compared or compared[0].verdict is None:
        return {"value": NOT_KNOWN, "note": "", "tone": "even"}
    streams = count(compared[0].streams, "stream")
    note = streams if compared[0].verdict == "same" else f"{say.VERDICTS[compared[0].verdict]}, {streams}"
    return {"value": figures.ratio(compared[0]), "note": note, "tone": figures.TONES[compared[0].verdict]}


def _patches(node: Node) -> dict[str, Any]:
    removed = node.purged or []
    rows = [
        {
            "id": patch.id,
            "status": (patch.status or NOT_KNOWN).replace("_", " "),
            "key": {"applied": "good", "upstream": "good"}.get(patch.status or "", "even"),
            "reason": patch.reason or "",
            "files": patch.files,
            "limits": patch.limits,
            "invalidates": ", ".join(patch.invalidates),
        }
        for patch in node.patches or []
    ]
    return {
        "said": say.patched(node),
        "rows": rows,
        "purged_said": say.purged(node),
        "purged": [
            {"path": item.path, "reason": (item.reason or "").replace("_", " ")} for item in removed[:MOST_ROWS]
        ],
        "purged_more": max(0, len(removed) - MOST_ROWS),
    }


def _nccl(node: Node) -> dict[str, Any]:
    nccl = node.nccl
    return {
        "said": say.nccl(node),
        "rows": [
            {
                "name": item.name,
                "value": item.value or NOT_KNOWN,
                "reason": item.reason or NOT_KNOWN,
                "evidence": item.evidence or "",
            }
            for item in (nccl.variables if nccl else None) or []
        ],
        "warnings": nccl.warnings if nccl else [],
        "notes": nccl.notes if nccl else [],
    }


def _finding(item: Finding) -> dict[str, str]:
    return {
        "key": "accepted" if item.accepted else item.severity or "error",
        "severity": "accepted" if item.accepted else item.severity or NOT_KNOWN,
        "id": item.id,
        "found": item.found or NOT_KNOWN,
        "rule": item.rule or "",
        "remedy": item.remedy or "",
        "evidence": item.evidence or "",
    }


def _history(node: Node) -> dict[str, Any]:
    earlier = node.history or []
    present = _present(node)
    rows = [_past(item, False) for item in reversed(earlier[-MOST_ROWS:])]
    return {
        "said": say.before(node) if not earlier else count(len(earlier), "earlier deployment"),
        "rows": [_past(present, True), *rows] if present and rows else rows,
        "more": max(0, len(earlier) - MOST_ROWS),
        "chart": charts.history_chart([*earlier, *([present] if present else [])]) if earlier else None,
    }


def _present(node: Node) -> Past | None:
    """This deployment as one of the history, to compare with."""
    if node.deployment is None:
        return None
    compared = next((item for item in compare_speeds(node) if item.streams == 1), None)
    with_, without = (compared.with_, compared.without) if compared else (None, None)
    return Past(
        time=node.deployment.time,
        decision=node.deployment.decision,
        accept_length=node.with_.accept_length if node.with_ else None,
        speed_with=with_.median if with_ else None,
        speed_without=without.median if without else None,
    )


def _past(item: Past, present: bool) -> dict[str, Any]:
    return {
        "time": moment(item.time),
        "present": present,
        "key": item.decision or "unknown",
        "decision": item.decision or NOT_KNOWN,
        "length": figure(item.accept_length),
        "with": figure(item.speed_with),
        "without": figure(item.speed_without),
    }
