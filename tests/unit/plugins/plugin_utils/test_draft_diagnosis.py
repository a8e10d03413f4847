# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a draft is not accepted: the layers in force, those expected, and the head."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.blackwell.inference.plugins.filter.draft_diagnosis import draft_diagnosis
from ansible_collections.blackwell.inference.plugins.plugin_utils._draft_layers import (
    captured_boundaries,
    draft_layers,
)

TOP = Path(__file__).parents[4]
KIMI = "KimiK25ForConditionalGeneration"
KEY = "eagle_aux_hidden_state_layer_ids"


def look(**changes: Any) -> dict[str, Any]:
    return {
        "target": {"architectures": ["Glm4ForCausalLM"], "num_hidden_layers": 8},
        "draft": {KEY: [2, 4, 5]},
        "draft_path": "/srv/models/draft",
        "has_head": True,
        **changes,
    }


def served(*boundaries: int, engine: str = "vllm", release: str = "0.32.0") -> dict[str, Any]:
    return {"engine": engine, "release": release, "boundaries": list(boundaries)}


def test_the_wrong_layers_are_named_with_the_right_ones_and_the_rule() -> None:
    (sentence,) = draft_diagnosis(look(), served(0, 2, 4), 1.0, 2.0)
    for part in (
        "boundaries [2, 4, 5]",
        "vLLM 0.32.0 takes ids as they are",
        "trained on [0, 2, 4]",
        "needs ids [0, 2, 4]",
    ):
        assert part in sentence


def test_the_rule_is_that_of_the_release() -> None:
    target = {"architectures": [KIMI], "num_hidden_layers": 61}
    draft = {"eagle_config": {KEY: [2, 30, 58]}}
    seen = look(target=target, draft=draft)
    (before,) = draft_diagnosis(seen, served(2, 30, 58, engine="sglang", release="0.5.12"), 1.1, 2.8)
    assert "boundaries [3, 31, 59]" in before and "needs ids [1, 29, 57]" in before
    (after,) = draft_diagnosis(seen, served(2, 30, 58, engine="sglang", release="0.5.13"), 1.1, 2.8)
    assert "boundaries [2, 30, 58]" in after and "That is what registry_patches_draft_boundaries says" in after


def test_a_draft_that_names_no_layers_gets_the_default() -> None:
    (sentence,) = draft_diagnosis(look(draft={}), served(), 1.0)
    assert "boundaries [2, 4, 5]" in sentence and "names none" in sentence
    assert "registry_patches_draft_boundaries" in sentence, "what to do when nobody declared them"


def test_a_missing_head_is_named_first() -> None:
    sentences = draft_diagnosis(look(has_head=False), served(), 1.0)
    assert "no lm_head.weight" in sentences[0] and len(sentences) == 2


@pytest.mark.parametrize(
    ("measured", "declared", "says"),
    [(1.0, 0, True), (1.05, 0, True), (1.4, 0, False), (1.4, 2.0, True), (1.6, 2.0, False), (None, 2.0, False)],
)
def test_it_speaks_only_where_acceptance_is_far_below(measured: float | None, declared: float, says: bool) -> None:
    assert bool(draft_diagnosis(look(), served(), measured, declared)) is says


@pytest.mark.parametrize("seen", [{}, {"target": None, "draft": None, "has_head": None}, look(target={})])
def test_what_is_not_known_is_not_guessed(seen: dict[str, Any]) -> None:
    assert all("not known" in sentence or "boundaries" in sentence for sentence in draft_diagnosis(seen, served(), 1.0))


def test_a_target_without_a_rule_is_said() -> None:
    seen = look(target={"architectures": ["Unheard"]}, draft={"eagle_config": {KEY: [1, 2]}})
    (sentence,) = draft_diagnosis(seen, served(engine="sglang", release="0.5.20"), 1.0)
    assert "no rule is known for Unheard" in sentence


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize(
    "strange",
    [
        {"target": [1]},
        {"target": {"architectures": 5}},
        {"target": {"architectures": {"a": 1}}},
        {"target": {"architectures": [None], "num_hidden_layers": "8"}},
        {"target": {"architectures": ["Llama\rExecStartPre=+/bin/true"], "num_hidden_layers": 8}},
        {"draft": [1]},
        {"draft": {KEY: ["a"], "eagle_config": {KEY: ["a\rb", None]}}},
        {"draft": {"eagle_config": 5}},
    ],
)
def test_models_of_strangers_don_t_stop_a_fallback_nor_get_into_its_unit(strange: dict[str, Any], engine: str) -> None:
    """Whatever config.json holds, the sentences become comments of a unit that starts programs as root."""
    said = draft_diagnosis(
        look(**strange), served(0, 2, 4, engine=engine, release="0.5.20" if engine == "sglang" else "0.32.0"), 1.0
    )
    assert all(sentence.isprintable() and "ExecStartPre" not in sentence for sentence in said)


def test_nonsense_is_refused() -> None:
    with pytest.raises(AnsibleFilterError):
        draft_diagnosis([], served(), 1.0)
    with pytest.raises(AnsibleFilterError):
        draft_diagnosis(look(), {}, 1.0)


@pytest.mark.parametrize("release", ["0.5.9", "0.5.12.post1", "0.5.13", "0.5.23"])
@pytest.mark.parametrize("target", [KIMI, "LlamaForCausalLM", "DeepseekV3ForCausalLM"])
@pytest.mark.parametrize("boundaries", [[2, 30, 58], [3, 31, 59], [5, 6, 7]])
def test_the_way_back_leads_to_the_same_layers(boundaries: list[int], target: str, release: str) -> None:
    ids = draft_layers(boundaries, "sglang", release, target, 61).ids
    assert captured_boundaries(ids, "sglang", release, target)[0] == boundaries


def test_ids_that_begin_with_1_are_shifted_since_0_5_13() -> None:
    assert captured_boundaries([1, 29, 57], "sglang", "0.5.20", KIMI)[0] == [2, 30, 58]


# What look_at_draft.py sees on the node


def run_look(target: Path, draft: Path) -> dict[str, Any]:
    program = TOP / "roles/specdecode_gate/files/look_at_draft.py"
    done = subprocess.run([sys.executable, program, target, draft], capture_output=True, text=True, check=True)
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


def write_weights(directory: Path, *names: str, header: bytes = b"") -> None:
    directory.mkdir(exist_ok=True)
    text = header or json.dumps({"__metadata__": {}, **{name: {} for name in names}}).encode()
    (directory / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text)


@pytest.mark.parametrize(
    ("name", "has_head"),
    [
        ("lm_head.weight", True),
        ("model.lm_head.weight", True),
        ("model.fc.weight", False),
        ("my_lm_head.weight", False),
    ],
)
def test_the_head_is_found_by_its_name(tmp_path: Path, name: str, has_head: bool) -> None:
    write_weights(tmp_path / "draft", name)
    assert run_look(tmp_path, tmp_path / "draft")["has_head"] is has_head


@pytest.mark.parametrize("header", [b"[]", b"{", b"\xff" * 9])
def test_damaged_weights_are_not_known(tmp_path: Path, header: bytes) -> None:
    write_weights(tmp_path / "draft", header=header)
    assert run_look(tmp_path, tmp_path / "draft")["has_head"] is None


def test_the_language_model_within_counts(tmp_path: Path) -> None:
    text = {
        "architectures": [KIMI],
        "text_config": {"num_hidden_layers": 61, "architectures": ["DeepseekV3ForCausalLM"]},
    }
    (tmp_path / "config.json").write_text(json.dumps(text))
    assert run_look(tmp_path, tmp_path / "none")["target"] == {"architectures": [KIMI], "num_hidden_layers": 61}


def test_no_model_is_not_looked_for_where_the_program_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.json").write_text('{"num_hidden_layers": 8}')
    write_weights(tmp_path, "lm_head.weight")
    monkeypatch.chdir(tmp_path)
    program = TOP / "roles/specdecode_gate/files/look_at_draft.py"
    done = subprocess.run([sys.executable, program, "", ""], capture_output=True, text=True, check=True)
    seen = json.loads(done.stdout)
    assert (seen["target"], seen["draft"], seen["has_head"]) == (None, None, None)
