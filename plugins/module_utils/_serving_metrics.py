# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many drafted tokens an engine accepted, from its metrics.

vLLM counts (names unchanged from 0.11 to 0.33): drafts, drafted and accepted tokens, accepted tokens by position.
SGLang has gauges of its latest batches only, but says for each request of its own /generate how many verifications
it took (0.5.5 to 0.5.23), which is exact. Accept length is tokens per verification including the target's own: 1.0
means that no drafted token was accepted. SGLang's accept *rate* changed its meaning at 0.5.11 and is not used.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Tuple

SAMPLE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?\s*$")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
VLLM_PREFIX = "vllm:spec_decode_num_"
GENERATED = {"vllm": "vllm:generation_tokens_total", "sglang": "sglang:generation_tokens_total"}
SGLANG_LENGTH = "sglang:spec_accept_length"
# Drafted tokens of one request, and in how many steps so many of them were accepted; the second name of each is older.
SGLANG_PROPOSED = ("spec_num_proposed_drafts", "spec_draft_token_num")
SGLANG_HISTOGRAM = ("spec_correct_drafts_histogram", "spec_accept_histogram")

if TYPE_CHECKING:
    Samples = Dict[str, List[Tuple[Dict[str, str], float]]]


class Acceptance(NamedTuple):
    """What was drafted and accepted. None where the engine does not tell; `reason` says why."""

    speculation: str  # on, off, unknown
    source: str = ""
    reason: str = ""
    drafts: int | None = None
    draft_tokens: int | None = None
    accepted_tokens: int | None = None
    accepted_per_position: list[int] | None = None
    accept_length: float | None = None


def parse_metrics(text: str) -> Samples:
    """Samples by metric name, of Prometheus' text format.

    Lines that are no samples, and samples without a number, are left out.
    """
    samples: Samples = {}
    for line in text.splitlines():
        match = SAMPLE.match(line)
        if match is None:
            continue
        try:
            value = float(match.group(3))
        except ValueError:
            continue
        if math.isfinite(value):  # an unset gauge may be NaN
            samples.setdefault(match.group(1), []).append((dict(LABEL.findall(match.group(2) or "")), value))
    return samples


def total(samples: Samples, name: str) -> float | None:
    """Sum of a metric over all its labels (ranks, engines), or None when there is no such metric."""
    found = samples.get(name)
    return sum(value for _labels, value in found) if found else None


def generated(text: str, engine: str) -> float | None:
    """Tokens that the engine generated for anyone since it started."""
    return total(parse_metrics(text), GENERATED[engine])


def vllm_acceptance(before: str, after: str) -> Acceptance:
    """Acceptance between two readings of vLLM's metrics."""
    old, new = parse_metrics(before), parse_metrics(after)
    counts = [_difference(old, new, VLLM_PREFIX + name) for name in ("drafts", "draft_tokens", "accepted_tokens")]
    if not new:
        return Acceptance("unknown", reason="the engine answered /metrics without a single sample")
    drafts, tokens, accepted = counts
    if drafts is None or tokens is None or accepted is None:
        return Acceptance("off", reason="the engine has no counters of speculation, so it does not speculate")
    if min(drafts, tokens, accepted) < 0:
        return Acceptance("unknown", reason="the counters went backwards: the engine was restarted during the run")
    positions = _positions(old, new)
    length = round(1 + accepted / drafts, 4) if drafts else None
    reason = "" if drafts else "nothing was drafted during the run"
    return Acceptance("on", "/metrics", reason, drafts, tokens, accepted, positions, length)


def _difference(old: Samples, new: Samples, name: str) -> int | None:
    # Client libraries differ in whether a counter's name ends in _total.
    for full in (name + "_total", name):
        after = total(new, full)
        if after is not None:
            return int(after - (total(old, full) or 0.0))
    return None


def _positions(old: Samples, new: Samples) -> list[int]:
    name = VLLM_PREFIX + "accepted_tokens_per_pos_total"
    counts: dict[int, float] = {}
    for samples, sign in ((old, -1), (new, 1)):
        for labels, value in samples.get(name, []):
            if labels.get("position", "").isdigit():
                position = int(labels["position"])
                counts[position] = counts.get(position, 0.0) + sign * value
    return [int(counts[position]) for position in sorted(counts)]


def sglang_acceptance(meta_infos: list[dict[str, Any]]) -> Acceptance:
    """Acceptance over requests of SGLang's /generate, each given by its `meta_info`."""
    counted = [meta for meta in meta_infos if _count(meta, ("spec_verify_ct",))]
    if not counted:
        return Acceptance("off" if meta_infos else "unknown", reason="no request reported a verification of drafts")
    drafts = sum(_count(meta, ("spec_verify_ct",)) for meta in counted)
    accepted = sum(_sglang_accepted(meta) for meta in counted)
    return Acceptance(
        "on",
        "/generate",
        drafts=drafts,
        draft_tokens=sum(_count(meta, SGLANG_PROPOSED) for meta in counted) or None,
        accepted_tokens=accepted,
        accepted_per_position=_positions_of(_histogram(counted)),
        accept_length=round(1 + accepted / drafts, 4),
    )


def _sglang_accepted(meta: dict[str, Any]) -> int:
    histogram = _histogram([meta])
    if histogram:
        return sum(accepted * steps for accepted, steps in enumerate(histogram))
    # The prompt's own pass gives one token, and each verification one that was not drafted.
    return max(0, _count(meta, ("completion_tokens",)) - 1 - _count(meta, ("spec_verify_ct",)))


def sglang_gauge(text: str) -> Acceptance:
    """Acceptance of SGLang's latest batches, by its gauge: the last resort, when /generate does not answer."""
    found = parse_metrics(text).get(SGLANG_LENGTH)
    lengths = [value for _labels, value in found or [] if value > 0]
    if not lengths:
        return Acceptance("unknown", reason=f"{SGLANG_LENGTH} is not there or 0; is --enable-metrics set?")
    reason = "a gauge of the latest batches, not a count over the run"
    return Acceptance("on", "/metrics", reason, accept_length=round(sum(lengths) / len(lengths), 4))


def _count(meta: dict[str, Any], names: tuple[str, ...]) -> int:
    for name in names:
        value = meta.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < float("inf"):
            return int(value)
    return 0


def _histogram(meta_infos: list[dict[str, Any]]) -> list[int]:
    """In how many steps of all these requests 0, 1, 2, ... drafted tokens were accepted."""
    steps: list[int] = []
    for meta in meta_infos:
        histogram: list[Any] = next((meta[name] for name in SGLANG_HISTOGRAM if isinstance(meta.get(name), list)), [])
        for accepted, count in enumerate(histogram):
            steps.extend([0] * (accepted + 1 - len(steps)))
            steps[accepted] += count if isinstance(count, int) else 0
    return steps


def _positions_of(steps: list[int]) -> list[int] | None:
    """Accepted tokens by position: position p was accepted in every step that accepted more than p tokens."""
    return [sum(steps[position + 1 :]) for position in range(len(steps) - 1)] if steps else None


def rates(acceptance: Acceptance) -> tuple[float | None, list[float] | None]:
    """Share of the drafted tokens that were accepted, overall and by position (shares of the drafts)."""
    drafts, tokens, accepted = acceptance.drafts, acceptance.draft_tokens, acceptance.accepted_tokens
    overall = round(accepted / tokens, 4) if tokens and accepted is not None else None
    positions = acceptance.accepted_per_position
    by_position = [round(count / drafts, 4) for count in positions] if drafts and positions is not None else None
    return overall, by_position
