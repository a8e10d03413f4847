# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Draft layers: every release of the table, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible_collections.blackwell.inference.plugins.plugin_utils import _draft_layers
from ansible_collections.blackwell.inference.plugins.plugin_utils._draft_layers import KEY, draft_layers
from hypothesis import given
from hypothesis import strategies as st

KIMI, DEEPSEEK, LLAMA = "KimiK25ForConditionalGeneration", "DeepseekV3ForCausalLM", "LlamaForCausalLM"
GRAPHS, EMBEDDING, DELEGATES = "cuda-graph-aux-layers", "embedding-boundary", "kimi-k25-eagle3-delegates"
CATALOGUE = Path(__file__).parents[4] / "roles" / "registry_patches" / "patches"


@pytest.mark.parametrize(
    ("release", "ids", "patches", "arguments"),
    [
        ("0.5.5", [-1, 2, 30], [EMBEDDING], ["--disable-cuda-graph"]),
        ("0.5.7", [-1, 2, 30], [EMBEDDING], ["--disable-cuda-graph"]),
        ("0.5.8", [-1, 2, 30], [EMBEDDING, GRAPHS], []),
        ("0.5.8.post1", [-1, 2, 30], [EMBEDDING, GRAPHS], []),
        ("0.5.9", [-1, 2, 30], [EMBEDDING, GRAPHS], []),
        ("0.5.10.post1", [-1, 2, 30], [EMBEDDING, GRAPHS], []),
        ("0.5.11", [-1, 2, 30], [EMBEDDING], []),
        ("0.5.12.post1", [-1, 2, 30], [EMBEDDING], []),
        ("0.5.13", [0, 3, 31], [EMBEDDING], []),
        ("0.5.13.post1", [0, 3, 31], [EMBEDDING], []),
        ("0.5.14", [0, 3, 31], [], []),
        ("0.5.17", [0, 3, 31], [], []),
        ("0.5.23", [0, 3, 31], [], []),
    ],
)
def test_a_draft_of_the_embedding_and_two_layers_on_sglang(
    release: str, ids: list[int], patches: list[str], arguments: list[str]
) -> None:
    found = draft_layers([0, 3, 31], "sglang", release, DEEPSEEK, 61)
    assert (found.ids, found.patches, found.arguments) == (ids, patches, arguments)
    assert found.config == {"eagle_config": {KEY: ids}}
    assert found.reasons


@pytest.mark.parametrize(
    ("release", "target", "ids"),
    [
        ("0.5.12.post1", DEEPSEEK, [1, 29, 57]),
        ("0.5.13", DEEPSEEK, [2, 30, 58]),
        ("0.5.23", KIMI, [2, 30, 58]),
        ("0.5.12.post1", LLAMA, [1, 29, 57]),
        ("0.5.23", LLAMA, [1, 29, 57]),
        ("0.5.23", "Glm4MoeLiteForCausalLM", [2, 30, 58]),
    ],
)
def test_the_rule_depends_on_release_and_target(release: str, target: str, ids: list[int]) -> None:
    assert draft_layers([2, 30, 58], "sglang", release, target, 61).ids == ids


def test_the_default_layers_need_no_help_for_graphs() -> None:
    assert draft_layers([2, 30, 58], "sglang", "0.5.5", DEEPSEEK, 61).arguments == []
    assert draft_layers([2, 30, 58], "sglang", "0.5.9", DEEPSEEK, 61).patches == []
    assert draft_layers([2, 30, 58], "sglang", "0.5.9", DEEPSEEK).patches == [GRAPHS]
    assert draft_layers([2, 30, 58], "sglang", "0.5.9", DEEPSEEK, 60).patches == [GRAPHS]


def test_a_wrapper_without_delegates_needs_its_patch() -> None:
    assert draft_layers([2, 30, 58], "sglang", "0.5.9", KIMI, 61).patches == [DELEGATES]
    assert draft_layers([2, 30, 58], "sglang", "0.5.10", KIMI, 61).patches == []
    assert draft_layers([2, 4, 5], "vllm", "0.32.0+cpu", "Glm4ForCausalLM", 8).patches == ["glm4-eagle3-interface"]


@pytest.mark.parametrize(
    ("boundaries", "target", "patches"),
    [
        ([2, 30, 58], KIMI, []),
        ([0, 3, 31], KIMI, ["deepseek-embedding-boundary"]),
        ([0, 3, 31], LLAMA, []),
        ([1, 3, 6], LLAMA, []),
    ],
)
def test_vllm_takes_the_boundaries_themselves(boundaries: list[int], target: str, patches: list[str]) -> None:
    found = draft_layers(boundaries, "vllm", "0.32.0", target)
    assert (found.ids, found.config, found.patches) == (boundaries, {KEY: boundaries}, patches)


@pytest.mark.parametrize(
    ("boundaries", "engine", "release", "target", "layers", "message"),
    [
        ([1, 4, 32], "sglang", "0.5.13", DEEPSEEK, 61, "adds 1 to every id when the first one is 1"),
        ([0, 3, 31], "sglang", "0.5.23", LLAMA, 80, "boundary 0: whether LlamaForCausalLM"),
        ([2, 3, 4], "sglang", "0.5.23", "Qwen3_5ForCausalLM", 60, "no rule is known for Qwen3_5ForCausalLM"),
        ([2, 3, 4], "sglang", "0.5.8", KIMI, 61, "came with 0.5.9"),
        ([2, 3, 4], "sglang", "0.5.24", DEEPSEEK, 61, "not known"),
        ([2, 3, 4], "sglang", "0.5.4", DEEPSEEK, 61, "not known"),
        ([2, 3, 4], "vllm", "0.17.1", DEEPSEEK, 61, "came with 0.18.0"),
        ([0, 3, 4], "vllm", "0.17.1", LLAMA, 61, "dies with a TypeError"),
        ([0, 3, 4], "vllm", "0.33.0", "MiMoForCausalLM", 61, "dies with a TypeError"),
        ([2, 3, 4], "trtllm", "1.0", LLAMA, 61, "sglang or vllm"),
        ([3, 2], "vllm", "0.32.0", LLAMA, None, "ascending"),
        ([2, 2], "vllm", "0.32.0", LLAMA, None, "ascending"),
        ([], "vllm", "0.32.0", LLAMA, None, "ascending"),
        ([-1, 2], "vllm", "0.32.0", LLAMA, None, "from 0"),
        ([True, 2], "vllm", "0.32.0", LLAMA, None, "whole numbers"),
        (["2"], "vllm", "0.32.0", LLAMA, None, "whole numbers"),
        ([2, 61], "vllm", "0.32.0", LLAMA, 61, "the last boundary is 60"),
        ([2, 3], "vllm", "main", LLAMA, 61, "not a release"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(
    boundaries: list[int], engine: str, release: str, target: str, layers: int | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        draft_layers(boundaries, engine, release, target, layers)


@given(
    st.lists(st.integers(0, 60), min_size=1, max_size=5, unique=True).map(sorted),
    st.sampled_from(["0.5.5", "0.5.9", "0.5.12.post1", "0.5.13", "0.5.23"]),
)
def test_sglangs_own_rule_gives_the_boundaries_back(boundaries: list[int], release: str) -> None:
    try:
        ids = draft_layers(boundaries, "sglang", release, DEEPSEEK, 61).ids
    except ValueError:
        assert (boundaries[0], release) in [(1, "0.5.13"), (1, "0.5.23")]
        return
    shift = release in ("0.5.5", "0.5.9", "0.5.12.post1") or ids[0] == 1
    assert [item + shift for item in ids] == boundaries


def test_every_patch_that_is_asked_for_is_in_the_catalogue() -> None:
    text = Path(_draft_layers.__file__).read_text()
    shipped = {yaml.safe_load(path.read_text())["id"] for path in CATALOGUE.glob("*/*.yml")}
    named = {name for name in shipped if f'"{name}"' in text}
    asked = {entry for dummy, dummy, dummy, entry in _draft_layers._WRAPPER_PATCHES}
    assert asked | {GRAPHS, EMBEDDING, "deepseek-embedding-boundary"} == named
