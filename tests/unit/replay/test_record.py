# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A recorded host looks as the host did, without what identifies it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.inference.plugins.module_utils._gpu_files import Tree
from ansible_collections.blackwell.inference.plugins.module_utils._gpu_node import read_node
from ansible_collections.blackwell.inference.tests.replay import hosts, record, recording
from ansible_collections.blackwell.inference.tests.unit.fixtures.gpu.trees import answers_of


def record_unpacked(host: dict[str, Any], directory: Path) -> dict[str, Any]:
    """Record a host that was unpacked from a recording."""
    recording.unpack(host, directory)
    recorded: dict[str, Any] = record.record(str(directory), str(directory / "nvidia-smi" / "nvidia-smi"), timeout=5)
    return recorded


def facts_of(host: dict[str, Any], directory: Path) -> dict[str, Any]:
    if not directory.exists():
        recording.unpack(host, directory)
    return read_node(Tree(str(directory)), answers_of(host["commands"]) if host["commands"] else None)


class TestRoundTrip:
    @pytest.mark.parametrize("name", [name for name, host in hosts.HOSTS.items() if not host.hangs])
    def test_facts_are_the_same_but_for_the_uuids(self, name: str, tmp_path: Path) -> None:
        host = hosts.recording(name)
        recorded = record_unpacked(host, tmp_path / "host")
        facts, again = facts_of(host, tmp_path / "host"), facts_of(recorded, tmp_path / "recorded")
        for gpu in [*(facts["gpus"] or []), *(again["gpus"] or [])]:
            del gpu["uuid"]
        assert again == facts

    def test_nvidia_smi_that_hangs(self, tmp_path: Path) -> None:
        recording.unpack(hosts.recording("driver-hung"), tmp_path / "host")
        program = str(tmp_path / "host" / "nvidia-smi" / "nvidia-smi")
        recorded = record.record(str(tmp_path / "host"), program, timeout=0.2)
        assert [command.get("hangs") for command in recorded["commands"]] == [True] * 4
        assert facts_of(recorded, tmp_path / "recorded")["driver"]["state"] == "hung"

    def test_host_without_nvidia_smi(self, tmp_path: Path) -> None:
        recording.unpack({**hosts.recording("driver-dead"), "commands": []}, tmp_path / "host")
        recorded = record.record(str(tmp_path / "host"), str(tmp_path / "nothing"))
        assert recorded["commands"] == []
        assert facts_of(recorded, tmp_path / "recorded")["driver"]["state"] == "absent"

    def test_configuration_space_without_root(self, tmp_path: Path) -> None:
        host = hosts.recording("server-8x-switches")
        for path, entry in host["files"].items():
            if path.endswith("/config"):
                entry.update(size=64, bytes={"0": entry["bytes"]["0"]})
        facts = facts_of(record_unpacked(host, tmp_path / "host"), tmp_path / "recorded")
        assert facts["acs"]["redirect"] is None
        assert "needs root" in facts["reasons"]["acs.redirect"]


SECRETS = {
    "serial": "1799999999999",
    "uuid": "7d3f0a11-5b2c-4d6e-9f80-123456789abc",
    "argument": "hunter2",
    "container": "9f8e7d6c5b4a" * 5 + "9f8e",
    "switch": "c0ffee42",
    "disk": "rd.luks.uuid=luks-1234",
}


@pytest.fixture(scope="module")
def recorded_secrets(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The recording, as text, of a host that shows all these secrets."""
    host = hosts.recording("serving")
    query = host["commands"][0]
    query["output"] = (
        query["output"]
        .replace("1790000000000", SECRETS["serial"])
        .replace(hosts.uuid(0)[4:], SECRETS["uuid"].upper())
        .replace("VLLM::Worker_TP0", f"python3 --api-key {SECRETS['argument']}")
        .replace("<uuid>", "<pdi>0x1799999999999</pdi>\n<uuid>")
    )
    files = host["files"]
    files["/proc/cmdline"] = f"root=UUID={SECRETS['uuid']} {SECRETS['disk']} iommu=pt\n"
    files["/proc/41001/cgroup"] = f"0::/system.slice/docker-{SECRETS['container']}.scope\n"
    files["/proc/41001/cmdline"] = f"python3\0--api-key\0{SECRETS['argument']}\0"
    bridge = next(path for path in files if path.endswith("/config"))
    files[bridge]["bytes"]["260"] = SECRETS["switch"]  # inside a capability of the chain, where serial numbers are
    return json.dumps(record_unpacked(host, tmp_path_factory.mktemp("secrets") / "host"))


def test_leader_of_a_session_is_recorded_though_it_holds_nothing(tmp_path: Path) -> None:
    host = hosts.recording("serving")
    host["files"]["/proc/41001/status"] = host["files"]["/proc/41001/status"].replace("PPid:\t41000", "PPid:\t1")
    facts = facts_of(record_unpacked(host, tmp_path / "host"), tmp_path / "recorded")
    assert (facts["processes"][0]["parent"], facts["processes"][0]["orphan"]) == (1, False)


class TestMasks:
    @pytest.mark.parametrize("secret", SECRETS)
    def test_secret_is_gone(self, secret: str, recorded_secrets: str) -> None:
        assert SECRETS[secret].lower() not in recorded_secrets.lower()

    def test_gpus_stay_different(self, recorded_secrets: str, tmp_path: Path) -> None:
        facts = facts_of(json.loads(recorded_secrets), tmp_path / "recorded")
        assert len({gpu["uuid"] for gpu in facts["gpus"]}) == 8

    def test_arguments_that_matter_stay(self, recorded_secrets: str, tmp_path: Path) -> None:
        assert facts_of(json.loads(recorded_secrets), tmp_path / "recorded")["kernel_arguments"] == ["iommu=pt"]

    def test_the_same_uuid_stays_the_same(self) -> None:
        mask = record.Mask()
        first = mask("GPU-7d3f0a11-5b2c-4d6e-9f80-123456789abc")
        assert first == mask("GPU-7D3F0A11-5B2C-4D6E-9F80-123456789ABC") != mask("GPU-" + hosts.uuid(1)[4:])

    def test_lists_that_nobody_reads_are_left_out(self) -> None:
        clocks = "<supported_clocks>\n<value>3090 MHz</value>\n</supported_clocks>"
        assert record.Mask()(f"<gpu>{clocks}<name>x</name></gpu>") == "<gpu><name>x</name></gpu>"


def test_one_command_records_this_host(tmp_path: Path) -> None:
    """As it is run over SSH: the program on standard input, nothing else of ours on the host."""
    program = Path(record.__file__).read_text()
    result = subprocess.run(
        [sys.executable, "-"], input=program, check=True, capture_output=True, text=True, cwd=tmp_path
    )
    recording.check(json.loads(result.stdout))
