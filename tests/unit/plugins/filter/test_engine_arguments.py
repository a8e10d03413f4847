# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter engine_arguments: the arguments of each engine, and that it always answers or refuses, never crashes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.blackwell.inference.plugins.filter.engine_arguments import FilterModule, engine_arguments
from ansible_collections.blackwell.inference.plugins.plugin_utils._engine_releases import KNOWN_RELEASES
from ansible_collections.blackwell.inference.plugins.plugin_utils._engine_server import (
    SERVER_KEYS,
    SPECULATION_KEYS,
    EngineArgumentError,
    parse_server,
)
from hypothesis import given, settings
from hypothesis import strategies as st

FULL: dict[str, Any] = {
    "model": "org/target",
    "served_name": "kimi",
    "revision": "abc",
    "tensor_parallel": 8,
    "speculative": {
        "algorithm": "eagle3",
        "draft_model": "org/draft",
        "draft_revision": "def",
        "num_steps": 3,
        "settings": {"quantization": "fp8"},
    },
    "host": "0.0.0.0",
    "port": "8000",
    "max_model_len": 131072,
    "max_running": 32,
    "memory_fraction": "0.93",
    "dtype": "bfloat16",
    "trust_remote_code": True,
    "config_file": "/etc/specdecode/main.yml",
    "extra_arguments": ["--seed", 7],
}


def test_all_variables_become_arguments_of_vllm() -> None:
    assert engine_arguments(FULL, "vllm", "0.32.0") == [
        *("serve", "org/target", "--served-model-name", "kimi", "--revision", "abc"),
        *("--host", "0.0.0.0", "--port", "8000", "--tensor-parallel-size", "8", "--max-model-len", "131072"),
        *("--max-num-seqs", "32", "--gpu-memory-utilization", "0.93", "--dtype", "bfloat16", "--trust-remote-code"),
        *("--config", "/etc/specdecode/main.yml", "--speculative-config"),
        '{"method":"eagle3","model":"org/draft","num_speculative_tokens":3,"quantization":"fp8","revision":"def"}',
        *("--seed", "7"),
    ]


def test_all_variables_become_arguments_of_sglang() -> None:
    server = {
        **FULL,
        "speculative": {**FULL["speculative"], "settings": {"attention_mode": "decode", "adaptive": True}},
    }
    assert engine_arguments(server, "sglang", "0.5.14") == [
        *("--model-path", "org/target", "--served-model-name", "kimi", "--revision", "abc"),
        *("--host", "0.0.0.0", "--port", "8000", "--tensor-parallel-size", "8", "--context-length", "131072"),
        *("--max-running-requests", "32", "--mem-fraction-static", "0.93", "--dtype", "bfloat16"),
        *("--trust-remote-code", "--config", "/etc/specdecode/main.yml"),
        *("--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "org/draft"),
        *("--speculative-draft-model-revision", "def", "--speculative-num-steps", "3"),
        *("--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "4"),
        *("--speculative-adaptive", "--speculative-attention-mode", "decode"),
        *("--enable-metrics", "--seed", "7"),
    ]


def test_the_least_server_listens_on_loopback_only() -> None:
    least = {"model": "/srv/model", "port": 8000}
    assert engine_arguments(least, "vllm", "0.32.0") == [
        *("serve", "/srv/model", "--host", "127.0.0.1", "--port", "8000", "--tensor-parallel-size", "1")
    ]
    assert engine_arguments(least, "sglang", "0.5.9") == [
        *("--model-path", "/srv/model", "--host", "127.0.0.1", "--port", "8000", "--tensor-parallel-size", "1"),
        "--enable-metrics",
    ]


@pytest.mark.parametrize("nothing", [None, "", {}, "none", {"algorithm": None, "draft_model": ""}])
def test_no_speculation_gives_no_argument_of_speculation(nothing: object) -> None:
    for engine, release in (("vllm", "0.32.0"), ("sglang", "0.5.9")):
        arguments = engine_arguments({"model": "/m", "port": 1, "speculative": nothing}, engine, release)
        assert not any("spec" in argument for argument in arguments)


def test_a_tree_keeps_the_three_counts_that_were_given() -> None:
    spec = {"algorithm": "EAGLE3", "draft_model": "/d", "num_steps": 5, "topk": 4, "num_draft_tokens": 8}
    arguments = engine_arguments({"model": "/m", "port": 1, "speculative": spec}, "sglang", "0.5.9")
    assert arguments[arguments.index("--speculative-num-steps") :][:6] == [
        *("--speculative-num-steps", "5", "--speculative-eagle-topk", "4", "--speculative-num-draft-tokens", "8")
    ]


def test_counts_that_were_left_out_stay_the_engines_choice() -> None:
    spec = {"algorithm": "EAGLE3", "draft_model": "/d"}
    arguments = engine_arguments({"model": "/m", "port": 1, "speculative": spec}, "sglang", "0.5.9")
    assert not any(word in " ".join(arguments) for word in ("num-steps", "topk", "num-draft-tokens"))


def test_the_incident_is_refused_with_fact_rule_and_remedy() -> None:
    spec = {**FULL["speculative"], "num_steps": 1, "topk": 1, "num_draft_tokens": 16}
    with pytest.raises(AnsibleFilterError) as error:
        engine_arguments({**FULL, "speculative": spec}, "sglang", "0.5.9")
    for part in ("num_steps is 1", "num_draft_tokens is 16", "forces num_draft_tokens", "sglang-chain-draft-tokens"):
        assert part in str(error.value)


def test_everything_that_is_wrong_is_said_at_once() -> None:
    spec = {"algorithm": "EAGLE3", "num_steps": 1, "num_draft_tokens": 16}
    server = {"model": "/m", "port": 1, "speculative": spec, "extra_arguments": ["--api-key", "x"]}
    with pytest.raises(AnsibleFilterError) as error:
        engine_arguments(server, "sglang", "0.5.9")
    for rule in ("sglang-chain-draft-tokens", "sglang-draft-missing", "secret-in-arguments"):
        assert rule in str(error.value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"modell": "x"}, "unknown key modell"),
        ({"speculative": {"algorithm": "EAGLE3", "steps": 3}}, "unknown key steps"),
        ({"speculative": {"num_steps": 3}}, "algorithm is not set"),
        ({"speculative": "EAGLE3"}, "not a dictionary"),
        ({"model": ""}, "model is not set"),
        ({"model": "-m"}, "leading '-'"),
        ({"model": "a\nb"}, "control characters"),
        ({"port": None}, "port is not set"),
        ({"port": 65536}, "from 1 to 65535"),
        ({"port": True}, "not a whole number"),
        ({"tensor_parallel": 0}, "at least 1"),
        ({"max_model_len": "128k"}, "not a whole number"),
        ({"memory_fraction": 1.0}, "between 0 and 1"),
        ({"memory_fraction": "much"}, "between 0 and 1"),
        ({"memory_fraction": float("nan")}, "between 0 and 1"),
        ({"dtype": "int4"}, "Known are auto"),
        ({"trust_remote_code": "perhaps"}, "neither true nor false"),
        ({"hardware": "tpu"}, "Known are gpu, cpu"),
        ({"extra_arguments": "--seed 7"}, "not a list"),
        ({"extra_arguments": ["--seed", None]}, "non-empty argument"),
        ({"extra_arguments": ["--seed", "7\n8"]}, "control characters"),
        ({"extra_arguments": [{"seed": 7}]}, "non-empty argument"),
        ({"environment": ["A=1"]}, "not a dictionary"),
        (
            {"speculative": {"algorithm": "NGRAM", "num_steps": 1, "settings": {"x": {"y": 1}}}},
            "no command line can carry",
        ),
        ({"speculative": {"algorithm": "NGRAM", "num_steps": 1, "settings": {"x": float("inf")}}}, "can carry"),
        ({"speculative": {"algorithm": "NGRAM", "num_steps": 1, "settings": [1]}}, "takes a dictionary"),
    ],
)
def test_a_description_that_no_engine_could_use_is_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(AnsibleFilterError, match="(?s)" + says.replace("'", ".")):
        engine_arguments({"model": "/m", "port": 8000, **change}, "vllm", "0.32.0")


def test_a_server_that_is_no_dictionary_is_refused() -> None:
    with pytest.raises(AnsibleFilterError, match="not a dictionary"):
        engine_arguments(["--model"], "vllm", "0.32.0")


HELP = "usage: x [-h] [--model-path M]\n\noptions:\n" + "".join(
    f"  --{name} {name.upper()}\n                        Text that names --nothing.\n"
    for name in (
        *("model-path", "host", "port", "tensor-parallel-size", "seed", "enable-metrics", "page-size"),
        *(f"filler-{i}" for i in range(40)),
    )
)


def test_arguments_that_the_installed_engine_does_not_have_are_refused() -> None:
    server = {"model": "/m", "port": 1, "extra_arguments": ["--seed=7", "--page-sise", "-1"]}
    with pytest.raises(AnsibleFilterError, match=r"no option --page-sise.*Did you mean --page-size"):
        engine_arguments(server, "sglang", "0.5.9", HELP)
    arguments = engine_arguments({**server, "extra_arguments": ["--seed=7"]}, "sglang", "0.5.9", HELP)
    assert arguments[-1] == "--seed=7"


def test_an_option_that_is_only_mentioned_is_not_declared() -> None:
    server = {"model": "/m", "port": 1, "extra_arguments": ["--nothing"]}
    with pytest.raises(AnsibleFilterError, match="no option --nothing"):
        engine_arguments(server, "sglang", "0.5.9", HELP)


def test_a_help_that_is_only_an_overview_is_no_answer() -> None:
    overview = "usage: vllm serve [model_tag] [options]\n\n  --help=all  Show all options\n"
    with pytest.raises(AnsibleFilterError, match=r"not the whole help of vllm.*vllm serve --help=all"):
        engine_arguments({"model": "/m", "port": 1}, "vllm", "0.32.0", overview)


def test_spellings_that_vllm_takes_are_found_in_its_help() -> None:
    help_text = HELP + "  --compilation-config C, -cc C\n  --optimization-level LEVEL\n"
    extra = ["--compilation_config.level=3", "-O3", "-cc.mode", "3"]
    assert engine_arguments({"model": "/m", "port": 1, "extra_arguments": extra}, "vllm", "0.32.0", help_text)


def test_the_filter_is_registered_by_its_name() -> None:
    assert FilterModule().filters() == {"engine_arguments": engine_arguments}


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
PLAUSIBLE_SPECULATION = st.fixed_dictionaries(
    {"algorithm": st.sampled_from(["EAGLE3", "NGRAM", "NEXTN", "DFLASH", "UNO", "STANDALONE"])},
    optional={
        "draft_model": st.sampled_from(["/d", "org/d", ""]),
        "num_steps": st.integers(0, 6),
        "topk": st.integers(0, 4),
        "num_draft_tokens": st.integers(0, 20),
        "settings": st.dictionaries(st.text(max_size=6), ANYTHING, max_size=2),
    },
)
PLAUSIBLE = st.fixed_dictionaries(
    {"model": st.sampled_from(["/m", "org/m"]), "port": st.integers(0, 70000) | st.just("8000")},
    optional={
        **dict.fromkeys(sorted(SERVER_KEYS - {"model", "port", "speculative", "extra_arguments"}), ANYTHING),
        "speculative": PLAUSIBLE_SPECULATION | st.dictionaries(st.sampled_from(sorted(SPECULATION_KEYS)), ANYTHING),
        "extra_arguments": st.lists(st.text(max_size=10) | st.sampled_from(["--seed", "--api-key", "-1"])) | ANYTHING,
    },
)
ENGINES = st.sampled_from([("vllm", "0.32.0"), ("vllm", "0.11.0"), ("sglang", "0.5.9"), ("sglang", "0.5.23")])


@settings(max_examples=400, deadline=None)
@given(server=PLAUSIBLE | ANYTHING, engine=ENGINES)
def test_any_input_gives_arguments_or_a_refusal(server: Any, engine: tuple[str, str]) -> None:
    try:
        arguments = engine_arguments(server, *engine)
    except AnsibleFilterError as error:
        assert str(error).startswith("engine_arguments: ")
        return
    assert all(isinstance(argument, str) and argument and argument.isprintable() for argument in arguments)
    assert arguments == engine_arguments(server, *engine)


@settings(max_examples=100, deadline=None)
@given(engine=ANYTHING, release=ANYTHING, help_text=ANYTHING)
def test_any_engine_release_and_help_give_arguments_or_a_refusal(engine: Any, release: Any, help_text: Any) -> None:
    for given_engine in (engine, "vllm"):
        for given_release in (release, "0.32.0"):
            try:
                engine_arguments({"model": "/m", "port": 1}, given_engine, given_release, help_text)
            except AnsibleFilterError as error:
                assert str(error).startswith("engine_arguments: ")


@settings(max_examples=100, deadline=None)
@given(spec=PLAUSIBLE_SPECULATION)
def test_the_speculative_configuration_of_vllm_is_one_json_object(spec: dict[str, Any]) -> None:
    try:
        arguments = engine_arguments({"model": "/m", "port": 1, "speculative": spec}, "vllm", KNOWN_RELEASES["vllm"][1])
    except AnsibleFilterError:
        return
    configuration = json.loads(arguments[arguments.index("--speculative-config") + 1])
    assert configuration["num_speculative_tokens"] == spec["num_steps"]


def test_parse_server_raises_its_own_error_only() -> None:
    with pytest.raises(EngineArgumentError):
        parse_server(None)
