# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables that no role knows, or that a role could not take, are told; right ones are not."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleLookupError
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.blackwell.inference.plugins.lookup.variable_problems import LookupModule
from ansible_collections.blackwell.inference.plugins.plugin_utils._role_variables import RESULTS, ROLES, defaults_of

try:
    from ansible.template import trust_as_template
except ImportError:  # ansible-core 2.18 takes every text for a template

    def trust_as_template(value: str) -> str:
        return value


NAMES = sorted(path.name for path in ROLES.iterdir())


def problems(variables: dict[str, Any], *roles: str) -> list[str]:
    """What the lookup says about variables and, as in a play, the defaults of the roles."""
    defaults = {
        name: trust_as_template(value) if isinstance(value, str) else value
        for role in NAMES
        for name, value in defaults_of(role).items()
    }
    everything = {**defaults, **variables}
    lookup = LookupModule(loader=DataLoader(), templar=Templar(loader=DataLoader(), variables=everything))
    return lookup.run(list(roles or NAMES), variables=everything)


def test_the_defaults_of_all_roles_are_right() -> None:
    assert problems({}) == []


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("inference_server_max_modle_len", "The nearest is inference_server_max_model_len."),
        ("ml_env_locks", "The nearest is ml_env_lock."),
        ("specdecode_gate_stream", "The nearest is specdecode_gate_streams."),
        ("nccl_env_zzzzzzzzzzzzzzzzzzzzzzzzz", "roles/nccl_env/defaults/main.yml"),
    ],
)
def test_a_name_that_no_role_knows_is_told_with_the_nearest(name: str, near: str) -> None:
    (problem,) = problems({name: 1})
    assert problem.startswith(f"{name}: the role ")
    assert near in problem


@pytest.mark.parametrize(
    "name", ["__ml_env_x", "ml_environment", "my_inference_server_x", "inference_nodes", *sorted(RESULTS)]
)
def test_names_of_others_internals_and_results_are_none_of_it(name: str) -> None:
    assert problems({name: object()}) == []


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"inference_server_engine": "vlm"}, ["must be one of: sglang, vllm, got: vlm"]),
        ({"node_preflight_hardware": "gpuu"}, ["must be one of: gpu, cpu, got: gpuu"]),
        ({"inference_server_port": "eighty"}, ["unable to convert to int"]),
        ({"inference_server_speculative": "eagle"}, ["unable to convert to dict"]),
        ({"ml_env_editable": [{"name": "sglang"}]}, ["missing required arguments: path"]),
        ({"ml_env_editable": [{"name": "sglang", "path": "/s", "revison": "x"}]}, ["ml_env_editable.revison"]),
    ],
)
def test_a_value_of_another_form_is_told_of_the_variable_that_was_set(
    variables: dict[str, Any], says: list[str]
) -> None:
    told = problems(variables)
    assert len(told) == len(says), "what only follows it is not blamed"
    assert all(text in one and one.startswith(next(iter(variables))) for text, one in zip(says, told, strict=True))


def test_everything_is_told_at_once() -> None:
    told = problems({"inference_server_port": "eighty", "ml_env_ofline": True, "nccl_env_profile": "fast"})
    assert [one.split(":")[0] for one in told] == ["inference_server_port", "ml_env_ofline", "nccl_env_profile"]


def test_templates_are_judged_by_what_they_give() -> None:
    port = trust_as_template("{{ my_port }}")
    assert problems({"inference_server_port": port, "my_port": "8080"}) == []
    assert "unable to convert" in problems({"inference_server_port": port, "my_port": "eighty"})[0]


def test_what_follows_an_unknown_fact_is_left_to_the_role() -> None:
    assert problems({"inference_server_tensor_parallel": trust_as_template("{{ gpu_node.gpus | length }}")}) == []


def test_only_the_roles_that_are_asked_about_are_judged() -> None:
    assert problems({"ml_env_ofline": True}, "nccl_env") == []


def test_a_role_that_is_not_there_is_an_error() -> None:
    with pytest.raises(AnsibleLookupError, match="no role is called ml_enf"):
        problems({}, "ml_enf")
