# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What two measurements of a node say together: how the speeds compare, whether the texts are equal, what limits both.

Noise is respected as spec_decode_probe asks for it: speeds whose low to high overlap do not differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ansible_collections.blackwell.inference.plugins.plugin_utils._recap_model import Measurement, Node, Spread
from ansible_collections.blackwell.inference.plugins.plugin_utils._recap_words import count


@dataclass(frozen=True)
class Comparison:
    """One quantity with and without speculation. `ratio` is with / without; `verdict` is higher, lower or same."""

    streams: int
    with_: Spread | None
    without: Spread | None
    ratio: float | None
    verdict: str | None


@dataclass(frozen=True)
class Texts:
    """Prompts whose text is equal with and without speculation, and those whose text is not."""

    equal: int
    different: list[str]


def compare_speeds(node: Node) -> list[Comparison]:
    """Tokens per second by number of streams, ascending."""
    return _compare(node, lambda measured: measured.speeds)


def compare_delays(node: Node) -> tuple[list[Comparison], list[Comparison]]:
    """Seconds to the first token and from token to token, by number of streams."""
    return _compare(node, lambda measured: measured.first_token), _compare(node, lambda measured: measured.inter_token)


def compare_prompts(node: Node) -> list[tuple[str, Comparison]]:
    """Tokens per second of each prompt that ran alone, in the order in which they were measured."""
    with_, without = (
        {prompt.prompt: prompt.speed for prompt in measured.prompts} if measured else {}
        for measured in (node.with_, node.without)
    )
    return [(name, _comparison(1, with_.get(name), without.get(name))) for name in {**with_, **without}]


def _compare(node: Node, of: Callable[[Measurement], list[Spread]]) -> list[Comparison]:
    with_, without = (
        {spread.streams: spread for spread in of(measured)} if measured else {}
        for measured in (node.with_, node.without)
    )
    return [_comparison(streams, with_.get(streams), without.get(streams)) for streams in sorted({**with_, **without})]


def _comparison(streams: int, with_: Spread | None, without: Spread | None) -> Comparison:
    if with_ is None or without is None:
        return Comparison(streams, with_, without, None, None)
    ratio = (
        with_.median / without.median if without.median > 1e-9 else None
    )  # what is as good as nothing has no multiple
    verdict = "higher" if with_.low > without.high else "lower" if with_.high < without.low else "same"
    return Comparison(streams, with_, without, ratio, verdict)


def compare_texts(node: Node) -> Texts | None:
    """The texts of the prompts that both measurements have; None when there are none."""
    with_, without = (measured.texts or {} if measured else {} for measured in (node.with_, node.without))
    both = [prompt for prompt in with_ if prompt in without]
    different = [prompt for prompt in both if with_[prompt] != without[prompt]]
    return Texts(len(both) - len(different), different) if both else None


def caveats(node: Node) -> list[str]:
    """What limits the measurements, in sentences without an end."""
    return [
        *(f"with speculation: {text}" for text in _limits(node.with_, "off")),
        *(f"without speculation: {text}" for text in _limits(node.without, "on")),
        *_differences(node),
    ]


def _limits(measured: Measurement | None, unexpected: str) -> Iterator[str]:
    if measured is None:
        return
    if measured.speculation == unexpected:
        yield "the engine does not speculate" if unexpected == "off" else "the engine speculates all the same"
    elif measured.acceptance_reason and measured.speculation != "off":
        yield measured.acceptance_reason
    if measured.errors_total:
        first = f", the first with: {measured.first_error}" if measured.first_error else ""
        yield f"{count(measured.errors_total, 'request')} failed{first}"
    if measured.disturbed:
        yield "others used the server during the run"
    if measured.inconsistent:
        yield f"the text was not always the same for {', '.join(measured.inconsistent)}"
    if measured.not_applicable:
        yield f"not measured: {'; '.join(measured.not_applicable)}"
    if any(len(spread.values) == 1 for spread in measured.speeds):
        yield "measured once, so that its spread is not known"


def _differences(node: Node) -> Iterator[str]:
    deployed, with_, without = node.deployment, node.with_, node.without
    if deployed and with_ and deployed.digest and with_.digest and deployed.digest != with_.digest:
        yield "what was measured is not what is deployed: the digests differ"
    if with_ and without and with_.method and without.method and with_.method != without.method:
        other = sorted({key for key, _value in with_.method.items() ^ without.method.items()})
        yield f"the two measurements were made in different ways ({', '.join(other)})"
    versions = [measured.engine_version for measured in (with_, without) if measured and measured.engine_version]
    if len(set(versions)) > 1:
        yield f"the two measurements are of different releases ({' and '.join(versions)})"
