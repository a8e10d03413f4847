# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processor, NUMA nodes, kernel arguments and module parameters: known, or unknown with a reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.inference.plugins.module_utils._gpu_files import Tree, UnreadableError
from ansible_collections.blackwell.inference.plugins.module_utils._gpu_findings import Findings
from ansible_collections.blackwell.inference.plugins.module_utils._gpu_host import read_host
from ansible_collections.blackwell.inference.tests.replay import hosts
from ansible_collections.blackwell.inference.tests.unit.fixtures.gpu.trees import tree_of, unexplained

FILES = hosts.kernel_files(hosts.HOSTS["server-8x-two-sockets"])


def look(directory: Path, **changes: Any) -> dict[str, Any]:
    """The facts of a host with some files changed, or, with None, missing; all that is None must have a reason."""
    paths = {
        "cpuinfo": "/proc/cpuinfo",
        "cmdline": "/proc/cmdline",
        "balancing": "/proc/sys/kernel/numa_balancing",
        "governor": "/sys/devices/system/cpu/cpufreq/policy0/scaling_governor",
        "params": "/proc/driver/nvidia/params",
        "hmm": "/sys/module/nvidia_uvm/parameters/uvm_disable_hmm",
        "node0": "/sys/devices/system/node/node0/cpulist",
        "node1": "/sys/devices/system/node/node1/cpulist",
    }
    files = {**FILES, **{paths[name]: content for name, content in changes.items()}}
    findings = Findings(tree_of({path: entry for path, entry in files.items() if entry is not None}, directory))
    read_host(findings)
    facts = {**findings.facts, "reasons": findings.reasons}
    assert unexplained(facts) == []
    return facts


def test_everything_known(tmp_path: Path) -> None:
    facts = look(tmp_path)
    assert facts == {
        "cpu": {
            "vendor": "AuthenticAMD",
            "model": "AMD EPYC 9575F 64-Core Processor",
            "governors": ["schedutil"],
            "numa_balancing": False,
        },
        "virtual_machine": False,
        "numa_nodes": [{"node": 0, "cpus": "0-47,96-143"}, {"node": 1, "cpus": "48-95,144-191"}],
        "kernel_arguments": ["amd_iommu=on"],
        "module_parameters": {
            "nvidia": {"DmaRemapPeerMmio": "1", "EnableResizableBar": "0", "GrdmaPciTopoCheckOverride": "0"},
            "nvidia_uvm": {"uvm_ats_mode": "1", "uvm_disable_hmm": "N"},
            "registry_words": {},
        },
        "reasons": {},
    }


def test_nothing_known(tmp_path: Path) -> None:
    findings = Findings(tree_of({}, tmp_path))
    read_host(findings)
    facts = {**findings.facts, "reasons": findings.reasons}
    assert unexplained(facts) == []
    assert facts["virtual_machine"] is None
    assert facts["numa_nodes"] is None
    assert facts["kernel_arguments"] is None


class TestProcessor:
    def test_virtual_machine(self, tmp_path: Path) -> None:
        assert look(tmp_path, cpuinfo="flags\t\t: fpu hypervisor lahf_lm\n")["virtual_machine"] is True

    def test_flag_that_only_contains_the_word(self, tmp_path: Path) -> None:
        assert look(tmp_path, cpuinfo="flags\t\t: fpu hypervisor_guest\n")["virtual_machine"] is False

    def test_processor_without_flags(self, tmp_path: Path) -> None:
        facts = look(tmp_path, cpuinfo="processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd\n")
        assert facts["virtual_machine"] is None
        assert facts["cpu"]["vendor"] is None

    def test_several_governors(self, tmp_path: Path) -> None:
        files = {f"/sys/devices/system/cpu/cpufreq/policy{i}/scaling_governor": "powersave\n" for i in range(1, 4)}
        findings = Findings(tree_of({**FILES, **files}, tmp_path))
        read_host(findings)
        assert findings.facts["cpu"]["governors"] == ["powersave", "schedutil"]

    def test_no_frequency_scaling(self, tmp_path: Path) -> None:
        assert look(tmp_path, governor=None)["cpu"]["governors"] is None

    @pytest.mark.parametrize(("text", "expected"), [("0\n", False), ("1\n", True), ("2\n", True), ("on\n", None)])
    def test_numa_balancing(self, text: str, expected: bool | None, tmp_path: Path) -> None:
        assert look(tmp_path, balancing=text)["cpu"]["numa_balancing"] is expected

    def test_first_gpu_on_a_host_with_nodes_beyond_nine(self, tmp_path: Path) -> None:
        files = {f"/sys/devices/system/node/node{i}/cpulist": f"{i}\n" for i in range(12)}
        findings = Findings(tree_of({**FILES, **files}, tmp_path))
        read_host(findings)
        assert [node["node"] for node in findings.facts["numa_nodes"]] == list(range(12))


class TestParameters:
    def test_registry_words(self, tmp_path: Path) -> None:
        facts = look(tmp_path, params='RegistryDwords: "ForceP2P=0x11;RMForceP2PType=1"\n')
        assert facts["module_parameters"]["registry_words"] == {"ForceP2P": 17, "RMForceP2PType": 1}
        assert facts["module_parameters"]["nvidia"]["DmaRemapPeerMmio"] is None

    def test_registry_words_that_cannot_be_read(self, tmp_path: Path) -> None:
        facts = look(tmp_path, params='RegistryDwords: "ForceP2P"\n')
        assert facts["module_parameters"]["registry_words"] is None
        assert "ForceP2P" in facts["reasons"]["module_parameters.registry_words"]

    @pytest.mark.parametrize("content", [None, "", "nothing\n"])
    def test_no_parameters(self, content: str | None, tmp_path: Path) -> None:
        facts = look(tmp_path, params=content)
        assert facts["module_parameters"]["registry_words"] is None
        assert facts["module_parameters"]["nvidia"]["EnableResizableBar"] is None

    @pytest.mark.parametrize("content", [None, "", "\n"])
    def test_no_module(self, content: str | None, tmp_path: Path) -> None:
        assert look(tmp_path, hmm=content)["module_parameters"]["nvidia_uvm"]["uvm_disable_hmm"] is None


class TestTree:
    def test_reasons_name_the_path_on_the_node(self, tmp_path: Path) -> None:
        with pytest.raises(UnreadableError, match=r"^/proc/driver/nvidia/version: No such file or directory$"):
            tree_of({}, tmp_path).text("/proc/driver/nvidia/version")

    def test_links_are_followed_as_the_node_sees_them(self, tmp_path: Path) -> None:
        files = {
            "/sys/bus/pci/devices/0000:01:00.0": {"link": "../../../devices/pci0000:00/0000:01:00.0"},
            "/sys/devices/pci0000:00/0000:01:00.0/vendor": "0x10de\n",
        }
        tree = tree_of(files, tmp_path)
        assert tree.resolved("/sys/bus/pci/devices/0000:01:00.0") == "/sys/devices/pci0000:00/0000:01:00.0"

    def test_limit_and_damaged_text(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"  \xffabcdef")
        assert Tree(str(tmp_path)).text("/file", limit=5) == "\ufffdab"
