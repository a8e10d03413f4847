# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which NCCL variables a node should have, decided from its facts by rules with their reason, evidence and date.

NVIDIA files nearly all tuning variables under "for debugging, generally not for production". So the rules set few,
each for a reason that the node's own facts give, and the rest is listed as considered and not set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.blackwell.inference.plugins.plugin_utils._nccl_names import (
    CUDA_CONNECTIONS,
    DEPRECATED,
    MAX_BYTES,
    PREFIX,
    SOURCE,
    problem_of_name,
    problem_of_value,
)

PROFILES = ("conservative", "latency", "throughput")
REFUSED_CELLS = {
    "CNS": "the chipset does not support it",
    "GNS": "the GPU does not support it",
    "TNS": "the topology does not support it",
    "NS": "it is not supported",
}
NEAR, FAR = ("X", "PIX", "PXB"), ("SYS", "SOC")
LINK_LABELS = (*NEAR, "PHB", "NODE", *FAR)


class NcclError(ValueError):
    """The variables cannot be decided; the message holds fact, rule and remedy."""


@dataclass(frozen=True)
class Node:
    """What the rules look at, read from gpu_node_facts. None means: unknown, with the reason in `why`."""

    gpus: int | None
    links: str | None  # switch (PIX, PXB), socket (PHB, NODE), sockets (SYS), nvlink
    p2p: str | None  # ok, refused
    p2p_cell: str
    translated: bool | None
    redirect: bool | None
    amd: bool
    mig: bool
    why: Mapping[str, str]


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
        lambda node: _tunable(node) and node.links == "socket",
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
        "as a profile for throughput it halves what one stream gets per GPU pair and was overtaken by P2P over SYS",
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


def read_node(facts: object) -> Node:
    """The facts that count, from gpu_node_facts. Raises NcclError when they are no facts of a node."""
    if not isinstance(facts, Mapping) or "gpus" not in facts:
        raise NcclError(
            "gpu_node is not what gpu_node_facts returns (it has no gpus). Run blackwell.inference.gpu_node_facts "
            "first."
        )
    gpus = facts["gpus"]
    if gpus is not None and (not _is_list(gpus) or not all(isinstance(gpu, Mapping) for gpu in gpus)):
        raise NcclError("gpu_node.gpus is no list of GPUs. Run blackwell.inference.gpu_node_facts again.")
    count = None if gpus is None else len(gpus)
    why = facts.get("reasons")
    p2p, cell = _read_p2p(facts.get("p2p"), count)
    iommu, acs, cpu = (_mapping(facts.get(key)) for key in ("iommu", "acs", "cpu"))
    mode, redirect = iommu.get("mode"), acs.get("redirect")
    return Node(
        gpus=count,
        links=_read_links(facts.get("links"), count),
        p2p=p2p,
        p2p_cell=cell,
        translated=mode == "translated" if isinstance(mode, str) else None,
        redirect=redirect if isinstance(redirect, bool) else None,
        amd=cpu.get("vendor") == "AuthenticAMD",
        mig=any(_is_enabled(gpu.get("mig")) for gpu in gpus or []),
        why={str(key): str(value) for key, value in _mapping(why).items()},
    )


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _is_enabled(mig: object) -> bool:
    return mig is True or str(mig).lower() == "enabled"


def _cells(matrix: object, count: int | None) -> list[str] | None:
    """The cells beside the diagonal of a square matrix over the GPUs, or None when it is none."""
    if not isinstance(matrix, Sequence) or isinstance(matrix, (str, bytes)) or count is None or len(matrix) != count:
        return None
    cells = []
    for row_number, row in enumerate(matrix):
        if not isinstance(row, Sequence) or isinstance(row, (str, bytes)) or len(row) != count:
            return None
        cells += [cell for column, cell in enumerate(row) if column != row_number]
    return cells if all(isinstance(cell, str) for cell in cells) else None


def _read_links(matrix: object, count: int | None) -> str | None:
    cells = _cells(matrix, count)
    if cells is None or not cells:
        return None
    pcie = [cell for cell in cells if not (cell.startswith("NV") and cell[2:].isdigit())]
    if not all(cell in LINK_LABELS for cell in pcie):
        return None
    if not pcie:
        return "nvlink"
    if any(cell in FAR for cell in pcie):
        return "sockets"
    return "switch" if all(cell in NEAR for cell in pcie) else "socket"


def _read_p2p(matrix: object, count: int | None) -> tuple[str | None, str]:
    cells = _cells(matrix, count)
    if not cells:
        return None, ""
    refused = next((cell for cell in cells if cell in REFUSED_CELLS), "")
    if refused:
        return "refused", refused
    return ("ok", "") if all(cell == "OK" for cell in cells) else (None, "")


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
        (node.p2p == "refused", f"P2P between the GPUs is refused ({cell}): no level is set."),
        (node.p2p is None, f"It is unknown whether the GPUs can do P2P ({_why(node, 'p2p')}): no level is set."),
        (node.links is None, f"It is unknown how the GPUs are linked ({_why(node, 'links')}): no level is set."),
        (node.links == "nvlink", "All GPUs are linked by NVLink, which NCCL uses by itself."),
        (node.links == "switch", "All GPUs share PCIe switches, which NCCL's default reach (PXB) covers."),
        (node.links == "sockets" and _reaches_already(node), "NCCL's default reach is SYS for two GPUs on AMD."),
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


def _engine_notes(chosen: Mapping[str, Mapping[str, str]], engine: str) -> list[str]:
    defaults = ENGINE_DEFAULTS.get(engine, {})
    return [
        f"{engine} sets {name}={value} where it is unset." for name, value in defaults.items() if name not in chosen
    ]


def render_environment(variables: Sequence[Mapping[str, str]], notes: Sequence[str]) -> str:
    """The variables as a unit's environment file, each below its reason."""
    lines = _head(notes)
    for variable in variables:
        lines += _comment(variable)
        lines.append(f"{variable['name']}={variable['value']}")
    return "\n".join(lines) + "\n"


def render_conf(variables: Sequence[Mapping[str, str]], notes: Sequence[str]) -> str:
    """The variables in the exact syntax of /etc/nccl.conf: `#` in the first column, KEY=VALUE without a blank.

    Variables that are not NCCL's are left out: NCCL reads the file after CUDA has read its own.
    """
    lines = _head([*notes, "A variable of the process's environment wins over this file."])
    for variable in variables:
        line = f"{variable['name']}={variable['value']}"
        if variable["name"].startswith(PREFIX) and len(line) <= MAX_BYTES:
            lines += _comment(variable)
            lines.append(line)
    return "\n".join(lines) + "\n"


def _head(notes: Sequence[str]) -> list[str]:
    return [
        line for note in (f"Written by blackwell.inference (rules after {SOURCE}).", *notes) for line in _wrap(note)
    ]


def _comment(variable: Mapping[str, str]) -> list[str]:
    return ["", *_wrap(f"{variable['reason']}. Evidence: {variable['evidence']}.")]


def _wrap(text: str, width: int = 100) -> list[str]:
    """Comment lines. NCCL reads 4095 bytes a line and would take the rest of a longer comment for a setting."""
    lines, line = [], "#"
    # A word that alone is longer than a line, such as a path, is cut: it is a comment.
    for word in (word[: width * 4] for word in text.split()):
        if len(line) + 1 + len(word) > width and line != "#":
            lines.append(line)
            line = "#"
        line += " " + word
    return [*lines, line]
