# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preflight: what a GPU node can fail. Each function states the fact that breaks its rule, or nothing."""

from __future__ import annotations

from ansible_collections.blackwell.inference.plugins.plugin_utils._preflight_model import (
    Answer,
    Broken,
    Facts,
    Unknown,
    Wants,
)

# What a driver that does not work says of itself, in small letters, and what mends it.
DRIVER_REMEDIES = (
    ("version mismatch", "the driver was updated under a running kernel module: reboot the node"),
    (
        "no devices were found",
        "the driver runs and sees no GPU: look for Xid or RmInit in dmesg, then power-cycle the node",
    ),
    (
        "communicate",
        "load the module (modprobe nvidia) and read dmesg; after a kernel update rebuild it (dkms autoinstall)",
    ),
)
DRIVER_MISSING = (
    "install an NVIDIA driver with open kernel modules (Ubuntu: apt-get install nvidia-driver-580-server-open), reboot, "
    "and try nvidia-smi; if the node has no GPUs, declare it: node_preflight_hardware: cpu"
)


def gpu_driver(facts: Facts, _wants: Wants) -> Answer:
    """A driver that answers and has GPUs. Not knowing the GPUs is the failure itself, so it is never milder."""
    gpus = facts.get("gpu_node.gpus")
    if not isinstance(gpus, Unknown) and gpus:
        return None
    why = gpus.reason if isinstance(gpus, Unknown) else "the driver names no GPU"
    driver = facts.get("gpu_node.driver")
    if isinstance(driver, Unknown) and driver.reason != why and "does not say" not in driver.reason:
        why += f"; {driver.reason}"
    remedies = [remedy for words, remedy in DRIVER_REMEDIES if words in why.lower()]
    return Broken(f"declared as a GPU node, but no GPU can be used: {why}", remedies[0] if remedies else DRIVER_MISSING)
