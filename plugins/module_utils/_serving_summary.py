# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sum up the requests of a measurement: speeds and delays by number of streams, texts, acceptance."""

from __future__ import annotations

import hashlib
import statistics
from typing import Any, Callable, Iterable, NamedTuple, Sequence

from ansible_collections.blackwell.inference.plugins.module_utils._serving_http import EndpointError, Streamed
from ansible_collections.blackwell.inference.plugins.module_utils._serving_metrics import Acceptance, rates
from ansible_collections.blackwell.inference.plugins.module_utils._serving_prompts import Prompt


class Request(NamedTuple):
    """One request and what came of it: an answer or an error."""

    prompt: Prompt
    streams: int
    answer: Streamed | None
    error: EndpointError | None


class Wave(NamedTuple):
    """Requests that ran with a number of streams at the same time, and how long all of them took."""

    streams: int
    seconds: float
    requests: list[Request]


def summarize(waves: list[Wave]) -> dict[str, Any]:
    """What the measured waves show: speeds, delays, and the texts."""
    texts, inconsistent = _texts(waves)
    return {
        "requests": sum(len(wave.requests) for wave in waves),
        "tokens_per_second": _speeds(waves),
        "time_to_first_token": _delays(waves, lambda answer: answer.first_token),
        "inter_token_time": _delays(waves, _inter_token),
        "by_prompt": _by_prompt(waves),
        "texts": texts,
        "texts_digest": _digest("".join(f"{t['prompt']}\0{t['text']}\0" for t in texts)) if texts else None,
        "inconsistent": inconsistent,
    }


def describe_acceptance(acceptance: Acceptance) -> dict[str, Any]:
    """Acceptance as returned by the module."""
    rate, by_position = rates(acceptance)
    return {
        "speculation": acceptance.speculation,
        "acceptance_source": acceptance.source,
        "acceptance_reason": acceptance.reason,
        "accept_length": acceptance.accept_length,
        "acceptance_rate": rate,
        "drafts": acceptance.drafts,
        "draft_tokens": acceptance.draft_tokens,
        "accepted_tokens": acceptance.accepted_tokens,
        "accepted_per_position": acceptance.accepted_per_position,
        "acceptance_per_position": by_position,
    }


def describe_error(phase: str, error: EndpointError, request: Request | None = None) -> dict[str, Any]:
    """A failure of the server as returned by the module."""
    return {
        "phase": phase,
        "kind": error.kind,
        "status": error.status,
        "message": error.message,
        "prompt": request.prompt.name if request else None,
        "streams": request.streams if request else None,
    }


def compare_texts(reference: Sequence[dict[str, Any]], texts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Which prompts gave the same text as in an earlier measurement, and where the others part."""
    known = {str(item.get("prompt")): str(item.get("text", "")) for item in reference}
    equal, different, missing = [], [], []
    for item in texts:
        name, text = item["prompt"], item["text"]
        if name not in known:
            missing.append(name)
        elif known[name] == text:
            equal.append(name)
        else:
            pairs = zip(known[name], text)
            at = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(known[name]), len(text)))
            expected, got = known[name][at : at + 40], text[at : at + 40]
            different.append({"prompt": name, "at": at, "expected": expected, "got": got})
    return {"equal": equal, "different": different, "missing": missing}


def spread(values: Iterable[float], digits: int = 3) -> dict[str, Any]:
    """Median, lowest and highest of some values, and the distance of the two."""
    ordered = sorted(values)
    low, high = ordered[0], ordered[-1]
    return {
        "median": round(statistics.median(ordered), digits),
        "low": round(low, digits),
        "high": round(high, digits),
        "spread": round(high - low, digits),
    }


def _by_streams(waves: list[Wave]) -> dict[int, list[Wave]]:
    grouped: dict[int, list[Wave]] = {}
    for wave in waves:
        if any(request.answer for request in wave.requests):
            grouped.setdefault(wave.streams, []).append(wave)
    return grouped


def _speeds(waves: list[Wave]) -> list[dict[str, Any]]:
    rows = []
    for streams, group in _by_streams(waves).items():
        tokens = [sum(r.answer.tokens for r in wave.requests if r.answer) for wave in group]
        values = [count / wave.seconds for count, wave in zip(tokens, group) if wave.seconds > 0]
        row = {"streams": streams, **spread(values), "values": [round(value, 3) for value in values]}
        rows.append({**row, "tokens": sum(tokens), "requests": sum(len(wave.requests) for wave in group)})
    return rows


def _delays(waves: list[Wave], of: Callable[[Streamed], float | None]) -> list[dict[str, Any]]:
    rows = []
    for streams, group in _by_streams(waves).items():
        values = [of(r.answer) for wave in group for r in wave.requests if r.answer]
        rows.append({"streams": streams, **spread([value for value in values if value is not None] or [0.0], 5)})
    return rows


def _inter_token(answer: Streamed) -> float | None:
    """Mean time between two tokens, in seconds; None for an answer of one token."""
    return (answer.seconds - answer.first_token) / (answer.tokens - 1) if answer.tokens > 1 else None


def _by_prompt(waves: list[Wave]) -> list[dict[str, Any]]:
    """Speed of each prompt where it ran alone: what a draft is good for differs by the kind of text."""
    answers: dict[Prompt, list[Streamed]] = {}
    for wave in waves:
        for request in wave.requests:
            if wave.streams == 1 and request.answer:
                answers.setdefault(request.prompt, []).append(request.answer)
    return [
        {
            "prompt": prompt.name,
            "kind": prompt.kind,
            "prompt_tokens": given[0].prompt_tokens,
            "tokens": given[0].tokens,
            "tokens_per_second": spread([a.tokens / a.seconds for a in given if a.seconds > 0] or [0.0]),
        }
        for prompt, given in answers.items()
    ]


def _texts(waves: list[Wave]) -> tuple[list[dict[str, Any]], list[str]]:
    """The first text of each prompt, and the prompts that did not always give the same."""
    first: dict[Prompt, Streamed] = {}
    varying: list[str] = []
    for wave in waves:
        for request in wave.requests:
            if request.answer is None:
                continue
            known = first.setdefault(request.prompt, request.answer)
            if known.text != request.answer.text and request.prompt.name not in varying:
                varying.append(request.prompt.name)
    texts = [
        {"prompt": p.name, "kind": p.kind, "tokens": a.tokens, "sha256": _digest(a.text), "text": a.text}
        for p, a in first.items()
    ]
    return texts, sorted(varying)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
