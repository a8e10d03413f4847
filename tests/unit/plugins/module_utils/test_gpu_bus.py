# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs on the PCI bus: found without a driver, placed by sysfs, with what stands between them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.inference.plugins.module_utils._gpu_bus import (
    acs_facts,
    gpus_on_bus,
    iommu_facts,
    locality,
)
from ansible_collections.blackwell.inference.plugins.module_utils._gpu_files import UnreadableError
from ansible_collections.blackwell.inference.tests.replay import hosts
from ansible_collections.blackwell.inference.tests.unit.fixtures.gpu.trees import tree_of

ROOT_PORT, UPSTREAM, PORT_0, PORT_1 = "0000:00:01.1", "0000:01:00.0", "0000:02:00.0", "0000:02:01.0"
GPU_0, GPU_1 = "0000:03:00.0", "0000:04:00.0"

REDIRECT, SRC_VALID = 0x0C, 0x01


def device(address: str, above: str, vendor: str, pci_class: str, **more: Any) -> dict[str, Any]:
    place = f"pci0000:00/{above}{address}"
    entries = {"vendor": f"{vendor}\n", "class": f"{pci_class}\n", "device": "0x2bb5\n", **more}
    return {
        f"/sys/bus/pci/devices/{address}": {"link": f"../../../devices/{place}"},
        **{f"/sys/devices/{place}/{name}": entry for name, entry in entries.items()},
    }


def switch(root_port: Any, port_0: Any, port_1: Any, **gpu: Any) -> dict[str, Any]:
    """Two GPUs behind a switch; the configuration space of each bridge, or its ACS bits."""
    configs = [
        hosts.config_space(0x153E, bits) if isinstance(bits, int) else bits for bits in (root_port, port_0, port_1)
    ]
    bridge = ("0x1000", "0x060400")
    inside = f"{ROOT_PORT}/{UPSTREAM}/"
    return {
        **device(ROOT_PORT, "", *bridge, config=configs[0]),
        **device(UPSTREAM, f"{ROOT_PORT}/", *bridge, config=hosts.config_space(0xC030, None)),
        **device(PORT_0, inside, *bridge, config=configs[1]),
        **device(PORT_1, inside, *bridge, config=configs[2]),
        **device(GPU_0, f"{inside}{PORT_0}/", "0x10de", "0x030200", **gpu),
        **device(GPU_1, f"{inside}{PORT_1}/", "0x10de", "0x030200", **gpu),
    }


class TestGpusOnBus:
    def test_only_nvidia_display_controllers(self, tmp_path: Path) -> None:
        files = {
            **device("0000:03:00.0", "", "0x10de", "0x030200", driver={"link": "../../../bus/pci/drivers/nvidia"}),
            **device("0000:03:00.1", "", "0x10de", "0x040300"),  # the audio device of a board
            **device("0000:04:00.0", "", "0x10de", "0x030000", driver={"link": "../../../bus/pci/drivers/nouveau"}),
            **device("0000:05:00.0", "", "0x1a03", "0x030000"),  # the console's graphics
            **device("0000:06:00.0", "", "0x10de", "0x068000"),  # an NVSwitch
        }
        assert gpus_on_bus(tree_of(files, tmp_path)) == [
            {"bus_id": "0000:03:00.0", "device_id": "2BB5", "driver": "nvidia"},
            {"bus_id": "0000:04:00.0", "device_id": "2BB5", "driver": "nouveau"},
        ]

    def test_without_a_driver(self, tmp_path: Path) -> None:
        (gpu,) = gpus_on_bus(tree_of(device(GPU_0, "", "0x10de", "0x030200"), tmp_path))
        assert gpu["driver"] is None

    def test_none(self, tmp_path: Path) -> None:
        assert gpus_on_bus(tree_of({"/sys/bus/pci/devices": {"directory": True}}, tmp_path)) == []

    def test_no_bus_is_not_no_gpu(self, tmp_path: Path) -> None:
        with pytest.raises(UnreadableError, match="/sys/bus/pci/devices"):
            gpus_on_bus(tree_of({}, tmp_path))

    def test_device_that_is_removed_meanwhile(self, tmp_path: Path) -> None:
        files = {"/sys/bus/pci/devices/0000:09:00.0": {"link": "../../../devices/pci0000:00/gone"}}
        assert gpus_on_bus(tree_of(files, tmp_path)) == []


class TestLocality:
    def test_of_sysfs(self, tmp_path: Path) -> None:
        tree = tree_of(device(GPU_0, "", "0x10de", "0x0302", numa_node="1\n", local_cpulist="32-63,96-127\n"), tmp_path)
        assert locality(tree, GPU_0) == ({"numa_node": 1, "local_cpus": "32-63,96-127"}, {})

    def test_firmware_that_names_no_node(self, tmp_path: Path) -> None:
        tree = tree_of(device(GPU_0, "", "0x10de", "0x0302", numa_node="-1\n", local_cpulist="0-63\n"), tmp_path)
        facts, reasons = locality(tree, GPU_0)
        assert facts == {"numa_node": None, "local_cpus": "0-63"}
        assert "names no NUMA node" in reasons["numa_node"]

    @pytest.mark.parametrize("cpus", ["", "all", "0-", "0-3;4"])
    def test_list_of_another_form(self, cpus: str, tmp_path: Path) -> None:
        tree = tree_of(device(GPU_0, "", "0x10de", "0x0302", numa_node="0\n", local_cpulist=f"{cpus}\n"), tmp_path)
        facts, reasons = locality(tree, GPU_0)
        assert facts["local_cpus"] is None
        assert "no list of CPUs" in reasons["local_cpus"]

    def test_missing_files(self, tmp_path: Path) -> None:
        facts, reasons = locality(tree_of({}, tmp_path), GPU_0)
        assert facts == {"numa_node": None, "local_cpus": None}
        assert set(reasons) == {"numa_node", "local_cpus"}


class TestAcs:
    def test_each_bridge_once_with_what_is_below(self, tmp_path: Path) -> None:
        facts, reasons = acs_facts(tree_of(switch(SRC_VALID, 0, REDIRECT), tmp_path), [GPU_0, GPU_1])
        assert {bridge["bus_id"]: bridge["above"] for bridge in facts["bridges"]} == {
            ROOT_PORT: [GPU_0, GPU_1],
            UPSTREAM: [GPU_0, GPU_1],
            PORT_0: [GPU_0],
            PORT_1: [GPU_1],
        }
        assert facts["redirect"] is True
        assert reasons == {}

    def test_bits_of_a_bridge(self, tmp_path: Path) -> None:
        facts = acs_facts(tree_of(switch(SRC_VALID, 0, REDIRECT), tmp_path), [GPU_0, GPU_1])[0]
        assert facts["bridges"][0] == {
            "bus_id": ROOT_PORT,
            "above": [GPU_0, GPU_1],
            "capable": True,
            "source_validation": True,
            "request_redirect": False,
            "completion_redirect": False,
        }
        assert facts["bridges"][1]["capable"] is False

    @pytest.mark.parametrize("control", [0, SRC_VALID, 0x11])
    def test_source_validation_alone_is_harmless(self, control: int, tmp_path: Path) -> None:
        facts = acs_facts(tree_of(switch(control, control, control), tmp_path), [GPU_0, GPU_1])[0]
        assert facts["redirect"] is False

    @pytest.mark.parametrize("control", [0x04, 0x08, REDIRECT, REDIRECT | SRC_VALID])
    def test_either_redirect_counts(self, control: int, tmp_path: Path) -> None:
        facts = acs_facts(tree_of(switch(0, 0, control), tmp_path), [GPU_0, GPU_1])[0]
        assert facts["redirect"] is True

    def test_without_root_it_is_unknown(self, tmp_path: Path) -> None:
        short = {"size": 64, "bytes": {}}
        facts, reasons = acs_facts(tree_of(switch(short, short, short), tmp_path), [GPU_0, GPU_1])
        assert facts["redirect"] is None
        assert facts["bridges"][0]["request_redirect"] is None
        assert "needs root" in reasons["bridges.0"]
        assert "needs root" in reasons["redirect"]

    def test_one_that_redirects_is_enough_to_know(self, tmp_path: Path) -> None:
        facts, reasons = acs_facts(tree_of(switch({"size": 64}, REDIRECT, 0), tmp_path), [GPU_0, GPU_1])
        assert facts["redirect"] is True
        assert set(reasons) == {"bridges.0"}

    def test_place_that_sysfs_does_not_show(self, tmp_path: Path) -> None:
        facts, reasons = acs_facts(tree_of({}, tmp_path), [GPU_0])
        assert facts == {"redirect": None, "bridges": []}
        assert GPU_0 in reasons["redirect"]


def grouped(*types: str | None) -> dict[str, Any]:
    """GPUs in IOMMU groups of these types; None: the type is not shown; empty: in no group."""
    files: dict[str, Any] = {}
    for number, group_type in enumerate(types):
        link = {"link": f"../../../kernel/iommu_groups/{number}"} if group_type != "" else None
        more = {"iommu_group": link} if link else {}
        files.update(device(f"0000:{number:02x}:00.0", "", "0x10de", "0x030200", **more))
        if group_type:
            files[f"/sys/kernel/iommu_groups/{number}/type"] = f"{group_type}\n"
    return files


class TestIommu:
    @pytest.mark.parametrize(
        ("types", "command_line", "mode"),
        [
            (["", ""], "", "off"),
            (["", ""], "iommu=pt", "off"),
            (["identity", "identity"], "", "passthrough"),
            (["identity", ""], "", "passthrough"),
            (["DMA-FQ", "DMA-FQ"], "", "translated"),
            (["DMA", "DMA"], "iommu=pt", "translated"),
            (["identity", "DMA"], "iommu=pt", "translated"),
            ([None, None], "iommu=pt", "passthrough"),
            ([None, None], "amd_iommu=on", "translated"),
            ([None, None], "quiet", None),
            ([None, None], "iommu=off", None),
            (["blocked", "identity"], "iommu=pt", None),
            ([None, "identity"], "iommu=pt", None),
        ],
    )
    def test_the_groups_decide(
        self, types: list[str | None], command_line: str, mode: str | None, tmp_path: Path
    ) -> None:
        addresses = [f"0000:{number:02x}:00.0" for number in range(len(types))]
        facts, reason = iommu_facts(tree_of(grouped(*types), tmp_path), addresses, command_line)
        assert facts["mode"] == mode
        assert (reason == "") == (mode is not None)

    def test_types_by_address(self, tmp_path: Path) -> None:
        tree = tree_of(grouped("DMA-FQ", None, ""), tmp_path)
        facts = iommu_facts(tree, ["0000:00:00.0", "0000:01:00.0", "0000:02:00.0"], "")[0]
        assert facts["types"] == {"0000:00:00.0": "DMA-FQ"}
