# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The recap in a terminal: a table of all nodes, then what there is to say about each, within 100 columns."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.blackwell.inference.plugins.plugin_utils import _recap_say as say
from ansible_collections.blackwell.inference.plugins.plugin_utils._recap_judge import caveats, compare_speeds
from ansible_collections.blackwell.inference.plugins.plugin_utils._recap_model import Measurement, Node
from ansible_collections.blackwell.inference.plugins.plugin_utils._recap_words import (
    NOT_KNOWN,
    clip,
    figure,
    pad,
    pieces,
    width,
)

COLUMNS = 100
# Heading, columns, whether at the right end. The first column takes what its texts need and no more than this.
_TABLE = (
    ("node", 20, False),
    ("decision", 9, False),
    ("streams", 7, True),
    ("with", 9, True),
    ("without", 9, True),
    ("change", 13, False),
    ("accept", 9, True),
    ("texts", 10, False),
)
_LEGEND = (
    "with, without: tokens per second with and without speculation, all streams together. accept: tokens of one "
    "verification, the target's own included; 1.00 means that no drafted token was accepted."
)
_LABEL = 12
_MOST_COLUMNS = 500  # of one text, and of a list of texts: the page and the JSON have it all
_MOST_TEXTS = 12


def render_text(nodes: Sequence[Node]) -> str:
    """The whole text, without a line break at its end."""
    lines = [f"Recap of {say.summary(nodes)}"]
    if nodes:
        lines += ["", *_table(nodes), "", *wrap(_LEGEND, COLUMNS)]
    for node in nodes:
        lines += ["", clip(node.host, COLUMNS), *_details(node)]
    return "\n".join(lines)


def _table(nodes: Sequence[Node]) -> list[str]:
    first = min(_TABLE[0][1], max(4, *(width(node.host) for node in nodes)))
    rows = [[name for name, _columns, _right in _TABLE], *(row for node in nodes for row in _rows(node))]
    return [_line(row, first) for row in rows]


def _line(cells: Sequence[str], first: int) -> str:
    widths = [first, *(columns for _name, columns, _right in _TABLE[1:])]
    padded = (pad(cell, columns, spec[2]) for cell, columns, spec in zip(cells, widths, _TABLE, strict=True))
    return "  ".join(padded).rstrip()


def _rows(node: Node) -> list[list[str]]:
    """One row for each number of streams; the node's own columns stand in the first."""
    own = [node.host, say.decision_of(node) or NOT_KNOWN]
    rest = [figure(node.with_.accept_length if node.with_ else None), say.texts(node).replace(" of ", "/")]
    compared = compare_speeds(node)
    if not compared:
        return [[*own, "", NOT_KNOWN, NOT_KNOWN, NOT_KNOWN, *rest]]
    rows = []
    for item in compared:
        speeds = [figure(spread.median if spread else None) for spread in (item.with_, item.without)]
        rows.append([*own, str(item.streams), *speeds, say.change(item), *rest])
        own, rest = ["", ""], ["", ""]
    return rows


def _details(node: Node) -> list[str]:
    if not say.known(node):
        return _labelled("", ["nothing is known about this node: it failed before it could tell, or was not reached"])
    decision = say.decision_of(node)
    reasons = (node.deployment.reasons if node.deployment else None) or []
    served = [
        value if name in ("deployed", "engine") else f"{name} {value}"
        for name, value in say.served(node)
        if value != NOT_KNOWN and name != "digest"
    ]
    parts = [
        ("decision", [f"{decision or NOT_KNOWN}: {say.MEANINGS[decision]}", *reasons]),
        ("deployed", [", ".join(served) or NOT_KNOWN]),
        ("acceptance", [_acceptance(node.with_)]),
        ("measurement", caveats(node)),
        ("patches", [say.patched(node), *_limits(node)]),
        ("bytecode", [say.purged(node)]),
        ("NCCL", [say.nccl(node), *(node.nccl.warnings if node.nccl else [])]),
        ("preflight", [say.found(node), *_grave(node)]),
        ("before", [say.before(node)]),
        ("unread", node.unread),
    ]
    return [line for label, texts in parts for line in _labelled(label, texts)]


def _acceptance(measured: Measurement | None) -> str:
    """Accept length, rate and positions of the run with speculation."""
    if measured is None or measured.accept_length is None:
        return NOT_KNOWN
    positions = ", ".join(f"{share:.2f}" for share in measured.positions or [])
    by_position = f"; by position {positions}" if positions else ""
    return f"{figure(measured.accept_length)} tokens of one verification{by_position}"


def _limits(node: Node) -> list[str]:
    return [f"{patch.id}: {limit}" for patch in node.patches or [] for limit in patch.limits]


def _grave(node: Node) -> list[str]:
    """Findings that are more than information."""
    shown = [item for item in node.findings or [] if not item.accepted and item.severity != "info"]
    return [f"{item.severity or 'severity ' + NOT_KNOWN}: {item.id}: {item.found or NOT_KNOWN}" for item in shown]


def _labelled(label: str, texts: Sequence[str]) -> list[str]:
    """The texts below each other, the label before the first, wrapped."""
    lines = []
    more = len(texts) - _MOST_TEXTS
    for text in [*texts[:_MOST_TEXTS], *([f"and {more} more"] if more > 0 else [])]:
        for index, line in enumerate(wrap(clip(text, _MOST_COLUMNS), COLUMNS - 4 - _LABEL)):
            lines.append(f"  {pad(label, _LABEL)}{'' if index == 0 else '  '}{line}".rstrip())
            label = ""
    return lines


def wrap(text: str, columns: int) -> list[str]:
    """Lines of at most so many columns; a word that is longer is cut into pieces."""
    lines, line = [], ""
    for word in (piece for part in text.split(" ") for piece in pieces(part, columns)):
        if line and width(line) + 1 + width(word) > columns:
            lines.append(line)
            line = ""
        line = f"{line} {word}" if line else word
    return [*lines, line]
