# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module: options, facts, and that it leaves the node alone. What it finds is tested with the rooms below it."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.inference.plugins.modules import gpu_node_facts
from ansible_collections.blackwell.inference.tests.replay import hosts, recording
from ansible_collections.blackwell.inference.tests.unit.plugins.modules.module_case import run_module

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the module with options, and return what it returns."""

    return functools.partial(run_module, gpu_node_facts, capsys)


@pytest.fixture
def unpacked(tmp_path: Path) -> Callable[[str], dict[str, str]]:
    """Unpack an invented host, and return the options to look at it."""

    def unpack(name: str) -> dict[str, str]:
        recording.unpack(hosts.recording(name), tmp_path / name)
        return {"root": str(tmp_path / name), "nvidia_smi": str(tmp_path / name / "nvidia-smi" / "nvidia-smi")}

    return unpack


def snapshot(directory: str) -> dict[str, tuple[int, int]]:
    paths = [os.path.join(base, name) for base, directories, names in os.walk(directory) for name in names]
    return {path: (os.lstat(path).st_mtime_ns, os.lstat(path).st_ino) for path in paths if not path.endswith("/calls")}


class TestFacts:
    @pytest.mark.parametrize("check_mode", [False, True])
    def test_of_a_recorded_host(self, run: Run, unpacked: Callable[[str], dict[str, str]], check_mode: bool) -> None:
        options = unpacked("server-8x-switches")
        before = snapshot(options["root"])
        result = run(**options, _ansible_check_mode=check_mode)
        assert result["changed"] is False
        assert set(result["ansible_facts"]) == {"gpu_node"}
        assert len(result["ansible_facts"]["gpu_node"]["gpus"]) == 8
        assert snapshot(options["root"]) == before

    def test_every_kind_of_query_is_asked_once(self, run: Run, unpacked: Callable[[str], dict[str, str]]) -> None:
        options = unpacked("workstation-2x")
        run(**options)
        calls = (Path(options["nvidia_smi"]).parent / "calls").read_text().splitlines()
        assert sorted(calls) == sorted(json.dumps(command["arguments"]) for command in _commands("workstation-2x"))

    def test_timeout(self, run: Run, unpacked: Callable[[str], dict[str, str]]) -> None:
        facts = run(**unpacked("driver-hung"), timeout=1)["ansible_facts"]["gpu_node"]
        assert facts["driver"]["state"] == "hung"
        assert facts["reasons"]["driver"] == "nvidia-smi -q -x: it did not end within 1 seconds"

    def test_documented_keys_are_the_returned_ones(self, run: Run, unpacked: Callable[[str], dict[str, str]]) -> None:
        yaml = pytest.importorskip("yaml")
        documented = yaml.safe_load(gpu_node_facts.RETURN)["ansible_facts"]["contains"]["gpu_node"]["contains"]
        facts = run(**unpacked("serving"))["ansible_facts"]["gpu_node"]
        assert set(documented) == set(facts)
        assert set(documented["gpus"]["contains"]) == set(facts["gpus"][0])
        for key in ("driver", "iommu", "acs", "shm"):
            assert set(documented[key]["contains"]) == set(facts[key])


class TestWhichProgram:
    def test_of_the_path(
        self, run: Run, unpacked: Callable[[str], dict[str, str]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        program = unpacked("workstation-2x")["nvidia_smi"]
        monkeypatch.setenv("PATH", f"{os.path.dirname(program)}:{os.environ['PATH']}")
        assert len(run()["ansible_facts"]["gpu_node"]["gpus"]) == 2

    def test_this_node_is_not_asked_about_another(
        self, run: Run, unpacked: Callable[[str], dict[str, str]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        options = unpacked("workstation-2x")
        monkeypatch.setenv("PATH", f"{os.path.dirname(options['nvidia_smi'])}:{os.environ['PATH']}")
        facts = run(root=options["root"])["ansible_facts"]["gpu_node"]
        assert facts["gpus"] is None
        assert facts["driver"]["state"] == "no-program"

    def test_named_one_that_is_missing(self, run: Run) -> None:
        result = run(nvidia_smi="/nonexistent/nvidia-smi")
        assert result["failed"] is True
        assert "/nonexistent/nvidia-smi is no program" in result["msg"]


class TestOptions:
    def test_root_without_a_node(self, run: Run, tmp_path: Path) -> None:
        result = run(root=str(tmp_path))
        assert result["failed"] is True
        assert "does not hold the files of a node (/proc: No such file or directory)" in result["msg"]

    @pytest.mark.parametrize("timeout", [0, -1])
    def test_timeout_that_is_none(self, run: Run, timeout: int) -> None:
        assert f"timeout: {timeout} is too short" in run(timeout=timeout)["msg"]


def _commands(name: str) -> list[dict[str, Any]]:
    commands: list[dict[str, Any]] = hosts.recording(name)["commands"]
    return commands
