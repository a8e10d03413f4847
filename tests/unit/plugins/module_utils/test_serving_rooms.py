# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The small rooms below the measurement: prompts, addresses and keys, metrics."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from ansible_collections.blackwell.inference.plugins.module_utils._serving_http import parse_url, read_key
from ansible_collections.blackwell.inference.plugins.module_utils._serving_metrics import (
    Acceptance,
    parse_metrics,
    rates,
    sglang_acceptance,
    sglang_gauge,
    total,
    vllm_acceptance,
)
from ansible_collections.blackwell.inference.plugins.module_utils._serving_prompts import (
    KINDS,
    long_document,
    prompts,
)
from hypothesis import given
from hypothesis import strategies as st


def test_every_kind_has_prompts_of_its_size() -> None:
    for kind in KINDS:
        chosen = prompts([kind], 48000)
        assert chosen and all(prompt.kind == kind for prompt in chosen)
        sizes = [len(prompt.text.encode()) for prompt in chosen]
        low, high = {"short": (40, 75), "long": (48000, 48400)}.get(kind, (330, 900))
        assert low <= min(sizes) and max(sizes) <= high, kind
    assert len(prompts(["short"], 1)) == 4 and all(len(prompts([k], 1)) == 2 for k in KINDS[1:5])


def test_prompts_have_names_of_their_own_and_are_plain_text() -> None:
    chosen = prompts(list(KINDS), 2000)
    assert len({prompt.name for prompt in chosen}) == len({prompt.text for prompt in chosen}) == len(chosen)
    assert all(prompt.text.isascii() for prompt in chosen)


def test_the_prompts_are_the_same_in_every_run() -> None:
    # A change of a prompt makes earlier measurements incomparable: it needs a new name, and this digest.
    text = "".join(prompt.name + prompt.text for prompt in prompts(list(KINDS), 48000))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "1eb4bbf7c0446879"


def test_a_long_document_begins_like_a_shorter_one_and_does_not_repeat_itself() -> None:
    short, long = long_document(2000).text, long_document(60000).text
    assert long.startswith(short[:1900])
    sentences = [line.split(" At ")[1] for line in long.splitlines() if " At " in line]
    assert len(set(sentences)) > 0.95 * len(sentences)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="no prompts of kind poem"):
        prompts(["short", "poem"], 1)


@pytest.mark.parametrize(
    ("url", "host", "port", "base"),
    [
        ("http://127.0.0.1:8000", "127.0.0.1", 8000, ""),
        ("http://127.0.0.1:8000/", "127.0.0.1", 8000, ""),
        ("http://node/v1/", "node", 80, ""),
        ("https://node/models/kimi/v1", "node", 443, "/models/kimi"),
        ("http://[::1]:8000", "::1", 8000, ""),
    ],
)
def test_addresses_are_read(url: str, host: str, port: int, base: str) -> None:
    endpoint = parse_url(url)
    assert (endpoint.host, endpoint.port, endpoint.base) == (host, port, base)


@pytest.mark.parametrize(
    "url", ["", "node:8000", "ftp://node", "http://", "http://node/?a=1", "http://n:99999", "http://n:x"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ValueError):
        parse_url(url)


def test_an_address_with_a_password_is_refused_and_a_key_is_not_shown() -> None:
    with pytest.raises(ValueError, match="put a key into a file"):
        parse_url("http://user:secret@node")
    assert "secret" not in repr(parse_url("http://node", "secret"))


@pytest.mark.parametrize(
    ("content", "key"),
    [
        ("abc\n", "abc"),
        ("abc==\n", "abc=="),
        ("# key\nVLLM_API_KEY=abc\nOTHER=1\n", "abc"),
        ("A=1\nSGLANG_API_KEY='abc'\n", "abc"),
        ('API_KEY="a=b"\n', "a=b"),
        ('OTHER_API_KEY="wrong"\nVLLM_API_KEY="right"\n', "right"),
        ('OTHER_API_KEY="wrong"\nSPECDECODE_API_KEY="right"\n', "right"),
        ('VLLM_API_KEY="a\\\\b\\"c"\n', 'a\\b"c'),
    ],
)
def test_a_key_is_read_alone_or_from_an_environment_file(tmp_path: Path, content: str, key: str) -> None:
    (tmp_path / "key").write_text(content)
    assert read_key(str(tmp_path / "key")) == key


@pytest.mark.parametrize("content", ["", "# nothing\n", "two words\n", "a\nb\n", "OTHER=1\nMORE=2\n"])
def test_a_file_without_a_key_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "key").write_text(content)
    with pytest.raises(ValueError, match="holds no API key"):
        read_key(str(tmp_path / "key"))


METRICS = """# HELP vllm:spec_decode_num_drafts_total Number of drafts.
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="a \\"b\\", {c}"} 10.0
vllm:spec_decode_num_drafts_total{engine="1",model_name="x"} 1e1 1690000000000
vllm:spec_decode_num_draft_tokens_total{engine="0"} 60.0
vllm:spec_decode_num_accepted_tokens_total{engine="0"} 30.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="10"} 1.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="2"} 2.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="1",position="2"} 3.0
vllm:no_value{engine="0"}
nonsense
up NaN
"""


def test_metrics_are_read_with_their_labels_and_added_up() -> None:
    samples = parse_metrics(METRICS)
    assert total(samples, "vllm:spec_decode_num_drafts_total") == 20.0
    assert samples["vllm:spec_decode_num_drafts_total"][0][0] == {"engine": "0", "model_name": 'a \\"b\\", {c}'}
    assert "up" not in samples and total(parse_metrics("a +Inf\na 1\n"), "a") == 1.0
    assert total(samples, "vllm:nothing") is None and "vllm:no_value" not in samples


def test_counters_are_differences_and_positions_are_in_order() -> None:
    found = vllm_acceptance("", METRICS)
    assert (found.drafts, found.draft_tokens, found.accepted_tokens) == (20, 60, 30)
    assert found.accepted_per_position == [5, 1] and found.accept_length == 2.5
    assert rates(found) == (0.5, [0.25, 0.05])
    nothing = vllm_acceptance(METRICS, METRICS)
    assert (nothing.speculation, nothing.drafts, nothing.accept_length) == ("on", 0, None)
    assert nothing.reason == "nothing was drafted during the run"


def test_an_engine_that_lacks_one_of_the_counters_does_not_speculate() -> None:
    for name in ("drafts", "draft_tokens", "accepted_tokens"):
        text = METRICS.replace(f"num_{name}_total", "num_other_total")
        assert vllm_acceptance("", text).speculation == "off"


def test_rates_are_given_only_where_something_was_counted() -> None:
    assert rates(Acceptance("off")) == (None, None)
    assert rates(Acceptance("on", drafts=3, draft_tokens=0, accepted_tokens=0, accepted_per_position=[])) == (None, [])
    assert rates(Acceptance("on", drafts=0, draft_tokens=9, accepted_per_position=[0])) == (None, None)
    counted = Acceptance("on", drafts=3, draft_tokens=9, accepted_tokens=2, accepted_per_position=[2, 0, 0])
    assert rates(counted) == (0.2222, [0.6667, 0.0, 0.0])


def test_counters_that_went_backwards_tell_of_a_restart() -> None:
    found = vllm_acceptance(METRICS, METRICS.replace("10.0", "1.0").replace("1e1", "1"))
    assert found.speculation == "unknown" and "restarted" in found.reason


def test_metrics_without_a_sample_say_nothing() -> None:
    assert vllm_acceptance("", "<html>").speculation == "unknown"


def test_sglangs_requests_are_added_up_by_either_name_of_the_histogram() -> None:
    older = {
        "completion_tokens": 12,
        "spec_verify_ct": 5,
        "spec_accept_histogram": [1, 2, 2],
        "spec_draft_token_num": 15,
    }
    newer = {"completion_tokens": 9, "spec_verify_ct": 4, "spec_correct_drafts_histogram": [0, 4]}
    found = sglang_acceptance([older, newer, {"completion_tokens": 1}])
    assert (found.drafts, found.accepted_tokens, found.draft_tokens) == (9, 10, 15)
    assert found.accepted_per_position == [8, 2]
    assert found.accept_length == round(1 + 10 / 9, 4)


def test_sglang_without_a_histogram_is_counted_by_its_tokens() -> None:
    found = sglang_acceptance([{"completion_tokens": 64, "spec_verify_ct": 63}])
    assert (found.accepted_tokens, found.accept_length, found.accepted_per_position) == (0, 1.0, None)


def test_sglang_without_verifications_does_not_speculate() -> None:
    assert sglang_acceptance([{"completion_tokens": 5, "spec_verify_ct": 0}]).speculation == "off"
    assert sglang_acceptance([]).speculation == "unknown"


def test_a_gauge_counts_only_when_it_shows_something() -> None:
    assert sglang_gauge('sglang:spec_accept_length{tp_rank="0"} 2.5\n').accept_length == 2.5
    ranks = 'sglang:spec_accept_length{dp="0"} 2.0\nsglang:spec_accept_length{dp="1"} 3.0\n'
    assert sglang_gauge(ranks).accept_length == 2.5
    for text in ("", "sglang:spec_accept_length 0.0\n"):
        found = sglang_gauge(text)
        assert found.speculation == "unknown" and "--enable-metrics" in found.reason


@given(st.text())
def test_any_text_is_read_as_metrics(text: str) -> None:
    parse_metrics(text)
    vllm_acceptance(text, METRICS + text)
    sglang_gauge(text)


ANYTHING = (
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3) | st.lists(st.integers(-2, 5) | st.none())
)


@given(
    st.lists(
        st.dictionaries(st.sampled_from(["spec_verify_ct", "completion_tokens", "spec_accept_histogram"]), ANYTHING)
    )
)
def test_any_meta_info_is_read(metas: list[dict[str, object]]) -> None:
    sglang_acceptance(metas)
