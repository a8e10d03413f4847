# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges what collective_probe.py measured: whether a profile of NCCL variables is kept, why, and by which figures.

    collective_judgement.py QUESTION     prints one line of JSON

The role hands this text to an interpreter of the node on standard input; Python 3.8 and later, standard library. It is
a pure function of QUESTION, which is JSON:

* `measurement`: what the probe printed: `before` is without the variables, `after` with them
* `decides`: the groups of sizes that decide; `tolerance`: the share of time that they may take more
* `node`: what is known of it: `iommu_translated`, `acs_redirect`, `hmm_disabled`, each true, false or null
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from typing import Any, Dict, Mapping

Result = Dict[str, Any]  # one measurement of the probe
BROKEN = ("wrong", "hung", "died", "failed")

# What operators and the projects' own trackers report, read 2026-11.
KNOWN_ERRORS = (
    (r"out of memory", "the memory of a GPU is taken. Look with nvidia-smi who holds it, stop that, and run again"),
    (
        r"no kernel image|sm_\d+ is not compatible",
        "this torch has no code for the GPU. Take a lock whose torch has (CUDA 12.8 or later for sm_120), and let "
        "ml_env_torch_arch check it",
    ),
    (
        r"SIGBUS|No space left on device|/dev/shm",
        "/dev/shm is full or small. Remove what dead servers left there (nccl-*), and give it 8 GiB or more",
    ),
    (r"SIGKILL", "the kernel ended it, most likely for want of memory. See dmesg"),
    (r"No module named '?torch", "nccl_env_probe_python is no interpreter with torch. Name that of the environment"),
    (
        r"invalid device ordinal|Duplicate GPU",
        "there are fewer GPUs than processes. Set nccl_env_probe_processes to their number",
    ),
    (
        r"illegal memory access|SIGSEGV",
        "NCCL before 2.27 fails on sm_120 (2.25.1) or crashes from 512 KiB (2.26.2). Take a lock with a later one",
    ),
)
WITHOUT_PEERS = (
    "Until then set NCCL_P2P_DISABLE: 1 in nccl_env_overrides, with the engine's custom all-reduce off as well"
)


def judge(question: Mapping[str, Any]) -> dict[str, Any]:
    """The verdict, `keep` or `veto`, with reasons, notes and figures. Total: a failed measurement is judged as well.

    A profile is refused where with its variables the values are wrong or missing, or where a group that decides takes
    longer by more than the tolerance, as the geometric mean over its collectives and sizes.
    """
    before, after = question["measurement"]["before"], question["measurement"]["after"]
    node = question.get("node") or {}
    reasons, notes = [], []
    if after["status"] in BROKEN:
        reasons.append(f"with the variables: {in_words(after, node)}")
    if before["status"] in BROKEN:
        notes.append(f"without the variables: {in_words(before, node)}")
    elif before["status"] != "ok":
        notes.append(f"not compared: {before['reason']}")
    speeds = speeds_of(before, after)
    for group, speed in speeds.items():
        if 1 / speed > 1 + question["tolerance"]:
            words = f"{group} takes {1 / speed:.2f} times as long as without the variables"
            limit = f"at most {1 + question['tolerance']:.2f} times is tolerated"
            decides = group in question["decides"]
            (reasons if decides else notes).append(f"{words} ({limit if decides else 'this group does not decide'})")
    return {
        "verdict": "veto" if reasons else "keep",
        "reasons": reasons,
        "notes": notes + notes_of(after),
        "speed": {group: round(speed, 3) for group, speed in speeds.items()},
        "figures": figures_of(before, after),
    }


def in_words(result: Result, node: Mapping[str, Any]) -> str:
    """What went wrong in a measurement, and the likely cause."""
    text = f"{result['status']}, {result['reason']}. Likely cause: {likely_cause(result, node)}."
    if result.get("can_not_be_ended"):
        text += f" Processes {result['can_not_be_ended']} can't be ended: their GPU is wedged. Reset it or reboot."
    return text


def likely_cause(result: Result, node: Mapping[str, Any]) -> str:
    """Why it probably went wrong and what to do, from what was seen and what is known of the node."""
    text = " ".join([result["reason"], *result["nccl"]["warnings"]])
    for pattern, cause in KNOWN_ERRORS:
        if re.search(pattern, text, re.IGNORECASE):
            return cause
    if result["status"] == "wrong":
        return cause_of_wrong(result)
    if result["status"] == "hung":
        return cause_of_hang(result, node)
    return "none that is known"


def cause_of_wrong(result: Result) -> str:
    """Wrong values that arrived in time."""
    if result["backend"] != "nccl":
        return "the memory of this node. Test it"
    if result["nccl"]["transports"].get("P2P"):
        return (
            "peer access delivers wrong values, as where a driver was made to offer it (ForceP2P). Take that away. "
            + WITHOUT_PEERS
        )
    return "not peer access, which was not used. Look for LL128 in NCCL_PROTO, and at the GPUs (nvidia-smi -q, dmesg)"


def cause_of_hang(result: Result, node: Mapping[str, Any]) -> str:
    """Who waits for whom, and where."""
    progress = result["progress"]
    late = [str(rank) for rank, place in enumerate(progress) if place < max(progress)]
    if late:
        return (
            f"rank {', '.join(late)} is behind and the others wait for it: its process or GPU is stuck. A GPU that "
            "stays busy without a process needs a reset or a reboot"
        )
    if max(progress) < 1:
        return "a slow disk: the import of torch did not end. Give nccl_env_probe_timeout more"
    if result["backend"] != "nccl":
        return "too little CPU for the processes. Give nccl_env_probe_timeout more"
    if max(progress) < 3:
        ready = ", ".join(map(str, result["nccl"]["initialised"])) or "none"
        return (
            "NCCL's initialisation. Look at /dev/shm (size, leftovers nccl-*), at the memlock limit and at "
            f"NCCL_SOCKET_IFNAME. Initialised ranks: {ready}"
        )
    if result["nccl"]["transports"] and not result["nccl"]["transports"].get("P2P"):
        return "not peer access, which was not used. Look at the GPUs and their driver (dmesg, Xid), and at /dev/shm"
    return cause_of_peer_hang(node, first=not result["steps"])


def cause_of_peer_hang(node: Mapping[str, Any], first: bool) -> str:
    """All ranks wait in the same collective while GPUs talk directly."""
    ruled_out = node.get("iommu_translated") is False or node.get("acs_redirect") is False
    if node.get("iommu_translated") and node.get("acs_redirect"):
        return (
            "the IOMMU of this node translates, and ACS redirects peer traffic to it. Boot with iommu=pt, or clear "
            f"ACS redirect on the bridges above the GPUs. {WITHOUT_PEERS}"
        )
    if first and not ruled_out:
        return (
            "all ranks are initialised and the first collective does not end: on PCIe hosts that is an IOMMU that "
            "translates together with ACS redirect, whatever nvidia-smi says of peer access. Boot with iommu=pt, or "
            f"clear the redirect. {WITHOUT_PEERS}"
        )
    if not node.get("hmm_disabled"):
        return (
            "peer access locks up. `options nvidia_uvm uvm_disable_hmm=1` cured that on many hosts (see "
            f"node_preflight_module_options). {WITHOUT_PEERS}"
        )
    return f"peer access locks up, and it is neither the IOMMU nor HMM. Look at dmesg for Xid. {WITHOUT_PEERS}"


def speeds_of(before: Result, after: Result) -> dict[str, float]:
    """How many times as fast each group is with the variables; only where both have right values.

    Taken from the median rounds and from the best ones, whichever is in favour of the variables: what slows single
    rounds down is the node's, not theirs.
    """
    if before["status"] != "ok" or after["status"] != "ok":
        return {}
    medians: dict[str, list[float]] = {}
    bests: dict[str, list[float]] = {}
    for old, new in in_pairs(before, after):
        medians.setdefault(new["group"], []).append(old["microseconds"] / new["microseconds"])
        bests.setdefault(new["group"], []).append(old["spread"][0] / new["spread"][0])
    mean = statistics.geometric_mean
    return {group: max(mean(medians[group]), mean(bests[group])) for group in medians}


def in_pairs(before: Result, after: Result) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The steps that both have measured."""
    old = {(step["collective"], step["bytes"]): step for step in measured(before)}
    return [
        (old[step["collective"], step["bytes"]], step)
        for step in measured(after)
        if (step["collective"], step["bytes"]) in old
    ]


def measured(result: Result) -> list[dict[str, Any]]:
    """The steps that have a time."""
    return [step for step in result.get("steps", []) if "microseconds" in step]


def notes_of(after: Result) -> list[str]:
    """What else is worth knowing."""
    notes = [f"not measured: {after['reason']}"] if after["status"] == "not_applicable" else []
    transports = after.get("nccl", {}).get("transports", {})
    if transports:
        notes.append(
            "pairs of ranks by transport: " + ", ".join(f"{name} {count}" for name, count in transports.items())
        )
    absent = {step["collective"]: step["reason"] for step in after.get("steps", []) if "reason" in step}
    return notes + [f"{collective} is not applicable: {reason}" for collective, reason in absent.items()]


def figures_of(before: Result, after: Result) -> list[str]:
    """One line for every step: microseconds without and with the variables, and GB/s with them."""
    old = {(new["collective"], new["bytes"]): was["microseconds"] for was, new in in_pairs(before, after)}
    return [
        f"{step['group']}: {step['collective']} of {step['bytes']} bytes, "
        + (f"{old[step['collective'], step['bytes']]:.1f} -> " if (step["collective"], step["bytes"]) in old else "")
        + f"{step['microseconds']:.1f} us, {step['busbw_gbps']:.4g} GB/s"
        for step in measured(after)
    ]


if __name__ == "__main__":
    print(json.dumps(judge(json.loads(sys.argv[1])), sort_keys=True))
