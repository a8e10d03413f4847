# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drives playbooks through ansible-runner's Python API, and looks at the node through ad hoc commands.

These tests need a node on which the deployment has run. SPECDECODE_INVENTORY names the inventories that lead to it,
separated by colons; scenario ``default`` of molecule sets it.
"""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import Any

import ansible_runner

CHECKOUT = Path(__file__).resolve().parents[2]
INVENTORY = os.environ.get("SPECDECODE_INVENTORY", "").split(":")


class Node:
    """The node of the inventory, and everything that is run on it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.numbers = itertools.count()

    def run(self, expect: str = "successful", **what: Any) -> ansible_runner.Runner:
        """Run something in a private data directory of its own; returns the finished run."""
        directory = self.directory / f"run-{next(self.numbers)}"
        directory.mkdir()
        result = ansible_runner.run(private_data_dir=str(directory), inventory=INVENTORY, quiet=True, **what)
        assert result.status == expect, result.stdout.read()
        return result

    def play(self, playbook: str, expect: str = "successful", **variables: Any) -> ansible_runner.Runner:
        """Run one of the playbooks with extra variables. Its recap goes into the directory of the test."""
        return self._play(playbook, variables, expect=expect)

    def check(self, playbook: str, **variables: Any) -> ansible_runner.Runner:
        """Run one of the playbooks in check and diff mode."""
        return self._play(playbook, variables, cmdline="--check --diff")

    def _play(self, playbook: str, variables: dict[str, Any], **what: Any) -> ansible_runner.Runner:
        extra = {"specdecode_gate_recap_directory": str(self.directory / "recap"), **variables}
        return self.run(playbook=str(CHECKOUT / "playbooks" / playbook), extravars=extra, **what)

    def shell(self, command: str) -> str:
        """The output of a command on the node."""
        result = self.run(module="ansible.builtin.shell", module_args=command, host_pattern="inference_nodes")
        (output,) = [
            event["event_data"]["res"]["stdout"] for event in result.events if event["event"] == "runner_on_ok"
        ]
        text: str = output
        return text

    def facts(self) -> dict[str, Any]:
        """What the node says of its deployment, as any play reads it: ansible_local.specdecode.instances.main."""
        result = self.run(
            module="ansible.builtin.setup", module_args="filter=ansible_local", host_pattern="inference_nodes"
        )
        (res,) = [event["event_data"]["res"] for event in result.events if event["event"] == "runner_on_ok"]
        facts: dict[str, Any] = res["ansible_facts"]["ansible_local"]["specdecode"]["instances"]["main"]
        return facts

    def recap(self) -> dict[str, Any]:
        """The recap of the last deployment, of the only node."""
        (node,) = json.loads((self.directory / "recap/recap.json").read_text(encoding="utf-8"))["nodes"]
        recap: dict[str, Any] = node
        return recap


def changes(result: ansible_runner.Runner) -> list[tuple[str, str]]:
    """Which task changed on which host, from the events of one run."""
    return [
        (event["event_data"]["host"], event["event_data"]["task"])
        for event in result.events
        if event["event"] == "runner_on_ok" and event["event_data"]["res"].get("changed")
    ]
