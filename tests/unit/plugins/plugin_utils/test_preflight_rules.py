# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The preflight rules as data, and that role, documentation and rules say the same."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.blackwell.inference.plugins.modules import gpu_node_facts
from ansible_collections.blackwell.inference.plugins.plugin_utils._preflight_gpu import runs_on
from ansible_collections.blackwell.inference.plugins.plugin_utils._preflight_model import (
    SEVERITIES,
    UNLIMITED,
    Facts,
    Unknown,
    Wants,
    parse_limits,
    release_of,
)
from ansible_collections.blackwell.inference.plugins.plugin_utils._preflight_rules import CHECKS

ROOT = Path(__file__).parents[4]
ROLE = ROOT / "roles/node_preflight"


def role_file(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROLE / name).read_text())
    return loaded


def readme_rows() -> list[str]:
    """The table of all checks as it has to stand in the README."""
    rows = ["| id | severity | nodes | may be accepted | rule | remedy | evidence |", "|---|---|---|---|---|---|---|"]
    for check in CHECKS:
        nodes = "all" if check.hardware == "any" else check.hardware
        texts = [check.rule, check.remedy, check.evidence]
        rule, remedy, evidence = (text.replace("|", r"\|").replace(":g}", "}") for text in texts)
        rule, remedy = (re.sub(r"(?<!{){(\w+)}(?!})", r"`\1`", text) for text in (rule, remedy))
        rule, remedy = (text.replace("{{", "{").replace("}}", "}") for text in (rule, remedy))
        accept = "yes" if check.acceptable else "no"
        rows.append(f"| `{check.id}` | {check.severity} | {nodes} | {accept} | {rule} | {remedy} | {evidence} |")
    return rows


def test_the_readme_lists_every_check_as_it_is() -> None:
    text = (ROLE / "README.md").read_text()
    table = text.split("with the rules -->\n")[1].split("<!-- end of checks -->")[0]
    assert table.strip().splitlines() == readme_rows()


def test_every_check_has_an_id_of_its_own_and_says_all_there_is_to_say() -> None:
    assert len({check.id for check in CHECKS}) == len(CHECKS)
    for check in CHECKS:
        assert re.fullmatch(r"[a-z][a-z0-9_]+", check.id)
        assert check.severity in SEVERITIES
        assert check.hardware in ("any", "gpu")
        texts = (check.rule.format_map(vars(Wants())), check.remedy.format_map(vars(Wants())), check.evidence)
        for text in texts:
            assert text
            assert not text.endswith(".")
            assert text == text.strip()


def test_the_role_wants_exactly_what_the_checks_know() -> None:
    given = re.findall(r"'(\w+)':", role_file("vars/main.yml")["__node_preflight_wants"])
    assert sorted(given) == sorted(field.name for field in fields(Wants))


def test_the_options_of_the_role_are_those_with_a_default() -> None:
    options = role_file("meta/argument_specs.yml")["argument_specs"]["main"]["options"]
    defaults = role_file("defaults/main.yml")
    assert set(options) == set(defaults)
    for name, default in defaults.items():
        if not (isinstance(default, str) and "{{" in default):
            assert options[name]["default"] == default, name


@pytest.mark.parametrize("role", ["ml_env", "inference_server"])
def test_a_default_that_follows_another_role_falls_back_on_its_default(role: str) -> None:
    theirs = yaml.safe_load((ROOT / f"roles/{role}/defaults/main.yml").read_text())
    text = (ROLE / "defaults/main.yml").read_text()
    followed = re.findall(rf"\{{\{{ ({role}_\w+) \| default\((.+)\) \}}\}}\"?$", text, re.MULTILINE)
    assert followed
    for name, fallback in followed:
        assert yaml.safe_load(fallback) == theirs[name], name


@pytest.mark.parametrize("lock", sorted((ROOT / "roles/ml_env/files/locks").glob("*.txt")), ids=lambda path: path.stem)
def test_what_a_lock_was_made_for_is_read_from_it(lock: Path) -> None:
    variables = role_file("vars/main.yml")
    patterns = {
        key: re.search(r"regex_search\('(.+?)',", variables[f"__node_preflight_lock_{key}"])
        for key in ("for", "cuda", "nccl")
    }
    text = lock.read_text()
    found = {key: re.search(pattern[1], text) for key, pattern in patterns.items() if pattern}
    python = re.search(r"-py(\d)(\d+)$", lock.stem)
    assert found["for"] and python
    assert found["for"].groups() == (f"{python[1]}.{python[2]}", "x86_64", "2.35")
    if "cpu" in lock.stem:
        assert found["cuda"] is None
    else:
        assert found["cuda"] and found["nccl"]
        assert (12, 8) <= release_of(found["cuda"][1]) < (14,)
        assert (2, 27) <= release_of(found["nccl"][1]) < (3,)


def documented(contains: dict[str, Any], way: list[str]) -> bool:
    """Whether the module documents a value at this path; a dict without documented parts may hold anything."""
    if way[0] not in contains:
        return False
    below = contains[way[0]].get("contains")
    return len(way) == 1 or below is None or documented(below, way[1:])


def test_the_checks_ask_for_facts_that_the_module_returns() -> None:
    returned = yaml.safe_load(gpu_node_facts.RETURN)["ansible_facts"]["contains"]["gpu_node"]["contains"]
    asked: set[str] = set()

    class Listening(Facts):
        def get(self, path: str) -> Any:
            asked.add(path)
            return super().get(path)

    gpus = [{"index": 0, "bus_id": "0000:01:00.0"}, {"index": 1, "bus_id": "0000:02:00.0"}]
    facts = Listening({"node": {}, "gpu_node": {"gpus": gpus}})
    for check in CHECKS:
        check.finds(facts, Wants(tensor_parallel=2, cuda="13.0"))
    paths = sorted(path for path in asked if path.startswith("gpu_node."))
    assert len(paths) > 10
    assert [path for path in paths if not documented(returned, path.split(".")[1:])] == []
    source = (ROOT / "plugins/plugin_utils/_preflight_gpu.py").read_text()
    keys = set(re.findall(r"gpu(?:\[|\.get\()\"(\w+)\"", source)) | set(
        re.findall(r"judge_each\(facts, \"(\w+)\"", source)
    )
    on_bus = {"driver"}
    assert keys - on_bus - set(returned["gpus"]["contains"]) == set()


def test_a_fact_that_is_null_is_explained_by_the_nearest_reason() -> None:
    facts = Facts(
        {
            "gpu_node": {
                "driver": {"version": None, "state": "hung"},
                "cpu": None,
                "reasons": {"driver": "it hung", "driver.version": "no file", "cpu.governors": "no policies"},
            }
        }
    )
    assert facts.get("gpu_node.driver.state") == "hung"
    assert facts.get("gpu_node.driver.version") == Unknown("no file")
    assert facts.get("gpu_node.driver.flavour") == Unknown("it hung")
    assert facts.get("gpu_node.cpu.governors") == Unknown("no policies")
    assert facts.get("gpu_node.links") == Unknown("gpu_node does not tell links")
    assert facts.get("node.memory.total") == Unknown("node was not looked at")


@pytest.mark.parametrize("value", [False, 0, "", [], {}])
def test_a_fact_that_is_empty_is_known(value: Any) -> None:
    assert Facts({"node": {"one": value}}).get("node.one") == value


@pytest.mark.parametrize(
    ("wanted", "architectures", "runs"),
    [
        ((12, 0), ["sm_120"], True),
        ((12, 1), ["sm_120"], True),  # machine code runs on a higher minor number
        ((12, 0), ["sm_121"], False),
        ((12, 0), ["sm_80", "sm_90", "sm_100"], False),
        ((12, 0), ["sm_90", "compute_90"], True),  # PTX is compiled for later GPUs
        ((12, 0), ["compute_120"], True),
        ((12, 0), ["compute_121"], False),
        ((9, 0), ["sm_90a"], True),
        ((12, 1), ["sm_120a"], False),  # an `a` is for its own number only
        ((12, 1), ["sm_120f"], True),
        ((12, 0), ["compute_90a"], False),
        ((8, 9), ["sm_80", "sm_86"], True),
        ((12, 0), [], False),
        ((12, 0), ["gfx942", "sm_", "sm_x"], False),
    ],
)
def test_whether_code_runs_on_a_gpu(wanted: tuple[int, ...], architectures: list[str], runs: bool) -> None:
    assert runs_on(wanted, architectures) is runs


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("infinity", (UNLIMITED, UNLIMITED)),
        (1048576, (1048576, 1048576)),
        ("64M", (64 * 1024**2, 64 * 1024**2)),
        ("1024:4K", (1024, 4096)),
        ("1K:infinity", (1024, UNLIMITED)),
    ],
)
def test_limits_are_read_as_systemd_does(text: Any, limits: tuple[int, int]) -> None:
    assert parse_limits({"NOFILE": text}) == {"NOFILE": limits}


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("3.12.1+", (3, 12, 1)), ("595.58.03", (595, 58, 3)), ("2.13.0+cpu", (2, 13, 0)), ("", ()), ("rolling", ())],
)
def test_a_release_is_read_as_numbers(text: str, numbers: tuple[int, ...]) -> None:
    assert release_of(text) == numbers
