# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every preflight check: what breaks it, what does not, and what it says where a fact can't be known.

All cases start from a node on which nothing is wrong, and change as little as they can.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.blackwell.inference.plugins.filter.preflight_findings import FilterModule, preflight_findings
from ansible_collections.blackwell.inference.plugins.plugin_utils._preflight_model import GIB, UNLIMITED
from ansible_collections.blackwell.inference.plugins.plugin_utils._preflight_rules import CHECKS
from ansible_collections.blackwell.inference.tests.unit.plugins.filter.preflight_case import (
    BRIDGE,
    HEALTHY,
    LISTENER,
    MIB,
    NOW,
    ORPHAN,
    PROCESS,
    SEGMENT,
    SHARED,
    WANTS,
    Changes,
    changed,
    find,
)

# id, severity, what is changed in the facts, what is wanted, and what the finding must name
BREAKS: list[tuple[str, str, Changes, Changes, list[str]]] = [
    ("privileges", "error", {"node.system.uid": 1000}, {}, ["user 1000", "become"]),
    ("distribution", "warning", {"node.system.version": "23.10"}, {}, ["ubuntu 23.10"]),
    ("distribution", "warning", {"node.system.distribution": "rocky"}, {}, ["rocky 24.04"]),
    ("architecture", "error", {"node.system.architecture": "aarch64"}, {}, ["aarch64", "x86_64", "ml_env_lock"]),
    ("glibc", "error", {"node.system.glibc": "2.34"}, {}, ["2.34", "2.35"]),
    ("node_python", "error", {"node.system.python": "3.7.3"}, {}, ["3.7.3", "ansible_python_interpreter"]),
    (
        "python_missing",
        "error",
        {"node.interpreter.path": None, "node.interpreter.release": None},
        {"python": "python3.13"},
        ["python3.13 is not on the node", "python3.11, python3.12", "apt-get install python3.13", "ml_env_python"],
    ),
    (
        "python_missing",
        "error",
        {"node.interpreter.error": "libpython3.12.so: cannot open", "node.interpreter.release": None},
        {},
        ["/usr/bin/python3.12 does not run", "libpython3.12.so"],
    ),
    ("python_release", "error", {"node.interpreter.release": "3.11.2"}, {}, ["3.11.2", "3.12", "ml_env_lock"]),
    ("disk_space", "error", {"node.disks.environment.free": 29 * GIB}, {}, ["29.0 GiB free", "/opt/env", "30.0 GiB"]),
    (
        "disk_space",
        "error",
        SHARED,
        {"disks": [{**disk, "needed_gib": 60} for disk in WANTS["disks"]], "models": []},
        ["/opt/env + 60.0 GiB", "/srv/weights", "100.0 GiB free"],
    ),
    (
        "disk_space",
        "error",
        {"node.models.0.missing": ["model-2.safetensors"]},
        {"disks": [WANTS["disks"][0], {"name": "weights", "path": "/srv/weights", "needed_gib": 600}]},
        ["600.0 GiB for the weights"],
    ),
    ("disk_mount", "error", {"node.disks.environment.read_only": True}, {}, ["/opt is mounted read-only"]),
    ("disk_mount", "error", {"node.disks.environment.no_exec": True}, {}, ["/opt is mounted noexec"]),
    (
        "model_files",
        "error",
        {"node.models.0.exists": False, "node.models.0.config": False},
        {},
        ["/srv/models/target is not on the node"],
    ),
    ("model_files", "error", {"node.models.0.config": False}, {}, ["no config.json"]),
    ("model_files", "error", {"node.models.0.missing": ["model-2.safetensors"]}, {}, ["lacks model-2.safetensors"]),
    ("memory", "error", {"node.memory.total": 63 * GIB}, {}, ["63.0 GiB of 64 GiB"]),
    ("memory_available", "warning", {"node.memory.available": 3 * GIB}, {}, ["3.0 GiB of 64 GiB"]),
    ("shm_size", "error", {"gpu_node.shm.size_mib": 64}, {}, ["0.06 GiB of 8 GiB", "--shm-size"]),
    ("shm_size", "error", {"node.shared_memory.total": 8 * MIB}, {"hardware": "cpu"}, ["0.01 GiB of 8 GiB"]),
    (
        "limits",
        "error",
        {"node.limits.may_raise": False},
        {},
        ["MEMLOCK=infinity", "8388608", "NOFILE=1048576", "524288", "inference_server_limits"],
    ),
    ("limits", "error", {"node.limits.nr_open": 65536}, {}, ["fs.nr_open=65536"]),
    ("port_taken", "error", {"node.listeners": [LISTENER]}, {}, ["nginx (process 99 of nginx.service", "8000"]),
    ("port_taken", "error", {"node.listeners": [{**LISTENER, "address": "::"}]}, {}, ["address ::"]),
    ("port_taken", "error", {"node.listeners": [{**LISTENER, "address": "::ffff:127.0.0.1"}]}, {}, ["nginx"]),
    ("port_taken", "error", {"node.listeners": [{**LISTENER, "address": "10.0.0.5"}]}, {"host": "0.0.0.0"}, ["nginx"]),
    ("port_taken", "error", {"node.listeners": [{**LISTENER, "address": "10.0.0.5"}]}, {"host": "a.name"}, ["nginx"]),
    (
        "port_taken",
        "error",
        {"node.listeners": [{"address": "127.0.0.1", "pid": None, "command": None, "unit": None}]},
        {},
        ["a process that we may not see"],
    ),
    (
        "port_taken",
        "error",
        {"node.listeners": [{**LISTENER, "unit": "specdecode@other.service"}]},
        {},
        ["specdecode@other.service"],
    ),
    (
        "systemd_missing",
        "error",
        {"node.service_manager.running": False, "node.service_manager.first_process": "tini"},
        {},
        ["first process is tini"],
    ),
    (
        "systemd_state",
        "warning",
        {"node.service_manager.state": "degraded", "node.service_manager.failed": ["mdadm.service"]},
        {},
        ["degraded: mdadm.service failed", "systemctl --failed"],
    ),
    ("systemd_state", "warning", {"node.service_manager.state": "starting"}, {}, ["systemd is starting"]),
    ("clock_skew", "error", {"node.clock.time": NOW + 3600.5}, {}, ["at least 3600 s ahead", "30 s"]),
    ("clock_skew", "error", {"node.clock.time": NOW - 60, "node.clock.newest": None}, {}, ["at least 60 s behind"]),
    ("clock_went_back", "error", {"node.clock.newest": NOW + 100}, {}, ["100 s in the future", "pyc_invalidate"]),
    ("clock_unsynchronised", "info", {"node.clock.synchronised": False}, {}, ["no time service"]),
    (
        "gpu_driver",
        "error",
        {
            "gpu_node.gpus": None,
            "gpu_node.driver.state": "not-running",
            "gpu_node.reasons.driver": "nvidia-smi exited with 9: NVIDIA-SMI has failed",
        },
        {},
        ["nvidia-smi exited with 9", "modprobe nvidia"],
    ),
    (
        "gpu_driver",
        "error",
        {"gpu_node.gpus": None, "gpu_node.driver.state": "mismatch", "gpu_node.reasons.driver": "version mismatch"},
        {},
        ["version mismatch", "reboot"],
    ),
    (
        "gpu_driver",
        "error",
        {"gpu_node.gpus": [], "gpu_node.driver.state": "absent", "gpu_node.reasons.gpus": "the bus shows none"},
        {},
        ["the bus shows none", "open kernel modules", "node_preflight_hardware: cpu"],
    ),
    (
        "gpu_driver",
        "error",
        {"gpu_node.gpus": None, "gpu_node.driver.state": "hung", "gpu_node.reasons.driver": "did not end"},
        {},
        ["did not end", "wedged"],
    ),
    (
        "gpu_driver",
        "error",
        {
            "gpu_node.gpus": None,
            "gpu_node.driver.state": "no-devices",
            "gpu_node.driver.flavour": "proprietary",
            "gpu_node.reasons.driver": "No devices were found",
        },
        {},
        ["proprietary kernel modules", "No devices were found", "open kernel modules only"],
    ),
    (
        "gpu_driver",
        "error",
        {"gpu_node.gpus": None, "gpu_node.driver.state": "not-running", "gpu_node.driver.flavour": "proprietary"},
        {},
        ["no GPU can be used", "modprobe nvidia"],
    ),
    (
        "gpu_missing",
        "warning",
        {"gpu_node.pci_gpus.1": {"bus_id": "0000:70:00.0", "device_id": "2BB5", "driver": "vfio-pci"}},
        {},
        ["0000:70:00.0", "vfio-pci"],
    ),
    ("gpu_missing", "warning", {"gpu_node.reasons.gpus": "nvidia-smi counts 8 GPUs"}, {}, ["counts 8 GPUs"]),
    ("gpu_count", "error", {}, {"tensor_parallel": 8}, ["2 GPUs", "wants 8"]),
    ("gpu_mixed", "warning", {"gpu_node.gpus.1.memory_mib": 49140}, {}, ["97887 MiB", "49140 MiB"]),
    ("gpu_mig", "error", {"gpu_node.gpus.1.mig": True}, {}, ["GPU 1: MIG is on", "nvidia-smi -mig 0"]),
    (
        "gpu_wedged",
        "error",
        {"gpu_node.gpus.1.utilization_percent": 95, "gpu_node.gpus.1.power_draw_w": 120.4},
        {},
        ["GPU 1: 95 % busy at 120 W and no process holds it", "reboot"],
    ),
    ("gpu_wedged", "error", {"gpu_node.gpus.0.recovery_action": "reset"}, {}, ["GPU 0", "asks for recovery: reset"]),
    (
        "gpu_orphans",
        "error",
        {"gpu_node.processes": [ORPHAN]},
        {},
        ["python3 (4711) holds GPUs 0, 1 with 80000 MiB", "kill 4711"],
    ),
    (
        "gpu_busy",
        "warning",
        {"gpu_node.processes": [{**PROCESS, "unit": "jupyter.service", "gpus": None, "memory_mib": None}]},
        {},
        ["python3 (4711, jupyter.service) holds a GPU"],
    ),
    (
        "driver_flavour",
        "error",
        {"gpu_node.driver.flavour": "proprietary", "gpu_node.gpus.1.compute_capability": "10.0"},
        {"tensor_parallel": 1},
        ["GPUs 0, 1: Blackwell"],
    ),
    ("driver_flavour", "error", {"gpu_node.driver.flavour": "proprietary"}, {}, ["GPUs 0, 1: Blackwell", "open"]),
    ("driver_version", "error", {"gpu_node.driver.version": "570.211.01"}, {}, ["570.211.01", "13.0", "580"]),
    ("driver_version", "error", {"gpu_node.driver.version": "565.57"}, {"cuda": "12.8"}, ["12.8", "needs 570"]),
    ("lock_cuda", "error", {}, {"cuda": "12.6"}, ["GPUs 0, 1: Blackwell, and the lock's CUDA is 12.6"]),
    ("nccl_release", "error", {}, {"nccl": "2.26.2"}, ["NCCL is 2.26.2", "2.27"]),
    (
        "torch_arch",
        "error",
        {"node.torch.arch_list": ["sm_80", "sm_90"]},
        {},
        ["GPUs 0, 1: compute capability 12.0, and torch 2.13.0 is built for sm_80, sm_90"],
    ),
    ("torch_arch", "error", {"node.torch.cuda": None}, {}, ["torch 2.13.0 of the environment is built without CUDA"]),
    ("link_width", "warning", {"gpu_node.gpus.0.pcie_width_max": 8}, {}, ["GPU 0: the slot has 8 of 16 lanes"]),
    ("link_width", "warning", {"gpu_node.gpus.1.pcie_width_current": 4}, {}, ["GPU 1: 4 of 16 lanes are in use"]),
    (
        "link_generation",
        "warning",
        {"gpu_node.gpus.0.pcie_generation_max": 4},
        {},
        ["GPU 0: the slot allows generation 4, the GPU 5"],
    ),
    ("bar1", "warning", {"gpu_node.gpus.0.bar1_mib": 256}, {}, ["GPU 0: BAR1 has 256 MiB for 97887 MiB", "4G"]),
    ("persistence", "warning", {"gpu_node.gpus.0.persistence": False}, {}, ["GPU 0", "node_preflight_persistence"]),
    (
        "iommu_redirect",
        "error",
        {
            "gpu_node.iommu.mode": "translated",
            "gpu_node.acs": {"redirect": True, "bridges": [{**BRIDGE, "request_redirect": True}]},
        },
        {},
        ["translated", "0000:00:01.1", "iommu=pt"],
    ),
    ("iommu_translated", "warning", {"gpu_node.iommu.mode": "translated"}, {}, ["translates", "iommu=pt"]),
    (
        "acs_redirect",
        "warning",
        {
            "gpu_node.links": [["X", "PIX"], ["PIX", "X"]],
            "gpu_node.acs": {"redirect": True, "bridges": [{**BRIDGE, "completion_redirect": True}]},
        },
        {},
        ["0000:00:01.1", "ACS"],
    ),
    (
        "matrix_refused",
        "warning",
        {"gpu_node.links": None, "gpu_node.reasons.links": "there is no row for GPU1"},
        {},
        ["links: there is no row for GPU1"],
    ),
    ("p2p_refused", "warning", {"gpu_node.p2p": [["X", "CNS"], ["CNS", "X"]]}, {}, ["1 of 1 pairs", "0-1", "chipset"]),
    (
        "uvm_hmm",
        "warning",
        {"gpu_node.module_parameters.nvidia_uvm.uvm_disable_hmm": "N", "gpu_node.gpus.0.addressing_mode": "hmm"},
        {},
        ["uvm_disable_hmm is N", "node_preflight_module_options: {nvidia_uvm: {uvm_disable_hmm: 1}}"],
    ),
    (
        "uvm_hmm",
        "warning",
        {
            "gpu_node.module_parameters.nvidia_uvm.uvm_disable_hmm": None,
            "gpu_node.gpus.0.addressing_mode": "hmm",
        },
        {},
        ["the driver says that HMM is on"],
    ),
    (
        "p2p_forced_geforce",
        "error",
        {
            "gpu_node.module_parameters.registry_words": {"ForceP2P": 17},
            "gpu_node.gpus.0.name": "NVIDIA GeForce RTX 5090",
            "gpu_node.gpus.1.name": "NVIDIA GeForce RTX 5090",
        },
        {},
        ["ForceP2P=0x11", "GeForce RTX 5090"],
    ),
    (
        "p2p_forced",
        "warning",
        {"gpu_node.module_parameters.registry_words": {"RMForceP2PType": 1}},
        {},
        ["RMForceP2PType=0x1"],
    ),
    (
        "shm_leftovers",
        "warning",
        {"gpu_node.shm.leftovers": [{**SEGMENT, "path": f"/dev/shm/psm_{number}"} for number in range(7)]},
        {},
        ["7 segments with 7.0 GiB", "/dev/shm/psm_4 and 2 more", "rm /dev/shm/psm_0", "/dev/shm/psm_6"],
    ),
    ("limits_low", "warning", {}, {"limits": {}}, ["MEMLOCK is 8388608 and NOFILE is 1024", "{MEMLOCK: infinity"]),
    ("cpu_governor", "warning", {"gpu_node.cpu.governors": ["performance", "powersave"]}, {}, ["powersave"]),
    ("numa_balancing", "warning", {"gpu_node.cpu.numa_balancing": True}, {}, ["2 NUMA nodes", "node_preflight_sysctl"]),
]


@pytest.mark.parametrize(
    ("id_", "severity", "facts", "wants", "words"), BREAKS, ids=[f"{n}-{case[0]}" for n, case in enumerate(BREAKS)]
)
def test_it_is_found(id_: str, severity: str, facts: Changes, wants: Changes, words: list[str]) -> None:
    found = {one["id"]: one for one in find(facts, wants)}
    assert id_ in found
    finding = found[id_]
    assert finding["severity"] == severity
    said = f"{finding['found']} | {finding['rule']} | {finding['remedy']}"
    assert [word for word in words if word not in said] == []
    assert "{" not in finding["found"] + finding["rule"]


def test_every_check_is_broken_here() -> None:
    assert {case[0] for case in BREAKS} == {check.id for check in CHECKS}


@pytest.mark.parametrize("hardware", ["gpu", "cpu"])
def test_nothing_is_found_where_nothing_is_wrong(hardware: str) -> None:
    assert find({}, {"hardware": hardware}) == []


# What looks like a fault and is none.
HARMLESS: dict[str, tuple[Changes, Changes]] = {
    "our own server holds the port": (
        {"node.listeners": [{**LISTENER, "unit": "specdecode@main.service"}]},
        {},
    ),
    "another address of the port": ({"node.listeners": [{**LISTENER, "address": "10.0.0.5"}]}, {}),
    "our own server takes memory": ({"node.memory.available": GIB, "node.service_manager.unit_active": True}, {}),
    "our own server holds the GPUs and keeps them busy": (
        {"gpu_node.processes": [PROCESS], "gpu_node.gpus.0.utilization_percent": 100},
        {},
    ),
    "our own unit failed": (
        {"node.service_manager.state": "degraded", "node.service_manager.failed": ["specdecode@main.service"]},
        {},
    ),
    "the environment is there already": (
        {"node.disks.environment.free": 5 * GIB, "node.disks.environment.used": 26 * GIB},
        {},
    ),
    "weights that are complete need no space": (
        {},
        {"disks": [WANTS["disks"][0], {"name": "weights", "path": "/srv/weights", "needed_gib": 600}]},
    ),
    "two places, each with its own disk": (
        {},
        {"disks": [{**disk, "needed_gib": 60} for disk in WANTS["disks"]], "models": []},
    ),
    "weights on a read-only mount": (
        {"node.disks.weights.read_only": True, "node.disks.weights.no_exec": True},
        {},
    ),
    "the look took long": ({"node.clock.time": NOW + 90}, {"controller_received": NOW + 100}),
    "no lock is named": (
        {"node.system.architecture": "riscv64", "node.system.glibc": "2.31", "node.interpreter.release": "3.9.2"},
        {"architecture": "", "glibc": "", "python_release": "", "cuda": "", "nccl": ""},
    ),
    "amd64 is x86_64": ({"node.system.architecture": "amd64"}, {}),
    "no environment yet": ({"node.torch": {"installed": False}}, {}),
    "the unit asks for no limits, and may have no others": (
        {
            "node.limits.may_raise": False,
            "node.limits.given": {"MEMLOCK": UNLIMITED, "NOFILE": 65536, "STACK": 8 * MIB},
        },
        {"limits": {}},
    ),
    "a GPU without MIG": ({"gpu_node.gpus.0.mig": None, "gpu_node.reasons.gpus.0.mig": "nvidia-smi says 'N/A'"}, {}),
    "GPUs of two kinds for one rank": ({"gpu_node.gpus.1.memory_mib": 49140}, {"tensor_parallel": 1}),
    "redirect without a translating IOMMU and without switches": ({"gpu_node.acs.redirect": True}, {}),
    "a busy GPU whose process may be hidden": (
        {
            "gpu_node.gpus.0.utilization_percent": 100,
            "gpu_node.reasons.processes.unlisted": "9 processes may not be looked into without root",
        },
        {},
    ),
    "a busy GPU that an unlisted process of ours may hold": (
        {
            "gpu_node.gpus.0.utilization_percent": 100,
            "gpu_node.processes": [{**PROCESS, "listed": False, "gpus": None, "memory_mib": None}],
        },
        {},
    ),
    "a segment in use": ({"gpu_node.shm.leftovers": [{**SEGMENT, "holders": [4711], "orphan": False}]}, {}),
    "P2P does not matter to one rank": (
        {
            "gpu_node.p2p": [["X", "NS"], ["NS", "X"]],
            "gpu_node.module_parameters.nvidia_uvm.uvm_disable_hmm": "N",
            "gpu_node.gpus.0.addressing_mode": "hmm",
        },
        {"tensor_parallel": 1},
    ),
    "a forced word that is off": ({"gpu_node.module_parameters.registry_words": {"ForceP2P": 0}}, {}),
    "balancing with one NUMA node": (
        {"gpu_node.cpu.numa_balancing": True, "gpu_node.numa_nodes": [{"node": 0, "cpus": "0-63"}]},
        {},
    ),
    "a kernel that does not scale the frequency": ({"gpu_node.cpu.governors": None}, {}),
    "the oldest releases that work": ({"gpu_node.driver.version": "570"}, {"cuda": "12.8", "nccl": "2.27"}),
    "exactly enough of everything": (
        {
            "node.disks.environment.free": 30 * GIB,
            "node.memory": {"total": 64 * GIB, "available": 64 * GIB},
            "gpu_node.shm.size_mib": 8192,
            "gpu_node.gpus.0.bar1_mib": 97887,
            "node.system.glibc": "2.35",
            "node.system.python": "3.8.0",
            "node.limits.hard": {"MEMLOCK": UNLIMITED, "NOFILE": 1048576, "STACK": 64 * MIB},
            "node.limits.may_raise": False,
        },
        {"tensor_parallel": 2},
    ),
    "an older GPU whose modules can't be told": (
        {
            "gpu_node.gpus.0.compute_capability": "8.0",
            "gpu_node.gpus.1.compute_capability": "8.0",
            "gpu_node.driver.flavour": None,
            "node.torch.arch_list": ["sm_80"],
        },
        {},
    ),
    "an older GPU with proprietary modules and driver": (
        {
            "gpu_node.gpus.0.compute_capability": "9.0",
            "gpu_node.gpus.1.compute_capability": "9.0",
            "gpu_node.driver.flavour": "proprietary",
            "gpu_node.driver.version": "535.230.02",
        },
        {"cuda": "12.6", "nccl": "2.21.5"},
    ),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_it_is_no_finding(name: str) -> None:
    assert find(*HARMLESS[name]) == []


# id, milder severity, facts that can't be known, and the reason that must be passed on
UNKNOWN: list[tuple[str, str, Changes, str]] = [
    ("memory", "warning", {"node.memory": None, "node.reasons.memory": "no /proc"}, "no /proc"),
    ("port_taken", "warning", {"node.listeners": None, "node.reasons.listeners": "denied"}, "denied"),
    ("disk_space", "warning", {"node.disks": None, "node.reasons.disks": "stale NFS"}, "stale NFS"),
    ("torch_arch", "warning", {"node.torch": None, "node.reasons.torch": "can't import torch"}, "can't import torch"),
    ("torch_arch", "warning", {"node.torch.arch_list": []}, "names no architectures"),
    ("glibc", "warning", {"node.system.glibc": ""}, "C library"),
    ("clock_skew", "warning", {"node.clock": None, "node.reasons.clock": "no clock"}, "no clock"),
    ("shm_size", "warning", {"gpu_node.shm.size_mib": None, "gpu_node.reasons.shm.size_mib": "no tmpfs"}, "no tmpfs"),
    (
        "shm_leftovers",
        "info",
        {"gpu_node.shm.leftovers": [{**SEGMENT, "orphan": None}]},
        "run as root",
    ),
    (
        "iommu_redirect",
        "warning",
        {
            "gpu_node.iommu.mode": "translated",
            "gpu_node.acs.redirect": None,
            "gpu_node.reasons.acs.redirect": "64 bytes are readable",
        },
        "64 bytes are readable",
    ),
    (
        "bar1",
        "info",
        {"gpu_node.gpus.1.bar1_mib": None, "gpu_node.reasons.gpus.1.bar1_mib": "nvidia-smi says 'N/A'"},
        "GPU 1: nvidia-smi says 'N/A'",
    ),
    (
        "uvm_hmm",
        "info",
        {
            "gpu_node.module_parameters.nvidia_uvm.uvm_disable_hmm": None,
            "gpu_node.gpus.0.addressing_mode": None,
            "gpu_node.reasons.module_parameters.nvidia_uvm": "the module is not loaded",
        },
        "the module is not loaded",
    ),
    (
        "driver_flavour",
        "warning",
        {"gpu_node.driver.flavour": None, "gpu_node.reasons.driver.flavour": "unreadable"},
        "unreadable",
    ),
    ("driver_version", "warning", {"gpu_node.driver.version": None, "gpu_node.reasons.driver": "silent"}, "silent"),
    (
        "p2p_forced",
        "info",
        {
            "gpu_node.module_parameters.registry_words": None,
            "gpu_node.reasons.module_parameters.registry_words": "RegistryDwords is 'x'",
        },
        "RegistryDwords is 'x'",
    ),
]


@pytest.mark.parametrize(("id_", "severity", "facts", "reason"), UNKNOWN)
def test_what_cannot_be_known_is_said_one_step_milder(id_: str, severity: str, facts: Changes, reason: str) -> None:
    found = {one["id"]: one for one in find(facts)}
    assert found[id_]["severity"] == severity
    assert found[id_]["found"].startswith("can't be known: ")
    assert reason in found[id_]["found"]


def places(value: Any, path: str) -> list[str]:
    """The paths of everything below a value."""
    if not isinstance(value, (dict, list)):
        return []
    items = value.items() if isinstance(value, dict) else enumerate(value)
    return [place for key, below in items for place in [f"{path}.{key}", *places(below, f"{path}.{key}")]]


FILLED = changed(
    HEALTHY, {"gpu_node.processes": [PROCESS], "gpu_node.shm.leftovers": [SEGMENT], "gpu_node.iommu.mode": "translated"}
)
# A place in a list is never null, and these are what gpu_node_facts identifies things by.
NEVER_NULL = ("reasons", "bus_id", "index", "pid", "path", "size_bytes", "unit", "above")


@pytest.mark.parametrize(
    "path",
    [f"node.{section}" for section in HEALTHY["node"] if section not in ("reasons", "ours")]
    + [
        path
        for path in places(FILLED["gpu_node"], "gpu_node")
        if not path.endswith(NEVER_NULL) and not path.rsplit(".", 1)[1].isdigit()
    ],
)
def test_any_fact_may_be_null_and_null_is_not_printed(path: str) -> None:
    found = preflight_findings(changed(FILLED, {path: None}), WANTS)
    assert [one["found"] for one in found if "None" in one["found"] or not one["found"]] == []


def test_a_dead_driver_is_said_once() -> None:
    dead: Changes = {
        "gpu_node.gpus": None,
        "gpu_node.links": None,
        "gpu_node.p2p": None,
        "gpu_node.driver": {"state": "not-running", "version": None, "flavour": None, "cuda_version": None},
        "gpu_node.module_parameters.registry_words": None,
        "gpu_node.reasons.driver": "nvidia-smi exited with 9",
    }
    assert [one["id"] for one in find(dead)] == ["gpu_driver"]


def test_too_little_memory_is_said_once() -> None:
    found = find({"node.memory": {"total": 8 * GIB, "available": GIB}})
    assert [one["id"] for one in found] == ["memory"]


def test_a_fault_of_several_gpus_is_said_once_with_all_of_them() -> None:
    found = find({"gpu_node.gpus.0.pcie_width_max": 8, "gpu_node.gpus.1.pcie_width_max": 4})
    assert [one["found"] for one in found] == ["GPU 0: the slot has 8 of 16 lanes; GPU 1: the slot has 4 of 16 lanes"]


def test_a_cpu_node_is_not_asked_for_gpus() -> None:
    facts = copy.deepcopy(HEALTHY)
    del facts["gpu_node"]
    assert preflight_findings(facts, {**WANTS, "hardware": "cpu"}) == []
    assert {one["id"] for one in preflight_findings(facts, WANTS)} >= {"gpu_driver"}


def test_the_gravest_comes_first_and_all_are_reported() -> None:
    found = find({"node.clock.synchronised": False, "node.system.version": "99", "node.memory.total": GIB})
    assert [one["severity"] for one in found] == ["error", "warning", "info"]


def test_an_accepted_finding_is_marked_and_others_are_not() -> None:
    found = find({"node.memory.total": GIB, "node.system.uid": 7}, {"accepted": ["memory"]})
    assert {one["id"]: one["accepted"] for one in found} == {"privileges": False, "memory": True}


def test_a_misspelt_acceptance_is_refused() -> None:
    with pytest.raises(AnsibleFilterError, match=r"no check is called 'iommu'.*iommu_redirect"):
        find({}, {"accepted": ["iommu"]})


@pytest.mark.parametrize(
    ("wants", "message"),
    [
        ({"hardware": "tpu"}, "declare it as gpu or cpu"),
        ({"prot": 8000}, "unknown key prot"),
        ({"port": "8000"}, "port must be a number"),
        ({"python": None}, "python must be a text"),
        ({"accepted": "memory"}, "accepted must be a list"),
        ({"limits": {"NOFILE": "many"}}, "limit NOFILE is 'many'"),
        ({"limits": []}, "limits must be a dict"),
    ],
)
def test_wants_that_cannot_be_judged_are_refused(wants: Changes, message: str) -> None:
    with pytest.raises(AnsibleFilterError, match=message):
        find({}, wants)


@pytest.mark.parametrize(("facts", "wants"), [(None, WANTS), ([], WANTS), (HEALTHY, None), (HEALTHY, [])])
def test_what_is_no_dict_is_refused(facts: Any, wants: Any) -> None:
    with pytest.raises(AnsibleFilterError, match="must be a dict"):
        preflight_findings(facts, wants)


def test_the_input_is_not_changed_and_the_result_repeats() -> None:
    facts = changed(HEALTHY, {"gpu_node.gpus.0.bar1_mib": 1})
    before = copy.deepcopy(facts)
    assert preflight_findings(facts, WANTS) == preflight_findings(facts, WANTS)
    assert facts == before


def test_ansible_finds_the_filter_by_its_name() -> None:
    assert FilterModule().filters() == {"preflight_findings": preflight_findings}
