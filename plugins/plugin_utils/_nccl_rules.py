# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which NCCL variables a node should have, decided from its facts by rules with their reason, evidence and date.

NVIDIA files nearly all tuning variables under "for debugging, generally not for production". So the rules set few,
each for a reason that the node's own facts give, and the rest is listed as considered and not set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.blackwell.inference.plugins.plugin_utils._engine_releases import (
    NO_OWN_ALL_REDUCE,
    PCIE_ALL_REDUCE,
)
from ansible_collections.blackwell.inference.plugins.plugin_utils._nccl_names import (
    CUDA_CONNECTIONS,
    DEPRECATED,
    PREFIX,
    problem_of_name,
    problem_of_value,
)
from ansible_collections.blackwell.inference.plugins.plugin_utils._nccl_node import REFUSED_CELLS, NcclError, Node
from ansible_collections.blackwell.inference.plugins.plugin_utils._nccl_render import render_conf, render_environment

PROFILES = ("conservative", "latency", "throughput")


@dataclass(frozen=True)
class Rule:
    """One variable that a profile sets where `applies` holds."""

    name: str
    value: str
    profiles: tuple[str, ...]
    applies: Callable[[Node], bool]
    reason: str
    evidence: str
    date: str


@dataclass(frozen=True)
class Considered:
    """A setting that recipes carry and that no profile sets."""

    name: str
    value: str
    reason: str
    evidence: str
    date: str


def _hangs(node: Node) -> bool:
    return bool(node.translated and node.redirect)


def _tunable(node: Node) -> bool:
    return node.p2p == "ok" and not _hangs(node) and not node.mig and (node.gpus or 0) > 1


RULES: tuple[Rule, ...] = (
    Rule(
        "CUDA_DEVICE_ORDER",
        "PCI_BUS_ID",
        PROFILES,
        lambda node: (node.gpus or 0) > 0,
        "CUDA and nvidia-smi number the GPUs differently by default; so that a number means the same card in both",
        "CUDA C++ programming guide, environment variables",
        "2026-06",
    ),
    Rule(
        "NCCL_P2P_DISABLE",
        "1",
        PROFILES,
        lambda node: (node.gpus or 0) > 1 and _hangs(node),
        "the IOMMU translates and the bridges redirect peer traffic to it (ACS): the first all-reduce hangs with P2P",
        "operators' reports on 8x RTX PRO 6000; it cures the hang only while the engine's custom all-reduce is off",
        "2026-09",
    ),
    Rule(
        "NCCL_P2P_LEVEL",
        "PHB",
        ("latency", "throughput"),
        lambda node: _tunable(node) and node.links == "socket" and not _reaches_already(node),
        "GPUs are attached to one socket without a common switch; NCCL's default reach (PXB) would send every pair "
        "through shared memory",
        "P2P against shared memory on 4 GPUs of one socket: +24 % to +42 %",
        "2026-05",
    ),
    Rule(
        "NCCL_P2P_LEVEL",
        "SYS",
        ("latency", "throughput"),
        lambda node: _tunable(node) and node.links == "sockets" and not _reaches_already(node),
        "GPUs are spread over two sockets; NCCL's default reach (PXB) would send those pairs through shared memory",
        "4 GPUs on two AMD Turin: busbw 30.3 to 39.3 GB/s, decode +3.6 %; other hosts 4.8 to 50 GiB/s",
        "2026-05",
    ),
    Rule(
        "NCCL_PROTO",
        "LL",
        ("latency",),
        lambda node: _tunable(node) and node.links == "sockets" and node.amd and (node.gpus or 0) > 2,
        "one stream's messages are small, and NCCL counts too little bandwidth for AMD sockets to choose LL itself; "
        "costs about 11 % at 32 streams",
        "8 GPUs on two AMD Turin: 65 to 68 tok/s against about 40 for one stream; 998 against 1128 tok/s for 32",
        "2026-05",
    ),
)

CONSIDERED: tuple[Considered, ...] = (
    Considered(
        "NCCL_PROTO",
        "LL,LL128,Simple",
        "naming LL128 forces it where NCCL leaves it off, which is every pair over PCIe, and can corrupt data",
        "NCCL's tuning source enables LL128 over NVLink only; against LL alone 998 to 1128 tok/s were measured",
        "2026-06",
    ),
    Considered(
        "NCCL_MIN_NCHANNELS",
        "8",
        "later measurements show noise or a loss; deprecated for NCCL_MIN_CTAS",
        "22 to 38 GB/s were reported together with a graph file, not alone",
        "2026-05",
    ),
    Considered(
        "NCCL_GRAPH_FILE",
        "a file",
        "fits one host only, costs GPU memory (fraction 0.95 to 0.93), is undocumented, and breaks when empty",
        "two AMD Turin: all-reduce of 32 KB 48 to 26 us",
        "2026-05",
    ),
    Considered(
        "NCCL_P2P_DISABLE",
        "1",
        "it costs one stream a fifth; what many streams gained came together with more channels and larger buffers",
        "early 2026: one request 90 to 70 tok/s, 100 requests 5000 to 10000 tok/s",
        "2026-02",
    ),
    Considered(
        "NCCL_CUMEM_ENABLE",
        "0",
        "SGLang sets it itself; one host needed 1",
        "+5 to +10 tok/s were reported on two sockets",
        "2026-05",
    ),
    Considered(
        "NCCL_IB_DISABLE",
        "1",
        "copied from recipe to recipe; without InfiniBand it changes nothing",
        "no comparison was found",
        "2026-09",
    ),
)

# What engines do to the environment that they are started with.
ENGINE_OVERWRITES = {"sglang": {CUDA_CONNECTIONS: "8"}}
ENGINE_DEFAULTS = {"sglang": {"NCCL_CUMEM_ENABLE": "0", "NCCL_NVLS_ENABLE": "0"}}


def _reaches_already(node: Node) -> bool:
    """NCCL's default reach is SYS for at most two GPUs on AMD."""
    return node.amd and (node.gpus or 0) <= 2


def decide(node: Node, profile: object, overrides: object, engine: object = "") -> dict[str, Any]:
    """The variables of a profile with the overrides on top; raises NcclError for what NCCL would not take as said."""
    if profile not in PROFILES:
        raise NcclError(f"profile is {profile!r}. Profiles are {', '.join(PROFILES)}. Correct it.")
    wanted = _checked_overrides(overrides)
    if not node.gpus:
        return _nothing(node, wanted)
    chosen = {
        rule.name: {"name": rule.name, "value": rule.value, "reason": rule.reason, "evidence": _dated(rule)}
        for rule in RULES
        if profile in rule.profiles and rule.applies(node)
    }
    warnings = _node_warnings(node)
    notes = _node_notes(node, str(profile))
    _apply_overrides(chosen, wanted, warnings, notes)
    _refuse_contradictions(chosen)
    warnings += _value_warnings(chosen, str(engine or ""))
    warnings += _own_all_reduce_warnings(node, chosen, str(engine or ""))
    notes += _engine_notes(chosen, str(engine or ""))
    # An override may come last in the inventory and first in the alphabet; the order must not depend on it.
    return _result([chosen[name] for name in sorted(chosen)], warnings, notes, wanted)


def _dated(rule: Rule | Considered) -> str:
    return f"{rule.evidence} ({rule.date})"


def _result(
    variables: list[dict[str, str]], warnings: list[str], notes: list[str], wanted: Mapping[str, str | None]
) -> dict[str, Any]:
    considered = [
        {"name": item.name, "value": item.value, "reason": item.reason, "evidence": _dated(item)}
        for item in CONSIDERED
        if item.name not in wanted and not any(variable["name"] == item.name for variable in variables)
    ]
    return {
        "variables": variables,
        "warnings": warnings,
        "notes": notes,
        "considered": considered,
        "environment_file": render_environment(variables, notes),
        "conf_file": render_conf(variables, notes),
    }


def _nothing(node: Node, wanted: Mapping[str, str | None]) -> dict[str, Any]:
    unknown = node.gpus is None
    why = node.why.get("gpus") or node.why.get("driver") or "nvidia-smi shows none"
    note = f"Nothing is set: {'the GPUs of this node are unknown' if unknown else 'this node has no GPU'} ({why})."
    notes = [note]
    if wanted:
        notes.append(f"Not applied without a GPU: {', '.join(sorted(wanted))}.")
    return {**_result([], [note] if unknown else [], notes, wanted), "considered": []}


def _checked_overrides(overrides: object) -> dict[str, str | None]:
    if overrides is None or overrides == "":
        return {}
    if not isinstance(overrides, Mapping):
        raise NcclError(f"overrides is {overrides!r}, not a dictionary of names and values. Correct it.")
    problems = []
    for name, value in overrides.items():
        problem = problem_of_name(name)
        if not problem and value is not None:
            problem = problem_of_value(name, value)
        if problem:
            problems.append(f"{name}={value!r}: {problem}")
    if problems:
        raise NcclError(" | ".join(problems))
    return {str(name): None if value is None else str(value) for name, value in overrides.items()}


def _apply_overrides(
    chosen: dict[str, dict[str, str]], wanted: Mapping[str, str | None], warnings: list[str], notes: list[str]
) -> None:
    for name, value in wanted.items():
        before = chosen.pop(name, None)
        if value is None:
            notes.append(f"{name} is unset by an override.")
        else:
            chosen[name] = {"name": name, "value": value, "reason": "set by an override", "evidence": "the inventory"}
        if name == "NCCL_P2P_DISABLE" and before and value != "1":
            warnings.append(f"NCCL_P2P_DISABLE=1 was taken away by an override although {before['reason']}.")
    disabled = chosen.get("NCCL_P2P_DISABLE", {}).get("value") == "1"
    if disabled and "NCCL_P2P_LEVEL" in chosen and "NCCL_P2P_LEVEL" not in wanted:
        del chosen["NCCL_P2P_LEVEL"]
        notes.append("NCCL_P2P_LEVEL is left out, because NCCL_P2P_DISABLE=1 overrules it.")


def _refuse_contradictions(chosen: Mapping[str, Mapping[str, str]]) -> None:
    values = {name: item["value"] for name, item in chosen.items()}
    if values.get("NCCL_P2P_DISABLE") == "1" and "NCCL_P2P_LEVEL" in values:
        raise NcclError(
            f"NCCL_P2P_DISABLE=1 and NCCL_P2P_LEVEL={values['NCCL_P2P_LEVEL']}: NCCL looks at the level only when P2P "
            "is not disabled. Unset one of the two (give null)."
        )
    for low, high in (("NCCL_MIN_CTAS", "NCCL_MAX_CTAS"), ("NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS")):
        if low in values and high in values and int(values[low], 0) > int(values[high], 0):
            raise NcclError(f"{low}={values[low]} exceeds {high}={values[high]}. Exchange or unset them.")


def _node_warnings(node: Node) -> list[str]:
    warnings = []
    several = (node.gpus or 0) > 1
    if several and _hangs(node):
        warnings.append(
            "The IOMMU translates and ACS redirects peer traffic: P2P hangs here, so it is disabled. The cure is "
            "iommu=pt on the kernel command line, or ACS redirect off on the bridges above the GPUs."
        )
    elif several and node.translated and node.redirect is None:
        why = node.why.get("acs.redirect") or node.why.get("acs") or "the bridges' configuration could not be read"
        warnings.append(f"The IOMMU translates and it is unknown whether ACS redirects ({why}): P2P may hang.")
    elif several and node.virtual and node.p2p == "ok":
        warnings.append(
            "This is a virtual machine, which does not see the IOMMU and the bridges of its host: P2P may hang "
            "although it is offered. Measure collectives (nccl_env_probe) before you rely on it."
        )
    if several and node.mig:
        warnings.append("MIG is enabled on a GPU: instances have no P2P, so nothing is tuned.")
    return warnings


def _node_notes(node: Node, profile: str) -> list[str]:
    """Why no level is set: the first of these that holds."""
    cell = f"{node.p2p_cell}: {REFUSED_CELLS.get(node.p2p_cell, '')}"
    reasons = (
        (node.gpus == 1, "One GPU: NCCL has nobody to talk to."),
        (
            profile == "conservative",
            "The conservative profile leaves NCCL's own choices, but for what is needed to be correct.",
        ),
        (_hangs(node), "P2P is disabled, so no level is set."),
        (node.mig, "MIG is enabled on a GPU, and instances have no P2P: no level is set."),
        (node.p2p == "refused", f"P2P between the GPUs is refused ({cell}): no level is set."),
        (node.p2p is None, f"It is unknown whether the GPUs can do P2P ({_why(node, 'p2p')}): no level is set."),
        (node.links is None, f"It is unknown how the GPUs are linked ({_why(node, 'links')}): no level is set."),
        (node.links == "nvlink", "All GPUs are linked by NVLink, which NCCL uses by itself."),
        (node.links == "switch", "All GPUs share PCIe switches, which NCCL's default reach (PXB) covers."),
        (
            node.links in ("socket", "sockets") and _reaches_already(node),
            "NCCL's default reach is SYS for two GPUs on AMD.",
        ),
    )
    return [reason for holds, reason in reasons if holds][:1]


def _why(node: Node, key: str) -> str:
    return node.why.get(key) or "gpu_node_facts gives no usable matrix"


def _value_warnings(chosen: Mapping[str, Mapping[str, str]], engine: str) -> list[str]:
    warnings = []
    for name, item in chosen.items():
        bare, value = name.removeprefix(PREFIX), item["value"]
        if bare in DEPRECATED:
            warnings.append(f"{name} is deprecated, {PREFIX}{DEPRECATED[bare]} took its place.")
        if name == "NCCL_PROTO" and "ll128" in value.lower().replace("^ll128", ""):
            warnings.append("NCCL_PROTO names LL128, which forces it also where it can corrupt data: check the values.")
        if name == "NCCL_ALGO" and "ring" not in value.lower():
            warnings.append("NCCL_ALGO leaves Ring out, so NCCL has no algorithm to fall back to.")
        if name == "NCCL_ALGO" and "^" in value and "ring" in value.lower():
            warnings.append("NCCL_ALGO excludes Ring, so NCCL has no algorithm to fall back to.")
        forced = ENGINE_OVERWRITES.get(engine, {}).get(name)
        if forced is not None and forced != value:
            warnings.append(f"{engine} overwrites {name} with {forced}; the value {value} has no effect.")
    return warnings


def _own_all_reduce_warnings(node: Node, chosen: Mapping[str, Mapping[str, str]], engine: str) -> list[str]:
    """What NCCL_P2P_DISABLE does not reach: the engines' own kernels, which talk over P2P without asking NCCL."""
    if (node.gpus or 0) < 2 or chosen.get("NCCL_P2P_DISABLE", {}).get("value") != "1":
        return []
    switches = " and ".join(f"{name}=1" for key, name in PCIE_ALL_REDUCE.items() if engine in ("", key))
    return [
        "NCCL_P2P_DISABLE=1 is for NCCL alone. With two ranks the engines use P2P for an all-reduce of their own: add "
        f"{NO_OWN_ALL_REDUCE} to inference_server_extra_arguments. With more ranks they leave it off over PCIe, but "
        f"for what {switches} turns on: leave that out."
    ]


def _engine_notes(chosen: Mapping[str, Mapping[str, str]], engine: str) -> list[str]:
    defaults = ENGINE_DEFAULTS.get(engine, {})
    return [
        f"{engine} sets {name}={value} where it is unset." for name, value in defaults.items() if name not in chosen
    ]
