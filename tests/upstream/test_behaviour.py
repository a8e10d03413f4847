# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What patched functions of real releases do, executed with stand-ins for all around them."""

from __future__ import annotations

import ast
import itertools
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.blackwell.inference.plugins.module_utils._patch_entry import read_entry
from ansible_collections.blackwell.inference.plugins.module_utils._source_edit import apply_edits
from ansible_collections.blackwell.inference.plugins.plugin_utils._draft_layers import draft_layers
from ansible_collections.blackwell.inference.tests.upstream import engines
from ansible_collections.blackwell.inference.tests.upstream.extract import (
    find,
    run_class,
    run_definitions,
    run_expression,
    run_function,
    run_statements,
)
from packaging.specifiers import SpecifierSet

CATALOGUE = engines.catalogue()
# A draft of 61 layers, as DeepSeek-V3 and Kimi-K2.5 have.
BOUNDARIES = [[2, 30, 58], [0, 3, 31], [3, 31, 59], [2, 3, 4], [1, 4, 32], [5]]


@pytest.fixture
def source(release: engines.Release) -> Any:
    """The sources of a release, by their path inside the package, as one entry leaves them."""

    def read(file: str, patch: str | None = None) -> str:
        text = engines.source(release, file)
        if patch is None:
            return text
        edits = [edit for edit in read_entry(CATALOGUE[patch]).edits_for(release.number) if edit["file"] == file]
        return apply_edits(text.encode(), edits).source.decode()

    return read


# The class that each patch gives something to.
WRAPPERS = {
    "kimi-k25-eagle3-delegates": ("srt/models/kimi_k25.py", "KimiK25ForConditionalGeneration"),
    "kimi-vl-eagle3-delegates": ("srt/models/kimi_vl.py", "KimiVLForConditionalGeneration"),
    "glm4-eagle3-interface": ("model_executor/models/glm4.py", "Glm4ForCausalLM"),
    "internvl-eagle3-interface": ("model_executor/models/internvl.py", "InternVLChatModel"),
    "kimi-vl-eagle3-interface": ("model_executor/models/kimi_vl.py", "KimiVLForConditionalGeneration"),
    "llava-next-eagle3-interface": ("model_executor/models/llava_next.py", "LlavaNextForConditionalGeneration"),
    "qwen2-vl-eagle3-interface": ("model_executor/models/qwen2_vl.py", "Qwen2VLForConditionalGeneration"),
}


class Inner:
    """A language model that notes what it is told."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def set_eagle3_layers_to_capture(self, layer_ids: Any = None) -> None:
        self.calls.append(("layers", layer_ids))

    def get_embed_and_head(self) -> tuple[str, str]:
        return ("embed", "head")

    def set_embed_and_head(self, embed: Any, head: Any) -> None:
        self.calls.append(("shared", embed, head))


class TestSGLang:
    def captured(self, source: Any, ids: list[int] | None) -> list[int]:
        """What the release's own setter makes DeepseekV2Model capture."""
        setter = run_function(source("srt/models/deepseek_v2.py"), "DeepseekV2ForCausalLM.set_eagle3_layers_to_capture")
        model = SimpleNamespace(
            pp_group=SimpleNamespace(is_last_rank=True),
            config=SimpleNamespace(num_hidden_layers=61),
            model=SimpleNamespace(layers_to_capture=[]),
        )
        setter(model, ids)
        captured: list[int] = model.model.layers_to_capture
        return captured

    @pytest.mark.engine("sglang")
    def test_the_setter_captures_the_boundaries(self, release: engines.Release, source: Any) -> None:
        assert self.captured(source, None) == [2, 30, 58]
        for boundaries in BOUNDARIES:
            try:
                ids = draft_layers(boundaries, "sglang", release.number, "DeepseekV3ForCausalLM", 61).ids
            except ValueError:
                shifted = [item - 1 for item in boundaries]
                assert boundaries not in (self.captured(source, boundaries), self.captured(source, shifted))
                continue
            assert self.captured(source, ids) == boundaries

    @pytest.mark.patched_by("kimi-k25-eagle3-delegates", "kimi-vl-eagle3-delegates")
    def test_delegates_delegate_and_never_skip(self, patch: str, source: Any) -> None:
        file, name = WRAPPERS[patch]
        methods = ("set_eagle3_layers_to_capture", "get_embed_and_head", "set_embed_and_head")
        wrapper = run_class(source(file, patch), name, methods)()
        wrapper.language_model = Inner()
        wrapper.set_eagle3_layers_to_capture([2, 30, 58])
        wrapper.set_eagle3_layers_to_capture()
        wrapper.set_embed_and_head(*wrapper.get_embed_and_head())
        assert wrapper.language_model.calls == [
            ("layers", [2, 30, 58]), ("layers", None), ("shared", "embed", "head")
        ]  # fmt: skip
        wrapper.language_model = None
        for call in (wrapper.set_eagle3_layers_to_capture, wrapper.get_embed_and_head):
            with pytest.raises(AttributeError, match="NoneType can't"):
                call()

    @pytest.mark.patched_by("embedding-boundary")
    def test_the_embedding_output_is_captured_as_a_copy(
        self, release: engines.Release, patch: str, source: Any
    ) -> None:
        forward = find(source("srt/models/deepseek_v2.py", patch), "DeepseekV2Model.forward")
        assert_embedding_expressions(forward, 1 if SpecifierSet("<0.5.7").contains(release.number) else 2)

    @pytest.mark.patched_by("cuda-graph-aux-layers")
    def test_decode_graphs_get_the_drafts_layers(self, patch: str, source: Any) -> None:
        text = source("srt/model_executor/cuda_graph_runner.py", patch)
        calls = [
            node for node in ast.walk(find(text, "CudaGraphRunner.__init__"))
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".set_eagle3_layers_to_capture")
        ]  # fmt: skip
        runner = SimpleNamespace(model=Inner(), eagle_aux_hidden_state_layer_ids=[-1, 2, 30])
        for call in calls:
            run_expression(call, {"self": SimpleNamespace(model_runner=runner)})
        assert runner.model.calls == [("layers", [-1, 2, 30])]
        attribute = "self.eagle_aux_hidden_state_layer_ids"
        assert attribute in source("srt/model_executor/model_runner.py")

    @pytest.mark.patched_by("sm120-extend-attention")
    def test_blocks_of_attention_fit_into_workstation_blackwell(self, patch: str, source: Any) -> None:
        file = "srt/layers/attention/triton_ops/extend_attention.py"

        def blocks(text: str, capability: tuple[int, int], head: int) -> tuple[int, int]:
            names = {
                "_is_hip": False,
                "_is_cuda": True,
                "CUDA_CAPABILITY": capability,
                "triton": SimpleNamespace(next_power_of_2=lambda number: 1 << (number - 1).bit_length()),
            }
            result = run_function(text, "_get_block_sizes_for_extend_attention", names)(head, head)
            return (result[3], result[4])

        patched, pristine = source(file, patch), source(file)
        heads = (64, 128, 192, 256, 288, 576)
        assert [blocks(patched, (12, 0), head) for head in heads] == [
            (64, 64), (64, 64), (32, 64), (32, 64), (32, 32), (32, 32)
        ]  # fmt: skip
        for capability, head in itertools.product([(8, 0), (8, 9), (9, 0), (10, 0)], heads):
            assert blocks(patched, capability, head) == blocks(pristine, capability, head)

    @pytest.mark.parametrize(
        ("is_sm120", "scale_format", "switched_off"), [(1, None, 1), (0, None, 0), (1, "ue8m0", 0)]
    )
    @pytest.mark.patched_by("deepgemm-scale-format")
    def test_packed_scales_are_switched_off_where_they_do_not_fit(
        self, patch: str, source: Any, is_sm120: int, scale_format: str | None, switched_off: int
    ) -> None:
        method = find(source("srt/configs/model_config.py", patch), "ModelConfig._verify_quantization")
        check = next(
            node for node in ast.walk(method)
            if isinstance(node, ast.If) and "DEEPGEMM_SCALE_UE8M0" in ast.unparse(node.test)
        )  # fmt: skip
        imports = [node for node in ast.walk(check) if isinstance(node, ast.ImportFrom)]
        assert [ast.unparse(node) for node in imports] == ["from sglang.srt.utils import is_sm120_supported"]
        check.body = [node for node in check.body if node not in imports]
        wrapper = SimpleNamespace(DEEPGEMM_SCALE_UE8M0=True)
        names = {
            "self": SimpleNamespace(use_scale_ue8m0=scale_format == "ue8m0"),
            "deep_gemm_wrapper": wrapper,
            "logger": SimpleNamespace(warning=lambda text: None),
            "is_sm120_supported": lambda: bool(is_sm120),
        }
        run_statements([check], names)
        assert wrapper.DEEPGEMM_SCALE_UE8M0 is not bool(switched_off)
        assert "is_sm120_supported" in source("srt/utils/common.py")


class TestVLLM:
    @pytest.mark.patched_by("eagle3-whitelist-deepseek")
    def test_the_list_lets_the_families_pass(self, patch: str, source: Any) -> None:
        method = find(source("config/speculative.py", patch), "SpeculativeConfig._verify_args")
        supported = next(
            node.value for node in ast.walk(method)
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).endswith("_supported")
        )  # fmt: skip
        names = run_expression(supported, {})
        for model_type in ("kimi_k2", "kimi_k25", "deepseek_v3", "llama"):
            assert any(name in model_type for name in names)
        assert not any(name in "mistral" for name in names)

    @pytest.mark.patched_by("deepseek-embedding-boundary")
    def test_the_embedding_output_is_captured_as_a_copy(
        self, release: engines.Release, patch: str, source: Any
    ) -> None:
        forward = find(source("model_executor/models/deepseek_v2.py", patch), "DeepseekV2Model.forward")
        assert_embedding_expressions(forward, 1 if SpecifierSet("<0.25.0").contains(release.number) else 2)

    @pytest.mark.patched_by(*(patch for patch in WRAPPERS if patch.endswith("-interface")))
    def test_the_wrapper_has_the_interface_and_reaches_the_inner_model(self, patch: str, source: Any) -> None:
        file, name = WRAPPERS[patch]
        wanted = ("SupportsEagleBase", "EagleModelMixin", "SupportsEagle3")
        interfaces = run_definitions(source("model_executor/models/interfaces.py"), wanted)
        protocol, mixin = interfaces["SupportsEagle3"], interfaces.get("EagleModelMixin", object)
        # Newer releases also note which pipeline rank captures what; here is one rank.
        inner = type("Inner", (mixin,), {"layers": [None] * 40, "_cache_aux_pp_layout": lambda self: None})()
        methods = ("set_aux_hidden_state_layers", "get_eagle3_aux_hidden_state_layers")

        def wrapper(patched: str | None) -> Any:
            return run_class(source(file, patched), name, methods, {"SupportsEagle3": protocol})

        assert protocol not in wrapper(None).__mro__
        model = wrapper(patch)()
        assert isinstance(model, protocol)
        assert model.supports_eagle3
        self._attach(model, inner, patch)
        model.set_aux_hidden_state_layers((2, 20, 37))
        assert inner.aux_hidden_state_layers == (2, 20, 37)
        default = getattr(model, "get_eagle3_default_aux_hidden_state_layers", None)
        assert (default or model.get_eagle3_aux_hidden_state_layers)() == (2, 20, 37)

    def _attach(self, model: Any, inner: Any, patch: str) -> None:
        """Give a wrapper its language model, as its own constructor would."""
        if patch == "glm4-eagle3-interface":
            model.model = inner
            return

        def set_layers(layers: tuple[int, ...]) -> None:
            inner.aux_hidden_state_layers = layers

        model.language_model = SimpleNamespace(model=inner, set_aux_hidden_state_layers=set_layers)


def assert_embedding_expressions(forward: ast.AST, count: int) -> None:
    """The patched expressions copy the hidden states without a residual, and add one that is there."""
    found = [
        node for node in ast.walk(forward) if isinstance(node, ast.IfExp) and "residual is None" in ast.unparse(node)
    ]
    assert len(found) == count
    states = SimpleNamespace(clone=lambda: "a copy")
    for node in found:
        assert run_expression(node, {"hidden_states": states, "residual": None}) == "a copy"
        assert run_expression(node, {"hidden_states": 3, "residual": 4}) == 7
