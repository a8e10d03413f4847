# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page about what the preflight sees is what the roles say today."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.blackwell.inference.tests.replay import hosts, page
from ansible_collections.blackwell.inference.tests.unit.plugins.filter.preflight_case import find

TOP = Path(__file__).parents[3]


def test_the_committed_page_is_the_one_that_is_made_today() -> None:
    committed = (TOP / "docs" / "guides" / "what_the_preflight_sees.md").read_text(encoding="utf-8")
    assert committed == page.page(), "make it again: see the head of tests/replay/page.py"


def test_what_the_page_promises_of_a_cure_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    sick, healthy = "server-8x-two-sockets", "server-8x-switches"
    monkeypatch.setitem(hosts.HOSTS, sick, replace(hosts.HOSTS[sick], group_type="identity"))
    assert page.refused(page.findings_of(page.facts_of(sick))) == []
    assert page.variables(page.decided(page.facts_of(sick))) == page.variables(page.decided(page.facts_of(healthy)))


def test_the_recorded_hosts_of_the_scenario_are_expected_as_the_page_says() -> None:
    inventory = TOP / "molecule" / "recordings" / "inventory" / "hosts.yml"
    expected = yaml.safe_load(inventory.read_text(encoding="utf-8"))["recordings"]["hosts"]
    assert set(expected) == set(hosts.HOSTS)
    for name, wanted in expected.items():
        found = page.findings_of(page.facts_of(name))
        for severity in ("error", "warning"):
            ids = sorted(one["id"] for one in found if one["severity"] == severity)
            assert ids == sorted(wanted.get(f"expected_{severity}s", [])), name


@pytest.mark.parametrize(
    ("host", "more", "ends"),
    [
        ("server-8x-two-sockets", {}, "To go on all the same, accept: node_preflight_accepted: [iommu_redirect]"),
        ("driver-dead", {}, "A later step would fail of gpu_driver, accepted or not: mend that first."),
        (
            "orphans",
            {"node.system.uid": 7},
            "A later step would fail of privileges, accepted or not: mend that first. To go on all the same, accept: "
            "node_preflight_accepted: [gpu_orphans]",
        ),
    ],
)
def test_only_what_may_be_accepted_is_offered(host: str, more: dict[str, Any], ends: str) -> None:
    findings = find({"gpu_node": page.facts_of(host), **more}, {"tensor_parallel": 8})
    assert page.table_of_findings(host, findings).splitlines()[-1] == f"Nothing was changed. {ends}"
