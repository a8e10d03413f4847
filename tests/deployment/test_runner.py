# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drives the deployment of a node through ansible-runner's Python API and asserts on its events.

It needs a node on which the deployment has run. SPECDECODE_INVENTORY names the inventories that lead to it, separated
by colons; scenario ``default`` of molecule sets it.
"""

from __future__ import annotations

import os
from pathlib import Path

import ansible_runner
import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
INVENTORY = os.environ.get("SPECDECODE_INVENTORY", "").split(":")
PURGE = "Remove bytecode that no longer matches its source"
MAIN_PID = "systemctl show --property=MainPID --value specdecode@main.service"


@pytest.fixture(name="run")
def fixture_run(tmp_path):
    """Runs something in a private data directory of its own; returns the finished run."""

    def run(ident, **what):
        result = ansible_runner.run(
            private_data_dir=str(tmp_path), inventory=INVENTORY, ident=ident, quiet=True, **what
        )
        assert result.status == "successful", result.stdout.read()
        return result

    return run


def deploy(run, ident):
    return run(ident, playbook=str(CHECKOUT / "playbooks/deploy_specdecode.yml"))


def changes(result):
    """Which task changed on which host, from the events of one run."""
    return [
        (event["event_data"]["host"], event["event_data"]["task"])
        for event in result.events
        if event["event"] == "runner_on_ok" and event["event_data"]["res"].get("changed")
    ]


def ask(run, ident, command):
    """The output of a command on each host."""
    result = run(ident, module="ansible.builtin.command", module_args=command, host_pattern="inference_nodes")
    return {
        event["event_data"]["host"]: event["event_data"]["res"]["stdout"]
        for event in result.events
        if event["event"] == "runner_on_ok"
    }


def test_stale_bytecode_is_all_that_a_run_repairs_and_the_next_finds_nothing(run):
    before = ask(run, "pid-before", MAIN_PID)
    assert all(pid != "0" for pid in before.values())
    run(
        "tamper",
        playbook=str(Path(__file__).with_name("leave_stale_bytecode.yml")),
    )

    first = deploy(run, "first")
    assert changes(first) == [(host, PURGE) for host in before]
    assert first.stats["changed"] == dict.fromkeys(before, 1)

    second = deploy(run, "second")
    assert changes(second) == []
    assert second.stats["changed"] == {}
    assert ask(run, "pid-after", MAIN_PID) == before
