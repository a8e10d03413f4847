# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node is, its GPUs apart: processor, NUMA nodes, kernel arguments, and the parameters of the GPU driver."""

from __future__ import annotations

import re

from ansible_collections.blackwell.inference.plugins.module_utils._gpu_findings import Findings
from ansible_collections.blackwell.inference.plugins.module_utils._gpu_kernel import (
    parse_parameters,
    parse_registry_words,
    relevant_arguments,
)

# Parameters that decide about peer-to-peer traffic and memory.
_DRIVER_PARAMETERS = ("DmaRemapPeerMmio", "EnableResizableBar", "GrdmaPciTopoCheckOverride")
_UVM_PARAMETERS = ("uvm_ats_mode", "uvm_disable_hmm")

_CPUFREQ = "/sys/devices/system/cpu/cpufreq"
_NODES = "/sys/devices/system/node"


def read_host(findings: Findings) -> None:
    """Add C(cpu), C(virtual_machine), C(numa_nodes), C(kernel_arguments) and C(module_parameters)."""
    findings.facts["cpu"] = {
        **_processor(findings),
        "governors": _governors(findings),
        "numa_balancing": _numa_balancing(findings),
    }
    findings.facts["numa_nodes"] = _numa_nodes(findings)
    command_line = findings.text("kernel_arguments", "/proc/cmdline")
    findings.facts["kernel_arguments"] = relevant_arguments(command_line) if command_line else None
    findings.facts["module_parameters"] = _module_parameters(findings)


def _processor(findings: Findings) -> dict[str, str | None]:
    """Vendor and model of the first processor; its flags tell whether this is a virtual machine."""
    entry = findings.text("cpu", "/proc/cpuinfo", limit=4096)  # the first of what may be hundreds
    found = {
        key: re.search(rf"^{word}\s*:\s*(\S.*)$", entry, re.MULTILINE)
        for key, word in (("vendor", "vendor_id"), ("model", "model name"), ("flags", "flags"))
    }
    for key in ("vendor", "model"):
        if found[key] is None:
            findings.unknown(f"cpu.{key}", "/proc/cpuinfo does not tell it")
    flags = found.pop("flags")
    findings.facts["virtual_machine"] = None if flags is None else "hypervisor" in flags.group(1).split()
    if flags is None:
        findings.unknown("virtual_machine", "/proc/cpuinfo does not tell the processor's flags")
    return {key: None if match is None else match.group(1).strip() for key, match in found.items()}


def _governors(findings: Findings) -> list[str] | None:
    """The frequency governors in use, each once; None: the kernel does not scale the frequency."""
    policies = [name for name in findings.names("cpu.governors", _CPUFREQ) if name.startswith("policy")]
    governors = {findings.text("cpu.governors", f"{_CPUFREQ}/{policy}/scaling_governor") for policy in policies}
    if "" in governors or not governors:
        findings.unknown("cpu.governors", f"{_CPUFREQ} has no policies")
        return None
    return sorted(governors)


def _numa_balancing(findings: Findings) -> bool | None:
    """Whether the kernel moves memory between NUMA nodes by itself."""
    value = findings.text("cpu.numa_balancing", "/proc/sys/kernel/numa_balancing")
    if re.fullmatch("[0-3]", value):
        return value != "0"
    findings.unknown("cpu.numa_balancing", f"the kernel says {value[:20]!r}")
    return None


def _numa_nodes(findings: Findings) -> list[dict[str, object]] | None:
    """Number and CPUs of each NUMA node."""
    numbers = [int(name[4:]) for name in findings.names("numa_nodes", _NODES) if re.fullmatch("node[0-9]{1,5}", name)]
    nodes = [
        {"node": number, "cpus": findings.text("numa_nodes", f"{_NODES}/node{number}/cpulist")}
        for number in sorted(numbers)
    ]
    if not nodes:
        findings.unknown("numa_nodes", f"{_NODES} has no nodes")
    return None if "numa_nodes" in findings.reasons else nodes


def _module_parameters(findings: Findings) -> dict[str, object]:
    """The relevant parameters as the modules have them now; what files in /etc say counts at the next load only."""
    driver = parse_parameters(findings.text("module_parameters.nvidia", "/proc/driver/nvidia/params"))
    if not driver:
        findings.unknown("module_parameters.nvidia", "the driver lists no parameters")
    for name in set(_DRIVER_PARAMETERS) - set(driver) if driver else ():
        findings.unknown(f"module_parameters.nvidia.{name}", "the driver does not list this parameter")
    return {
        "nvidia": {name: driver.get(name) for name in _DRIVER_PARAMETERS},
        "nvidia_uvm": {name: _uvm_parameter(findings, name) for name in _UVM_PARAMETERS},
        "registry_words": _registry_words(findings, driver),
    }


def _uvm_parameter(findings: Findings, name: str) -> str | None:
    path = f"module_parameters.nvidia_uvm.{name}"
    value = findings.text(path, f"/sys/module/nvidia_uvm/parameters/{name}")
    if not value:
        findings.unknown(path, "the parameter is empty")
    return value or None


def _registry_words(findings: Findings, driver: dict[str, str]) -> dict[str, int] | None:
    """The words of RegistryDwords: none if it is empty."""
    path = "module_parameters.registry_words"
    if "RegistryDwords" not in driver:
        findings.unknown(path, findings.reasons.get("module_parameters.nvidia", "the driver does not list them"))
        return None
    words = parse_registry_words(driver["RegistryDwords"])
    if words is None:
        findings.unknown(path, f"RegistryDwords is {driver['RegistryDwords'][:120]!r}")
    return words
