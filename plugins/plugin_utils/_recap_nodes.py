# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the nodes of a recap. What a caller did wrong is refused; what a node reported wrongly is said and left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ansible_collections.blackwell.inference.plugins.plugin_utils._recap_model import (
    DECISIONS,
    SEVERITIES,
    Deployment,
    Finding,
    Measurement,
    Nccl,
    Node,
    Past,
    Patch,
    Prompt,
    Purged,
    Spread,
    Variable,
)
from ansible_collections.blackwell.inference.plugins.plugin_utils._recap_read import Reader
from ansible_collections.blackwell.inference.plugins.plugin_utils._recap_words import clean, finite

NOTHING_YET = "none"  # the decision of the record of what was there before the first deployment
KEYS = ("host", "deployment", "with", "without", "patches", "purged", "nccl", "findings", "history")


class RecapError(ValueError):
    """The list of nodes is not what the filter takes; the text says what to correct."""


def read_nodes(raw: object) -> list[Node]:
    """The nodes; RecapError for what can only come from the caller: no list, no host, a key that is none.

    What a node itself reported never raises: it may come from a damaged file.
    """
    if not isinstance(raw, list):
        raise RecapError(f"takes a list with a dict for each node, not {type(raw).__name__}")
    return [_node(index, item) for index, item in enumerate(raw)]


def _node(index: int, raw: object) -> Node:
    if not isinstance(raw, Mapping):
        raise RecapError(f"node {index} must be a dict, not {type(raw).__name__}")
    strange = sorted(str(key) for key in raw if key not in KEYS)
    if strange:
        raise RecapError(f"node {index} has the unknown key {', '.join(strange)}; known are {', '.join(KEYS)}")
    unread: list[str] = []
    reader = Reader(raw, "", unread)
    host = reader.text("host")
    if host is None:
        raise RecapError(f"node {index} has no host; give it the name in the inventory")
    deployment = reader.inner("deployment", _deployment)
    return Node(
        host=host,
        deployment=deployment,
        with_=reader.inner("with", _measurement),
        without=reader.inner("without", _measurement),
        patches=reader.rows("patches", _patch),
        purged=reader.rows("purged", _purged),
        nccl=reader.inner("nccl", _nccl),
        findings=_sorted_findings(reader.rows("findings", _finding)),
        history=_sorted_history(reader.rows("history", lambda row: _past(row, deployment))),
        unread=unread,
    )


def _deployment(reader: Reader) -> Deployment:
    return Deployment(
        **{
            key: reader.text(key) for key in ("id", "time", "instance", "engine", "release", "digest", "model", "draft")
        },
        decision=reader.word("decision", DECISIONS),
        reasons=reader.texts("reasons"),
        speculative=_speculative(reader),
    )


def _speculative(reader: Reader) -> dict[str, str] | None:
    """The settings of speculation as texts, without those that are empty. An empty dict: it was not asked for."""
    if reader.fields.get("speculative") == {}:
        return {}
    return reader.inner("speculative", _settings)


def _settings(reader: Reader) -> dict[str, str]:
    """Settings as texts; those without a value are left out."""
    shown = {clean(str(key)): _setting(value) for key, value in reader.fields.items()}
    return {key: value for key, value in shown.items() if value}


def _setting(value: object) -> str:
    number = finite(value)
    if number is not None:
        return f"{number:g}"
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return ", ".join(_setting(item) for item in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else clean(str(value))


def _measurement(reader: Reader) -> Measurement:
    errors = reader.rows("errors", lambda row: row.text("message") or row.text("kind")) or []
    return Measurement(
        **{key: reader.text(key) for key in ("time", "digest", "engine_version", "speculation", "acceptance_reason")},
        speeds=reader.rows("tokens_per_second", _spread) or [],
        first_token=reader.rows("time_to_first_token", _spread) or [],
        inter_token=reader.rows("inter_token_time", _spread) or [],
        prompts=reader.rows("by_prompt", _prompt) or [],
        accept_length=reader.number("accept_length"),
        acceptance_rate=_rate(reader),
        positions=_shares(reader),
        texts=_texts(reader),
        inconsistent=reader.texts("inconsistent") or [],
        not_applicable=reader.rows("not_applicable", _left_out) or [],
        errors_total=reader.whole("errors_total"),
        first_error=errors[0] if errors else None,
        disturbed=reader.truth("disturbed"),
        method=reader.inner("method", _settings),
    )


def _spread(reader: Reader) -> Spread | None:
    """A spread, or None when streams or median are missing. Without low and high it is as narrow as its median."""
    streams, median = reader.whole("streams"), reader.number("median")
    if not streams or median is None:
        reader.unread.append(f"{reader.place} lacks streams or median")
        return None
    low, high = (reader.number(key) for key in ("low", "high"))
    low, high = median if low is None else low, median if high is None else high
    if not low <= median <= high:
        reader.unread.append(f"{reader.place} has a median outside of low to high")
        return None
    return Spread(streams, median, low, high, reader.numbers("values") or [])


def _prompt(reader: Reader) -> Prompt | None:
    name = reader.text("prompt")
    alone = reader.inner(
        "tokens_per_second", lambda row: _spread(Reader({**row.fields, "streams": 1}, row.place, row.unread))
    )
    return Prompt(name, reader.text("kind"), alone) if name and alone else None


def _shares(reader: Reader) -> list[float] | None:
    shares = reader.numbers("acceptance_per_position")
    if shares is None or all(share <= 1 for share in shares):
        return shares or None
    reader.unread.append(f"{reader.place}.acceptance_per_position has shares above 1")
    return None


def _rate(reader: Reader) -> float | None:
    rate = reader.number("acceptance_rate")
    if rate is None or rate <= 1:
        return rate
    reader.unread.append(f"{reader.place}.acceptance_rate is above 1")
    return None


def _texts(reader: Reader) -> dict[str, str] | None:
    pairs = reader.rows("texts", lambda row: (row.text("prompt") or "", row.text("sha256") or ""))
    return {prompt: digest for prompt, digest in pairs or [] if prompt and digest} or None


def _left_out(reader: Reader) -> str | None:
    prompt = reader.text("prompt")
    return f"{prompt}: {reader.text('reason') or 'without a reason'}" if prompt else None


def _patch(reader: Reader) -> Patch | None:
    name = reader.text("id")
    if name is None:
        reader.unread.append(f"{reader.place} lacks its id")
        return None
    files = reader.rows("files", lambda row: row.text("path")) or []
    return Patch(
        id=name,
        status=reader.text("status"),
        reason=reader.text("reason"),
        files=files,
        limits=reader.texts("limits") or [],
        invalidates=reader.texts("invalidates") or [],
    )


def _purged(reader: Reader) -> Purged | None:
    path = reader.text("path")
    if path is None:
        reader.unread.append(f"{reader.place} lacks its path")
    return Purged(path, reader.text("reason")) if path else None


def _nccl(reader: Reader) -> Nccl:
    return Nccl(
        variables=reader.rows("variables", _variable),
        warnings=reader.texts("warnings") or [],
        notes=reader.texts("notes") or [],
    )


def _variable(reader: Reader) -> Variable | None:
    name = reader.text("name")
    if name is None:
        reader.unread.append(f"{reader.place} lacks its name")
        return None
    value = _setting(reader.fields.get("value"))
    return Variable(name, value or None, reader.text("reason"), reader.text("evidence"))


def _finding(reader: Reader) -> Finding | None:
    name = reader.text("id")
    if name is None:
        reader.unread.append(f"{reader.place} lacks its id")
        return None
    return Finding(
        id=name,
        severity=reader.word("severity", SEVERITIES),
        **{key: reader.text(key) for key in ("found", "rule", "remedy", "evidence")},
        accepted=reader.truth("accepted") or False,
    )


def _sorted_findings(findings: list[Finding] | None) -> list[Finding] | None:
    """The gravest first, accepted ones after the others; one of unknown severity counts as an error."""
    if findings is None:
        return None
    return sorted(findings, key=lambda item: (item.accepted, SEVERITIES.index(item.severity or "error")))


def _past(reader: Reader, present: Deployment | None) -> Past | None:
    """An earlier deployment; None for the present one, and for what was there before the first one."""
    about = reader.inner("about", lambda inner: inner) or Reader({}, reader.place, reader.unread)
    is_present = present is not None and present.id is not None and reader.text("id") == present.id
    if is_present or about.fields.get("decision") == NOTHING_YET:
        return None
    return Past(
        time=reader.text("time"),
        decision=about.word("decision", DECISIONS),
        accept_length=about.number("accept_length"),
        speed_with=_first_median(about, "tokens_per_second_with"),
        speed_without=_first_median(about, "tokens_per_second_without"),
    )


def _first_median(reader: Reader, key: str) -> float | None:
    """The speed of the fewest streams."""
    spreads = reader.rows(key, _spread) or []
    return min(spreads, key=lambda spread: spread.streams).median if spreads else None


def _sorted_history(history: list[Past] | None) -> list[Past] | None:
    """The oldest first; those of unknown time before all others. Times compare as texts, being all in UTC."""
    return None if history is None else sorted(history, key=lambda past: past.time or "")
