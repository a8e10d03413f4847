# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a deployment changes, from its events: exactly what it has to, and then nothing; nothing in check mode."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.blackwell.inference.tests.deployment.node import Node, changes

PURGE = "Remove bytecode that no longer matches its source"
MAIN_PID = "systemctl show --property=MainPID --value specdecode@main.service"


def test_stale_bytecode_is_all_that_a_run_repairs_and_the_next_finds_nothing(node: Node) -> None:
    before = node.shell(MAIN_PID)
    assert before != "0"
    node.run(playbook=str(Path(__file__).with_name("leave_stale_bytecode.yml")))

    first = node.play("deploy_specdecode.yml")
    assert [task for _host, task in changes(first)] == [PURGE]
    assert list(first.stats["changed"].values()) == [1]

    second = node.play("deploy_specdecode.yml")
    assert changes(second) == []
    assert second.stats["changed"] == {}
    assert node.shell(MAIN_PID) == before


def test_check_mode_tells_what_would_change_and_shows_no_key(node: Node) -> None:
    settings = "sha256sum /etc/specdecode/*"
    before = node.shell(settings)
    result = node.check("deploy_specdecode.yml", inference_server_api_key="s3cret-key")
    assert changes(result) != []
    assert "s3cret-key" not in result.stdout.read()
    assert node.shell(settings) == before
