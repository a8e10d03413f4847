# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What nvidia-smi says becomes a value or a reason, never something in between."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.blackwell.inference.plugins.module_utils._gpu_smi import (
    UnusableOutputError,
    edition,
    explain_failure,
    parse_capabilities,
    parse_query,
)
from ansible_collections.blackwell.inference.tests.unit.fixtures.gpu.mutations import NOISE, mutated
from hypothesis import given

FIXTURES = Path(__file__).parents[2] / "fixtures" / "gpu"
V13 = (FIXTURES / "smi-v13.xml").read_text()
V12_MIG = (FIXTURES / "smi-v12-mig.xml").read_text()

SERVER_BUS, MAX_Q_BUS = "0000:21:00.0", "0000:c1:00.0"


class TestVersion13:
    def test_driver(self) -> None:
        query = parse_query(V13)
        assert (query.driver_version, query.cuda_version, query.attached) == ("590.48.01", "13.1", 2)

    def test_server_edition(self) -> None:
        server = parse_query(V13).gpus[0]
        assert server.facts == {
            "bus_id": SERVER_BUS,
            "name": "NVIDIA RTX PRO 6000 Blackwell Server Edition",
            "uuid": "GPU-11111111-aaaa-4bbb-8ccc-000000000021",
            "minor": 1,
            "device_id": "2BB5",
            "memory_mib": 97887,
            "memory_used_mib": 90112,
            "bar1_mib": 131072,
            "utilization_percent": 3,
            "power_draw_w": 30.75,
            "power_limit_w": 600.0,
            "power_limit_max_w": 600.0,
            "persistence": True,
            "ecc": True,
            "mig": False,
            "mig_devices": 0,
            "addressing_mode": "hmm",
            "recovery_action": "none",
            "pcie_generation_current": 1,
            "pcie_generation_max": 5,
            "pcie_generation_max_device": 5,
            "pcie_generation_max_host": 5,
            "pcie_width_current": 16,
            "pcie_width_max": 16,
        }
        assert server.reasons == {}

    def test_mig_is_off_on_server_and_unknown_on_max_q(self) -> None:
        server, max_q = parse_query(V13).gpus
        assert server.facts["mig"] is False
        assert max_q.facts["mig"] is None
        assert max_q.reasons["mig"] == "nvidia-smi says 'N/A' for mig_mode/current_mig"

    def test_host_limits_the_generation(self) -> None:
        facts = parse_query(V13).gpus[1].facts
        assert facts["pcie_generation_max"] == facts["pcie_generation_max_host"] == 4
        assert facts["pcie_generation_max_device"] == 5
        assert facts["pcie_generation_current"] == 1

    def test_processes(self) -> None:
        server, max_q = parse_query(V13).gpus
        assert [process["pid"] for process in server.processes] == [41001, 41777]
        assert [process["memory_mib"] for process in server.processes] == [90112, None]
        assert max_q.processes == []

    def test_arguments_of_a_process_are_not_kept(self) -> None:
        assert parse_query(V13).gpus[0].processes[0]["name"] == "VLLM::Worker_TP0"
        assert "hunter2" not in str(parse_query(V13))


class TestOlderVersions:
    def test_mig_on(self) -> None:
        (gpu,) = parse_query(V12_MIG).gpus
        assert (gpu.facts["mig"], gpu.facts["mig_devices"]) == (True, 2)
        assert gpu.facts["memory_mib"] == 81559, "the memory of the GPU, not that of a MIG device"

    def test_device_id_with_prefix(self) -> None:
        assert parse_query(V12_MIG).gpus[0].facts["device_id"] == "2331"

    def test_power_draw_under_its_old_name(self) -> None:
        assert parse_query(V12_MIG).gpus[0].facts["power_draw_w"] == 67.03

    def test_power_group_under_its_old_name(self) -> None:
        facts = parse_query(V12_MIG.replace("gpu_power_readings", "power_readings")).gpus[0].facts
        assert (facts["power_draw_w"], facts["power_limit_w"], facts["power_limit_max_w"]) == (67.03, 350.0, 350.0)

    def test_power_of_the_module_is_not_that_of_the_gpu(self) -> None:
        facts = parse_query(V13.replace("gpu_power_readings", "other")).gpus[0].facts
        assert facts["power_limit_w"] is None

    def test_average_counts_where_there_is_no_instant_value(self) -> None:
        assert parse_query(V13.replace("30.75 W", "N/A")).gpus[0].facts["power_draw_w"] == 31.2

    def test_missing_elements_have_a_reason(self) -> None:
        gpu = parse_query(V12_MIG).gpus[0]
        assert gpu.facts["recovery_action"] is None
        assert gpu.reasons["recovery_action"] == "this release of nvidia-smi has no gpu_recovery_action"
        assert gpu.facts["pcie_generation_max_host"] is None
        assert gpu.facts["utilization_percent"] is None


class TestUnusualOutput:
    @pytest.mark.parametrize(
        "word",
        ["N/A", "[N/A]", "[Not Supported]", "ERR!", "[Unknown Error]", "[GPU requires reset]", "", "97887", "-1 MiB"],
    )
    def test_no_value_is_made_of_other_words(self, word: str) -> None:
        gpu = parse_query(V13.replace("97887 MiB", word)).gpus[0]
        assert gpu.facts["memory_mib"] is None
        assert gpu.reasons["memory_mib"] == f"nvidia-smi says {word!r} for fb_memory_usage/total"

    def test_warning_after_the_xml(self) -> None:
        warning = "WARNING: infoROM is corrupted at gpu 0000:21:00.0\n"
        assert parse_query(V13 + warning) == parse_query(V13)

    def test_more_attached_than_described(self) -> None:
        query = parse_query(V13.replace("<attached_gpus>2", "<attached_gpus>8"))
        assert (query.attached, len(query.gpus)) == (8, 2)

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("", "no XML"),
            ("No devices were found\n", "no XML"),
            (V13[: len(V13) // 2], "no XML"),
            ("<html></html>", "not a nvidia_smi_log"),
            (V13.replace('id="00000000:C1:00.0"', 'id="00000000:21:00.0"'), "two GPUs at one bus address"),
            (V13.replace('id="00000000:C1:00.0"', ""), "GPU 1 of the XML has no bus address"),
            (V13.replace("nvidia_smi_log SYSTEM", 'nvidia_smi_log [<!ENTITY a "b">] SYSTEM'), "declares entities"),
        ],
        ids=["empty", "message", "cut", "other document", "address twice", "no address", "entities"],
    )
    def test_refused(self, text: str, reason: str) -> None:
        with pytest.raises(UnusableOutputError, match=reason):
            parse_query(text)


class TestCapabilities:
    def test_index_and_capability_by_address(self) -> None:
        text = "0, 00000000:21:00.0, 12.0\n1, 00000000:C1:00.0, 9.0\n"
        assert parse_capabilities(text) == {SERVER_BUS: (0, "12.0"), MAX_Q_BUS: (1, "9.0")}

    def test_capability_that_is_none(self) -> None:
        assert parse_capabilities("0, 00000000:21:00.0, [N/A]\n") == {SERVER_BUS: (0, None)}

    @pytest.mark.parametrize(
        "text",
        [
            'Field "compute_cap" is not a valid field to query.\n',
            "0, 00000000:21:00.0\n",
            "x, 00000000:21:00.0, 12.0\n",
            "0, 00000000:21:00.0, 12.0\n0, 00000000:C1:00.0, 12.0\n",
            "0, 00000000:21:00.0, 12.0\n1, 00000000:21:00.0, 12.0\n",
            "0, [Unknown Error], 12.0\n",
        ],
    )
    def test_refused(self, text: str) -> None:
        with pytest.raises(UnusableOutputError):
            parse_capabilities(text)


COMMUNICATE = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running.\n"
)


class TestFailures:
    @pytest.mark.parametrize(
        ("status", "output", "state"),
        [
            (9, COMMUNICATE, "not-running"),
            (9, COMMUNICATE.replace(" with the", "\nwith the"), "not-running"),
            (9, COMMUNICATE.replace("the NVIDIA driver", "the\n\tNVIDIA driver"), "not-running"),
            (6, "No devices were found\n", "no-devices"),
            (
                18,
                "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.105\n",
                "mismatch",
            ),
            (9, "Failed to initialize NVML: Driver Not Loaded\n", "not-running"),
            (255, "Unable to determine the device handle for GPU2: 0000:41:00.0: Unknown Error\n", "gpu-lost"),
            (15, "Unable to determine the device handle for GPU 0000:41:00.0: GPU is lost.\n", "gpu-lost"),
            (127, "", "failed"),
            (1, "Segmentation fault", "failed"),
        ],
    )
    def test_known_failures(self, status: int, output: str, state: str) -> None:
        failure = explain_failure(status, output)
        assert failure.state == state
        assert failure.reason.startswith(f"nvidia-smi exited with {status}: ")

    def test_silence_is_named(self) -> None:
        assert explain_failure(127, " \n").reason == "nvidia-smi exited with 127: it printed nothing"

    def test_long_output_is_cut(self) -> None:
        assert len(explain_failure(1, "x" * 10000).reason) < 300


class TestEdition:
    @pytest.mark.parametrize(
        ("name", "device_id", "expected"),
        [
            ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "2BB5", "server"),
            ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "2BB4", "max-q"),
            ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "2BB1", "workstation"),
            ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", None, "max-q"),
            ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "2BB9", "server"),
            ("NVIDIA Graphics Device", "2BB5", "server"),
            (None, "2BB4", "max-q"),
            ("NVIDIA RTX PRO 6000 Blackwell", None, None),
            ("NVIDIA H100 PCIe", "2331", None),
            (None, None, None),
        ],
    )
    def test_of_name_and_device(self, name: str | None, device_id: str | None, expected: str | None) -> None:
        assert edition(name, device_id) == expected


# Each fact, and what it may be; a damaged text must not lead to anything else.
NUMBERS = {"memory_mib", "memory_used_mib", "bar1_mib", "utilization_percent", "minor", "pcie_width_max"}
SWITCHES = {"persistence", "ecc", "mig"}


class TestMutatedCaptures:
    @given(mutated(V13, r"(\s|[<>])") | mutated(V12_MIG, r"(\s|[<>])") | mutated(V13, "(\n)"))
    def test_values_or_reasons(self, text: str) -> None:
        try:
            query = parse_query(text)
        except UnusableOutputError as refusal:
            assert str(refusal)
            return
        for gpu in query.gpus:
            assert {key for key, value in gpu.facts.items() if value is None} == set(gpu.reasons)
            assert all(isinstance(gpu.facts[key], (int, type(None))) for key in NUMBERS)
            assert all(gpu.facts[key] in (True, False, None) for key in SWITCHES)
            # the text says it, or there is no value
            for key in NUMBERS - {"minor"}:
                assert gpu.facts[key] is None or str(gpu.facts[key]) in text

    @given(NOISE)
    def test_any_text(self, text: str) -> None:
        for parse in (parse_query, parse_capabilities):
            try:
                assert parse(text) in ({},)
            except UnusableOutputError as refusal:
                assert str(refusal)

    @given(mutated("0, 00000000:21:00.0, 12.0\n1, 00000000:C1:00.0, 12.0\n", "([, \n:])"))
    def test_capabilities(self, text: str) -> None:
        try:
            answer = parse_capabilities(text)
        except UnusableOutputError as refusal:
            assert str(refusal)
            return
        indexes = [known[0] for known in answer.values()]
        assert len(set(indexes)) == len(indexes)
        assert all(capability is None or capability in text for index, capability in answer.values())
