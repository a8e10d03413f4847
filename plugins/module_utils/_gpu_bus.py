# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The GPUs as devices on the PCI bus: from sysfs, so also without a driver, or with one that does not work."""

from __future__ import annotations

import re
from typing import Any, Sequence

from ansible_collections.blackwell.inference.plugins.module_utils._gpu_files import Tree, UnreadableError
from ansible_collections.blackwell.inference.plugins.module_utils._gpu_kernel import (
    iommu_mode_asked_for,
    iommu_mode_of_group,
)
from ansible_collections.blackwell.inference.plugins.module_utils._pci import (
    AcsControl,
    UnreadableConfigError,
    acs_control,
    bridges_above,
)

DEVICES = "/sys/bus/pci/devices"

_NVIDIA = "0x10de"
_DISPLAY_CLASSES = ("0x0300", "0x0302")  # VGA and 3D controllers; the boards' audio devices and bridges are none
_CPU_LIST = re.compile(r"[0-9]+(?:-[0-9]+)?(?:,[0-9]+(?:-[0-9]+)?)*")


def gpus_on_bus(tree: Tree) -> list[dict[str, Any]]:
    """Address, device id and kernel driver of each NVIDIA GPU on the bus. Raises UnreadableError."""
    found = []
    for address in tree.names(DEVICES):
        try:
            if tree.text(f"{DEVICES}/{address}/vendor") != _NVIDIA:
                continue
            if not tree.text(f"{DEVICES}/{address}/class").startswith(_DISPLAY_CLASSES):
                continue
            device_id = tree.text(f"{DEVICES}/{address}/device")
        except UnreadableError:  # the device was removed meanwhile
            continue
        found.append({"bus_id": address, "device_id": device_id[2:].upper(), "driver": _bound_driver(tree, address)})
    return found


def locality(tree: Tree, address: str) -> tuple[dict[str, Any], dict[str, str]]:
    """NUMA node and near CPUs of a device, and the reason for each that is None.

    sysfs, not C(nvidia-smi topo): that one's "CPU Affinity" leaves CPUs out when one is offline.
    """
    facts: dict[str, Any] = {"numa_node": None, "local_cpus": None}
    reasons: dict[str, str] = {}
    try:
        node = tree.text(f"{DEVICES}/{address}/numa_node")
        if re.fullmatch(r"[0-9]{1,5}", node):
            facts["numa_node"] = int(node)
        else:
            reasons["numa_node"] = f"the firmware names no NUMA node for {address} ({node[:20]})"
    except UnreadableError as error:
        reasons["numa_node"] = str(error)
    try:
        cpus = tree.text(f"{DEVICES}/{address}/local_cpulist")
        if _CPU_LIST.fullmatch(cpus):
            facts["local_cpus"] = cpus
        else:
            reasons["local_cpus"] = f"{cpus[:40]!r} is no list of CPUs"
    except UnreadableError as error:
        reasons["local_cpus"] = str(error)
    return facts, reasons


def acs_facts(tree: Tree, addresses: Sequence[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """The ACS bits of the bridges above these devices, and the reason for each value that is None, by its path.

    C(redirect) is true if any bridge redirects; None: none is known to, and not all are known. A bridge without the
    capability cannot redirect.
    """
    below: dict[str, list[str]] = {}
    reasons: dict[str, str] = {}
    for address in addresses:
        above = bridges_above(tree.resolved(f"{DEVICES}/{address}"))
        if above is None:
            reasons["redirect"] = f"sysfs does not show where {address} is attached"
        for bridge in above or []:
            below.setdefault(bridge, []).append(address)
    bridges = []
    for i, bridge in enumerate(sorted(below)):
        bits, reason = _acs_bits(tree, bridge)
        bridges.append({"bus_id": bridge, "above": below[bridge], **bits})
        if reason:
            reasons[f"bridges.{i}"] = reason
            reasons["redirect"] = f"not all bridges could be read; {bridge}: {reason}"
    redirects = any(bridge["request_redirect"] or bridge["completion_redirect"] for bridge in bridges)
    if redirects:
        reasons.pop("redirect", None)
    return {"redirect": True if redirects else None if reasons else False, "bridges": bridges}, reasons


def _acs_bits(tree: Tree, address: str) -> tuple[dict[str, bool | None], str]:
    """The bits of one bridge, and why they are None (empty: they are known)."""
    try:
        control = acs_control(tree.content(f"{DEVICES}/{address}/config"))
    except (UnreadableError, UnreadableConfigError) as error:
        return dict.fromkeys(("capable", *AcsControl._fields)), str(error)
    return {"capable": control is not None, **(control or AcsControl(False, False, False))._asdict()}, ""


def iommu_facts(tree: Tree, addresses: Sequence[str], command_line: str) -> tuple[dict[str, Any], str]:
    """How the IOMMU treats these devices, and why C(mode) is None (empty: it is known).

    C(mode) is V(off), V(passthrough), V(translated) or None, and C(types) the kernel's word for the group of each
    device that is in one, where the kernel shows it.
    """
    types = {address: _group_type(tree, address) for address in addresses}
    mode, reason = _iommu_mode(list(types.values()), command_line)
    return {"mode": mode, "types": {address: word for address, word in types.items() if word}}, reason


def _iommu_mode(types: Sequence[str | None], command_line: str) -> tuple[str | None, str]:
    """The mode that these groups' types mean together, or why there is none.

    The groups decide. The command line only helps out where the kernel does not show their types.
    """
    grouped = [word for word in types if word != ""]
    if not grouped:
        return "off", ""
    modes = [None if word is None else iommu_mode_of_group(word) for word in grouped]
    if "translated" in modes:  # one translated GPU is enough to stop the traffic with it
        return "translated", ""
    if None not in modes:
        return "passthrough", ""
    asked_for = iommu_mode_asked_for(command_line)
    if set(grouped) == {None} and asked_for in ("passthrough", "translated"):
        return asked_for, ""
    shown = ", ".join(sorted({word or "a type that is not shown" for word in grouped}))
    return None, f"the GPUs are in IOMMU groups of {shown}, and the kernel command line does not settle it"


def _group_type(tree: Tree, address: str) -> str | None:
    """The type of a device's IOMMU group; None: the kernel does not show it; empty: the device is in no group."""
    try:
        group = tree.target(f"{DEVICES}/{address}/iommu_group").rsplit("/", 1)[-1]
    except UnreadableError:
        return ""
    try:
        return tree.text(f"/sys/kernel/iommu_groups/{group}/type")
    except UnreadableError:
        return None


def _bound_driver(tree: Tree, address: str) -> str | None:
    """The kernel driver that has a device; None: none has."""
    try:
        return tree.target(f"{DEVICES}/{address}/driver").rsplit("/", 1)[-1]
    except UnreadableError:
        return None
