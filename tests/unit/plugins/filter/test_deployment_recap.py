# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter deployment_recap and its page: what is known is shown, what is not is said, and nothing is believed."""

from __future__ import annotations

import copy
import json
import re
import unicodedata
from html.parser import HTMLParser
from pathlib import Path

import jinja2
import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.blackwell.inference.plugins.filter.deployment_recap import FilterModule, deployment_recap
from ansible_collections.blackwell.inference.plugins.plugin_utils import _recap_charts as charts
from ansible_collections.blackwell.inference.plugins.plugin_utils import _recap_words as words
from ansible_collections.blackwell.inference.plugins.plugin_utils._recap_judge import Comparison
from ansible_collections.blackwell.inference.plugins.plugin_utils._recap_model import Past, Spread
from ansible_collections.blackwell.inference.plugins.plugin_utils._recap_nodes import KEYS
from ansible_collections.blackwell.inference.tests.recap import nodes
from hypothesis import given, settings
from hypothesis import strategies as st

TEMPLATES = Path(__file__).resolve().parents[4] / "roles" / "specdecode_gate" / "templates"
INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def environment():
    """Jinja as ansible.builtin.template sets it up: nothing is escaped by itself."""
    loader = jinja2.FileSystemLoader(TEMPLATES)
    return jinja2.Environment(
        loader=loader, trim_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined
    )


def html(given_nodes):
    page = deployment_recap(given_nodes)["page"]
    return environment().get_template("recap.html.j2").render(__specdecode_gate_page=page)


def first(node):
    """The node as the JSON has it."""
    return deployment_recap([node])["json"]["nodes"][0]


def changed(path, value, node=None):
    """A node with another value at a path such as `with.accept_length`."""
    node = copy.deepcopy(node or nodes.kept())
    *parents, last = path.split(".")
    place = node
    for key in parents:
        place = place[key]
    place[last] = value
    return node


def texts_of(value):
    if isinstance(value, dict):
        return [text for item in value.values() for text in texts_of(item)] + [
            key for key in value if isinstance(key, str)
        ]
    if isinstance(value, list):
        return [text for item in value for text in texts_of(item)]
    return [value] if isinstance(value, str) else []


class TestContract:
    def test_the_filter_has_its_name(self):
        assert FilterModule().filters() == {"deployment_recap": deployment_recap}

    def test_nothing_but_a_host_is_enough_and_nothing_is_concluded_from_it(self):
        recap = deployment_recap([{"host": "a"}])
        assert "nothing is known about this node" in recap["text"]
        node = recap["json"]["nodes"][0]
        assert {node[key] for key in ("deployment", "with", "without", "patches", "nccl", "findings", "history")} == {
            None
        }
        assert node["comparison"] == {"speeds": [], "texts": None, "caveats": []}
        assert recap["json"]["decisions"] == {"keep": 0, "fallback": 0, "fail": 0, "not_known": 1}
        assert recap["page"]["nodes"][0]["known"] is False

    @pytest.mark.parametrize("key", KEYS[1:])
    def test_a_part_that_is_missing_and_one_that_is_null_are_the_same_and_said(self, key):
        null, missing = nodes.kept(), nodes.kept()
        null[key] = None
        del missing[key]
        assert deployment_recap([null]) == deployment_recap([missing])
        assert "not known" in deployment_recap([null])["text"]

    @pytest.mark.parametrize(
        ("key", "said", "unknown"),
        [
            ("patches", "patches     none asked for", "patches     not known"),
            ("purged", "bytecode    none was stale", "bytecode    not known"),
            ("findings", "preflight   nothing found", "preflight   not known"),
            ("history", "before      no earlier deployment is on record", "before      not known"),
        ],
    )
    def test_an_empty_list_is_a_fact_and_one_that_could_not_be_read_is_not(self, key, said, unknown):
        assert said in deployment_recap([{"host": "a", key: []}])["text"]
        damaged = deployment_recap([{"host": "a", key: ["damaged"]}])["text"]
        assert unknown in damaged
        assert f"unread      {key}[0] is not a dict" in damaged

    def test_speculation_that_was_not_asked_for_is_not_unknown(self):
        off = first(changed("deployment.speculative", {}))
        assert off["deployment"]["speculative"] == {}
        assert "speculation not asked for" in deployment_recap([changed("deployment.speculative", {})])["text"]

    @pytest.mark.parametrize(
        ("given_nodes", "message"),
        [
            ({"host": "a"}, "takes a list with a dict for each node, not dict"),
            ("nodes", "takes a list"),
            ([["a"]], "node 0 must be a dict, not list"),
            ([{"host": "a"}, {"with": {}}], "node 1 has no host"),
            ([{"host": ""}], "node 0 has no host"),
            ([{"host": 5}], "node 0 has no host"),
            (
                [{"host": "a", "nncl": {}, "witout": {}}],
                "node 0 has the unknown key nncl, witout; known are host, deployment",
            ),
        ],
    )
    def test_what_only_the_caller_can_have_done_wrong_is_refused(self, given_nodes, message):
        with pytest.raises(AnsibleFilterError, match=re.escape(message)):
            deployment_recap(given_nodes)

    def test_no_nodes_are_no_error(self):
        recap = deployment_recap([])
        assert recap["text"] == "Recap of 0 nodes"
        assert recap["page"]["nodes"] == []

    def test_the_input_is_left_alone_and_the_result_is_the_same_again(self):
        given_nodes = nodes.fleet() + nodes.hostile()
        before = repr(given_nodes)
        assert deployment_recap(given_nodes) == deployment_recap(given_nodes)
        assert repr(given_nodes) == before

    @pytest.mark.parametrize(
        ("path", "value", "unread"),
        [
            ("deployment.decision", "perhaps", "deployment.decision is perhaps, not one of keep, fallback, fail"),
            ("deployment.reasons", "because", "deployment.reasons is not a list"),
            ("deployment.reasons", ["a", 1], "deployment.reasons[1] is not a text"),
            ("with.accept_length", float("nan"), "with.accept_length is not a finite number of 0 or more"),
            ("with.accept_length", True, "with.accept_length is not a finite number of 0 or more"),
            ("with.accept_length", -1, "with.accept_length is not a finite number of 0 or more"),
            ("with.errors_total", 0.5, "with.errors_total is not a whole number"),
            ("with.disturbed", "no", "with.disturbed is not true or false"),
            ("with.acceptance_per_position", [0.5, 1.5], "with.acceptance_per_position has shares above 1"),
            ("with.acceptance_rate", 1.5, "with.acceptance_rate is above 1"),
            ("with.tokens_per_second", [{"median": 3}], "with.tokens_per_second[0] lacks streams or median"),
            (
                "with.tokens_per_second",
                [{"streams": 1, "median": 3, "low": 4, "high": 5}],
                "with.tokens_per_second[0] has a median outside of low to high",
            ),
            ("nccl.variables", [{"value": "1"}], "nccl.variables[0] lacks its name"),
        ],
    )
    def test_a_value_that_is_none_is_left_out_and_said(self, path, value, unread):
        recap = deployment_recap([changed(path, value)])
        assert recap["json"]["nodes"][0]["unread"] == [unread]
        assert unread in recap["page"]["nodes"][0]["unread"]
        assert f"unread      {unread}" in recap["text"]

    def test_numbers_may_be_texts_as_ansible_core_2_18_makes_them(self):
        node = changed("with.accept_length", "2.84")
        node["history"] = [nodes.past("09-03", "keep", "2.5", "100", "87.5")]
        assert first(node)["with"]["accept_length"] == 2.84
        assert first(node)["history"][0]["speed_without"] == 87.5


class TestJudgement:
    @pytest.mark.parametrize(
        ("with_", "without", "said", "verdict"),
        [
            ([110, 115, 120], [80, 85, 90], "1.35x faster", "faster"),
            ([52, 55, 58], [88, 90, 91], "0.61x slower", "slower"),
            ([90, 95, 100], [80, 85, 91], "no difference", "no difference"),
            ([90, 95, 100], [80, 85, 90], "no difference", "no difference"),
            ([80, 85, 90], [90, 95, 100], "no difference", "no difference"),
        ],
    )
    def test_noise_is_respected(self, with_, without, said, verdict):
        node = changed("with.tokens_per_second", nodes.speeds(with_, with_)[:1])
        node["without"]["tokens_per_second"] = nodes.speeds(without, without)[:1]
        assert said in deployment_recap([node])["text"]
        assert first(node)["comparison"]["speeds"][0]["verdict"] == verdict

    def test_a_difference_within_the_spread_gets_no_number(self):
        node = changed("with.tokens_per_second", nodes.speeds([80, 90, 100], [1, 2, 3]))
        page = deployment_recap([node])["page"]["nodes"][0]
        note = "within the spread: 90.0 against 87.0 tokens/s"
        assert page["tiles"][0] == {"name": "Speed, 1 stream", "value": "no difference", "note": note, "tone": "even"}
        assert page["overview"]["speed"] == {"value": "no difference", "note": "1 stream", "tone": "even"}
        assert page["measured"]["speeds"][0]["verdict"] == "no difference"

    def test_without_a_baseline_nothing_is_compared(self):
        node = changed("without", None)
        assert first(node)["comparison"]["speeds"][0] == {
            "streams": 1,
            "with": 117.2,
            "without": None,
            "ratio": None,
            "verdict": None,
        }
        tile = deployment_recap([node])["page"]["nodes"][0]["tiles"][0]
        assert (tile["value"], tile["note"]) == ("not known", "speed not known: 117.2 against not known tokens/s")

    @pytest.mark.parametrize("nothing", [0, 5e-324])
    def test_a_baseline_of_nothing_has_no_ratio(self, nothing):
        node = changed("without.tokens_per_second", nodes.speeds([nothing] * 3, [nothing] * 3))
        assert first(node)["comparison"]["speeds"][0]["ratio"] is None

    def test_streams_that_only_one_side_has_are_shown_for_that_side(self):
        node = changed("without.tokens_per_second", nodes.speeds([1, 2, 3], [4, 5, 6])[1:])
        compared = first(node)["comparison"]["speeds"]
        assert [(item["streams"], item["with"], item["without"]) for item in compared] == [
            (1, 117.2, None),
            (32, 1150.4, 5),
        ]

    def test_texts_are_compared_for_the_prompts_of_both(self):
        assert first(nodes.fallen_back())["comparison"]["texts"] == {"equal": 6, "different": ["prose-paper"]}
        assert first(changed("with.texts", [{"prompt": "other", "sha256": "0"}]))["comparison"]["texts"] is None

    def test_no_accepted_token_stands_out(self):
        tile = deployment_recap([changed("with.accept_length", 1.0)])["page"]["nodes"][0]["tiles"][2]
        assert (tile["note"], tile["tone"]) == ("no drafted token was accepted", "bad")

    @pytest.mark.parametrize(
        ("path", "value", "caveat"),
        [
            ("with.speculation", "off", "with speculation: the engine does not speculate"),
            ("without.speculation", "on", "without speculation: the engine speculates all the same"),
            ("with.acceptance_reason", "a gauge was read", "with speculation: a gauge was read"),
            ("with.errors_total", 3, "with speculation: 3 requests failed"),
            ("without.disturbed", True, "without speculation: others used the server during the run"),
            ("with.inconsistent", ["a", "b"], "with speculation: the text was not always the same for a, b"),
            ("with.not_applicable", [{"prompt": "l", "reason": "long"}], "with speculation: not measured: l: long"),
            ("with.engine_version", "0.5.9", "the two measurements are of different releases (0.5.9 and 0.5.23)"),
            ("with.digest", "00", "what was measured is not what is deployed: the digests differ"),
            ("with.method", {**nodes.METHOD, "max_tokens": 64}, "in different ways (max_tokens)"),
            (
                "with.tokens_per_second",
                [{"streams": 1, "median": 9, "values": [9]}],
                "measured once, so that its spread",
            ),
        ],
    )
    def test_what_limits_a_measurement_is_said(self, path, value, caveat):
        assert first(nodes.kept())["comparison"]["caveats"] == []
        (said,) = first(changed(path, value))["comparison"]["caveats"]
        assert caveat in said

    def test_the_first_failed_request_is_shown(self):
        node = changed("with.errors_total", 2)
        node["with"]["errors"] = [{"kind": "timeout", "message": "no answer"}, {"kind": "http"}]
        assert first(node)["comparison"]["caveats"] == [
            "with speculation: 2 requests failed, the first with: no answer"
        ]

    def test_the_present_deployment_is_not_an_earlier_one(self):
        node = nodes.kept()
        node["history"] = [
            {**nodes.past("11-28", "keep", 2.8, 1.0, 1.0), "id": node["deployment"]["id"]},
            *nodes.HISTORY,
        ]
        assert len(first(node)["history"]) == len(nodes.HISTORY)

    def test_what_was_there_before_the_first_deployment_is_none(self):
        node = nodes.kept()
        node["history"] = [{"time": "2026-09-01T00:00:00Z", "about": {"decision": "none"}}, *nodes.HISTORY]
        assert len(first(node)["history"]) == len(nodes.HISTORY)

    def test_history_is_sorted_and_says_where_this_one_stands(self):
        node = nodes.kept()
        node["history"] = nodes.HISTORY[::-1]
        assert [past["time"] for past in first(node)["history"]] == [past["time"] for past in nodes.HISTORY]
        rows = deployment_recap([node])["page"]["nodes"][0]["history"]["rows"]
        assert [row["present"] for row in rows] == [True] + [False] * len(nodes.HISTORY)
        assert rows[0]["with"] == "117.2"
        assert rows[-1]["decision"] == "fallback"

    def test_findings_come_gravest_first_and_accepted_ones_last(self):
        found = first(
            {**nodes.failed_early(), "findings": [*nodes.FINDINGS[::-1], nodes.failed_early()["findings"][0]]}
        )
        assert [item["id"] for item in found["findings"]] == ["iommu_hang", "power_limit", "hugepages", "clock_skew"]


class TestWords:
    @pytest.mark.parametrize(
        ("given_text", "shown"),
        [
            ("a\nb\t c ", "a b c"),
            ("\x1b[31mred\x07", "\\x1b[31mred\\x07"),
            ("\u202eevil\u2066\u200b", "\\u202eevil\\u2066\\u200b"),
            ("\ud800", "\\ud800"),
            ("\U000e0041", "\\U000e0041"),
            ("gr\u00fc\u00dfe \u6f22\u5b57", "gr\u00fc\u00dfe \u6f22\u5b57"),
            ("x" * 2005, "x" * 2000 + " [5 more characters]"),
        ],
    )
    def test_what_steers_a_terminal_becomes_visible(self, given_text, shown):
        assert words.clean(given_text) == shown

    @pytest.mark.parametrize(
        ("share", "shown"),
        [(0, "0 %"), (0.001, "<1 %"), (0.796, "80 %"), (0.999, ">99 %"), (1, "100 %"), (None, "not known")],
    )
    def test_nearly_nothing_is_not_nothing(self, share, shown):
        assert words.percent(share) == shown

    @pytest.mark.parametrize(
        ("value", "shown"),
        [
            (0, "0.00"),
            (0.00002, "2e-05"),
            (1.345, "1.34"),
            (54.84, "54.8"),
            (1150.4, "1150"),
            (1e9, "1e+09"),
            (None, "not known"),
        ],
    )
    def test_figures_are_short(self, value, shown):
        assert words.figure(value) == shown

    @pytest.mark.parametrize("time", ["2026-11-28T14:03:02Z", "2026-11-28T14:03Z", "2026-11-28T14:03:02.5Z"])
    def test_times_are_shown_to_the_minute(self, time):
        assert words.moment(time) == "2026-11-28 14:03 UTC"

    def test_a_time_in_another_form_is_shown_as_it_is_and_dates_no_page(self):
        assert words.moment("yesterday") == "yesterday"
        recap = deployment_recap([changed("deployment.time", "yesterday"), nodes.fallen_back()])
        assert recap["page"]["time"] == "2026-11-28 14:03 UTC"

    def test_wide_characters_count_twice(self):
        assert words.width("a\u6f22e\u0301") == 4
        assert words.clip("\u6f22\u5b57\u6f22\u5b57", 7) == "\u6f22\u5b57.."


class TestCharts:
    @pytest.mark.parametrize(
        ("accept_length", "x", "anchor"), [(1.0, 10, "start"), (2.5, 160, "middle"), (4.0, 310, "end")]
    )
    def test_accept_length_lies_between_one_and_what_the_draft_allows(self, accept_length, x, anchor):
        chart = charts.length_chart(accept_length, [0.5, 0.5, 0.5])
        assert (chart["marker"]["x"], chart["value"]["anchor"]) == (x, anchor)
        assert [tick["text"] for tick in chart["ticks"]] == ["1", "2", "3", "4"]

    def test_an_accept_length_beyond_the_positions_stays_on_the_chart(self):
        assert charts.length_chart(7.2, [0.5])["marker"]["x"] <= charts.WIDTH
        assert charts.length_chart(None, [0.5]) is charts.length_chart(2, None) is None

    def test_columns_are_as_high_as_their_shares(self):
        bars = charts.position_chart([1.0, 0.5, 0.0])["bars"]
        assert [(entry["y"], entry["height"], entry["label"]) for entry in bars] == [
            (24, 100, "100 %"),
            (74, 50, "50 %"),
            (123, 1, "0 %"),
        ]

    def test_many_positions_are_cut_and_said(self):
        chart = charts.position_chart([0.5] * 20)
        assert (len(chart["bars"]), chart["more"], chart["bars"][0]["label"]) == (12, 8, "50")

    @given(st.lists(st.tuples(*[st.floats(0, 1e15)] * 3), min_size=2, max_size=2))
    @settings(max_examples=60, deadline=None)
    def test_bars_and_spreads_stay_on_the_chart(self, measured):
        spreads = [Spread(1, median, low, high, []) for low, median, high in map(sorted, measured)]
        for row in charts.speed_chart(Comparison(1, *spreads, None, None))["rows"]:
            marks = [row["whisker"]["from"], row["bar"]["width"], row["whisker"]["to"]]
            assert 0 <= marks[0] <= marks[1] <= marks[2] <= charts.WIDTH

    def test_a_speed_that_is_not_known_has_no_bar(self):
        chart = charts.speed_chart(Comparison(1, Spread(1, 5, 5, 5, []), None, None, None))
        assert chart["rows"][1]["bar"] is None
        assert chart["description"] == "with speculation 5.00 (5.00 to 5.00); without not known."

    @given(st.lists(st.tuples(*[st.none() | st.floats(0, 1e15)] * 2), max_size=30))
    @settings(max_examples=60, deadline=None)
    def test_history_stays_on_its_chart(self, speeds):
        chart = charts.history_chart([Past(None, None, None, *pair) for pair in speeds])
        if chart is None:
            return
        assert 2 <= len(chart["grid"]) <= 5
        for mark in [mark for series in chart["series"] for mark in series["marks"]]:
            assert 0 <= mark["x"] <= charts.WIDTH
            assert chart["grid"][-1]["y"] <= mark["y"] <= chart["grid"][0]["y"]

    def test_an_unknown_speed_breaks_the_line(self):
        past = [Past(None, None, None, speed, None) for speed in (1.0, 2.0, None, 3.0, 4.0)]
        chart = charts.history_chart(past)
        assert [len(line.split()) for line in chart["series"][1]["lines"]] == [2, 2]
        assert len(chart["series"][1]["marks"]) == 4

    def test_one_deployment_is_no_history(self):
        assert charts.history_chart([Past(None, None, None, 1.0, 1.0)]) is None


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=12)
    | st.sampled_from(["keep", "error", "1"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from([*nodes.deployment("keep", []), *nodes.record([1.0] * 3, [1.0] * 3, None)]),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(
    st.lists(st.fixed_dictionaries({"host": st.text(min_size=1)}, optional=dict.fromkeys(KEYS[1:], VALUES)), max_size=3)
)
@settings(max_examples=150, deadline=None)
def test_whatever_nodes_report_is_shown_safely(given_nodes):
    try:
        recap = deployment_recap(given_nodes)
    except AnsibleFilterError as error:
        assert "has no host" in str(error)  # a host of blanks
        return
    json.dumps(recap["json"], allow_nan=False)
    assert all(words.width(line) <= 100 for line in recap["text"].splitlines())
    assert all(unicodedata.category(char) not in INVISIBLE for char in recap["text"] if char != "\n")
    assert all(unicodedata.category(char) not in INVISIBLE for text in texts_of(recap["page"]) for char in text)


@pytest.mark.parametrize("name", ["fleet", "hostile", "crowded"])
def test_no_line_is_wider_than_a_terminal(name):
    recap = deployment_recap([nodes.crowded()] if name == "crowded" else getattr(nodes, name)())
    assert max(words.width(line) for line in recap["text"].splitlines()) <= 100
    assert recap["text"].splitlines()[0].startswith("Recap of ")


def test_the_table_shows_all_nodes_at_a_glance():
    lines = deployment_recap(nodes.fleet())["text"].splitlines()
    assert lines[0] == "Recap of 4 nodes: 1 keeps speculation, 1 fell back, 1 failed, 1 has no known decision"
    assert lines[2].split() == ["node", "decision", "streams", "with", "without", "change", "accept", "texts"]
    assert lines[3].split() == ["gpu-a01.example.com", "keep", "1", "117.2", "87.0", "1.35x", "faster", "2.84", "equal"]
    assert lines[4].split() == ["32", "1150", "857.1", "1.34x", "faster"]


class Elements(HTMLParser):
    """The names of elements and of their attributes."""

    def __init__(self):
        super().__init__()
        self.names = set()
        self.attributes = set()
        self.text = []

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        self.attributes |= {name for name, _value in attrs}

    def handle_data(self, data):
        self.text.append(data)


def elements(page):
    parser = Elements()
    parser.feed(page)
    return parser


class TestTemplate:
    @pytest.mark.parametrize("name", sorted(path.name for path in TEMPLATES.glob("*.j2")))
    def test_every_expression_is_escaped(self, name):
        """Ansible's Jinja escapes nothing, and some of its releases ignore an autoescape block."""
        tree = environment().parse(TEMPLATES.joinpath(name).read_text(encoding="utf-8"))
        macros = {macro.name for macro in tree.find_all(jinja2.nodes.Macro)}
        for output in tree.find_all(jinja2.nodes.Output):
            for expression in output.nodes:
                if isinstance(expression, (jinja2.nodes.TemplateData, jinja2.nodes.Filter)):
                    assert getattr(expression, "name", "e") == "e", expression
                    continue
                assert isinstance(expression, jinja2.nodes.Call), expression
                called = expression.node
                is_own = isinstance(called, jinja2.nodes.Name) and called.name in macros
                is_charts = isinstance(called, jinja2.nodes.Getattr) and called.node.name == "charts"
                assert is_own or is_charts, expression

    def test_hostile_texts_make_no_elements(self):
        harmless, attacked = elements(html([nodes.kept(), *nodes.fleet()])), elements(html(nodes.hostile()))
        assert attacked.names <= harmless.names
        assert attacked.attributes <= harmless.attributes
        assert not harmless.names & {"script", "img", "iframe", "object", "embed", "form", "base"}
        assert not any(name.startswith("on") for name in harmless.attributes)
        assert words.clean(nodes.EVIL) in attacked.text

    def test_the_page_needs_nothing_from_elsewhere(self):
        page = html(nodes.fleet())
        assert "default-src 'none'" in page
        assert not re.search(r"https?:|//[a-z]|@import|url\(", page.replace("/opt/specdecode", ""))

    @pytest.mark.parametrize("host", ["fleet", "crowded", "silent", "odd", "kept"])
    def test_every_kind_of_node_has_a_page(self, host):
        given_nodes = getattr(nodes, host)()
        page = html(given_nodes if isinstance(given_nodes, list) else [given_nodes])
        assert page.startswith("<!doctype html>")
        assert page.count("<article") == page.count("</article>") >= 1

    def test_the_page_shows_what_the_issue_asks_for(self):
        text = " ".join(" ".join(elements(html([nodes.kept()])).text).split())
        for shown in (
            "Speculation kept",
            "one stream is 1.35 times as fast (at least 1.05 is asked)",
            "117.2 (116.4 to 118.0)",
            "2.84 tokens of one verification",
            "kimi-vl-eagle3-delegates applied",
            "3 files removed (2 code_differs, 1 size_differs)",
            "NCCL_P2P_LEVEL SYS GPUs are spread over two sockets",
            "power_limit GPU 3 is limited to 300 W",
            "2026-11-12 09:30 UTC keep 2.79 113.6 87.2",
        ):
            assert shown in text

    def test_what_is_cut_is_said(self):
        text = " ".join(elements(html([nodes.crowded()])).text)
        assert "and 70 more, which are in the JSON" in text
        assert "and 30 older ones, which are in the JSON" in text
        assert "and 6 more positions, which are in the JSON" in text


def colours(css):
    return dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", css))


def luminance(colour):
    channels = [int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5)]
    linear = [channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4 for channel in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


class TestColours:
    """Contrast as WCAG 2.2 asks for it at level AA: 4.5 for text (1.4.3), 3 for what carries meaning (1.4.11)."""

    CSS = TEMPLATES.joinpath("recap.css").read_text(encoding="utf-8")
    SCHEMES = tuple(colours(root) for root in re.findall(r":root \{(.*?)\}", CSS, re.DOTALL))

    def test_light_dark_and_paper_have_all_colours(self):
        assert len(self.SCHEMES) == 3
        assert len({tuple(scheme) for scheme in self.SCHEMES}) == 1

    @pytest.mark.parametrize("scheme", SCHEMES, ids=["light", "dark", "paper"])
    def test_text_can_be_read(self, scheme):
        for text in ("ink", "soft", "good", "bad", "warning", "even"):
            for back in ("page", "card"):
                assert contrast(scheme[text], scheme[back]) >= 4.5, (text, back)
        for tone in ("good", "bad", "warning", "even"):
            assert contrast(scheme[tone], scheme[f"{tone}-back"]) >= 4.5, tone
        assert contrast(scheme["ink"], scheme["warning-back"]) >= 4.5
        assert contrast(scheme["soft"], scheme["even-back"]) >= 4.5
        assert contrast(scheme["ink"], scheme["track"]) >= 4.5

    @pytest.mark.parametrize("scheme", SCHEMES, ids=["light", "dark", "paper"])
    def test_charts_can_be_read(self, scheme):
        for mark in ("with", "without", "soft"):
            assert contrast(scheme[mark], scheme["card"]) >= 3, mark
        assert contrast(scheme["with"], scheme["track"]) >= 3
