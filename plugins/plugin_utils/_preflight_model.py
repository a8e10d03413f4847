# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a preflight check is, what it is asked (wants), and what it looks at (facts)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

GIB = 1024**3
UNLIMITED = 2**64 - 1  # as the kernel counts it
SEVERITIES = ("error", "warning", "info")


class PreflightError(ValueError):
    """The checks were asked for something that can't be judged; the text names it and the remedy."""


@dataclass(frozen=True)
class Unknown:
    """A fact that can't be known on this node, and why. It is told apart from a fact that is fine."""

    reason: str


@dataclass(frozen=True)
class Broken:
    """The fact that breaks a check's rule. `remedy` stands here only where it depends on what was found."""

    found: str
    remedy: str = ""


# None: the rule holds, or does not apply to this node.
Answer = Broken | Unknown | None


@dataclass(frozen=True)
class Wants:
    """What the node is wanted for. Sizes in GiB, times in seconds; an empty value is not checked.

    `limits` are those of the unit: name, as in `MEMLOCK`, to soft and hard limit. `cuda` and `nccl` are the lock's.
    """

    hardware: str = "gpu"
    accepted: tuple[str, ...] = ()
    port: int = 8000
    host: str = "127.0.0.1"
    unit: str = "specdecode@main.service"
    python: str = "python3"
    python_release: str = ""
    architecture: str = ""
    glibc: str = ""
    disks: tuple[Mapping[str, Any], ...] = ()
    models: tuple[str, ...] = ()
    memory_gib: float = 0
    shm_gib: float = 0
    limits: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    cuda: str = ""
    nccl: str = ""
    tensor_parallel: int = 1
    clock_skew_seconds: float = 30
    controller_sent: float | None = None
    controller_received: float | None = None


TEXTS = {"hardware", "host", "unit", "python", "python_release", "architecture", "glibc", "cuda", "nccl"}
LISTS = {"accepted", "disks", "models"}


def parse_wants(raw: object) -> Wants:
    """Wants from the role's variables; PreflightError names an unknown key or a value of the wrong kind."""
    if not isinstance(raw, Mapping):
        raise PreflightError(f"what is wanted must be a dict, not {type(raw).__name__}")
    known = {item.name for item in fields(Wants)}
    unknown = sorted(set(raw) - known)
    if unknown:
        raise PreflightError(f"unknown key {', '.join(unknown)}; known are {', '.join(sorted(known))}")
    wants = Wants(**{name: _value(name, value) for name, value in raw.items()})
    if wants.hardware not in ("gpu", "cpu"):
        raise PreflightError(f"hardware is {wants.hardware!r}; declare it as gpu or cpu")
    return wants


def _value(name: str, value: Any) -> Any:
    if name in TEXTS:
        if not isinstance(value, str):
            raise PreflightError(f"{name} must be a text, not {value!r}")
        return value
    if name in LISTS:
        if not isinstance(value, (list, tuple)):
            raise PreflightError(f"{name} must be a list, not {value!r}")
        return tuple(value)
    if name == "limits":
        return parse_limits(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise PreflightError(f"{name} must be a number, not {value!r}")
    return value


def parse_limits(raw: object) -> dict[str, tuple[int, int]]:
    """Limits as a unit writes them (`infinity`, `1048576`, `64M`, `1024:4096`), as soft and hard numbers.

    systemd.exec(5), "Process properties": suffixes count by 1024, and one value stands for both.
    """
    if not isinstance(raw, Mapping):
        raise PreflightError(f"limits must be a dict, not {raw!r}")
    parsed = {}
    for name, text in raw.items():
        soft, dummy, hard = str(text).partition(":")
        parsed[str(name)] = (_limit(name, soft), _limit(name, hard or soft))
    return parsed


def _limit(name: object, text: str) -> int:
    if text == "infinity":
        return UNLIMITED
    match = re.fullmatch(r"([0-9]+)([KMGT]?)", text)
    if match is None:
        raise PreflightError(f"the limit {name} is {text!r}; write infinity, or a number with or without K, M, G or T")
    factor: int = 1024 ** ("", "K", "M", "G", "T").index(match.group(2))
    return int(match.group(1)) * factor


def release_of(text: str) -> tuple[int, ...]:
    """The leading numbers of a release: `3.12.1+` gives (3, 12, 1)."""
    match = re.match(r"[0-9]+(?:\.[0-9]+)*", text)
    return tuple(int(number) for number in match.group().split(".")) if match else ()


class Facts:
    """Facts by dotted path (`node.memory.total`, `gpu_node.driver.version`); a null is answered by its reason."""

    def __init__(self, raw: object) -> None:
        """`raw` has `node` (what look_at_node.py printed) and, on GPU nodes, `gpu_node`."""
        if not isinstance(raw, Mapping):
            raise PreflightError(f"facts must be a dict, not {type(raw).__name__}")
        self._raw = raw

    def get(self, path: str) -> Any:
        """The fact, or Unknown with the reason that its source gave for not having it."""
        source, *names = path.split(".")
        value: Any = self._raw.get(source)
        if value is None:
            return Unknown(f"{source} was not looked at")
        for name in names:
            value = value.get(name) if isinstance(value, Mapping) else None
            if value is None:
                return Unknown(self._nearest_reason(source, names) or f"{source} does not tell {'.'.join(names)}")
        return value

    def reason(self, source: str, path: str) -> str:
        """What a source says about a fact that it can't or can't fully tell; empty where it says nothing."""
        root = self._raw.get(source)
        reasons = root.get("reasons") if isinstance(root, Mapping) else None
        return str(reasons.get(path, "")) if isinstance(reasons, Mapping) else ""

    def _nearest_reason(self, source: str, names: list[str]) -> str:
        """The reason given for a fact, or for the smallest part that it belongs to."""
        paths = (".".join(names[:length]) for length in range(len(names), 0, -1))
        return next(filter(None, (self.reason(source, path) for path in paths)), "")


@dataclass(frozen=True)
class Check:
    """One thing that is looked at before anything is changed.

    `finds` is asked for the answer; `rule` and `remedy` may name wants in braces. `severity` is that of a broken rule;
    where the fact can't be known, the finding is one step milder. `hardware` says on which nodes the check is made.
    `acceptable`: a server may serve all the same. Else a later step fails, so that nobody is offered to accept it.
    """

    id: str
    severity: str
    finds: Callable[[Facts, Wants], Answer]
    rule: str
    remedy: str
    evidence: str
    hardware: str = field(default="any")
    acceptable: bool = field(default=True)

    def applies(self, wants: Wants) -> bool:
        """Whether the check is made on a node of the declared hardware."""
        return self.hardware in ("any", wants.hardware)
