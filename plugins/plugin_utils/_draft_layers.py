# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which layer ids an EAGLE-3 draft's configuration must name to be fed what the draft was trained on.

A draft was trained on hidden states of its target. A boundary says which: boundary i is the state that enters layer i,
0 the output of the embedding. Engines count differently from release to release, and give the draft something else
without a word. The rules were read from the wheels of SGLang 0.5.5 to 0.5.23 and vLLM 0.11.0 to 0.33.0 (2026-11);
tests/upstream executes the engines' own functions against them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ansible_collections.blackwell.inference.plugins.module_utils._patch_release import matches

KEY = "eagle_aux_hidden_state_layer_ids"
KNOWN = {"sglang": ">=0.5.5,<=0.5.23", "vllm": ">=0.11.0,<=0.33.0"}
# Wrappers get the rule of the language model that they delegate to.
_DEEPSEEK = (
    "DeepseekV2ForCausalLM",
    "DeepseekV3ForCausalLM",
    "DeepseekV32ForCausalLM",
    "KimiK25ForConditionalGeneration",
    "KimiVLForConditionalGeneration",
)
# SGLang: the models with a setter that adds 1 to every id in all releases that have it.
_SGLANG_PLUS_ONE = (
    "ApertusForCausalLM",
    "BailingMoEForCausalLM",
    "ExaoneMoEForCausalLM",
    "Gemma3ForCausalLM",
    "Gemma3ForConditionalGeneration",
    "Gemma4ForCausalLM",
    "Gemma4ForConditionalGeneration",
    "Glm4MoeForCausalLM",
    "GptOssForCausalLM",
    "Llama4ForConditionalGeneration",
    "LlamaForCausalLM",
    "LongcatFlashForCausalLM",
    "MiniMaxM2ForCausalLM",
    "Qwen2ForCausalLM",
    "Qwen2MoeForCausalLM",
    "Qwen2_5_VLForConditionalGeneration",
    "Qwen3ForCausalLM",
    "Qwen3MoeForCausalLM",
    "Qwen3NextForCausalLM",
    "Qwen3VLForConditionalGeneration",
)
_SGLANG_CONDITIONAL = (*_DEEPSEEK, "Glm4MoeLiteForCausalLM")
# vLLM: models that add a residual which is not there yet before the first layer.
_VLLM_NO_EMBEDDING = ("Gemma4ForCausalLM", "Gemma4ForConditionalGeneration", "MiMoForCausalLM")
# A wrapper that some releases only serve with a draft when it is patched: engine, target, releases, catalogue entry.
_WRAPPER_PATCHES = (
    ("sglang", "KimiK25ForConditionalGeneration", "==0.5.9", "kimi-k25-eagle3-delegates"),
    ("sglang", "KimiVLForConditionalGeneration", ">=0.5.5,<=0.5.23", "kimi-vl-eagle3-delegates"),
    ("vllm", "Glm4ForCausalLM", ">=0.11.0,<=0.33.0", "glm4-eagle3-interface"),
    ("vllm", "InternVLChatModel", ">=0.22.0,<=0.33.0", "internvl-eagle3-interface"),
    ("vllm", "KimiVLForConditionalGeneration", ">=0.22.0,<=0.33.0", "kimi-vl-eagle3-interface"),
    ("vllm", "LlavaNextForConditionalGeneration", ">=0.22.0,<=0.33.0", "llava-next-eagle3-interface"),
    ("vllm", "Qwen2VLForConditionalGeneration", ">=0.22.0,<=0.33.0", "qwen2-vl-eagle3-interface"),
)


class DraftLayers(NamedTuple):
    """What the engine's release needs."""

    ids: list[int]
    config: dict[str, object]  # to be merged into the draft's config.json
    patches: list[str]  # catalogue entries that must be applied, or upstream
    arguments: list[str]  # arguments that the server must be started with
    reasons: list[str]


def draft_layers(
    boundaries: Sequence[int], engine: str, release: str, target: str, layers: int | None = None
) -> DraftLayers:
    """The ids for the boundaries that a draft was trained on.

    engine: sglang or vllm; release: as its distribution says; target: the architecture in the target's config.json;
    layers: how many hidden layers the target has, if known.
    Raises ValueError for boundaries that make no sense, or that the release cannot capture, with the reason.
    """
    _check_boundaries(boundaries, layers)
    if engine not in KNOWN:
        raise ValueError(f"engine is sglang or vllm, not {engine!r}")
    if not matches(release, [KNOWN[engine]]):
        raise ValueError(
            f"{engine} {release}: its rule for draft layers is not known; it was read for {KNOWN[engine]}. Read what "
            "set_eagle3_layers_to_capture or set_aux_hidden_state_layers of the target does there"
        )
    wanted = list(boundaries)
    found = _sglang(wanted, release, target, layers) if engine == "sglang" else _vllm(wanted, release, target)
    wrapper = [
        entry
        for name, model, releases, entry in _WRAPPER_PATCHES
        if (name, model) == (engine, target) and matches(release, [releases])
    ]
    return found._replace(patches=[*wrapper, *found.patches])


def captured_boundaries(ids: Sequence[int], engine: str, release: str, target: str) -> tuple[list[int], str]:
    """The boundaries that ids in a draft's configuration make a release capture, and by which rule.

    The way back from `draft_layers`. Raises ValueError for an engine, a release or a target whose rule is not known.
    """
    if engine not in KNOWN or not matches(release, [KNOWN[engine]]):
        raise ValueError(f"the rule of {engine} {release} for draft layers is not known")
    if engine == "vllm":
        return list(ids), f"vLLM {release} takes ids as they are"
    if target not in (*_SGLANG_CONDITIONAL, *_SGLANG_PLUS_ONE):
        raise ValueError(f"no rule is known for {target} on SGLang")
    if target in _SGLANG_PLUS_ONE or matches(release, ["<0.5.13"]):
        return [item + 1 for item in ids], f"SGLang {release} adds 1 to every id for {target}"
    if list(ids[:1]) == [1]:
        return [item + 1 for item in ids], f"SGLang {release} adds 1 to every id for {target} when the first one is 1"
    return list(ids), f"SGLang {release} takes ids for {target} as they are, unless the first one is 1"


def default_boundaries(layers: int) -> list[int]:
    """What both engines feed a draft that names no layers."""
    return sorted({2, layers // 2, layers - 3})


def _check_boundaries(boundaries: Sequence[int], layers: int | None) -> None:
    whole = all(isinstance(item, int) and not isinstance(item, bool) and item >= 0 for item in boundaries)
    if not boundaries or not whole or sorted(set(boundaries)) != list(boundaries):
        raise ValueError(f"boundaries are different whole numbers from 0, in ascending order; got {list(boundaries)!r}")
    if layers is not None and boundaries[-1] >= layers:
        raise ValueError(f"the target has {layers} layers, so the last boundary is {layers - 1}; got {boundaries[-1]}")


def _sglang(boundaries: list[int], release: str, target: str, layers: int | None) -> DraftLayers:
    ids, reason = _sglang_ids(boundaries, release, target)
    patches: list[str] = []
    arguments: list[str] = []
    reasons = [reason]
    if boundaries[0] == 0:
        patches += _sglang_embedding(release, target)
    is_default = layers is not None and boundaries == [2, layers // 2, layers - 3]
    if not is_default and matches(release, ["<0.5.8"]):
        arguments.append("--disable-cuda-graph")
        reasons.append(f"SGLang {release} captures its decode graphs with the default layers, whatever the draft says")
    elif not is_default and matches(release, ["<0.5.11"]):
        patches.append("cuda-graph-aux-layers")
        reasons.append(f"SGLang {release} captures its decode graphs before it reads the draft's layers")
    return DraftLayers(ids, {"eagle_config": {KEY: ids}}, patches, arguments, reasons)


def _sglang_ids(boundaries: list[int], release: str, target: str) -> tuple[list[int], str]:
    if target == "KimiK25ForConditionalGeneration" and matches(release, ["<0.5.9"]):
        raise ValueError(f"SGLang {release} has no {target}; it came with 0.5.9")
    if target not in (*_SGLANG_CONDITIONAL, *_SGLANG_PLUS_ONE):
        known = ", ".join(sorted((*_SGLANG_CONDITIONAL, *_SGLANG_PLUS_ONE)))
        raise ValueError(f"no rule is known for {target} on SGLang; rules are known for {known}")
    if target in _SGLANG_PLUS_ONE or matches(release, ["<0.5.13"]):
        return [item - 1 for item in boundaries], f"SGLang {release} adds 1 to every id for {target}"
    if boundaries[0] == 1:
        raise ValueError(
            f"SGLang {release} adds 1 to every id when the first one is 1, so no ids make {target} capture "
            f"{boundaries}; serve this draft with SGLang 0.5.12.post1 or earlier"
        )
    return boundaries, f"SGLang {release} takes ids for {target} as they are, unless the first one is 1"


def _sglang_embedding(release: str, target: str) -> list[str]:
    """What it takes to capture the embedding output. Raises ValueError where nobody knows that it works."""
    if target not in _DEEPSEEK:
        raise ValueError(
            f"boundary 0: whether {target} captures the embedding output on SGLang {release} is not known; it is for "
            + ", ".join(_DEEPSEEK)
        )
    return ["embedding-boundary"] if matches(release, ["<0.5.14"]) else []


def _vllm(boundaries: list[int], release: str, target: str) -> DraftLayers:
    reasons = [f"vLLM {release} takes ids as they are, from the top level of the draft's config.json"]
    patches: list[str] = []
    if target in _DEEPSEEK and matches(release, ["<0.18.0"]):
        raise ValueError(f"vLLM {release}: {target} has no EAGLE-3 interface; it came with 0.18.0")
    if boundaries[0] == 0 and (target in _VLLM_NO_EMBEDDING or matches(release, ["<0.18.0"])):
        raise ValueError(
            f"boundary 0: on vLLM {release}, {target} adds a residual before the first layer, where there is none yet, "
            "and dies with a TypeError"
        )
    if boundaries[0] == 0 and target in _DEEPSEEK:
        patches.append("deepseek-embedding-boundary")
        reasons.append(f"{target} adds a residual before the first layer, where there is none yet")
    return DraftLayers(boundaries, {KEY: boundaries}, patches, [], reasons)
