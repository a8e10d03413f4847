# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gate on the real engine: a right draft is kept, wrong ones fall back and are diagnosed, and all of it is undone.

The drafts are those of tools/lab_models.py, whose accept lengths are known beforehand. Each test begins and ends with
the right draft deployed, but for the last one. Speed is not judged: a tiny model on a CPU says nothing about it.
"""

from __future__ import annotations

import json
from typing import Any

from ansible_collections.blackwell.inference.tests.deployment.node import Node, changes

DEPLOY, VERIFY, ROLL_BACK = "deploy_specdecode.yml", "verify_specdecode.yml", "rollback_specdecode.yml"
WRONG_LAYERS, HEADLESS = "/srv/models/eagle3-wrong-layers", "/srv/models/eagle3-headless"
REPAIRED = "/var/lib/specdecode/drafts/eagle3-wrong-layers"
# Everything that a deployment consists of on this node, by content, mode and owner.
ENGINE = "/opt/specdecode/ml-env/lib/python3.11/site-packages/vllm/model_executor/models"
SETTINGS = "/etc/specdecode /etc/systemd/system/specdecode@* /etc/nccl.conf /var/lib/specdecode/drafts"
FILES = (
    f"find {SETTINGS} /var/lib/specdecode/patches/manifest.json {ENGINE} -not -name '*.pyc' -not -type d "
    "-printf '%p %m %u %g %l ' -exec sha256sum {} ';' 2>/dev/null | sort"
)
RUNS = "tr '\\0' ' ' < /proc/$(systemctl show --property=MainPID --value specdecode@main.service)/cmdline"
TEXT = (
    "curl --silent --fail http://127.0.0.1:8000/v1/completions -H Content-Type:application/json "
    """--data '{"model": "glm4-tiny", "prompt": "abc", "max_tokens": 24, "temperature": 0}' """
    """| grep --only-matching '"text":[^,]*'"""
)


def served(draft: str, **more: Any) -> dict[str, Any]:
    """Variables of a deployment with another draft."""
    speculative = {"algorithm": "EAGLE3", "draft_model": draft, "num_steps": 3}
    return {"inference_server_speculative": speculative, "specdecode_gate_fallback_fails": False, **more}


def test_a_right_draft_is_kept(node: Node) -> None:
    facts = node.facts()
    assert facts["decision"] == "keep"
    assert 1.9 < facts["accept_length"] <= 2.0
    assert "speculative" in node.shell(RUNS)


def test_a_draft_that_is_fed_other_layers_falls_back_is_diagnosed_and_undone(node: Node) -> None:
    before, text = node.shell(FILES), node.shell(TEXT)
    # a play that died while it wrote a line
    node.shell('printf \'{"time": "20\' >> /var/lib/specdecode/measurements.jsonl')
    wrong = served(
        WRONG_LAYERS, registry_patches_draft_boundaries=[0, 2, 4], specdecode_gate_accept_length_declared=2.0
    )
    node.play(DEPLOY, **wrong)
    facts = node.facts()
    assert facts["decision"] == "fallback" and facts["accept_length"] == 1.0
    reasons = " ".join(facts["reasons"])
    for part in ("boundaries [2, 4, 5]", "takes ids as they are", "trained on [0, 2, 4]", "needs ids [0, 2, 4]"):
        assert part in reasons
    assert "speculative" not in node.shell(RUNS)
    assert node.shell(TEXT) == text
    recap = node.recap()
    assert recap["deployment"]["decision"] == "fallback" and recap["with"]["accept_length"] == 1.0
    assert recap["history"][-1]["decision"] == "keep"
    page = (node.directory / "recap/recap.html").read_text(encoding="utf-8")
    assert "glm4-eagle3-interface" in page and "src=" not in page

    # the next run neither tries again nor changes anything, and fails as asked
    again = node.play(DEPLOY, "failed", **{**wrong, "specdecode_gate_fallback_fails": True})
    assert changes(again) == []
    assert "so that it serves without" in again.stdout.read()
    assert changes(node.play(VERIFY, **wrong)) == []

    node.play(ROLL_BACK)
    assert node.shell(FILES) == before
    assert node.facts()["decision"] == "keep"
    assert "speculative" in node.shell(RUNS)


def test_a_draft_without_a_head_falls_back_is_diagnosed_and_undone(node: Node) -> None:
    before = node.shell(FILES)
    node.play(DEPLOY, **served(HEADLESS))
    facts = node.facts()
    assert facts["decision"] == "fallback" and facts["accept_length"] == 1.0
    assert "no lm_head.weight" in " ".join(facts["reasons"])
    node.play(ROLL_BACK)
    assert node.shell(FILES) == before


def test_the_right_ids_by_boundaries_repair_it(node: Node) -> None:
    before = node.shell(FILES)
    repaired = served(REPAIRED, registry_patches_draft=WRONG_LAYERS, registry_patches_draft_boundaries=[0, 2, 4])
    node.play(DEPLOY, **repaired)
    facts = node.facts()
    assert facts["decision"] == "keep"
    assert 1.9 < facts["accept_length"] <= 2.0
    node.play(ROLL_BACK)
    assert node.shell(FILES) == before
    assert changes(node.play(VERIFY)) == []


def test_going_back_to_before_the_first_deployment_leaves_nothing_of_it(node: Node) -> None:
    record = json.loads(node.shell("cat /var/lib/specdecode/deployments/main-0001-*.json"))
    node.play(ROLL_BACK, specdecode_gate_roll_back_to=record["id"])
    assert node.shell("systemctl is-active specdecode@main.service || true") == "inactive"
    assert node.shell("systemctl is-enabled specdecode@main.service || true") != "enabled"
    now = {line.split()[0]: line.split()[-2] for line in node.shell(FILES).splitlines()}
    then = {file["path"]: file["what"] for file in record["files"] if file["kind"] == "file"}
    assert {path: digest for path, digest in now.items() if ENGINE not in path} == then
    assert node.shell(f"grep --count SupportsEagle3 {ENGINE}/glm4.py || true") == "0"
