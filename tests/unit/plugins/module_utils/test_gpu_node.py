# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole hosts: what is put together is right, whatever is None has a reason, and damage is never read as a value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.inference.plugins.module_utils._gpu_commands import Outcome
from ansible_collections.blackwell.inference.plugins.module_utils._gpu_files import Tree
from ansible_collections.blackwell.inference.plugins.module_utils._gpu_node import QUERIES, read_node
from ansible_collections.blackwell.inference.tests.replay import hosts, recording
from ansible_collections.blackwell.inference.tests.unit.fixtures.gpu.mutations import mutated
from ansible_collections.blackwell.inference.tests.unit.fixtures.gpu.trees import answers_of, tree_of, unexplained
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

Facts = dict[str, Any]
Look = Callable[..., Facts]


@pytest.fixture
def look(tmp_path: Path) -> Look:
    """Look at an invented host; answers of nvidia-smi may be changed by the number of the query."""

    def look_at(name: str, **changes: str) -> Facts:
        host = hosts.recording(name)
        for query, output in changes.items():
            host["commands"][int(query[1:])]["output"] = output
        recording.unpack(host, tmp_path / "host")
        return read_node(Tree(str(tmp_path / "host")), answers_of(host["commands"]))

    return look_at


class TestEveryHost:
    @pytest.mark.parametrize("name", hosts.HOSTS)
    def test_what_is_none_has_a_reason(self, name: str, look: Look) -> None:
        assert unexplained(look(name)) == []

    @pytest.mark.parametrize("name", hosts.HOSTS)
    def test_matrices_are_as_large_as_the_list_of_gpus(self, name: str, look: Look) -> None:
        facts = look(name)
        for key in ("links", "p2p"):
            if facts[key] is not None:
                assert [len(row) for row in facts[key]] == [len(facts["gpus"])] * len(facts["gpus"])

    @pytest.mark.parametrize(
        ("name", "state"),
        [
            ("server-8x-two-sockets", "working"),
            ("wedged", "working"),
            ("driver-dead", "not-running"),
            ("driver-mismatch", "mismatch"),
            ("proprietary-driver", "no-devices"),
            ("gpu-lost", "gpu-lost"),
            ("driver-hung", "hung"),
        ],
    )
    def test_state_of_the_driver(self, name: str, state: str, look: Look) -> None:
        facts = look(name)
        assert facts["driver"]["state"] == state
        assert (facts["gpus"] is None) == (state != "working")
        assert len(facts["pci_gpus"]) == 8, "the bus shows them whatever the driver says"


class TestHosts:
    def test_directly_attached_on_two_sockets(self, look: Look) -> None:
        facts = look("server-8x-two-sockets")
        assert facts["links"][0] == ["X", "NODE", "NODE", "NODE", "SYS", "SYS", "SYS", "SYS"]
        assert [gpu["numa_node"] for gpu in facts["gpus"]] == [0, 0, 0, 0, 1, 1, 1, 1]
        assert facts["gpus"][4]["local_cpus"] == "48-95,144-191"
        assert (facts["iommu"]["mode"], facts["acs"]["redirect"]) == ("translated", True)
        assert facts["gpus"][0]["persistence"] is False

    def test_behind_switches(self, look: Look) -> None:
        facts = look("server-8x-switches")
        assert facts["links"][0] == ["X", "PIX", "NODE", "NODE", "SYS", "SYS", "SYS", "SYS"]
        assert (facts["iommu"]["mode"], facts["acs"]["redirect"]) == ("passthrough", False)
        assert all(bridge["source_validation"] for bridge in facts["acs"]["bridges"] if bridge["capable"])
        assert [len(bridge["above"]) for bridge in facts["acs"]["bridges"][:4]] == [2, 2, 1, 1]

    def test_max_q(self, look: Look) -> None:
        facts = look("max-q-4x")
        assert {gpu["edition"] for gpu in facts["gpus"]} == {"max-q"}
        assert {gpu["pcie_generation_max"] for gpu in facts["gpus"]} == {4}
        assert {gpu["pcie_generation_max_device"] for gpu in facts["gpus"]} == {5}
        assert {gpu["mig"] for gpu in facts["gpus"]} == {None}
        assert facts["iommu"]["mode"] == "off"

    def test_workstation(self, look: Look) -> None:
        facts = look("workstation-2x")
        assert facts["module_parameters"]["registry_words"] == {"ForceP2P": 17, "RMForceP2PType": 1}
        assert facts["cpu"]["vendor"] == "GenuineIntel"

    def test_mixed(self, look: Look) -> None:
        facts = look("mixed")
        assert [gpu["edition"] for gpu in facts["gpus"]] == ["server", "server", "max-q", None]
        assert [gpu["compute_capability"] for gpu in facts["gpus"]] == ["12.0", "12.0", "12.0", "9.0"]
        assert facts["gpus"][0]["numa_node"] == 1
        assert facts["p2p"][1] == ["CNS", "X", "OK", "NS"]
        assert facts["links"][1] == ["SYS", "X", "PHB", "SYS"]

    def test_mig(self, look: Look) -> None:
        assert [(gpu["mig"], gpu["mig_devices"]) for gpu in look("mig-on")["gpus"]] == [(True, 4), (True, 4)]

    def test_dead_driver_still_shows_bus_and_isolation(self, look: Look) -> None:
        facts = look("driver-dead")
        assert facts["pci_gpus"][0] == {"bus_id": "0000:01:00.0", "device_id": "2BB5", "driver": None}
        assert facts["acs"]["redirect"] is True
        assert "couldn't communicate with the NVIDIA driver" in facts["reasons"]["driver"]

    def test_mismatch_knows_the_loaded_release(self, look: Look) -> None:
        facts = look("driver-mismatch")
        assert (facts["driver"]["version"], facts["driver"]["flavour"]) == ("590.48.01", "open")
        assert "595.58" in facts["reasons"]["driver"]

    def test_proprietary_driver_that_finds_nothing(self, look: Look) -> None:
        assert look("proprietary-driver")["driver"]["flavour"] == "proprietary"

    def test_wedged(self, look: Look) -> None:
        facts = look("wedged")
        busy = [gpu["index"] for gpu in facts["gpus"] if gpu["utilization_percent"] == 100]
        assert (busy, facts["processes"]) == ([2, 3], [])
        assert facts["gpus"][2]["power_draw_w"] == 118.5
        assert facts["gpus"][2]["recovery_action"] == "reset"

    def test_serving(self, look: Look) -> None:
        facts = look("serving")
        assert {process["unit"] for process in facts["processes"]} == {"specdecode@main.service"}
        assert not any(process["orphan"] for process in facts["processes"])
        assert not any(leftover["orphan"] for leftover in facts["shm"]["leftovers"])

    def test_orphans(self, look: Look) -> None:
        facts = look("orphans")
        assert [process["orphan"] for process in facts["processes"]] == [True] * 8
        assert [process["listed"] for process in facts["processes"]] == [True] * 7 + [False]
        assert {leftover["path"]: leftover["orphan"] for leftover in facts["shm"]["leftovers"]} == {
            "/dev/shm/nccl-Ab12Cd": True,
            "/dev/shm/psm_live01": False,
            "/dev/shm/vllm_offload_41000": True,
        }

    def test_virtual_machine_does_not_know_about_its_host(self, look: Look) -> None:
        facts = look("virtual-machine")
        assert facts["acs"]["redirect"] is None
        assert "virtual machine" in facts["reasons"]["acs.redirect"]
        assert facts["iommu"]["mode"] is None, "no IOMMU group in the guest says nothing about the host"
        assert "virtual machine" in facts["reasons"]["iommu.mode"]

    @pytest.mark.parametrize(("group", "mode"), [("DMA", "translated"), ("identity", None)])
    def test_of_an_iommu_of_its_own_a_guest_knows_only_that_it_translates(
        self, group: str, mode: str | None, look: Look, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        guest = replace(hosts.HOSTS["virtual-machine"], group_type=group)
        monkeypatch.setitem(hosts.HOSTS, "virtual-machine", guest)
        facts = look("virtual-machine")
        assert facts["iommu"]["mode"] == mode
        assert ("iommu.mode" in facts["reasons"]) is (mode is None)


class TestWithoutNvidiaSmi:
    def test_node_without_gpus(self, tmp_path: Path) -> None:
        facts = read_node(tree_of({"/sys/bus/pci/devices": {"directory": True}}, tmp_path), None)
        assert facts["driver"] == {"state": "absent", "version": None, "flavour": None, "cuda_version": None}
        assert facts["gpus"] == facts["pci_gpus"] == facts["processes"] == []
        assert facts["links"] is None
        assert unexplained(facts) == []

    def test_node_whose_bus_cannot_be_read(self, tmp_path: Path) -> None:
        facts = read_node(tree_of({}, tmp_path), None)
        assert facts["gpus"] is facts["pci_gpus"] is facts["iommu"]["mode"] is None
        assert unexplained(facts) == []

    def test_loaded_driver(self, tmp_path: Path) -> None:
        host = hosts.recording("server-8x-switches")
        recording.unpack({**host, "commands": []}, tmp_path / "host")
        facts = read_node(Tree(str(tmp_path / "host")), None)
        assert facts["driver"]["state"] == "no-program"
        assert facts["driver"]["version"] == "590.48.01"
        assert unexplained(facts) == []


class TestAnswersThatDoNotFit:
    def test_each_query_is_asked_once(self, tmp_path: Path) -> None:
        asked: list[Sequence[str]] = []
        answers = answers_of(hosts.recording("workstation-2x")["commands"])

        def ask(queries: Sequence[Sequence[str]]) -> Sequence[Outcome]:
            asked.extend(queries)
            return answers(queries)

        read_node(tree_of({}, tmp_path), ask)
        assert asked == list(QUERIES)

    def test_matrix_of_fewer_gpus(self, look: Look) -> None:
        facts = look("server-8x-switches", q2=hosts.topology(hosts.HOSTS["mixed"]))
        assert facts["links"] is None
        assert facts["reasons"]["links"] == "the matrix is of 4 GPUs, and the node has 8"
        assert facts["p2p"] is not None

    def test_damaged_matrix(self, look: Look) -> None:
        text = hosts.topology(hosts.HOSTS["server-8x-switches"]).replace("GPU3\tGPU4", "GPU3GPU4")
        facts = look("server-8x-switches", q2=text)
        assert facts["links"] is None
        assert "GPU3GPU4" in facts["reasons"]["links"]

    def test_capabilities_of_an_old_release(self, look: Look) -> None:
        facts = look("workstation-2x", q1='Field "compute_cap" is not a valid field to query.\n')
        assert [gpu["compute_capability"] for gpu in facts["gpus"]] == [None, None]
        assert [gpu["index"] for gpu in facts["gpus"]] == [0, 1]
        assert "compute_cap" in facts["reasons"]["gpus.0.compute_capability"]

    def test_capabilities_of_other_gpus(self, look: Look) -> None:
        facts = look("workstation-2x", q1="0, 00000000:21:00.0, 12.0\n1, 00000000:99:00.0, 12.0\n")
        assert [gpu["compute_capability"] for gpu in facts["gpus"]] == [None, None]

    def test_index_of_the_tool_comes_before_the_order_of_the_xml(self, look: Look) -> None:
        facts = look("workstation-2x", q1="1, 00000000:21:00.0, 12.0\n0, 00000000:41:00.0, 12.0\n")
        assert [(gpu["index"], gpu["bus_id"]) for gpu in facts["gpus"]] == [(0, "0000:41:00.0"), (1, "0000:21:00.0")]

    def test_more_attached_than_described(self, look: Look) -> None:
        xml = hosts.query_xml(hosts.HOSTS["workstation-2x"]).replace("<attached_gpus>2", "<attached_gpus>3")
        assert look("workstation-2x", q0=xml)["reasons"]["gpus"] == "nvidia-smi counts 3 GPUs, and describes 2"

    def test_arguments_of_processes_are_nowhere(self, look: Look) -> None:
        xml = hosts.query_xml(hosts.HOSTS["serving"]).replace("VLLM::Worker_TP0", "python3 --api-key hunter2")
        assert "hunter2" not in str(look("serving", q0=xml))


class TestMutatedCaptures:
    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
    @given(data=st.data(), name=st.sampled_from(["mixed", "serving"]), query=st.integers(0, 3))
    def test_no_crash_and_a_reason_for_each_none(
        self, data: st.DataObject, name: str, query: int, tmp_path: Path
    ) -> None:
        host = hosts.recording(name)
        directory = tmp_path / name
        if not directory.exists():
            recording.unpack(host, directory)
        command = host["commands"][query]
        command["output"] = data.draw(mutated(command["output"], r"([\s<>,])"))
        command["status"] = data.draw(st.sampled_from([0, 0, 6, 255]))
        facts = read_node(Tree(str(directory)), answers_of(host["commands"]))
        assert unexplained(facts) == []
        assert [gpu["index"] for gpu in facts["gpus"] or []] == list(range(len(facts["gpus"] or [])))

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
    @given(data=st.data())
    def test_damaged_files(self, data: st.DataObject, tmp_path: Path) -> None:
        host = hosts.recording("orphans")
        directory = tmp_path / "host"
        if not directory.exists():
            recording.unpack(host, directory)
        texts = sorted(path for path, entry in host["files"].items() if isinstance(entry, str))
        path = data.draw(st.sampled_from(texts))
        file = directory / path.lstrip("/")
        file.write_text(data.draw(mutated(host["files"][path], r"([\s:=;,])")), encoding="utf-8")
        try:
            assert unexplained(read_node(Tree(str(directory)), answers_of(host["commands"]))) == []
        finally:
            file.write_text(host["files"][path], encoding="utf-8")
