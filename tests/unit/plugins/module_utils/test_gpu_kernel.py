# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel's texts about driver, parameters and IOMMU."""

from __future__ import annotations

import pytest
from ansible_collections.blackwell.inference.plugins.module_utils._gpu_kernel import (
    iommu_mode_asked_for,
    iommu_mode_of_group,
    parse_module,
    parse_parameters,
    parse_registry_words,
    relevant_arguments,
)
from ansible_collections.blackwell.inference.tests.unit.fixtures.gpu.mutations import NOISE, mutated
from hypothesis import given

OPEN = """NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  590.48.01  Release Build  (builder@host)
GCC version:  gcc version 13.3.0 (Ubuntu 13.3.0-6ubuntu2~24.04)
"""
PROPRIETARY = """NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23 10:11:16 UTC 2025
GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)
"""

PARAMETERS = """ResmanDebugLevel: 4294967295
EnableResizableBar: 0
DmaRemapPeerMmio: 1
RegistryDwords: "ForceP2P=0x11;RMForceP2PType=1"
RegistryDwordsPerDevice: ""
GrdmaPciTopoCheckOverride: 0
"""


class TestModule:
    def test_open(self) -> None:
        assert parse_module(OPEN) == ("590.48.01", "open")

    def test_proprietary(self) -> None:
        assert parse_module(PROPRIETARY) == ("580.95.05", "proprietary")

    def test_only_the_line_of_the_driver_counts(self) -> None:
        compiler = "GCC version:  gcc version 13.3.0 (Open Kernel Module Builders)\n"
        assert parse_module(compiler + PROPRIETARY) == ("580.95.05", "proprietary")

    def test_other_processor(self) -> None:
        assert parse_module(OPEN.replace("x86_64", "aarch64")) == ("590.48.01", "open")

    def test_release_of_two_numbers(self) -> None:
        assert parse_module(OPEN.replace("590.48.01", "610.14")) == ("610.14", "open")

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "GCC version:  gcc version 13.3.0\n",
            "NVRM version: something new 1.2.3\n",
            OPEN.replace("590.48.01", "?"),
        ],
    )
    def test_the_release_of_the_compiler_is_not_taken_for_it(self, text: str) -> None:
        assert parse_module(text) == (None, None)

    @given(mutated(OPEN))
    def test_mutated(self, text: str) -> None:
        version, flavour = parse_module(text)
        assert version is None or version in text
        assert (version is None) == (flavour is None)


class TestParameters:
    def test_names_and_values(self) -> None:
        parameters = parse_parameters(PARAMETERS)
        assert parameters["DmaRemapPeerMmio"] == "1"
        assert parameters["RegistryDwords"] == "ForceP2P=0x11;RMForceP2PType=1"
        assert parameters["RegistryDwordsPerDevice"] == ""

    def test_lines_of_another_form_are_passed_over(self) -> None:
        assert parse_parameters("\nnothing\n: 1\n") == {}

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("ForceP2P=0x11;RMForceP2PType=1", {"ForceP2P": 17, "RMForceP2PType": 1}),
            ("ForceP2P=0X11 ; ", {"ForceP2P": 17}),
            ("PeerMappingOverride=010", {"PeerMappingOverride": 10}),
            ("", {}),
            (";", {}),
            ("ForceP2P", None),
            ("ForceP2P=yes", None),
            ("ForceP2P=0x11,RMForceP2PType=1", None),
            ("ForceP2P=" + "9" * 5000, None),
        ],
    )
    def test_registry_words(self, text: str, words: dict[str, int] | None) -> None:
        assert parse_registry_words(text) == words

    @given(NOISE)
    def test_any_text(self, text: str) -> None:
        parse_parameters(text)
        parse_registry_words(text)


class TestIommuAskedFor:
    @pytest.mark.parametrize(
        ("command_line", "mode"),
        [
            ("quiet iommu=pt", "passthrough"),
            ("amd_iommu=off iommu=off", "off"),
            ("intel_iommu=on iommu=pt", "passthrough"),
            ("intel_iommu=on,sm_on iommu=pt", "passthrough"),
            ("amd_iommu=on", "translated"),
            ("amd_iommu=on iommu=pt", "passthrough"),
            ("intel_iommu=on", "translated"),
            ("iommu.passthrough=1", "passthrough"),
            ("iommu.passthrough=0", "translated"),
            ("iommu=nopt", "translated"),
            ("iommu=pt iommu=nopt", "translated"),
            ("iommu=nopt iommu=pt", "passthrough"),
            ("iommu=pt,force", "passthrough"),
            ("pci=noacs pcie_aspm=off", None),
            ("quiet splash", None),
            ("my_iommu=pt iommux=off", None),
            ("", None),
        ],
    )
    def test_by_the_command_line(self, command_line: str, mode: str | None) -> None:
        assert iommu_mode_asked_for(command_line) == mode

    @given(NOISE)
    def test_any_text(self, text: str) -> None:
        assert iommu_mode_asked_for(text) is None


@pytest.mark.parametrize(
    ("group_type", "mode"),
    [("identity", "passthrough"), ("DMA", "translated"), ("DMA-FQ", "translated"), ("blocked", None), ("", None)],
)
def test_mode_of_a_group(group_type: str, mode: str | None) -> None:
    assert iommu_mode_of_group(group_type) == mode


def test_only_relevant_arguments_are_repeated() -> None:
    command_line = (
        "BOOT_IMAGE=/vmlinuz root=UUID=1 ro rd.luks.key=secret amd_iommu=on iommu=pt pci=noacs,realloc=off "
        "pcie_aspm=off nvidia-drm.modeset=1 nvidia.NVreg_EnableResizableBar=1 modprobe.blacklist=nouveau nomodeset"
    )
    assert relevant_arguments(command_line) == [
        "amd_iommu=on",
        "iommu=pt",
        "pci=noacs,realloc=off",
        "pcie_aspm=off",
        "nvidia-drm.modeset=1",
        "nvidia.NVreg_EnableResizableBar=1",
        "modprobe.blacklist=nouveau",
        "nomodeset",
    ]
