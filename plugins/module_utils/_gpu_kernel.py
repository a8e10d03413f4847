# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel says about the NVIDIA driver, its parameters and the IOMMU: parsers of /proc and sysfs texts."""

from __future__ import annotations

import re
from typing import NamedTuple

_MODULE_RELEASE = re.compile(r"Kernel Module(?: for \S+)?\s+([0-9]+\.[0-9]+(?:\.[0-9]+)?)(?=\s|$)")
_REGISTRY_WORD = re.compile(r"\s*([A-Za-z0-9_]+)\s*=\s*(0[xX][0-9A-Fa-f]{1,16}|[0-9]{1,19})\s*")

# Arguments that decide about peer-to-peer traffic; others may hold secrets and are not repeated.
_RELEVANT_ARGUMENTS = re.compile(
    r"(?:iommu|amd_iommu|intel_iommu|iommu\.(?:passthrough|strict|forcedac)|pci|pcie_aspm|pcie_acs_override|pcie_ports"
    r"|nvidia[-_.]\S+?|module_blacklist|modprobe\.blacklist|rd\.driver\.blacklist|nomodeset)(?:=\S*)?"
)

# /sys/kernel/iommu_groups/N/type, Documentation/ABI/testing/sysfs-kernel-iommu_groups of Linux.
_GROUP_MODES = {"identity": "passthrough", "DMA": "translated", "DMA-FQ": "translated"}


class KernelModule(NamedTuple):
    """The loaded NVIDIA kernel module; a field that the text does not tell is None."""

    version: str | None
    flavour: str | None  # "open" or "proprietary"


def parse_module(text: str) -> KernelModule:
    """Read /proc/driver/nvidia/version. Only its line "NVRM version" counts: the next one is the compiler's.

    Blackwell needs the open flavour: NVIDIA's proprietary modules do not support it (NVIDIA, open-gpu-kernel-modules).
    """
    line = next((line for line in text.splitlines() if line.startswith("NVRM version:")), "")
    release = _MODULE_RELEASE.search(line)
    if release is None:
        return KernelModule(None, None)
    return KernelModule(release.group(1), "open" if "Open Kernel Module" in line else "proprietary")


def parse_parameters(text: str) -> dict[str, str]:
    """Read /proc/driver/nvidia/params: one "Name: value" a line. Quotes around a value are not part of it."""
    parameters = {}
    for line in text.splitlines():
        name, separator, value = line.partition(":")
        if separator and name.strip():
            parameters[name.strip()] = value.strip().strip('"')
    return parameters


def parse_registry_words(text: str) -> dict[str, int] | None:
    """Read the parameter RegistryDwords, as in "ForceP2P=0x11;RMForceP2PType=1".

    Returns None if a part is not NAME=NUMBER.
    """
    words = {}
    for part in filter(str.strip, text.split(";")):
        match = _REGISTRY_WORD.fullmatch(part)
        if match is None:
            return None
        words[match.group(1)] = int(match.group(2), 0 if match.group(2)[:2].lower() == "0x" else 10)
    return words


def relevant_arguments(command_line: str) -> list[str]:
    """The arguments of the kernel command line that concern the IOMMU, PCI and the GPU drivers, in their order."""
    return [argument for argument in command_line.split() if _RELEVANT_ARGUMENTS.fullmatch(argument)]


def iommu_mode_of_group(group_type: str) -> str | None:
    """V(passthrough) or V(translated) for the type of an IOMMU group, None for types that say neither."""
    return _GROUP_MODES.get(group_type)


def iommu_mode_asked_for(command_line: str) -> str | None:
    """V(off), V(passthrough) or V(translated), as the kernel command line asks for; None: it leaves it to the kernel.

    What a kernel does without being asked depends on how it was built, so it is not guessed. Of an argument given
    twice the last counts (Documentation/admin-guide/kernel-parameters.txt of Linux).
    """
    options: dict[str, str] = {}
    for argument in command_line.split():
        name, separator, values = argument.partition("=")
        for value in values.split(",") if separator else ():
            if name in ("iommu", "amd_iommu", "intel_iommu"):
                options["mode" if value in ("pt", "nopt") else name] = value
            elif name == "iommu.passthrough":
                options["mode"] = {"1": "pt", "y": "pt", "0": "nopt", "n": "nopt"}.get(value.lower(), "")
    if "off" in (options.get("iommu"), options.get("amd_iommu"), options.get("intel_iommu")):
        return "off"
    if options.get("mode") == "pt":
        return "passthrough"
    asked_on = options.get("amd_iommu") in ("on", "force_enable") or options.get("intel_iommu") == "on"
    if asked_on or options.get("mode") == "nopt" or options.get("iommu") == "force":
        return "translated"
    return None
