# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role itself, on directories that stand for nodes: what is written, recorded, removed and refused.

The facts are those of two GPUs on one socket, and the interpreter of the environment is a program that answers for the
probe.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

OURS = "# Written by blackwell.inference (an earlier run).\nNCCL_P2P_LEVEL=SYS\n"
FOREIGN = "NCCL_SOCKET_IFNAME=eth0\n"
FACTS: dict[str, Any] = {
    "driver": {"state": "working", "version": "580.95.05", "flavour": "open"},
    "gpus": [{"index": index, "bus_id": f"0000:0{index}:00.0", "mig": False} for index in range(2)],
    "links": [["X", "NODE"], ["NODE", "X"]],
    "p2p": [["X", "OK"], ["OK", "X"]],
    "iommu": {"mode": "passthrough", "types": {}},
    "acs": {"redirect": False, "bridges": []},
    "module_parameters": None,
    "processes": [],
    "cpu": {"vendor": "GenuineIntel"},
    "reasons": {},
}
SERVER = {"pid": 4711, "name": "sglang", "unit": "specdecode@main.service", "memory_mib": 90000}
DESKTOP = {"pid": 99, "name": "Xorg", "unit": "", "memory_mib": 40}
INTERPRETER = """\
#!/bin/sh
if [ "$1" = -I ]; then exec {python} "$@"; fi
printf '%s\\n' "$2" >>{node}/questions
cat {node}/answer.json
"""
PLAY = """\
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.set_fact: {gpu_node: "{{ test_facts }}", cacheable: true}
    - ansible.builtin.include_role: {name: blackwell.inference.nccl_env}
"""


def answer(microseconds: float, status: str = "ok") -> dict[str, Any]:
    step = {
        "group": "decode",
        "collective": "all_reduce",
        "bytes": 16384,
        "status": "ok",
        "busbw_gbps": 1.5,
        "wrong": 0,
    }
    step.update(microseconds=microseconds, spread=[microseconds, microseconds])
    nccl = {"transports": {"P2P": 2}, "warnings": [], "initialised": [0, 1]}
    found = {"status": status, "reason": "" if status == "ok" else "all_reduce of 16 KiB: 3 wrong values on rank 1"}
    return {**found, "backend": "nccl", "nccl": nccl, "steps": [step], "progress": [], "can_not_be_ended": []}


class Nodes:
    """Directories that stand for nodes, and the playbook run over all of them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.hosts: dict[str, dict[str, Any]] = {}

    def add(self, name: str, before: float = 30, after: float = 20, status: str = "ok", **more: Any) -> None:
        node = self.directory / name
        (node / "env/bin").mkdir(parents=True)
        (node / "answer.json").write_text(json.dumps({"before": answer(before), "after": answer(after, status)}))
        (node / "env/bin/python").write_text(INTERPRETER.format(python=sys.executable, node=node))
        (node / "env/bin/python").chmod(0o755)
        if "conf" in more:
            (node / "nccl.conf").write_text(more.pop("conf"))
        self.hosts[name] = {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "test_facts": {**FACTS, **more.pop("facts", {})},
            "test_conf_file": str(node / "nccl.conf"),
            "nccl_env_file": str(node / "etc/nccl.env"),
            "nccl_env_profile": "latency",
            "nccl_env_probe_python": str(node / "env/bin/python"),
            "nccl_env_probe_record": str(node / "state/collectives.jsonl"),
            **more,
        }

    def play(self, *arguments: str) -> Run:
        (self.directory / "play.yml").write_text(PLAY)
        (self.directory / "hosts.json").write_text(json.dumps({"all": {"hosts": self.hosts}}))
        extra = json.dumps({"__nccl_env_conf_file": "{{ test_conf_file }}"})
        argv = [sys.executable, "-m", "ansible", "playbook", "-i", "hosts.json", "-e", extra, *arguments, "play.yml"]
        environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": collections(), "ANSIBLE_LOCALHOST_WARNING": "0"}
        environment.update(ANSIBLE_PIPELINING="1", ANSIBLE_FORKS="2", ANSIBLE_NOCOLOR="1", HOME=str(self.directory))
        done = subprocess.run(
            argv, cwd=self.directory, env=environment, capture_output=True, text=True, check=False, timeout=900
        )
        return Run(done.stdout + done.stderr)

    def text(self, name: str, path: str) -> str:
        return (self.directory / name / path).read_text()

    def has(self, name: str, path: str) -> bool:
        return (self.directory / name / path).exists()

    def records(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text(name, "state/collectives.jsonl").splitlines()]


class Run:
    """What a run of the playbook printed."""

    def __init__(self, output: str) -> None:
        self.output = output
        recap = re.findall(r"^(\w+)\s*: ok=\d+\s+changed=(\d+)\s+unreachable=0\s+failed=(\d+)", output, re.MULTILINE)
        self.changed = {host: int(changed) for host, changed, dummy in recap}
        self.failed = {host for host, dummy, failed in recap if failed != "0"}

    def error(self, host: str) -> str:
        """The message with which a node failed."""
        found = re.search(rf"^fatal: \[{host}\].*", self.output, re.MULTILINE)
        return found[0] if found else ""


def collections() -> str:
    """The directory that holds ansible_collections."""
    spec = importlib.util.find_spec("ansible_collections.blackwell.inference")
    assert spec and spec.submodule_search_locations
    return str(Path(next(iter(spec.submodule_search_locations))).parents[2])


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Nodes:
    nodes = Nodes(tmp_path_factory.mktemp("nodes"))
    nodes.add("faster", nccl_env_probe=True, facts={"processes": [DESKTOP]})
    nodes.add("slower", after=60, nccl_env_probe=True)
    nodes.add("wrong", status="wrong", nccl_env_probe=True)
    nodes.add("held", nccl_env_probe=True, facts={"processes": [DESKTOP, SERVER]})
    nodes.add("asked", nccl_env_conf_file="/etc/nccl.conf")
    nodes.add("foreign", nccl_env_conf_file="/etc/nccl.conf", conf=FOREIGN)
    nodes.add("left", conf=FOREIGN)
    nodes.add("removed", conf=OURS)
    return nodes


@pytest.fixture(scope="module")
def predicted(nodes: Nodes) -> tuple[Run, set[str]]:
    """Check mode before anything is there, and the files that are there after it."""
    run = nodes.play("--check", "--limit", "faster,asked,foreign,removed")
    return run, {str(path.relative_to(nodes.directory)) for path in nodes.directory.glob("*/*")}


@pytest.fixture(scope="module")
def first(nodes: Nodes, predicted: tuple[Run, set[str]]) -> Run:
    return nodes.play()


@pytest.fixture(scope="module")
def second(nodes: Nodes, first: Run) -> Run:
    return nodes.play("--limit", "faster,slower,wrong,asked,removed")


def test_check_mode_predicts_and_leaves_the_nodes_alone(predicted: tuple[Run, set[str]], nodes: Nodes) -> None:
    run, files = predicted
    assert run.failed == {"foreign"}
    assert "Would measure collectives over nccl with 2 processes" in run.output
    assert {host for host, changed in run.changed.items() if changed} == {"faster", "asked", "removed"}
    assert not {path for path in files if path.endswith(("/etc", "/state", "/questions"))}
    assert "removed/nccl.conf" in files


def test_the_nodes_that_fail_are_those_that_must(first: Run) -> None:
    assert first.failed == {"slower", "wrong", "held", "foreign"}


def test_a_faster_profile_is_recorded_and_written(first: Run, nodes: Nodes) -> None:
    (record,) = nodes.records("faster")
    assert record["profile"] == "latency"
    assert record["variables"]["NCCL_P2P_LEVEL"] == "PHB"
    assert (record["before"]["status"], record["after"]["status"]) == ("ok", "ok")
    assert "NCCL_P2P_LEVEL=PHB\n" in nodes.text("faster", "etc/nccl.env")


def test_the_probe_is_asked_for_what_the_node_has(first: Run, nodes: Nodes) -> None:
    (line,) = nodes.text("faster", "questions").splitlines()
    question = json.loads(line)
    assert (question["backend"], question["processes"], question["timeout"]) == ("nccl", 2, 60)
    assert question["sizes"]["decode"] == [16384, 131072, 1048576]
    assert question["variables"]["NCCL_P2P_LEVEL"] == "PHB"
    assert question["baseline"] == ""


def test_a_slower_profile_is_refused_with_figures_and_not_written(first: Run, nodes: Nodes) -> None:
    assert "decode takes 2.00 times as long as without the variables" in first.error("slower")
    assert "all_reduce of 16384 bytes, 30.0 -> 60.0 us" in first.error("slower")
    assert not nodes.has("slower", "etc")
    assert len(nodes.records("slower")) == 1


def test_wrong_values_are_refused_with_the_likely_cause(first: Run, nodes: Nodes) -> None:
    assert "3 wrong values on rank 1" in first.error("wrong")
    assert "ForceP2P" in first.error("wrong")
    assert not nodes.has("wrong", "etc")


def test_nothing_is_measured_beside_a_server(first: Run, nodes: Nodes) -> None:
    assert "held by process 4711 (sglang, specdecode@main.service), 1 in all:" in first.error("held")
    assert not nodes.has("held", "questions")


def test_the_second_run_changes_and_measures_nothing(second: Run, nodes: Nodes) -> None:
    for host in ("faster", "asked", "removed"):
        assert second.changed[host] == 0, host
    assert len(nodes.text("faster", "questions").splitlines()) == 1


def test_a_slower_profile_stays_refused_without_measuring_again(second: Run, nodes: Nodes) -> None:
    assert "decode takes 2.00 times as long" in second.error("slower")
    assert len(nodes.text("slower", "questions").splitlines()) == 1


def test_what_did_not_come_to_its_end_is_measured_again(second: Run, nodes: Nodes) -> None:
    assert len(nodes.text("wrong", "questions").splitlines()) == 2


def test_the_file_of_nccl_is_written_in_its_syntax(first: Run, nodes: Nodes) -> None:
    lines = nodes.text("asked", "nccl.conf").splitlines()
    assert lines[0].startswith("# Written by blackwell.inference")
    assert "NCCL_P2P_LEVEL=PHB" in lines
    assert all(re.fullmatch(r"#.*|NCCL_\w+=\S+|", line) for line in lines)


def test_a_file_that_somebody_else_wrote_is_neither_overwritten_nor_removed(first: Run, nodes: Nodes) -> None:
    assert "was not written by this role" in first.error("foreign")
    assert not nodes.has("foreign", "etc")
    assert nodes.text("foreign", "nccl.conf") == FOREIGN
    assert nodes.text("left", "nccl.conf") == FOREIGN


def test_our_file_goes_when_it_is_no_longer_asked_for(first: Run, nodes: Nodes) -> None:
    assert not nodes.has("removed", "nccl.conf")
