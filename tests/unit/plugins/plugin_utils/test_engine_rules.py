# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every rule about an engine's arguments: a server that breaks it, the nearest that doesn't, and the releases."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ansible_collections.blackwell.inference.plugins.plugin_utils._engine_checks import extra_options
from ansible_collections.blackwell.inference.plugins.plugin_utils._engine_releases import (
    KNOWN_RELEASES,
    OWNED_OPTIONS,
    newer_release,
    parse_release,
    within,
)
from ansible_collections.blackwell.inference.plugins.plugin_utils._engine_rules import RULES, broken_rules
from ansible_collections.blackwell.inference.plugins.plugin_utils._engine_server import (
    EngineArgumentError,
    parse_server,
)

DRAFT = {"algorithm": "EAGLE3", "draft_model": "/m/draft"}


def extra(*arguments: str) -> dict[str, Any]:
    return server(extra_arguments=list(arguments))


def server(speculative: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"model": "/m/target", "port": 8000, "speculative": speculative, **more}


def chain(**more: Any) -> dict[str, Any]:
    return server({**DRAFT, "num_steps": 3, **more})


def tree(*arguments: str) -> dict[str, Any]:
    return {**chain(topk=4, num_draft_tokens=8), "extra_arguments": list(arguments)}


at = parse_release


def broken(engine: str, release: str, description: dict[str, Any]) -> list[str]:
    found = broken_rules(engine, at(engine, release), parse_server(description))
    return [rule.id for rule, _message in found]


NO_P2P = {"NCCL_P2P_DISABLE": "1"}

# rule, engine, release, a server that breaks it, and one that is as near as possible and does not
CASES = [
    ("sglang-algorithm", "0.5.9", server({"algorithm": "DFLASH", "draft_model": "/d"}), server(DRAFT)),
    ("sglang-algorithm", "0.5.23", server({"algorithm": "MAGIC"}), server({"algorithm": "DSPARK"})),
    ("sglang-chain-draft-tokens", "0.5.9", chain(num_steps=1, topk=1, num_draft_tokens=16), chain(num_draft_tokens=4)),
    ("sglang-chain-draft-tokens", "0.5.23", chain(num_draft_tokens=3), chain(topk=4, num_draft_tokens=8)),
    ("sglang-counts-without-steps", "0.5.9", server({**DRAFT, "topk": 4}), server(DRAFT)),
    ("sglang-counts-without-steps", "0.5.23", server({**DRAFT, "num_draft_tokens": 4}), chain(topk=1)),
    ("sglang-tree-draft-tokens", "0.5.9", chain(topk=4), chain(topk=1)),
    (
        "sglang-tree-pages",
        "0.5.9",
        {
            **chain(topk=4, num_draft_tokens=8),
            "extra_arguments": ["--page-size", "64", "--attention-backend", "triton"],
        },
        {**chain(topk=4, num_draft_tokens=8), "extra_arguments": ["--page-size=64", "--attention-backend=fa3"]},
    ),
    (
        "sglang-tree-pages-triton",
        "0.5.13",
        tree("--page-size", "64"),
        tree("--page-size=64", "--attention-backend=triton"),
    ),
    (
        "sglang-ngram-pages",
        "0.5.9",
        server({"algorithm": "NGRAM"}, extra_arguments=["--page-size", "16", "--attention-backend", "fa3"]),
        server({"algorithm": "NGRAM"}, extra_arguments=["--page-size", "1", "--attention-backend", "fa3"]),
    ),
    (
        "sglang-trtllm-mha-tree",
        "0.5.14",
        {**chain(topk=2, num_draft_tokens=4), "extra_arguments": ["--decode-attention-backend", "trtllm_mha"]},
        {**chain(), "extra_arguments": ["--decode-attention-backend", "trtllm_mha"]},
    ),
    (
        "sglang-trtllm-mla",
        "0.5.14",
        extra("--attention-backend=trtllm_mla"),
        extra("--attention-backend=triton"),
    ),
    (
        "sglang-mla-drafter",
        "0.5.11",
        server({**DRAFT, "draft_architecture": "Eagle3DeepseekV2ForCausalLM"}),
        server({**DRAFT, "draft_architecture": "LlamaForCausalLMEagle3"}),
    ),
    ("sglang-draft-missing", "0.5.9", server({"algorithm": "EAGLE3"}), server({"algorithm": "NEXTN"})),
    (
        "sglang-draft-unused",
        "0.5.9",
        server({"algorithm": "NGRAM", "draft_model": "/d"}),
        server({"algorithm": "NGRAM"}),
    ),
    (
        "sglang-ngram-counts",
        "0.5.9",
        server({"algorithm": "NGRAM", "topk": 4}),
        server({"algorithm": "NGRAM", "num_draft_tokens": 8}),
    ),
    (
        "sglang-block-counts",
        "0.5.11",
        server({"algorithm": "DFLASH", "draft_model": "/d", "num_steps": 3}),
        server({"algorithm": "DFLASH", "draft_model": "/d", "num_steps": 1, "num_draft_tokens": 16}),
    ),
    (
        "sglang-uno-needs",
        "0.5.20",
        server(
            {"algorithm": "UNO", "num_draft_tokens": 4}, tensor_parallel=8, extra_arguments=["--uno-lora-path", "/l"]
        ),
        server({"algorithm": "UNO", "num_draft_tokens": 4}, extra_arguments=["--uno-lora-path", "/l"]),
    ),
    (
        "sglang-mixed-chunk",
        "0.5.9",
        {**chain(), "extra_arguments": ["--enable-mixed-chunk"]},
        extra("--enable-mixed-chunk"),
    ),
    (
        "sglang-dp-attention",
        "0.5.9",
        server({"algorithm": "NGRAM"}, extra_arguments=["--enable-dp-attention"]),
        {**chain(), "extra_arguments": ["--enable-dp-attention"]},
    ),
    (
        "sglang-pipeline-parallel",
        "0.5.9",
        {**chain(), "extra_arguments": ["--pp-size", "2"]},
        {**chain(), "extra_arguments": ["--pp-size", "1"]},
    ),
    ("sglang-served-name", "0.5.9", server(served_name="kimi:latest"), server(served_name="kimi-latest")),
    (
        "sglang-spec-v2-tree",
        "0.5.10.post1",
        {**chain(topk=2, num_draft_tokens=4), "environment": {"SGLANG_ENABLE_SPEC_V2": "1"}},
        {**chain(), "environment": {"SGLANG_ENABLE_SPEC_V2": "1"}},
    ),
    (
        "sglang-spec-v2-gone",
        "0.5.14",
        {**chain(), "environment": {"SGLANG_ENABLE_SPEC_V2": "1"}},
        {**chain(), "environment": {"NCCL_DEBUG": "WARN"}},
    ),
    (
        "sglang-nextn-twice",
        "0.5.10.post1",
        server({"algorithm": "NEXTN"}),
        server({"algorithm": "NEXTN"}, environment={"SGLANG_ENABLE_SPEC_V2": "true"}),
    ),
    (
        "sglang-underscores",
        "0.5.9",
        extra("--page_size=1"),
        extra("--page-size=1", "--json-model-override-args", "a_b"),
    ),
    ("sglang-owned-option", "0.5.9", extra("--tp", "8"), extra("--dp", "8")),
    (
        "sglang-owned-option",
        "0.5.9",
        extra("--max-running", "8"),
        extra("--max-x"),
    ),
    ("vllm-algorithm", "0.32.0", server({"algorithm": "UNO", "num_steps": 3}), chain()),
    ("vllm-steps-missing", "0.16.0", server(DRAFT), chain()),
    ("vllm-tree", "0.32.0", chain(topk=4), chain(topk=1)),
    ("vllm-chain-draft-tokens", "0.32.0", chain(num_draft_tokens=3), chain(num_draft_tokens=4)),
    (
        "vllm-ngram-draft-tokens",
        "0.32.0",
        server({"algorithm": "NGRAM", "num_steps": 3, "num_draft_tokens": 3}),
        server({"algorithm": "NGRAM", "num_steps": 3, "num_draft_tokens": 4}),
    ),
    ("vllm-draft-missing", "0.32.0", server({"algorithm": "EAGLE3", "num_steps": 3}), chain()),
    (
        "vllm-draft-unused",
        "0.32.0",
        server({"algorithm": "NGRAM", "num_steps": 3, "draft_model": "/d"}),
        server({"algorithm": "NGRAM", "num_steps": 3}),
    ),
    ("vllm-owned-setting", "0.32.0", chain(settings={"method": "eagle"}), chain(settings={"quantization": "fp8"})),
    (
        "vllm-setting-release",
        "0.32.0",
        chain(settings={"disable_by_batch_size": 8}),
        chain(settings={"prompt_lookup_max": 4}),
    ),
    (
        "vllm-setting-unknown",
        "0.32.0",
        chain(settings={"quantisation": "fp8"}),
        chain(settings={"quantization": "fp8"}),
    ),
    (
        "vllm-synthetic",
        "0.32.0",
        chain(settings={"rejection_sample_method": "synthetic"}),
        chain(settings={"rejection_sample_method": "standard"}),
    ),
    ("vllm-synthetic", "0.19.1", chain(settings={"synthetic_acceptance_rate": 0.9}), chain()),
    ("sglang-simulated", "0.5.9", {**chain(), "environment": {"SGLANG_SIMULATE_ACC_LEN": "3"}}, chain()),
    (
        "sglang-lossy",
        "0.5.9",
        chain(settings={"accept_threshold_single": 0.9}),
        chain(settings={"accept_threshold_single": 1.0}),
    ),
    (
        "vllm-draft-parallel",
        "0.32.0",
        {**chain(settings={"draft_tensor_parallel_size": 2}), "tensor_parallel": 8},
        {**chain(settings={"draft_tensor_parallel_size": 8}), "tensor_parallel": 8},
    ),
    (
        "vllm-wrong-parallel",
        "0.32.0",
        chain(settings={"tensor_parallel_size": 1}),
        chain(settings={"draft_tensor_parallel_size": 1}),
    ),
    (
        "vllm-lookup-order",
        "0.32.0",
        server({"algorithm": "NGRAM", "num_steps": 3, "settings": {"prompt_lookup_min": 4, "prompt_lookup_max": 2}}),
        server({"algorithm": "NGRAM", "num_steps": 3, "settings": {"prompt_lookup_min": 4, "prompt_lookup_max": 4}}),
    ),
    ("vllm-cpu-speculation", "0.21.0", {**chain(), "hardware": "cpu"}, {**chain(), "hardware": "gpu"}),
    (
        "vllm-owned-option",
        "0.32.0",
        extra("--max_model_len=9"),
        extra("--seed=9"),
    ),
    ("vllm-owned-option", "0.32.0", extra("-tp", "2"), extra("-pp", "2")),
    (
        "vllm-owned-option",
        "0.32.0",
        extra("--no-trust-remote-code"),
        extra("--no-enable-prefix-caching"),
    ),
    (
        "own-all-reduce",
        "0.32.0",
        server(environment=NO_P2P, tensor_parallel=2),
        server(environment=NO_P2P, tensor_parallel=2, extra_arguments=["--disable-custom-all-reduce"]),
    ),
    (
        "own-all-reduce",
        "0.33.0",
        server(environment={**NO_P2P, "VLLM_ALLREDUCE_USE_FLASHINFER_PCIE_IPC": "1"}, tensor_parallel=8),
        server(environment=NO_P2P, tensor_parallel=8),
    ),
    (
        "secret-in-arguments",
        "0.32.0",
        extra("--api-key=secret"),
        extra("--seed=1"),
    ),
    ("config-file-name", "0.32.0", server(config_file="/etc/main.conf"), server(config_file="/etc/main.yaml")),
    (
        "repeated-option",
        "0.32.0",
        extra("--seed=1", "--seed", "2"),
        extra("--seed=1"),
    ),
    ("stray-value", "0.32.0", extra("other-model"), extra("--seed", "-1")),
    ("directory-with-revision", "0.32.0", server(revision="main"), server(model="org/model", revision="main")),
    (
        "directory-with-revision",
        "0.32.0",
        chain(draft_revision="main"),
        {**chain(draft_model="org/draft", draft_revision="a"), "model": "org/m", "revision": "b"},
    ),
    (
        "pinned-alone",
        "0.32.0",
        {**chain(draft_model="org/draft"), "model": "org/model", "revision": "abc"},
        {**chain(draft_model="org/draft", draft_revision="def"), "model": "org/model", "revision": "abc"},
    ),
    (
        "revision-without-draft",
        "0.32.0",
        server({"algorithm": "NGRAM", "num_steps": 3, "draft_revision": "abc"}),
        server({"algorithm": "NGRAM", "num_steps": 3}),
    ),
]


def engine_of(rule_id: str) -> str:
    return "sglang" if rule_id.startswith("sglang") else "vllm"


@pytest.mark.parametrize(("rule_id", "release", "wrong", "right"), CASES, ids=[f"{c[0]}-{c[1]}" for c in CASES])
def test_rule_refuses_the_wrong_server_and_not_the_nearest_right_one(
    rule_id: str, release: str, wrong: dict[str, Any], right: dict[str, Any]
) -> None:
    assert broken(engine_of(rule_id), release, wrong) == [rule_id]
    assert rule_id not in broken(engine_of(rule_id), release, right)


def test_every_rule_has_a_case() -> None:
    assert {rule.id for rule in RULES} == {case[0] for case in CASES}


# rule, the last release that it holds for or the first, the next one for which it doesn't, and a server
BOUNDARIES = [
    ("sglang-mla-drafter", "0.5.11", "0.5.12", server({**DRAFT, "draft_architecture": "Eagle3DeepseekV2ForCausalLM"})),
    ("sglang-tree-pages", "0.5.12.post1", "0.5.13", tree("--page-size=2")),
    ("sglang-tree-pages-triton", "0.5.13", "0.5.12.post1", tree("--page-size=2")),
    ("sglang-spec-v2-gone", "0.5.14", "0.5.13.post1", {**chain(), "environment": {"SGLANG_ENABLE_SPEC_V2": "1"}}),
    ("sglang-nextn-twice", "0.5.10.post1", "0.5.11", server({"algorithm": "NEXTN"})),
    ("sglang-algorithm", "0.5.10.post1", "0.5.11", server({"algorithm": "DFLASH", "draft_model": "/d"})),
    ("sglang-algorithm", "0.5.15", "0.5.16", server({"algorithm": "DSPARK"})),
    ("sglang-algorithm", "0.5.19", "0.5.20", server({"algorithm": "UNO"})),
    ("vllm-cpu-speculation", "0.21.0", "0.22.0", {**chain(), "hardware": "cpu"}),
    ("vllm-setting-release", "0.21.0", "0.20.2", chain(settings={"speculative_token_tree": "[(0,)]"})),
    ("vllm-setting-release", "0.17.0", "0.16.0", chain(settings={"disable_by_batch_size": 4})),
    ("vllm-setting-release", "0.28.0", "0.29.0", chain(settings={"index_share_for_mtp_iteration": True})),
    ("vllm-algorithm", "0.14.1", "0.15.0", server({"algorithm": "STANDALONE", "draft_model": "/d", "num_steps": 3})),
]  # fmt: skip


@pytest.mark.parametrize(("rule_id", "holds", "ends", "description"), BOUNDARIES)
def test_rule_begins_and_ends_with_its_release(
    rule_id: str, holds: str, ends: str, description: dict[str, Any]
) -> None:
    assert rule_id in broken(engine_of(rule_id), holds, description)
    assert rule_id not in broken(engine_of(rule_id), ends, description)


def test_every_rule_says_fact_rule_remedy_release_evidence_and_date() -> None:
    for rule in RULES:
        assert re.fullmatch(r"((>=|<)[0-9.]+(post[0-9]+)?(,|$))*", rule.releases), rule.id
        assert rule.says.endswith(".") and rule.remedy.endswith("."), rule.id
        assert rule.evidence and len(rule.date) == 7, rule.id
        assert rule.severity in ("error", "warning"), rule.id
    message = broken_rules("sglang", at("sglang", "0.5.9"), parse_server(chain(num_steps=1, num_draft_tokens=16)))[0][1]
    assert (
        "num_steps is 1" in message and "forces num_draft_tokens" in message and "leave num_draft_tokens out" in message
    )


@pytest.mark.parametrize(
    ("engine", "description", "fact"),
    [
        ("sglang", extra("--enable-metrics"), "belongs to nothing (it is always set)"),
        ("sglang", extra("--tp=8"), "extra_arguments sets tp, which belongs to tensor_parallel"),
        ("sglang", tree("--page-size=2"), "page-size is 2, attention-backend is not set"),
        ("sglang", tree("--page-size=2", "--attention-backend=x"), "page-size is 2, attention-backend is x"),
        ("vllm", extra("--seed=1", "--seed=2"), "extra_arguments sets seed more than once"),
    ],
)
def test_the_fact_names_what_was_given(engine: str, description: dict[str, Any], fact: str) -> None:
    release = at(engine, KNOWN_RELEASES[engine][1])
    messages = [message for _rule, message in broken_rules(engine, release, parse_server(description))]
    assert len(messages) == 1 and fact in messages[0]


def test_the_ids_of_the_rules_are_unique() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)


def test_the_local_build_of_a_release_is_the_release() -> None:
    local = at("vllm", "0.32.0+cpu")
    assert within(local, ">=0.32.0") and not within(local, "<0.32.0")
    assert str(local) == "0.32.0+cpu" and local.is_cpu_build and not at("vllm", "0.32.0").is_cpu_build
    assert "vllm-cpu-speculation" in broken("vllm", "0.21.0+cpu", chain())


def test_bounds_are_held_in_the_order_of_releases() -> None:
    post = at("sglang", "0.5.10.post1")
    assert within(post, "") and within(post, ">=0.5.10,<0.5.11") and within(post, ">=0.5.10.post1")
    assert not within(post, "<0.5.10.post1") and not within(post, ">=0.5.11") and not within(post, ">=0.5.9,<0.5.10")
    candidate = at("sglang", "0.5.13rc1")
    assert within(candidate, "<0.5.13") and not within(candidate, ">=0.5.13") and within(candidate, ">=0.5.12.post1")


@pytest.mark.parametrize("release", ["", None, 5, "newest", "v0.5.x"])
def test_a_release_that_is_none_is_refused(release: object) -> None:
    with pytest.raises(EngineArgumentError, match="not a release"):
        parse_release("sglang", release)


def test_an_unknown_engine_and_a_too_old_release_are_refused() -> None:
    with pytest.raises(EngineArgumentError, match="Known are sglang, vllm"):
        parse_release("tgi", "1.0")
    with pytest.raises(EngineArgumentError, match="older than"):
        parse_release("vllm", "0.10.2")


def test_a_newer_release_is_warned_of() -> None:
    for engine, (oldest, newest) in KNOWN_RELEASES.items():
        assert newer_release(engine, at(engine, newest)) == newer_release(engine, at(engine, oldest)) == []
        assert newer_release(engine, at(engine, newest + ".post1"))


def test_options_are_read_from_a_list_of_arguments() -> None:
    arguments = ["--a=1", "--b_c", "2", "--flag", "--number", "-1", "-x", "y"]
    assert list(extra_options(arguments)) == [("a", "1"), ("b-c", "2"), ("flag", ""), ("number", "-1"), ("x", "y")]


@pytest.mark.parametrize("engine", OWNED_OPTIONS)
def test_every_option_that_a_variable_stands_for_is_refused(engine: str) -> None:
    release = KNOWN_RELEASES[engine][1]
    for option in OWNED_OPTIONS[engine]:
        assert f"{engine}-owned-option" in broken(engine, release, extra(f"--{option}", "1"))
