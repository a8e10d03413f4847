# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who holds the GPUs, and what was left behind in /dev/shm: read from /proc, nothing is touched.

A killed server leaves workers that keep GPU memory while its port is free, and files in /dev/shm that make the next
start fail. Both are recognised by what the kernel says now, not by age or name alone.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple, Sequence

from ansible_collections.blackwell.inference.plugins.module_utils._gpu_files import Tree, UnreadableError

SHM = "/dev/shm"
# NCCL, vLLM, SGLang, and Python's multiprocessing.shared_memory name their segments so.
LEFTOVER_PREFIXES = ("nccl-", "vllm_offload_", "sgl_shm_mm_", "psm_")

_GPU_DEVICE = re.compile(r"/dev/nvidia[0-9]+")
_CUDA_DEVICE = "/dev/nvidia-uvm"  # opened by CUDA; services such as nvidia-persistenced only open the GPUs
_UNIT = re.compile(r"[^/]+\.(?:service|scope)")


class Scan(NamedTuple):
    """What a look into all processes showed."""

    devices: dict[int, list[str]]  # CUDA processes: the device files they have open
    shm_holders: dict[str, list[int]]  # name in /dev/shm: the processes that map it or have it open
    unseen: int  # processes that may not be looked into (without root: those of other users)


def leftover_names(tree: Tree) -> list[str]:
    """The names in /dev/shm that look like segments of an inference server. Raises UnreadableError."""
    return [name for name in tree.names(SHM) if name.startswith(LEFTOVER_PREFIXES)]


def scan_processes(tree: Tree, shm_names: Sequence[str]) -> Scan:
    """Look through the open files of all processes for GPUs, and for these names in /dev/shm.

    A name is compared without its directory: a container sees the same segment under another path. So a segment may
    be called held that is not, but never the other way round. Raises UnreadableError if there is no /proc.
    """
    scan = Scan({}, {name: [] for name in shm_names}, 0)
    unseen = 0
    for pid in (int(name) for name in tree.names("/proc") if name.isascii() and name.isdigit()):
        try:
            paths = _open_paths(tree, pid) + (_mapped_paths(tree, pid) if shm_names else [])
        except UnreadableError as error:
            unseen += error.denied
            continue
        devices = sorted({path for path in paths if _GPU_DEVICE.fullmatch(path)})
        if devices and _CUDA_DEVICE in paths:
            scan.devices[pid] = devices
        for name in {path.rsplit("/", 1)[-1] for path in paths} & set(shm_names):
            scan.shm_holders[name].append(pid)
    return scan._replace(unseen=unseen)


def describe_process(tree: Tree, pid: int) -> dict[str, Any]:
    """Name, parent, session, user, state and systemd unit of a process, and whether it is an orphan.

    An orphan's parent is PID 1 and the leader of its session is gone: what a killed server or a closed shell leaves. A
    service's main process also has PID 1 as its parent, but leads its own session. Raises UnreadableError if the
    process is not there (a GPU can be held from a container whose processes are not visible here).
    """
    lines = [line.partition(":") for line in tree.text(f"/proc/{pid}/status").splitlines()]
    status = {key: value.split() for key, _, value in lines}
    parent, session, user = (_first_number(status.get(key)) for key in ("PPid", "NSsid", "Uid"))
    known = parent is not None and session
    return {
        "name": " ".join(status.get("Name", [])) or None,
        "state": status["State"][0] if status.get("State") else None,
        "parent": parent,
        "session": session,
        "uid": user,
        "unit": _unit(tree, pid),
        "orphan": (parent == 1 and not tree.exists(f"/proc/{session}")) if known else None,
    }


def shm_size_mib(mounts: str, meminfo: str) -> int | None:
    """The size of /dev/shm in MiB, from /proc/mounts and /proc/meminfo; None: it is not mounted, or unreadable.

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


def _open_paths(tree: Tree, pid: int) -> list[str]:
    """What the file descriptors of a process point to. One that is closed meanwhile is no error."""
    paths = []
    for descriptor in tree.names(f"/proc/{pid}/fd"):
        try:
            paths.append(tree.target(f"/proc/{pid}/fd/{descriptor}"))
        except UnreadableError:
            continue
    return paths


def _mapped_paths(tree: Tree, pid: int) -> list[str]:
    """The files that a process maps. A segment stays in use when its descriptor was closed after mapping."""
    mappings = (line.split(None, 5) for line in tree.text(f"/proc/{pid}/maps").splitlines())
    return [fields[5] for fields in mappings if len(fields) == 6]


def _first_number(words: Sequence[str] | None) -> int | None:
    return int(words[0]) if words and re.fullmatch("[0-9]{1,10}", words[0]) else None


def _unit(tree: Tree, pid: int) -> str | None:
    """The innermost systemd service or scope of a process; None: it is in none."""
    try:
        lines = tree.text(f"/proc/{pid}/cgroup").splitlines()
    except UnreadableError:
        return None
    groups = [line.split(":", 2)[-1] for line in lines if line.startswith("0::") or ":name=systemd:" in line]
    units = [part for group in groups for part in group.split("/") if _UNIT.fullmatch(part)]
    return units[-1] if units else None
