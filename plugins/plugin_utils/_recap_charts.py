# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the marks of the page's charts lie. All are 320 units wide, about the width of a phone, so that their text is
as large as the page's there; y grows downwards. A chart is a dict of numbers and of texts that are not escaped yet.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ansible_collections.blackwell.inference.plugins.plugin_utils._recap_judge import Comparison
from ansible_collections.blackwell.inference.plugins.plugin_utils._recap_model import Past, Spread
from ansible_collections.blackwell.inference.plugins.plugin_utils._recap_words import (
    NOT_KNOWN,
    count,
    day,
    figure,
    percent,
)

WIDTH = 320
MOST_POSITIONS = 12
MOST_DEPLOYMENTS = 12
_ROW = 50  # of the chart of speeds: a line of text, a bar, and air
_BAR = 14
_FLOOR, _HIGH = 124, 100  # of the charts of positions and of history: where zero lies, and how far up it goes


def speed_chart(comparison: Comparison) -> dict[str, Any]:
    """Two bars from zero, each with the spread of its repetitions."""
    pairs = (("with", "with speculation", comparison.with_), ("without", "without", comparison.without))
    top = max((spread.high for _key, _name, spread in pairs if spread), default=0.0)
    rows = [_speed_row(index * _ROW, key, name, spread, top) for index, (key, name, spread) in enumerate(pairs)]
    said = "; ".join(f"{row['name']} {row['value']} {row['range']}".strip() for row in rows)
    return {
        "view": f"0 0 {WIDTH} {2 * _ROW}",
        "title": f"Tokens per second with {count(comparison.streams, 'stream')}",
        "description": f"{said}.",
        "rows": rows,
    }


def _speed_row(y: float, key: str, name: str, spread: Spread | None, top: float) -> dict[str, Any]:
    row: dict[str, Any] = {"key": key, "name": name, "value": NOT_KNOWN, "range": "", "text_y": y + 13, "y": y + 20}
    if spread is None:
        return {**row, "bar": None}
    below = y + 20 + _BAR + 6  # where it hides neither its bar nor is hidden by it
    return {
        **row,
        "value": figure(spread.median),
        "range": f"({figure(spread.low)} to {figure(spread.high)})",
        "bar": {"width": _along(spread.median, top), "height": _BAR},
        "whisker": {
            "from": _along(spread.low, top),
            "to": _along(spread.high, top),
            "y": below,
            "top": below - 3,
            "bottom": below + 3,
        },
    }


def _along(value: float, top: float) -> float:
    """Length of a bar; the end of its spread needs a unit on the right."""
    return _round(value / top * (WIDTH - 2)) if top > 0 else 0.0


def _round(value: float) -> float:
    return round(value, 1)


def length_chart(accept_length: float | None, positions: Sequence[float] | None) -> dict[str, Any] | None:
    """Accept length on the way from 1 (nothing accepted) to what the draft's positions allow; None without either."""
    if accept_length is None or not positions:
        return None
    most = max(1 + len(positions), math.ceil(accept_length))
    left, right = 10, WIDTH - 10
    scale = (right - left) / (most - 1)
    at = _round(left + (max(accept_length, 1) - 1) * scale)
    ticks = [1, most] if most > 12 else range(1, most + 1)
    return {
        "view": f"0 0 {WIDTH} 62",
        "title": "Accept length",
        "description": f"{figure(accept_length)} tokens of one verification, of at most {most}.",
        "track": {"x": left, "y": 22, "width": right - left, "height": 12},
        "fill": {"x": left, "y": 22, "width": _round(at - left), "height": 12},
        "marker": {"x": at, "top": 18, "bottom": 38},
        # the label is about 210 units long: it stands above its mark where there is room to both sides
        "value": {
            "text": figure(accept_length),
            "x": at,
            "y": 13,
            "anchor": "start" if at < 108 else "end" if at > WIDTH - 108 else "middle",
        },
        "ticks": [{"x": _round(left + (tick - 1) * scale), "y": 54, "text": str(tick)} for tick in ticks],
    }


def position_chart(positions: Sequence[float] | None) -> dict[str, Any] | None:
    """A column for each position of the draft: how often its token was accepted."""
    if not positions:
        return None
    shown = positions[:MOST_POSITIONS]
    dense = len(shown) > 6  # too narrow for a unit
    bars = [_column(index, share, len(shown), " %" if dense else "") for index, share in enumerate(shown)]
    said = ", ".join(f"{entry['position']}: {entry['share']}" for entry in bars)
    return {
        "view": f"0 0 {WIDTH} 144",
        "title": "Share of drafts whose token was accepted, by position",
        "description": f"{said}.",
        "floor": _FLOOR,
        "top": _FLOOR - _HIGH,
        "dense": dense,
        "bars": bars,
        "more": len(positions) - len(shown),
    }


def _column(index: int, share: float, columns: int, left_out: str) -> dict[str, Any]:
    """One of so many columns. Nothing at all is shown as a line, so that it can be told from something missing."""
    middle, height = WIDTH / columns * (index + 0.5), max(share * _HIGH, 1.0)
    thick = min(44.0, WIDTH / columns * 0.62)
    return {
        "x": _round(middle - thick / 2),
        "y": _round(_FLOOR - height),
        "width": _round(thick),
        "height": _round(height),
        "middle": _round(middle),
        "position": index + 1,
        "share": percent(share),
        "label": percent(share).removesuffix(left_out),
    }


def history_chart(deployments: Sequence[Past]) -> dict[str, Any] | None:
    """Speed of one stream over the latest deployments, evenly spaced; None when fewer than two have a speed."""
    shown = deployments[-MOST_DEPLOYMENTS:]
    pairs = [(item.speed_without, item.speed_with) for item in shown]
    if sum(pair != (None, None) for pair in pairs) < 2:
        return None
    steps = _steps(max(speed for pair in pairs for speed in pair if speed is not None))
    left, right = 34, WIDTH - 12
    xs = [_round(left + 8 + index * (right - left - 8) / (len(shown) - 1)) for index in range(len(shown))]
    series = [_series(xs, [_up(speed, steps[-1]) for speed in speeds]) for speeds in zip(*pairs, strict=True)]
    ends = (("start", left, shown[0]), ("end", right, shown[-1]))
    return {
        "view": f"0 0 {WIDTH} 184",
        "title": "Tokens per second of one stream, by deployment",
        "description": "; ".join(_said(item) for item in shown) + ".",
        "left": left,
        "right": right,
        "grid": [{"y": _up(step, steps[-1]), "text": f"{step:g}"} for step in steps],
        "series": [{"key": key, **marks} for key, marks in zip(("without", "with"), series, strict=True)],
        "decisions": [{"x": x, "y": 150, "key": item.decision or "unknown"} for x, item in zip(xs, shown, strict=True)],
        "dates": [{"anchor": anchor, "x": x, "y": 178, "text": day(item.time)} for anchor, x, item in ends],
        "more": len(deployments) - len(shown),
    }


def _up(value: float | None, top: float) -> float | None:
    """Where a speed lies above the floor."""
    return None if value is None else _round(_FLOOR - value / top * _HIGH)


def _said(item: Past) -> str:
    speeds = f"{figure(item.speed_with)} with, {figure(item.speed_without)} without"
    return f"{day(item.time)}: {item.decision or NOT_KNOWN}, {speeds}"


def _series(xs: Sequence[float], ys: Sequence[float | None]) -> dict[str, Any]:
    """Marks, and the lines between those that follow each other. A value that is not known leaves a gap."""
    marks = [(x, y) if y is not None else None for x, y in zip(xs, ys, strict=True)]
    lines: list[list[str]] = [[]]
    for mark in marks:
        if mark is None:
            lines.append([])
        else:
            lines[-1].append(f"{mark[0]:g},{mark[1]:g}")
    return {
        "lines": [" ".join(line) for line in lines if len(line) > 1],
        "marks": [{"x": mark[0], "y": mark[1]} for mark in marks if mark],
    }


def _steps(top: float) -> list[float]:
    """Round numbers from 0 to at least `top`, at most five of them."""
    if top < 0.001:
        return [0.0, 1.0]
    power = 10 ** math.floor(math.log10(top / 4))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power * 4 >= top)
    return [step * index for index in range(math.ceil(top / step) + 1)]
