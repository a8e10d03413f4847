# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was measured on a node, as the page shows it: the numbers of the decision, charts and tables."""

from __future__ import annotations

from typing import Any

from ansible_collections.blackwell.inference.plugins.plugin_utils import _recap_charts as charts
from ansible_collections.blackwell.inference.plugins.plugin_utils import _recap_say as say
from ansible_collections.blackwell.inference.plugins.plugin_utils._recap_judge import (
    Comparison,
    caveats,
    compare_delays,
    compare_prompts,
    compare_speeds,
)
from ansible_collections.blackwell.inference.plugins.plugin_utils._recap_model import Node, Spread
from ansible_collections.blackwell.inference.plugins.plugin_utils._recap_words import (
    NOT_KNOWN,
    count,
    figure,
    milliseconds,
    moment,
    percent,
)

TIMES = "\u00d7"
TONES = {"higher": "good", "lower": "bad", "same": "even", None: "even"}


def length(node: Node) -> str:
    """Accept length of the run with speculation."""
    return figure(node.with_.accept_length if node.with_ else None)


def ratio(comparison: Comparison) -> str:
    """The quantity with speculation as a multiple of that without. Within the spread it is none worth a number."""
    if comparison.verdict == "same":
        return say.VERDICTS["same"]
    return NOT_KNOWN if comparison.ratio is None else f"{figure(comparison.ratio)}{TIMES}"


def tiles(node: Node) -> list[dict[str, str]]:
    """The numbers that the decision rests on."""
    tiles = [_speed_tile(item) for item in compare_speeds(node)]
    positions = (node.with_.positions if node.with_ else None) or []
    most = f"of at most {len(positions) + 1} tokens" if positions else "tokens of one verification"
    nothing = bool(node.with_ and node.with_.accept_length is not None and node.with_.accept_length < 1.005)
    said = say.texts(node)
    equal = {NOT_KNOWN: "even", "equal": "good"}.get(said, "bad")
    return [
        *tiles,
        {
            "name": "Accept length",
            "value": length(node),
            "note": "no drafted token was accepted" if nothing else most,
            "tone": "bad" if nothing else "even",
        },
        {"name": "Texts", "value": said, "note": "with and without speculation", "tone": equal},
    ]


def _speed_tile(item: Comparison) -> dict[str, str]:
    low, high = (figure(spread.median if spread else None) for spread in (item.without, item.with_))
    verdicts = {"same": "within the spread", None: f"speed {NOT_KNOWN}"}
    verdict = verdicts.get(item.verdict) or say.VERDICTS[item.verdict or "same"]
    return {
        "name": f"Speed, {count(item.streams, 'stream')}",
        "value": ratio(item),
        "note": f"{verdict}: {high} against {low} tokens/s",
        "tone": TONES[item.verdict],
    }


def measured(node: Node) -> dict[str, Any]:
    """The measurements with their charts."""
    with_ = node.with_
    first_token, inter_token = compare_delays(node)
    positions = with_.positions if with_ else None
    return {
        "known": with_ is not None or node.without is not None,
        "speeds": [_speed(item) for item in compare_speeds(node)],
        "length": charts.length_chart(with_.accept_length if with_ else None, positions),
        "positions": charts.position_chart(positions),
        "length_said": length(node),
        "rate": percent(with_.acceptance_rate if with_ else None),
        "delays": [_delay("First token", item) for item in first_token]
        + [_delay("Each further token", item) for item in inter_token],
        "prompts": [{"name": name, **_pair(item, figure)} for name, item in compare_prompts(node)],
        "times": [
            {"name": name, "value": moment(measurement.time) if measurement else NOT_KNOWN}
            for name, measurement in (("with speculation", with_), ("without", node.without))
        ],
        "method": say.settings(
            (with_.method if with_ else None) or (node.without.method if node.without else None), ""
        ),
        "caveats": caveats(node),
    }


def _speed(item: Comparison) -> dict[str, Any]:
    verdict = say.VERDICTS[item.verdict] if item.verdict else NOT_KNOWN
    return {
        "streams": count(item.streams, "stream"),
        "verdict": verdict if item.verdict in (None, "same") else f"{ratio(item)} {verdict}",
        "tone": TONES[item.verdict],
        "chart": charts.speed_chart(item),
    }


def _delay(name: str, item: Comparison) -> dict[str, str]:
    return {"name": f"{name}, {count(item.streams, 'stream')}", **_pair(item, milliseconds)}


def _pair(item: Comparison, shown: Any) -> dict[str, str]:
    """Both medians with their spread, and how they compare."""
    verdict = {"higher": "more", "lower": "less", "same": "no difference", None: NOT_KNOWN}[item.verdict]
    return {
        "with": shown(item.with_.median if item.with_ else None),
        "with_range": _range(item.with_, shown),
        "without": shown(item.without.median if item.without else None),
        "without_range": _range(item.without, shown),
        "ratio": verdict if item.verdict in (None, "same") else ratio(item),
    }


def _range(spread: Spread | None, shown: Any) -> str:
    return f"{shown(spread.low)} to {shown(spread.high)}" if spread else ""
