# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sentences of a recap, shared by its forms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ansible_collections.blackwell.inference.plugins.plugin_utils._recap_judge import Comparison, compare_texts
from ansible_collections.blackwell.inference.plugins.plugin_utils._recap_model import DECISIONS, Node, Past
from ansible_collections.blackwell.inference.plugins.plugin_utils._recap_words import NOT_KNOWN, count, figure, moment

LABELS = {
    "keep": "Speculation kept",
    "fallback": "Fell back",
    "fail": "Failed",
    None: "Not known",
}
MEANINGS = {
    "keep": "serves with speculation",
    "fallback": "serves without speculation",
    "fail": "this deployment was not accepted",
    None: "no decision was reported",
}
_COUNTED = {
    "keep": ("keeps speculation", "keep speculation"),
    "fallback": ("fell back", "fell back"),
    "fail": ("failed", "failed"),
    None: ("has no known decision", "have no known decision"),
}
VERDICTS = {"higher": "faster", "lower": "slower", "same": "no difference"}


def decision_of(node: Node) -> str | None:
    """What was decided about the node."""
    return node.deployment.decision if node.deployment else None


def summary(nodes: Iterable[Node]) -> str:
    """How many nodes there are and what was decided about them."""
    decisions = Counter(decision_of(node) for node in nodes)
    parts = [count(decisions[key], *_COUNTED[key]) for key in (*DECISIONS, None) if decisions[key]]
    return ": ".join([count(decisions.total(), "node"), *([", ".join(parts)] if parts else [])])


def known(node: Node) -> bool:
    """Whether anything at all is known about the node besides its name."""
    parts = (node.deployment, node.with_, node.without, node.patches, node.purged, node.nccl, node.findings)
    return any(part is not None for part in (*parts, node.history)) or bool(node.unread)


def change(comparison: Comparison) -> str:
    """How a speed changed, as in `1.35x faster`."""
    if comparison.ratio is None or comparison.verdict is None:
        return NOT_KNOWN
    ratio = f"{figure(comparison.ratio)}x"
    return VERDICTS["same"] if comparison.verdict == "same" else f"{ratio} {VERDICTS[comparison.verdict]}"


def texts(node: Node) -> str:
    """Whether the texts are equal, in few characters."""
    compared = compare_texts(node)
    if compared is None:
        return NOT_KNOWN
    if not compared.different:
        return "equal"
    return f"{len(compared.different)} of {len(compared.different) + compared.equal} differ"


def served(node: Node) -> list[tuple[str, str]]:
    """What was deployed, as names and values."""
    deployed = node.deployment
    if deployed is None:
        return []
    engine = " ".join(part for part in (deployed.engine, deployed.release) if part)
    return [
        ("deployed", moment(deployed.time)),
        ("engine", engine or NOT_KNOWN),
        ("model", deployed.model or NOT_KNOWN),
        ("draft", deployed.draft or NOT_KNOWN),
        ("speculation", settings(deployed.speculative, "not asked for")),
        ("instance", deployed.instance or NOT_KNOWN),
        ("deployment", deployed.id or NOT_KNOWN),
        ("digest", deployed.digest or NOT_KNOWN),
    ]


def settings(given: dict[str, str] | None, none: str) -> str:
    """Settings on one line."""
    if given is None:
        return NOT_KNOWN
    return ", ".join(f"{key} {value}" for key, value in given.items()) or none


def patched(node: Node) -> str:
    """How many patches are in which status."""
    if node.patches is None:
        return NOT_KNOWN
    statuses = Counter(patch.status or "of unknown status" for patch in node.patches)
    return ", ".join(f"{number} {status.replace('_', ' ')}" for status, number in statuses.items()) or "none asked for"


def purged(node: Node) -> str:
    """How much bytecode was removed and why."""
    if node.purged is None:
        return NOT_KNOWN
    reasons = Counter(item.reason or "without a reason" for item in node.purged)
    said = ", ".join(f"{number} {reason}" for reason, number in reasons.items())
    return f"{count(len(node.purged), 'file')} removed ({said})" if said else "none was stale"


def nccl(node: Node) -> str:
    """How many variables of NCCL are set."""
    if node.nccl is None or node.nccl.variables is None:
        return NOT_KNOWN
    number = len(node.nccl.variables)
    warnings = f", {count(len(node.nccl.warnings), 'warning')}" if node.nccl.warnings else ""
    return (f"{count(number, 'variable')} set" if number else "none set, NCCL's own choices hold") + warnings


def found(node: Node) -> str:
    """How many findings of which severity the preflight has."""
    if node.findings is None:
        return NOT_KNOWN
    kinds = Counter("accepted" if item.accepted else item.severity or "of unknown severity" for item in node.findings)
    return ", ".join(_kind(number, kind) for kind, number in kinds.items()) or "nothing found"


def _kind(number: int, kind: str) -> str:
    return count(number, kind) if kind in ("error", "warning") else f"{number} {kind}"


def before(node: Node) -> str:
    """How many earlier deployments are on record, and the latest."""
    if node.history is None:
        return NOT_KNOWN
    if not node.history:
        return "no earlier deployment is on record"
    return f"{count(len(node.history), 'earlier deployment')}, the latest {past(node.history[-1])}"


def past(item: Past) -> str:
    """An earlier deployment on one line; what is not known about it is left out."""
    parts = [
        item.decision,
        None if item.accept_length is None else f"accept length {figure(item.accept_length)}",
        None if item.speed_with is None else f"{figure(item.speed_with)} tokens/s with",
        None if item.speed_without is None else f"{figure(item.speed_without)} without",
    ]
    time = moment(item.time) if item.time else "at an unknown time"
    return f"{time}: {', '.join(part for part in parts if part) or 'nothing more is known'}"
