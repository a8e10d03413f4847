# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node on which nothing is wrong, what it is wanted for, and changes to both."""

from __future__ import annotations

import copy
from typing import Any

from ansible_collections.blackwell.inference.plugins.filter.preflight_findings import preflight_findings
from ansible_collections.blackwell.inference.plugins.plugin_utils._preflight_model import GIB, UNLIMITED

MIB = 1024**2
NOW = 1_796_000_000.0

GPU = {
    "name": "NVIDIA RTX PRO 6000 Blackwell Server Edition",
    "compute_capability": "12.0",
    "memory_mib": 97887,
    "bar1_mib": 131072,
    "utilization_percent": 0,
    "power_draw_w": 30.1,
    "persistence": True,
    "mig": False,
    "addressing_mode": "none",
    "recovery_action": "none",
    "pcie_generation_max": 5,
    "pcie_generation_max_device": 5,
    "pcie_generation_current": 1,
    "pcie_width_max": 16,
    "pcie_width_current": 16,
}
BRIDGE = {
    "bus_id": "0000:00:01.1",
    "above": ["0000:10:00.0"],
    "capable": True,
    "source_validation": True,
    "request_redirect": False,
    "completion_redirect": False,
}
PROCESS = {
    "pid": 4711,
    "name": "python3",
    "state": "S",
    "parent": 4700,
    "session": 4700,
    "uid": 990,
    "unit": "specdecode@main.service",
    "orphan": False,
    "listed": True,
    "gpus": [0, 1],
    "memory_mib": 80000,
}
LISTENER = {"address": "127.0.0.1", "pid": 99, "command": "nginx", "unit": "nginx.service"}

HEALTHY: dict[str, Any] = {
    "node": {
        "reasons": {},
        "clock": {"time": NOW + 0.2, "synchronised": True, "newest": NOW - 3600},
        "system": {
            "distribution": "ubuntu",
            "version": "24.04",
            "architecture": "x86_64",
            "kernel": "6.8.0",
            "glibc": "2.39",
            "uid": 0,
            "python": "3.12.3",
        },
        "interpreter": {
            "path": "/usr/bin/python3.12",
            "release": "3.12.3",
            "error": None,
            "others": ["python3.11", "python3.12"],
        },
        "disks": {
            name: {
                "path": path,
                "place": "/opt",
                "exists": False,
                "device": device,
                "free": 100 * GIB,
                "used": None,
                "read_only": False,
                "no_exec": False,
            }
            for name, path, device in (("environment", "/opt/env", 1), ("weights", "/srv/weights", 2))
        },
        "models": [{"path": "/srv/models/target", "exists": True, "config": True, "missing": []}],
        "memory": {"total": 256 * GIB, "available": 200 * GIB},
        "service_manager": {
            "running": True,
            "first_process": "systemd",
            "state": "running",
            "failed": [],
            "unit_active": False,
        },
        "listeners": [],
        "limits": {
            "hard": {"MEMLOCK": 8 * MIB, "NOFILE": 524288, "STACK": UNLIMITED},
            "may_raise": True,
            "nr_open": 1048576,
            "given": {"MEMLOCK": 8 * MIB, "NOFILE": 1024, "STACK": 8 * MIB},
        },
        "shared_memory": {"total": 16 * GIB},
        "torch": {"installed": True, "release": "2.13.0", "cuda": "13.0", "arch_list": ["sm_90", "sm_120"]},
        "ours": [],
    },
    "gpu_node": {
        "reasons": {},
        "driver": {"state": "working", "version": "580.95.05", "flavour": "open", "cuda_version": "13.0"},
        "gpus": [{"index": index, "bus_id": f"0000:{index + 1}0:00.0", **GPU} for index in range(2)],
        "pci_gpus": [
            {"bus_id": f"0000:{index + 1}0:00.0", "device_id": "2BB5", "driver": "nvidia"} for index in range(2)
        ],
        "links": [["X", "NODE"], ["NODE", "X"]],
        "p2p": [["X", "OK"], ["OK", "X"]],
        "iommu": {"mode": "passthrough", "types": {}},
        "acs": {"redirect": False, "bridges": [BRIDGE]},
        "module_parameters": {
            "nvidia": {"EnableResizableBar": "0"},
            "nvidia_uvm": {"uvm_disable_hmm": "Y"},
            "registry_words": {},
        },
        "processes": [],
        "shm": {"size_mib": 16384, "leftovers": []},
        "cpu": {"vendor": "AuthenticAMD", "model": "EPYC", "governors": ["performance"], "numa_balancing": False},
        "numa_nodes": [{"node": 0, "cpus": "0-31"}, {"node": 1, "cpus": "32-63"}],
        "virtual_machine": False,
    },
}
WANTS: dict[str, Any] = {
    "hardware": "gpu",
    "accepted": [],
    "port": 8000,
    "host": "127.0.0.1",
    "unit": "specdecode@main.service",
    "python": "python3.12",
    "python_release": "3.12",
    "architecture": "x86_64",
    "glibc": "2.35",
    "cuda": "13.0",
    "nccl": "2.29.7",
    "tensor_parallel": 2,
    "disks": [
        {"name": "environment", "path": "/opt/env", "needed_gib": 30},
        {"name": "weights", "path": "/srv/weights", "needed_gib": 0},
    ],
    "models": ["/srv/models/target"],
    "memory_gib": 64,
    "shm_gib": 8,
    "limits": {"MEMLOCK": "infinity", "NOFILE": 1048576, "STACK": "64M"},
    "clock_skew_seconds": 30,
    "controller_sent": NOW,
    "controller_received": NOW + 0.5,
}

Changes = dict[str, Any]
SHARED = {"node.disks.weights.device": 1}
ORPHAN = {**PROCESS, "parent": 1, "session": 4000, "unit": "", "orphan": True}
SEGMENT = {"path": "/dev/shm/psm_1", "size_bytes": GIB, "holders": [], "orphan": True}


def changed(start: dict[str, Any], changes: Changes) -> dict[str, Any]:
    """A copy with other values at these dotted paths; a number is a place in a list."""
    result = copy.deepcopy(start)
    for path, value in changes.items():
        target: Any = result
        *way, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        for part in way:
            target = target[part]
        target[last] = value
    return result


def find(facts: Changes, wants: Changes | None = None) -> list[dict[str, Any]]:
    reasons = {path: facts[path] for path in facts if ".reasons." in path}
    start = changed(HEALTHY, {path: value for path, value in facts.items() if path not in reasons})
    for path, reason in reasons.items():
        source, key = path.split(".reasons.")
        start[source]["reasons"][key] = reason
    return preflight_findings(start, {**WANTS, **(wants or {})})
