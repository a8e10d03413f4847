# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether speculation holds what is asked of it, from two measurements: one with it, one without.

A measurement is what spec_decode_probe returns. Speeds are tokens/s of all streams together, with the range over the
repetitions. A difference within the ranges is no difference: speed-ups of a few percent come and go between two runs of
the same server (seen on the lab's engine, 2026-11: 1.08 without anything that could make it faster).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Limits(NamedTuple):
    """What is asked. 0 and False: recorded, not judged."""

    accept_length_min: float = 0.0
    speedup_min: float = 0.0
    speedup_many_min: float = 0.0
    equal_text: bool = False
    accept_length_declared: float = 0.0


class Speedup(NamedTuple):
    """Speed with speculation as a multiple of that without; `differs` is False where the ranges meet."""

    streams: int
    ratio: float
    differs: bool

    @property
    def effective(self) -> float:
        """The ratio, or 1.0 where it is within the noise."""
        return self.ratio if self.differs else 1.0


class Compared(NamedTuple):
    """Speed-ups that are known, and numbers of streams whose speed is known of one run at most."""

    known: list[Speedup]
    lost: list[int]


class Decision(NamedTuple):
    """`holds` when nothing speaks against it; `reasons` say what does, each with fact, rule and next step.

    `facts` say what was measured and what is asked, whatever the judgement is.
    """

    holds: bool
    reasons: list[str]
    facts: list[str]
    speedups: list[dict[str, Any]]
    texts_differ: list[str]


def decide(measured: Mapping[str, Any], plain: Mapping[str, Any], limits: Limits) -> Decision:
    """Judge speculation. `measured` is the run with it, `plain` the one without, empty when there is none.

    Raises ValueError when a limit needs the run without speculation and there is none.
    """
    if not plain and (limits.speedup_min or limits.speedup_many_min or limits.equal_text):
        raise ValueError(
            "speed and text are judged against a run without speculation, and none was recorded; measure it, or set "
            "specdecode_gate_speedup_min, specdecode_gate_speedup_many_min to 0 and specdecode_gate_equal_text to false"
        )
    few, many = by_streams(measured.get("tokens_per_second") or [], plain.get("tokens_per_second") or [])
    differ = compare_texts(measured.get("texts") or [], plain.get("texts") or []) if plain else []
    reasons = [
        *_acceptance(measured, limits),
        *_speed(few, limits.speedup_min, "speedup_min"),
        *_speed(many, limits.speedup_many_min, "speedup_many_min"),
        *(_text(differ) if limits.equal_text else []),
    ]
    described = [{**item._asdict(), "effective": item.effective} for item in [*few.known, *many.known]]
    facts = [
        *_accept_length_fact(measured, limits),
        *_speed_facts(few.known, limits.speedup_min),
        *_speed_facts(many.known, limits.speedup_many_min),
        *(_text_fact(differ, limits) if plain else []),
    ]
    return Decision(not reasons, reasons, facts, described, differ)


def by_streams(measured: Sequence[Mapping[str, Any]], plain: Sequence[Mapping[str, Any]]) -> tuple[Compared, Compared]:
    """The speed-up of the fewest streams, and those of all others. Nothing measured at all is one stream lost."""
    speedups = compare_speeds(measured, plain)
    fewest, *others = sorted({entry["streams"] for entry in [*measured, *plain]}) or [1]
    few = [item for item in speedups if item.streams == fewest]
    many = [item for item in speedups if item.streams != fewest]
    lost = [number for number in others if number not in [item.streams for item in many]]
    return Compared(few, [] if few else [fewest]), Compared(many, lost)


def compare_speeds(measured: Sequence[Mapping[str, Any]], plain: Sequence[Mapping[str, Any]]) -> list[Speedup]:
    """The speed-up for each number of streams that both runs have, fewest streams first."""
    without = {entry["streams"]: entry for entry in plain}
    speedups = []
    for entry in sorted(measured, key=lambda item: item["streams"]):
        other = without.get(entry["streams"])
        if other is not None and other["median"] and entry["median"] is not None:
            differs = entry["low"] > other["high"] or entry["high"] < other["low"]
            speedups.append(Speedup(entry["streams"], round(entry["median"] / other["median"], 3), differs))
    return speedups


def compare_texts(measured: Sequence[Mapping[str, Any]], plain: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of the prompts whose text differs from that of the other run, or is missing in one of the two."""
    with_it = {entry["prompt"]: entry["sha256"] for entry in measured}
    without = {entry["prompt"]: entry["sha256"] for entry in plain}
    return sorted(name for name in with_it.keys() | without.keys() if with_it.get(name) != without.get(name))


def _acceptance(measured: Mapping[str, Any], limits: Limits) -> list[str]:
    length = measured.get("accept_length")
    if not limits.accept_length_min:
        return []
    if length is None:
        why = measured.get("acceptance_reason") or "the engine does not speculate"
        return [
            f"the accept length is not known ({why}), and at least {limits.accept_length_min:g} is asked; see whether "
            "the server was started with speculation"
        ]
    if length >= limits.accept_length_min:
        return []
    if length <= 1.0:
        hint = "1.0 means that no drafted token was accepted: look at the draft's lm_head and the layers that it is fed"
    elif limits.accept_length_declared and length < 0.75 * limits.accept_length_declared:
        hint = (
            f"the draft was declared with {limits.accept_length_declared:g}: look whether it is fed the layers that it "
            "was trained on (registry_patches_draft_boundaries)"
        )
    else:
        hint = "try another draft, or ask for less if the speed is worth it"
    return [f"accept length {length:g} is below specdecode_gate_accept_length_min {limits.accept_length_min:g}; {hint}"]


def _speed(speedups: Compared, least: float, name: str) -> list[str]:
    if least and speedups.lost:
        return [
            f"the speed of {_streams(speedups.lost[0])} was not measured both with and without speculation, and "
            f"specdecode_gate_{name} asks for {least:g}; see measurements.jsonl, or set it to 0"
        ]
    reasons = []
    for item in speedups.known:
        if least and item.effective < least:
            noise = "" if item.differs else f" (measured {item.ratio:g}, which is within the spread: no difference)"
            reasons.append(
                f"{_streams(item.streams)}: {item.effective:g} times the speed without speculation{noise}, and "
                f"specdecode_gate_{name} asks for {least:g}; try fewer draft steps, or serve without speculation"
            )
    return reasons


def _streams(number: int) -> str:
    return "one stream" if number == 1 else f"{number} streams"


def _text(differ: Sequence[str]) -> list[str]:
    if not differ:
        return []
    return [
        f"the text differs from that without speculation for {', '.join(differ)}, and specdecode_gate_equal_text asks "
        "for equality; compare the two in measurements.jsonl"
    ]


def _asked(least: float) -> str:
    return f"at least {least:g} is asked" if least else "not judged"


def _accept_length_fact(measured: Mapping[str, Any], limits: Limits) -> list[str]:
    length = measured.get("accept_length")
    return [] if length is None else [f"accept length {length:g} ({_asked(limits.accept_length_min)})"]


def _speed_facts(speedups: Sequence[Speedup], least: float) -> list[str]:
    facts = []
    for item in speedups:
        noise = "" if item.differs else ", which is within the spread: no difference"
        facts.append(
            f"{_streams(item.streams)}: {item.ratio:g} times the speed without speculation{noise} ({_asked(least)})"
        )
    return facts


def _text_fact(differ: Sequence[str], limits: Limits) -> list[str]:
    if not differ:
        return ["all texts equal those without speculation"]
    return [
        f"other texts than without speculation for {', '.join(differ)}{'' if limits.equal_text else ' (not judged)'}"
    ]
