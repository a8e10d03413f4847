# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a recap knows about a node. None, wherever it stands, means: not known."""

from __future__ import annotations

from dataclasses import dataclass

DECISIONS = ("keep", "fallback", "fail")
SEVERITIES = ("error", "warning", "info")


@dataclass(frozen=True)
class Deployment:
    """What was deployed, and what was decided about it."""

    id: str | None
    time: str | None
    instance: str | None
    engine: str | None
    release: str | None
    digest: str | None
    decision: str | None
    reasons: list[str] | None
    model: str | None
    draft: str | None
    speculative: dict[str, str] | None


@dataclass(frozen=True)
class Spread:
    """Repeated measurements of one thing: tokens per second or seconds, with so many simultaneous streams."""

    streams: int
    median: float
    low: float
    high: float
    values: list[float]


@dataclass(frozen=True)
class Prompt:
    """Speed of one prompt that ran alone, in tokens per second."""

    prompt: str
    kind: str | None
    speed: Spread


@dataclass(frozen=True)
class Measurement:
    """One record of measurements.jsonl, as spec_decode_probe returned it."""

    time: str | None
    digest: str | None
    engine_version: str | None
    speculation: str | None
    speeds: list[Spread]
    first_token: list[Spread]
    inter_token: list[Spread]
    prompts: list[Prompt]
    accept_length: float | None
    acceptance_rate: float | None
    acceptance_reason: str | None
    positions: list[float] | None
    texts: dict[str, str] | None
    inconsistent: list[str]
    not_applicable: list[str]
    errors_total: int | None
    first_error: str | None
    disturbed: bool | None
    method: dict[str, str] | None


@dataclass(frozen=True)
class Patch:
    """What a patch is on the node, as engine_patch returned it."""

    id: str
    status: str | None
    reason: str | None
    files: list[str]
    limits: list[str]
    invalidates: list[str]


@dataclass(frozen=True)
class Purged:
    """Bytecode that pyc_invalidate removed."""

    path: str
    reason: str | None


@dataclass(frozen=True)
class Variable:
    """A variable of NCCL, with its reason."""

    name: str
    value: str | None
    reason: str | None
    evidence: str | None


@dataclass(frozen=True)
class Nccl:
    """What nccl_environment decided."""

    variables: list[Variable] | None
    warnings: list[str]
    notes: list[str]


@dataclass(frozen=True)
class Finding:
    """What preflight_findings said."""

    id: str
    severity: str | None
    found: str | None
    rule: str | None
    remedy: str | None
    evidence: str | None
    accepted: bool


@dataclass(frozen=True)
class Past:
    """An earlier deployment; speeds of one stream in tokens per second."""

    time: str | None
    decision: str | None
    accept_length: float | None
    speed_with: float | None
    speed_without: float | None


@dataclass(frozen=True)
class Node:
    """All that is known about a node. `unread` says what was reported and could not be read."""

    host: str
    deployment: Deployment | None
    with_: Measurement | None
    without: Measurement | None
    patches: list[Patch] | None
    purged: list[Purged] | None
    nccl: Nccl | None
    findings: list[Finding] | None
    history: list[Past] | None
    unread: list[str]
