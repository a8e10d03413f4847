# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judgements of speculation."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.blackwell.inference.plugins.filter.gate_decision import gate_decision


def speed(median, spread=1.0, streams=1):
    return {"streams": streams, "median": median, "low": median - spread / 2, "high": median + spread / 2}


def run(*speeds, accept_length=2.8, texts=None):
    texts = texts or {"code-sql": "a" * 64}
    return {
        "tokens_per_second": list(speeds),
        "accept_length": accept_length,
        "texts": [{"prompt": name, "sha256": digest} for name, digest in texts.items()],
    }


ASKED = {"accept_length_min": 1.8, "speedup_min": 1.0}


def test_the_incident_does_not_hold():
    result = gate_decision(run(speed(54.8), accept_length=1.8), run(speed(90.0)), ASKED)
    assert not result["holds"]
    assert "0.609 times" in result["reasons"][0]


def test_a_faster_server_holds():
    result = gate_decision(run(speed(117.0)), run(speed(87.0)), ASKED | {"speedup_min": 1.3})
    assert result["holds"]
    assert result["reasons"] == []
    assert result["speedups"] == [{"streams": 1, "ratio": 1.345, "differs": True, "effective": 1.345}]
    assert result["facts"] == [
        "accept length 2.8 (at least 1.8 is asked)",
        "one stream: 1.345 times the speed without speculation (at least 1.3 is asked)",
        "all texts equal those without speculation",
    ]


def test_facts_say_what_is_not_judged():
    plain = run(speed(100, 8), texts={"code-sql": "b" * 64})
    assert gate_decision(run(speed(103, 8)), plain, {})["facts"] == [
        "accept length 2.8 (not judged)",
        "one stream: 1.03 times the speed without speculation, which is within the spread: no difference (not judged)",
        "other texts than without speculation for code-sql (not judged)",
    ]


@pytest.mark.parametrize(("least", "holds"), [(1.0, True), (1.05, False)])
def test_a_difference_within_the_spread_is_none(least, holds):
    result = gate_decision(run(speed(103, 8)), run(speed(100, 8)), ASKED | {"speedup_min": least})
    assert result["holds"] is holds
    assert result["speedups"][0]["effective"] == 1.0
    assert holds or "within the spread: no difference" in result["reasons"][0]


def test_slower_within_the_spread_is_no_reason_either():
    assert gate_decision(run(speed(97, 8)), run(speed(100, 8)), ASKED)["holds"]


def test_many_streams_have_a_limit_of_their_own():
    measured, plain = run(speed(110), speed(700, streams=32)), run(speed(90), speed(900, streams=32))
    assert gate_decision(measured, plain, ASKED)["holds"]
    result = gate_decision(measured, plain, ASKED | {"speedup_many_min": 1.0})
    assert ["32 streams" in reason for reason in result["reasons"]] == [True]


def test_the_fewest_streams_are_judged_first_whatever_their_order():
    measured = run(speed(700, streams=32), speed(110))
    plain = run(speed(900, streams=32), speed(90))
    assert gate_decision(measured, plain, ASKED)["holds"]


def test_a_draft_without_a_head_is_recognised():
    result = gate_decision(run(speed(95), accept_length=1.0), run(speed(90)), ASKED)
    assert "no drafted token was accepted" in result["reasons"][0]


def test_wrong_layers_are_suspected_far_below_the_declared_length():
    limits = ASKED | {"accept_length_min": 2.0, "accept_length_declared": 2.9}
    result = gate_decision(run(speed(95), accept_length=1.4), run(speed(90)), limits)
    assert "registry_patches_draft_boundaries" in result["reasons"][0]


def test_an_accept_length_that_is_not_known_does_not_hold():
    measured = run(speed(95), accept_length=None) | {"acceptance_reason": "/metrics is closed"}
    result = gate_decision(measured, run(speed(90)), ASKED)
    assert "/metrics is closed" in result["reasons"][0]


def test_texts_are_compared_by_prompt():
    measured, plain = run(speed(95), texts={"a": "1", "b": "2", "c": "3"}), run(speed(90), texts={"a": "1", "b": "9"})
    assert gate_decision(measured, plain, ASKED)["holds"]
    result = gate_decision(measured, plain, ASKED | {"equal_text": "True"})
    assert result["texts_differ"] == ["b", "c"]
    assert not result["holds"]


def test_nothing_asked_holds_without_a_baseline():
    result = gate_decision(run(speed(95), accept_length=None), {}, {"accept_length_min": "0"})
    assert result["holds"]
    assert result["speedups"] == []
    assert result["texts_differ"] == []


@pytest.mark.parametrize("limits", [{"speedup_min": 1}, {"speedup_many_min": 1}, {"equal_text": True}])
def test_what_needs_a_baseline_is_refused_without_one(limits):
    with pytest.raises(AnsibleFilterError, match="none was recorded"):
        gate_decision(run(speed(95)), {}, limits)


@pytest.mark.parametrize("spelt", [True, "True", "yes", "on", "y", "t", "1", 1])
def test_equality_is_asked_for_in_any_spelling_of_true(spelt):
    measured, plain = run(speed(95), texts={"a": "1"}), run(speed(90), texts={"a": "2"})
    assert not gate_decision(measured, plain, {"equal_text": spelt})["holds"]
    assert gate_decision(measured, plain, {"equal_text": "off"})["holds"]


@pytest.mark.parametrize(
    ("measured", "plain"),
    [
        ([], [speed(90)]),
        ([speed(95)], []),
        ([speed(95, streams=1)], [speed(90, streams=2)]),
        (
            [speed(50), speed(200, streams=4)],
            [speed(90) | {"median": None, "low": None, "high": None}, speed(90, streams=4)],
        ),
    ],
)
def test_a_speed_that_could_not_be_compared_does_not_hold(measured, plain):
    result = gate_decision(run(*measured), run(*plain), {"speedup_min": 1.0})
    assert ["not measured both with and without" in reason for reason in result["reasons"]] == [True]
    assert gate_decision(run(*measured), run(*plain), {})["holds"]


def test_many_streams_that_could_not_be_compared_do_not_hold_either():
    measured, plain = run(speed(95), speed(200, streams=8)), run(speed(90))
    assert gate_decision(measured, plain, ASKED)["holds"]
    result = gate_decision(measured, plain, ASKED | {"speedup_many_min": 1.0})
    assert ["8 streams was not measured both" in reason for reason in result["reasons"]] == [True]


def test_a_measurement_that_lacks_something_is_refused():
    with pytest.raises(AnsibleFilterError, match="median"):
        gate_decision(run({"streams": 1}), run(speed(90)), ASKED)


@pytest.mark.parametrize("value", ["nan", "inf", -1, "-0.5"])
@pytest.mark.parametrize("name", ["accept_length_min", "speedup_min", "speedup_many_min", "accept_length_declared"])
def test_limits_are_numbers_from_0(name, value):
    with pytest.raises(AnsibleFilterError, match=name):
        gate_decision(run(speed(95)), run(speed(90)), {name: value})


@pytest.mark.parametrize("limits", [{"speedup": 1}, {"speedup_min": "fast"}, {"equal_text": "maybe"}, []])
def test_limits_that_make_no_sense_are_refused(limits):
    with pytest.raises(AnsibleFilterError):
        gate_decision(run(speed(95)), run(speed(90)), limits)
