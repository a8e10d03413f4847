# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who holds the GPUs, and what was left behind in /dev/shm. Nothing is touched.

A killed server leaves workers that keep GPU memory while its port is free, and files in /dev/shm that make the next
start fail. Both are recognised by what the kernel says now, not by their age.
"""

from __future__ import annotations

import re
from typing import Any, Iterable, Sequence

from ansible_collections.blackwell.inference.plugins.module_utils._gpu_files import UnreadableError
from ansible_collections.blackwell.inference.plugins.module_utils._gpu_findings import Findings
from ansible_collections.blackwell.inference.plugins.module_utils._gpu_processes import (
    PROCESS_FACTS,
    Scan,
    describe_process,
    scan_processes,
)

SHM = "/dev/shm"
# NCCL, vLLM, SGLang, and Python's multiprocessing.shared_memory name their segments so.
LEFTOVER_PREFIXES = ("nccl-", "vllm_offload_", "sgl_shm_mm_", "psm_")

_GPU_DEVICE = re.compile(r"/dev/nvidia[0-9]+")
_CUDA_DEVICE = "/dev/nvidia-uvm"  # opened by CUDA; services such as nvidia-persistenced only open the GPUs

Listed = Iterable["tuple[int, dict[str, Any]]"]


def read_holders(findings: Findings, listed: Listed) -> None:
    """Add C(processes) and C(shm). C(listed) is what nvidia-smi lists: the index of a GPU, and a process on it.

    Where no driver is loaded and nothing lies in /dev/shm, no process needs to be looked into.
    """
    names = [name for name in findings.names("shm.leftovers", SHM) if name.startswith(LEFTOVER_PREFIXES)]
    scan = Scan({}, 0)
    if names or findings.tree.exists("/proc/driver/nvidia"):
        try:
            scan = scan_processes(findings.tree, _is_of_interest, mapped=bool(names))
        except UnreadableError as error:
            scan = Scan({}, 1)
            findings.unknown("processes", error)
    findings.facts["processes"] = _processes(findings, listed, scan)
    leftovers = None if "shm.leftovers" in findings.reasons else _leftovers(findings, names, scan)
    findings.facts["shm"] = {"size_mib": _shm_size(findings), "leftovers": leftovers}


def shm_size_mib(mounts: str, meminfo: str) -> int | None:
    """The size of /dev/shm in MiB, from /proc/mounts and /proc/meminfo; None: they do not tell it.

    The kernel prints size= only where it is not the default, which is half of the memory
    (Documentation/filesystems/tmpfs.rst of Linux).
    """
    entries = [line.split() for line in mounts.splitlines()]
    options = [entry[3] for entry in entries if len(entry) >= 4 and entry[1] == SHM and entry[2] == "tmpfs"]
    if not options:
        return None
    size = re.search(r"(?:^|,)size=([0-9]{1,15})k(?:,|$)", options[-1])  # of several mounts the last is on top
    if size is not None:
        return int(size.group(1)) // 1024
    memory = re.search(r"^MemTotal:\s+([0-9]{1,15}) kB$", meminfo, re.MULTILINE)
    if memory is None or "size=" in options[-1]:
        return None
    return int(memory.group(1)) // 2 // 1024


def _is_of_interest(path: str) -> bool:
    return path == _CUDA_DEVICE or bool(_GPU_DEVICE.fullmatch(path)) or _segment(path).startswith(LEFTOVER_PREFIXES)


def _segment(path: str) -> str:
    """The name of a shared memory segment. Its directory does not count: a container may see it under another one."""
    return path.rsplit("/", 1)[-1].split(" ", 1)[0]


def _processes(findings: Findings, listed: Listed, scan: Scan) -> list[dict[str, Any]]:
    """The processes that nvidia-smi lists, and those that have CUDA open on a GPU without being listed."""
    found: dict[int, list[tuple[int, dict[str, Any]]]] = {
        pid: [] for pid, paths in scan.paths.items() if _CUDA_DEVICE in paths and any(map(_GPU_DEVICE.fullmatch, paths))
    }
    for index, process in listed:
        found.setdefault(process["pid"], []).append((index, process))
    if scan.unseen:
        findings.unknown("processes.unlisted", f"{scan.unseen} processes may not be looked into without root")
    return [_process(findings, f"processes.{place}", pid, found[pid]) for place, pid in enumerate(sorted(found))]


def _process(findings: Findings, path: str, pid: int, listed: Sequence[tuple[int, dict[str, Any]]]) -> dict[str, Any]:
    """One process. What nvidia-smi does not list may hold any GPU, and any amount of memory."""
    amounts = [process["memory_mib"] for index, process in listed]
    facts: dict[str, Any] = {
        "pid": pid,
        "listed": bool(listed),
        "gpus": sorted({index for index, process in listed}) or None,
        "memory_mib": None if None in amounts or not amounts else sum(amounts),
    }
    try:
        facts.update(describe_process(findings.tree, pid))
    except UnreadableError as error:
        facts.update(dict.fromkeys(PROCESS_FACTS))
        facts["name"] = listed[0][1]["name"] or None if listed else None
        findings.unknown(path, f"the process is not visible here: it is in a container, or has ended ({error})")
    for key, value in facts.items():
        if value is None:
            told = f"/proc/{pid}/status does not tell it" if key in PROCESS_FACTS else "nvidia-smi does not tell it"
            findings.unknown(f"{path}.{key}", told)
    return facts


def _leftovers(findings: Findings, names: Sequence[str], scan: Scan) -> list[dict[str, Any]]:
    """The segments in /dev/shm, who holds them, and whether nobody does."""
    leftovers: list[dict[str, Any]] = []
    for name in names:
        try:
            size = findings.tree.size(f"{SHM}/{name}")
        except UnreadableError:  # removed meanwhile
            continue
        holders = sorted(pid for pid, paths in scan.paths.items() if name in map(_segment, paths))
        orphan = None if scan.unseen and not holders else not holders
        if orphan is None:
            reason = f"{scan.unseen} processes may not be looked into without root; one of them may hold it"
            findings.unknown(f"shm.leftovers.{len(leftovers)}.orphan", reason)
        leftovers.append({"path": f"{SHM}/{name}", "size_bytes": size, "holders": holders, "orphan": orphan})
    return leftovers


def _shm_size(findings: Findings) -> int | None:
    path = "shm.size_mib"
    size = shm_size_mib(findings.text(path, "/proc/mounts"), findings.text(path, "/proc/meminfo"))
    if size is None:
        findings.unknown(path, "/proc/mounts shows no tmpfs on /dev/shm whose size can be told")
    else:
        findings.reasons.pop(path, None)
    return size
