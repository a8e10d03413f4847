# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of the house that no linter knows: roles are equal, and the example inventory is one that works."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from ansible_collections.blackwell.inference.plugins.filter.engine_arguments import engine_arguments
from ansible_collections.blackwell.inference.plugins.plugin_utils._role_variables import RESULTS

TOP = Path(__file__).resolve().parents[2]
ROLES = sorted(path.name for path in (TOP / "roles").iterdir() if path.is_dir())


def read(*parts):
    return yaml.safe_load(TOP.joinpath(*parts).read_text(encoding="utf-8"))


def test_the_roles_are_those_of_the_deployment_in_its_order():
    block = read("playbooks", "deploy_specdecode.yml")[0]["tasks"][0]["block"]
    roles = [task["ansible.builtin.import_role"] for task in block if "ansible.builtin.import_role" in task]
    names = [role["name"].removeprefix("blackwell.inference.") for role in roles if "tasks_from" not in role]
    assert sorted(names) == ROLES
    assert names.index("ml_env") < names.index("registry_patches") < names.index("inference_server")


@pytest.mark.parametrize("role", ROLES)
class TestRole:
    def test_its_specification_names_exactly_its_defaults(self, role):
        options = read("roles", role, "meta", "argument_specs.yml")["argument_specs"]["main"]["options"]
        assert set(options) == set(read("roles", role, "defaults", "main.yml"))

    def test_a_specified_default_is_the_default(self, role):
        options = read("roles", role, "meta", "argument_specs.yml")["argument_specs"]["main"]["options"]
        for name, value in read("roles", role, "defaults", "main.yml").items():
            if "{{" not in str(value):
                assert options[name].get("default") == value, name

    def test_its_public_variables_carry_its_name(self, role):
        assert all(name.startswith(role + "_") for name in read("roles", role, "defaults", "main.yml"))

    def test_its_internal_variables_carry_its_name_as_well(self, role):
        path = TOP / "roles" / role / "vars" / "main.yml"
        names = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else {}
        assert all(name.startswith(f"__{role}_") for name in names)

    def test_what_it_leaves_for_the_play_under_its_name_is_a_known_result(self, role):
        options = read("roles", role, "meta", "argument_specs.yml")["argument_specs"]["main"]["options"]
        for path in (TOP / "roles" / role / "tasks").glob("*.yml"):
            names = re.findall(rf"(?m)^\s+(?:register: )?({role}_\w+)(?::|$)", path.read_text(encoding="utf-8"))
            assert set(names) <= {*options, *RESULTS}, path

    def test_its_tasks_begin_with_a_table_of_contents(self, role):
        lines = (TOP / "roles" / role / "tasks" / "main.yml").read_text(encoding="utf-8").splitlines()
        assert len(lines) <= 40

    def test_it_has_a_page_that_shows_how_it_is_used(self, role):
        page = (TOP / "roles" / role / "README.md").read_text(encoding="utf-8")
        assert f"role: blackwell.inference.{role}" in page
        assert "defaults/main.yml" in page


def test_plays_that_pages_show_become_root():
    for page in [TOP / "README.md", *TOP.glob("roles/*/README.md"), *TOP.glob("docs/**/*.md")]:
        for block in re.findall(r"(?ms)^```yaml\n(.*?)^```", page.read_text(encoding="utf-8")):
            shown = yaml.safe_load(block)
            for play in shown if isinstance(shown, list) else []:
                assert "roles" not in play or play.get("become") is True, page


def test_links_between_pages_lead_somewhere():
    for page in [TOP / "README.md", *TOP.glob("roles/*/README.md"), *TOP.glob("docs/**/*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page}: {target}"


def test_the_server_of_the_example_is_one_that_its_engine_takes():
    variables = read("inventories", "example", "group_vars", "inference_nodes.yml")
    names = ["model", "served_name", "speculative", "tensor_parallel", "memory_fraction", "trust_remote_code", "port"]
    server = {name: variables[f"inference_server_{name}"] for name in names}
    release = re.search(r"-([0-9.]+)-py", variables["ml_env_lock"])[1]
    arguments = engine_arguments(server, variables["inference_server_engine"], release)
    assert "--speculative-draft-model-path" in arguments


def test_there_is_a_lock_for_the_newest_release_that_patches_were_verified_on():
    locks = {path.stem for path in (TOP / "roles/ml_env/files/locks").glob("*.txt")}
    for engine in ("sglang", "vllm"):
        patches = [
            yaml.safe_load(path.read_text("utf-8")) for path in TOP.glob(f"roles/registry_patches/patches/{engine}/*")
        ]
        newest = {re.search(r"<=([0-9.]+)", patch["verified"])[1] for patch in patches}
        assert {f"{engine}-{release}-py312" for release in newest} <= locks


def test_the_locks_of_the_inventories_are_there():
    for inventory in ("lab", "example"):
        lock = read("inventories", inventory, "group_vars", "inference_nodes.yml")["ml_env_lock"]
        text = (TOP / "roles" / "ml_env" / "files" / "locks" / f"{lock}.txt").read_text(encoding="utf-8")
        pins = re.findall(r"(?m)^[A-Za-z0-9._-]+==\S+", text)
        assert pins
        assert text.count("--hash=sha256:") >= len(pins)
