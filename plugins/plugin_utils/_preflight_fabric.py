# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preflight: what stands between the GPUs, and how the kernel is set. Each function states the fact that breaks its
rule, or nothing.
"""

from __future__ import annotations

import shlex
from typing import Any

from ansible_collections.blackwell.inference.plugins.plugin_utils._preflight_gpu import gpus_of
from ansible_collections.blackwell.inference.plugins.plugin_utils._preflight_model import (
    GIB,
    UNLIMITED,
    Answer,
    Broken,
    Facts,
    Unknown,
    Wants,
)

BEHIND_SWITCHES = {"PIX", "PXB"}
P2P_WORDS = {
    "CNS": "the chipset does not support it",
    "GNS": "a GPU does not support it",
    "TNS": "the topology does not support it",
    "NS": "it is not supported",
    "DR": "the registry words forbid it",
    "U": "the driver does not know",
}
FEW_FILES = 65536
SHOWN = 5  # of a list that may be long


def iommu_redirect(facts: Facts, _wants: Wants) -> Answer:
    """A translating IOMMU together with bridges that send peer traffic up to it."""
    mode, redirect = facts.get("gpu_node.iommu.mode"), facts.get("gpu_node.acs.redirect")
    if not gpus_of(facts) or mode in ("off", "passthrough") or redirect is False:
        return None
    if isinstance(mode, Unknown) or isinstance(redirect, Unknown):
        known = "" if isinstance(mode, Unknown) else f"the IOMMU is {mode}, and of ACS redirect: "
        return Unknown(known + next(one.reason for one in (mode, redirect) if isinstance(one, Unknown)))
    return Broken(f"the IOMMU is {mode}, and bridges above the GPUs redirect: {', '.join(_redirecting(facts))}")


def _redirecting(facts: Facts) -> list[str]:
    bridges = facts.get("gpu_node.acs.bridges")
    bits = ("request_redirect", "completion_redirect")
    return [] if isinstance(bridges, Unknown) else [one["bus_id"] for one in bridges if any(one[bit] for bit in bits)]


def iommu_translated(facts: Facts, _wants: Wants) -> Answer:
    """A translating IOMMU alone."""
    if not gpus_of(facts) or facts.get("gpu_node.iommu.mode") != "translated":
        return None
    # together with redirect it is the graver finding above
    return Broken("the IOMMU translates addresses of the GPUs") if facts.get("gpu_node.acs.redirect") is False else None


def acs_redirect(facts: Facts, _wants: Wants) -> Answer:
    """Bridges that send traffic between neighbours on a switch up to the processor."""
    links, redirect = facts.get("gpu_node.links"), facts.get("gpu_node.acs.redirect")
    if isinstance(links, Unknown) or isinstance(redirect, Unknown) or not redirect:
        return None
    if facts.get("gpu_node.iommu.mode") == "translated" or not BEHIND_SWITCHES & {
        label for row in links for label in row
    }:
        return None
    return Broken(f"GPUs share a switch, and bridges above them redirect: {', '.join(_redirecting(facts))}")


def matrix_refused(facts: Facts, wants: Wants) -> Answer:
    """The two matrices between the GPUs, which decide how NCCL is set."""
    if len(gpus_of(facts)) < 2 or wants.tensor_parallel < 2:
        return None
    matrices = [(name, facts.get(f"gpu_node.{name}")) for name in ("links", "p2p")]
    refused = [f"{name}: {matrix.reason}" for name, matrix in matrices if isinstance(matrix, Unknown)]
    return Broken("; ".join(refused)) if refused else None


def p2p_refused(facts: Facts, wants: Wants) -> Answer:
    """Pairs of GPUs that the driver does not let talk to each other directly."""
    matrix = facts.get("gpu_node.p2p")
    if isinstance(matrix, Unknown) or wants.tensor_parallel < 2:
        return None
    pairs = [(i, j, word) for i, row in enumerate(matrix) for j, word in enumerate(row) if i < j]
    refused = [(i, j, word) for i, j, word in pairs if word != "OK"]
    if not refused:
        return None
    first = ", ".join(f"{i}-{j}" for i, j, _word in refused[:SHOWN]) + (" ..." if len(refused) > SHOWN else "")
    words = sorted({word for _i, _j, word in refused})
    why = ", ".join(f"{word}: {P2P_WORDS.get(word, 'no such word is documented')}" for word in words)
    return Broken(f"{len(refused)} of {len(pairs)} pairs of GPUs ({first}) are refused ({why})")


def uvm_hmm(facts: Facts, wants: Wants) -> Answer:
    """Heterogeneous memory management of the driver, together with traffic between GPUs."""
    modes = {gpu.get("addressing_mode") for gpu in gpus_of(facts)}
    disabled = facts.get("gpu_node.module_parameters.nvidia_uvm.uvm_disable_hmm")
    if wants.tensor_parallel < 2 or not modes or modes <= {"none", "ats"}:
        return None
    if isinstance(disabled, Unknown):
        return Broken("the driver says that HMM is on") if "hmm" in modes else disabled
    return None if disabled in ("Y", "1") else Broken(f"uvm_disable_hmm is {disabled}: HMM is on")


def _forced(facts: Facts) -> dict[str, int]:
    words = facts.get("gpu_node.module_parameters.registry_words")
    if isinstance(words, Unknown):
        return {}
    return {name: value for name, value in words.items() if "forcep2p" in name.lower() and value}


def p2p_forced_geforce(facts: Facts, _wants: Wants) -> Answer:
    """P2P forced upon GPUs that don't have it."""
    forced = _forced(facts)
    geforce = sorted({str(gpu["name"]) for gpu in gpus_of(facts) if "GeForce" in str(gpu.get("name"))})
    if not forced or not geforce:
        return None
    return Broken(f"the driver's registry words have {_words(forced)} on {', '.join(geforce)}")


def p2p_forced(facts: Facts, wants: Wants) -> Answer:
    """P2P forced upon GPUs that have it anyway, or words that can't be read."""
    words = facts.get("gpu_node.module_parameters.registry_words")
    if isinstance(words, Unknown):
        return words if gpus_of(facts) else None
    forced = _forced(facts)
    if not forced or p2p_forced_geforce(facts, wants):
        return None
    return Broken(f"the driver's registry words have {_words(forced)}")


def _words(words: dict[str, int]) -> str:
    return ", ".join(f"{name}={value:#x}" for name, value in words.items())


def shm_size(facts: Facts, wants: Wants) -> Answer:
    """Shared memory for the tensors that processes pass to each other."""
    if wants.hardware == "gpu":
        size = facts.get("gpu_node.shm.size_mib")
        total = size if isinstance(size, Unknown) else size * 1024**2
    else:
        total = facts.get("node.shared_memory.total")
    if isinstance(total, Unknown) or total >= wants.shm_gib * GIB:
        return total if isinstance(total, Unknown) else None
    return Broken(f"/dev/shm has {total / GIB:.2f} GiB of {wants.shm_gib:g} GiB")


def shm_leftovers(facts: Facts, _wants: Wants) -> Answer:
    """Segments that nobody holds."""
    leftovers = facts.get("gpu_node.shm.leftovers")
    if isinstance(leftovers, Unknown):
        return leftovers
    orphans = [one for one in leftovers if one["orphan"]]
    if not orphans:
        unsure = [one["path"] for one in leftovers if one["orphan"] is None]
        return Unknown(f"who holds {', '.join(unsure[:SHOWN])}: run as root") if unsure else None
    paths = [one["path"] for one in orphans]
    size = sum(one["size_bytes"] for one in orphans) / GIB
    shown = " ".join(paths[:SHOWN]) + (f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else "")
    return Broken(
        f"{len(paths)} segments with {size:.1f} GiB that no process holds: {shown}",
        f"rm {' '.join(map(shlex.quote, paths))}",
    )


def limits(facts: Facts, wants: Wants) -> Answer:
    """The limits that the unit asks for, against what systemd may give."""
    seen = facts.get("node.limits")
    if isinstance(seen, Unknown):
        return seen if wants.limits else None
    asked = {name: hard for name, (_soft, hard) in wants.limits.items()}
    refused = []
    if not seen["may_raise"]:
        refused = [
            f"{name}={limit_text(asked[name])} is above the hard limit {limit_text(hard)} of the first process"
            for name, hard in seen["hard"].items()
            if asked.get(name, 0) > hard
        ]
    files = asked.get("NOFILE", 0)
    if seen["nr_open"] < files and files != UNLIMITED:
        refused.append(f"NOFILE={files} is above fs.nr_open={seen['nr_open']}")
    return Broken("; ".join(refused)) if refused else None


def limits_low(facts: Facts, wants: Wants) -> Answer:
    """Limits that engines run into late."""
    given: Any = facts.get("node.limits.given")
    effective: dict[str, int] = {} if isinstance(given, Unknown) else dict(given)
    effective.update({name: soft for name, (soft, _hard) in wants.limits.items()})
    low = [
        f"{name} is {limit_text(effective[name])}"
        for name, least in (("MEMLOCK", UNLIMITED), ("NOFILE", FEW_FILES))
        if effective.get(name, least) < least
    ]
    return Broken("the unit's " + " and ".join(low)) if low else None


def limit_text(value: int) -> str:
    """A limit as systemd writes it."""
    return "infinity" if value == UNLIMITED else str(value)


def cpu_governor(facts: Facts, _wants: Wants) -> Answer:
    """Processors that don't slow down between two kernels. Where the kernel does not scale there is nothing to set."""
    governors = facts.get("gpu_node.cpu.governors")
    if isinstance(governors, Unknown) or set(governors) <= {"performance"}:
        return None
    return Broken(f"the CPU frequency governor is {', '.join(governors)}")


def numa_balancing(facts: Facts, _wants: Wants) -> Answer:
    """Memory that stays where it was put. With one NUMA node there is nowhere to move it."""
    balancing, nodes = facts.get("gpu_node.cpu.numa_balancing"), facts.get("gpu_node.numa_nodes")
    if isinstance(balancing, Unknown) or not balancing:
        return balancing if isinstance(balancing, Unknown) else None
    if not isinstance(nodes, Unknown) and len(nodes) < 2:
        return None
    count = "" if isinstance(nodes, Unknown) else f" with {len(nodes)} NUMA nodes"
    return Broken(f"kernel.numa_balancing is on{count}")
