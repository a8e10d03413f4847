# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measuring a live server: what is counted, what is compared, and that every failure of the server is a result."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.blackwell.inference.plugins.module_utils import _serving
from ansible_collections.blackwell.inference.plugins.module_utils._serving import Plan, measure
from ansible_collections.blackwell.inference.plugins.module_utils._serving_http import (
    EndpointError,
    Streamed,
    parse_url,
)
from ansible_collections.blackwell.inference.plugins.module_utils._serving_prompts import Prompt, prompts
from ansible_collections.blackwell.inference.plugins.module_utils._serving_summary import (
    Request,
    Wave,
    compare_texts,
    spread,
    summarize,
)
from ansible_collections.blackwell.inference.tests.unit.plugins.module_utils.serving_case import StandIn, serve


@pytest.fixture
def vllm() -> Iterator[StandIn]:
    with serve(StandIn("vllm")) as stand_in:
        yield stand_in


@pytest.fixture
def sglang() -> Iterator[StandIn]:
    with serve(StandIn("sglang")) as stand_in:
        yield stand_in


@pytest.fixture(autouse=True)
def _quick_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_serving, "SETTLE_PAUSE", 0.02)
    monkeypatch.setattr(_serving, "SETTLE_TRIES", 100)


def plan(case: StandIn, **more: Any) -> Plan:
    given = {
        "endpoint": parse_url(case.url, case.key),
        "engine": case.engine,
        "model": "",
        "prompts": prompts(["short"], 1000),
        "max_tokens": 21,
        "streams": [1],
        "repetitions": 2,
        "timeout": 5.0,
        "max_seconds": 30.0,
    }
    return Plan(**{**given, **more})


def kinds(result: dict[str, Any]) -> set[str]:
    return {error["kind"] for error in result["errors"]}


def test_vllm_is_measured_by_the_counters_of_the_measured_run_alone(vllm: StandIn) -> None:
    vllm.drafts = vllm.generated = 1000  # from before
    result = measure(plan(vllm))
    drafts = 4 * 2 * 10  # prompts, repetitions, (21 - 1) / 2; the warm-up does not count
    assert (result["drafts"], result["draft_tokens"], result["accepted_tokens"]) == (drafts, 3 * drafts, drafts)
    assert (result["accept_length"], result["acceptance_rate"]) == (2.0, 0.3333)
    assert result["accepted_per_position"] == [drafts, 0, 0]
    assert result["acceptance_per_position"] == [1.0, 0.0, 0.0]
    assert (result["speculation"], result["acceptance_source"], result["acceptance_reason"]) == ("on", "/metrics", "")
    assert result["complete"] and not result["errors"] and result["disturbed"] is False
    assert (result["model"], result["max_model_len"], result["engine_version"]) == ("target", 256, "0.32.0")


def test_counters_that_come_late_are_waited_for(vllm: StandIn) -> None:
    vllm.metrics_late = 0.5
    assert measure(plan(vllm, repetitions=1))["drafts"] == 40


def test_nothing_accepted_is_an_accept_length_of_one(vllm: StandIn) -> None:
    vllm.accepted_per_draft = 0
    result = measure(plan(vllm))
    assert (result["accept_length"], result["acceptance_rate"], result["accepted_tokens"]) == (1.0, 0.0, 0)


def test_an_engine_that_does_not_speculate_is_off_not_one(vllm: StandIn) -> None:
    vllm.speculates = False
    result = measure(plan(vllm))
    assert (result["speculation"], result["accept_length"], result["drafts"]) == ("off", None, None)
    assert "no counters of speculation" in result["acceptance_reason"]
    assert result["complete"]


def test_sglang_is_measured_by_its_own_endpoint(sglang: StandIn) -> None:
    result = measure(plan(sglang))
    assert (result["speculation"], result["acceptance_source"]) == ("on", "/generate")
    assert (result["drafts"], result["accepted_tokens"], result["draft_tokens"]) == (40, 40, 120)
    assert (result["accept_length"], result["accepted_per_position"]) == (2.0, [40])
    assert result["engine_version"] == "0.5.9"
    assert result["engine_settings"] == {"speculative_num_draft_tokens": 2}


def test_sglangs_gauge_is_the_last_resort_and_says_so(sglang: StandIn) -> None:
    sglang.generates = False
    result = measure(plan(sglang))
    assert (result["accept_length"], result["drafts"], result["acceptance_source"]) == (2.0, None, "/metrics")
    assert "gauge" in result["acceptance_reason"]


def test_sglang_without_speculation_is_off(sglang: StandIn) -> None:
    sglang.speculates = False
    assert measure(plan(sglang))["speculation"] == "off"


def test_speed_is_given_for_each_number_of_streams(vllm: StandIn) -> None:
    result = measure(plan(vllm, streams=[1, 4, 6], repetitions=3))
    rows = result["tokens_per_second"]
    assert [row["streams"] for row in rows] == [1, 4, 6]
    # Every stream has the same number of requests: 4 prompts for 6 streams make 6 requests.
    assert [row["requests"] for row in rows] == [12, 12, 18]
    assert [row["tokens"] for row in rows] == [12 * 21, 12 * 21, 18 * 21]
    for row in rows:
        assert row["low"] <= row["median"] <= row["high"] and len(row["values"]) == 3
    assert vllm.most_running == 6
    assert [row["streams"] for row in result["time_to_first_token"]] == [1, 4, 6]
    assert all(row["median"] > 0 for row in result["inter_token_time"])
    assert [row["prompt"] for row in result["by_prompt"]] == [p.name for p in prompts(["short"], 1)]


def test_requests_are_greedy_seeded_and_ask_for_their_usage(vllm: StandIn) -> None:
    measure(plan(vllm, seed=7, ignore_eos=True))
    for body in vllm.seen:
        assert body["temperature"] == 0 and body["seed"] == 7 and body["ignore_eos"] is True
        assert body["stream"] is True and body["stream_options"] == {"include_usage": True}
    assert "ignore_eos" not in _serving._body(plan(vllm), prompts(["short"], 1)[0])


def test_texts_are_those_of_each_prompt_and_varying_ones_are_named(vllm: StandIn) -> None:
    first = prompts(["short"], 1)[0]
    vllm.texts[first.text] = ["warm", "same", "other"]
    result = measure(plan(vllm))
    assert result["texts"][0]["text"] == "same" and len(result["texts"]) == 4
    assert result["inconsistent"] == [first.name]
    again = measure(plan(vllm))
    assert again["inconsistent"] == [] and again["texts_digest"] != result["texts_digest"]
    assert again["texts_digest"] == measure(plan(vllm, streams=[2]))["texts_digest"]


def test_prompts_that_do_not_fit_are_not_applicable(vllm: StandIn) -> None:
    for tokenizes in (True, False):  # by counting, or by the server's own refusal
        vllm.tokenizes = tokenizes
        result = measure(plan(vllm, prompts=prompts(["short", "code", "long"], 5000)))
        assert [item["prompt"] for item in result["not_applicable"]] == ["code-class", "code-sql", "long-5000"]
        assert all("256" in item["reason"] for item in result["not_applicable"])
        assert result["errors"] == [] and result["complete"]


def test_when_no_prompt_fits_nothing_is_measured_and_nothing_failed(vllm: StandIn) -> None:
    result = measure(plan(vllm, prompts=prompts(["long"], 5000)))
    assert result["errors"] == [] and result["texts"] == [] and result["tokens_per_second"] == []
    assert not result["complete"] and len(result["not_applicable"]) == 1


def test_a_model_of_unknown_length_gets_every_prompt(vllm: StandIn) -> None:
    vllm.max_model_len = None
    assert measure(plan(vllm, prompts=prompts(["long"], 5000), repetitions=1))["complete"]


@pytest.mark.parametrize(
    ("behaviour", "kind"),
    [
        ("garbage", "garbage"),
        ("empty", "garbage"),
        ("no-usage", "garbage"),
        ("break", "connection"),
        ("status 500", "http"),
        ("error-event", "http"),
        ("hang", "timeout"),
    ],
)
def test_a_server_that_misbehaves_is_a_result(vllm: StandIn, behaviour: str, kind: str) -> None:
    vllm.behaviour = behaviour
    result = measure(plan(vllm, timeout=0.3))
    assert kinds(result) == {kind, "skipped"} and not result["complete"]
    assert [error["kind"] for error in result["errors"]].count(kind) == 3  # and the fourth prompt was spared
    assert result["errors_total"] == 4 and {error["phase"] for error in result["errors"]} == {"warm-up"}
    assert result["texts"] == [] and result["speculation"] == "unknown"


def test_a_server_that_fails_in_the_middle_keeps_what_was_measured(vllm: StandIn, monkeypatch: Any) -> None:
    waves = iter(["good", "status 500"])
    run = _serving._wave

    def wave(some_plan: Plan, *rest: Any) -> Any:
        if len(vllm.seen) >= 4:  # after the warm-up
            vllm.behaviour = next(waves)
        return run(some_plan, *rest)

    monkeypatch.setattr(_serving, "_wave", wave)
    result = measure(plan(vllm, repetitions=5))
    assert len(result["tokens_per_second"][0]["values"]) == 1
    assert result["errors_total"] == 4 and {error["phase"] for error in result["errors"]} == {"measured"}
    assert len(vllm.seen) == 11  # not asked again after a wave without an answer
    assert not result["complete"] and result["disturbed"] is None


def test_no_server_is_a_result_with_the_same_keys(vllm: StandIn) -> None:
    good = measure(plan(vllm))
    nobody = measure(plan(vllm, endpoint=parse_url("http://127.0.0.1:9")))
    assert set(nobody) == set(good)
    assert kinds(nobody) == {"connection"} and nobody["errors"][0]["phase"] == "ask"


def test_a_wrong_key_and_a_wrong_model_are_results(vllm: StandIn) -> None:
    vllm.key = "right"
    result = measure(plan(vllm, endpoint=parse_url(vllm.url, "wrong")))
    assert result["errors"][0]["status"] == 401
    assert measure(plan(vllm))["complete"]
    assert "serves target" in measure(plan(vllm, model="nobody"))["errors"][0]["message"]
    assert measure(plan(vllm, model="target"))["model"] == "target"


def test_a_server_without_models_is_a_result(vllm: StandIn) -> None:
    vllm.models = []
    assert kinds(measure(plan(vllm))) == {"garbage"}


def test_the_whole_measurement_ends_in_its_time(vllm: StandIn) -> None:
    vllm.behaviour = "slow"
    started = time.monotonic()
    result = measure(plan(vllm, repetitions=20, max_seconds=3.5))
    assert time.monotonic() - started < 15
    assert kinds(result) <= {"budget", "timeout"} and not result["complete"]


def test_others_who_use_the_server_are_noticed(vllm: StandIn, monkeypatch: Any) -> None:
    settled = _serving._settled_metrics

    def somebody_else(*args: Any) -> str:
        vllm.generated += 5
        return settled(*args)

    monkeypatch.setattr(_serving, "_settled_metrics", somebody_else)
    assert measure(plan(vllm))["disturbed"] is True


def test_the_key_is_not_in_the_result(vllm: StandIn) -> None:
    vllm.key = "s3cret-key"
    vllm.behaviour = "status 500"
    assert "s3cret-key" not in repr(measure(plan(vllm))) + repr(plan(vllm))


def test_texts_are_compared_with_those_of_an_earlier_run() -> None:
    earlier = [{"prompt": "a", "text": "one two"}, {"prompt": "b", "text": "one two"}, {"prompt": "c", "text": "one"}]
    now = [{"prompt": "a", "text": "one two"}, {"prompt": "b", "text": "one six"}, {"prompt": "d", "text": "x"}]
    now.append({"prompt": "c", "text": "one two"})
    assert compare_texts(earlier, now) == {
        "equal": ["a"],
        "different": [
            {"prompt": "b", "at": 4, "expected": "two", "got": "six"},
            {"prompt": "c", "at": 3, "expected": "", "got": " two"},
        ],
        "missing": ["d"],
    }


def answered(prompt: Prompt, tokens: int, seconds: float, first: float, streams: int = 1) -> Request:
    return Request(prompt, streams, Streamed("x" * tokens, tokens, 7, seconds, first), None)


def test_speeds_and_delays_are_computed_from_the_requests() -> None:
    one, two, three = prompts(["short"], 1)[:3]
    failed = Request(three, 1, None, EndpointError("timeout", "late"))
    waves = [
        Wave(1, 4.0, [answered(one, 11, 1.5, 0.5), answered(two, 21, 2.5, 0.5), failed]),
        Wave(1, 2.0, [answered(one, 11, 0.5, 0.25), answered(two, 1, 0.25, 0.25)]),
        Wave(2, 1.0, [answered(one, 30, 1.0, 0.1, 2)]),
        Wave(4, 9.0, [Request(one, 4, None, EndpointError("timeout", "late"))]),
    ]
    summed = summarize(waves)
    assert summed["tokens_per_second"] == [
        {"streams": 1, **spread([8.0, 6.0]), "values": [8.0, 6.0], "tokens": 44, "requests": 5},
        {"streams": 2, **spread([30.0]), "values": [30.0], "tokens": 30, "requests": 1},
    ]
    assert summed["time_to_first_token"][0] == {"streams": 1, **spread([0.5, 0.5, 0.25, 0.25])}
    assert summed["inter_token_time"][0] == {"streams": 1, **spread([0.1, 0.1, 0.025])}
    assert [(row["prompt"], row["tokens"], row["prompt_tokens"]) for row in summed["by_prompt"]] == [
        (one.name, 11, 7),
        (two.name, 21, 7),
    ]
    assert summed["by_prompt"][0]["tokens_per_second"] == spread([11 / 1.5, 22.0])
    assert summed["requests"] == 7 and summed["inconsistent"] == sorted([one.name, two.name])


def test_spread_is_the_distance_of_the_extremes() -> None:
    assert spread([3.0, 1.0, 2.0]) == {"median": 2.0, "low": 1.0, "high": 3.0, "spread": 2.0}


def test_no_thread_is_left_behind(vllm: StandIn) -> None:
    before = threading.active_count()
    measure(plan(vllm, streams=[8], repetitions=1))
    deadline = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert threading.active_count() <= before
