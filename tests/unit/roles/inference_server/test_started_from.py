# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a server is started from: whatever the process depends on changes the digest, and nothing else does."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest


class Node:
    """What a server depends on, below a directory, and the program that looks at it."""

    def __init__(self, program: ModuleType, root: Path) -> None:
        self.program, self.root = program, root
        self.write("main.env", "A=1")
        self.write("server.d/server.conf", "ExecStart=x")
        self.write("env/lib/python3.11/site-packages/vllm-0.32.0.dist-info/RECORD", "vllm/a.py,sha256=1,2")
        self.write("model/config.json", "{}")
        self.write("model/model-00001-of-00001.safetensors", "w" * 64)
        self.things = [
            f"file:{root}/main.env",
            f"units:{root}/server.d",
            f"packages:{root}/env",
            f"model:{root}/model",
        ]

    def write(self, path: str, text: str) -> Path:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        return target

    def text(self) -> str:
        text: str = self.program.describe(self.things)
        return text

    def digest(self) -> str:
        return self.text().splitlines()[-1]


@pytest.fixture
def node(load: Callable[[str], ModuleType], tmp_path: Path) -> Node:
    return Node(load("started_from"), tmp_path)


def exchange_weights(node: Node) -> None:
    path = node.root / "model/model-00001-of-00001.safetensors"
    path.write_text("v" * 64)


def remove_weights(node: Node) -> None:
    (node.root / "model/model-00001-of-00001.safetensors").unlink()


CHANGES: dict[str, Callable[[Node], object]] = {
    "environment": lambda node: node.write("main.env", "A=2"),
    "unit": lambda node: node.write("server.d/server.conf", "ExecStart=y"),
    "drop-in of another hand": lambda node: node.write("server.d/override.conf", "[Service]"),
    "engine exchanged": lambda node: node.write(
        "env/lib/python3.11/site-packages/vllm-0.32.0.dist-info/RECORD", "vllm/a.py,sha256=9,2"
    ),
    "plugin installed": lambda node: node.write("env/lib/python3.11/site-packages/p-1.dist-info/RECORD", ""),
    "model's configuration": lambda node: node.write("model/config.json", '{"a": 1}'),
    "weights exchanged": exchange_weights,
    "weights removed": remove_weights,
    "code of the model": lambda node: node.write("model/code/modeling.py", "x = 1"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_the_process_depends_on_changes_the_digest(node: Node, change: str) -> None:
    before = node.digest()
    CHANGES[change](node)
    assert node.digest() != before


def touch_configuration(node: Node) -> None:
    os.utime(node.root / "model/config.json", (1, 1))


NO_CHANGES: dict[str, Callable[[Node], object]] = {
    "nothing": lambda node: None,
    "the same text again": lambda node: node.write("main.env", "A=1"),
    "a backup of an editor": lambda node: node.write("server.d/server.conf~", "x"),
    "metadata of a download": lambda node: node.write("model/.cache/huggingface/x.lock", ""),
    "the time of a small file": touch_configuration,
    "bytecode": lambda node: node.write("env/lib/python3.11/site-packages/vllm/__pycache__/a.pyc", ""),
}


@pytest.mark.parametrize("change", NO_CHANGES)
def test_nothing_else_does(node: Node, change: str) -> None:
    before = node.text()
    NO_CHANGES[change](node)
    assert node.text() == before


def test_large_files_count_by_size_and_time_and_are_not_read(node: Node) -> None:
    node.program.READ_WHOLE = 16
    path = node.root / "model/model-00001-of-00001.safetensors"
    path.chmod(0)
    before = node.digest()
    os.utime(path, ns=(1, path.stat().st_mtime_ns + 1))
    assert node.digest() != before


def test_links_to_weights_are_followed_and_dangling_ones_told(node: Node) -> None:
    blob = node.write("blobs/1", "w")
    (node.root / "model/link.safetensors").symlink_to(blob)
    first = node.digest()
    blob.write_text("v")
    second = node.digest()
    blob.unlink()
    assert len({first, second, node.digest()}) == 3


def test_what_is_not_there_is_told_so(node: Node) -> None:
    shutil.rmtree(node.root / "env")
    (node.root / "main.env").unlink()
    text = node.text()
    assert f"# absent packages:{node.root}/env" in text
    assert f"# absent file:{node.root}/main.env" in text


def test_the_last_line_alone_sets_a_variable(node: Node) -> None:
    lines = node.text().splitlines()
    assert all(line.startswith("# ") for line in lines[:-1])
    assert lines[-1].startswith("SPECDECODE_DIGEST=")
    assert len(lines) == 5


def test_things_do_not_run_into_each_other(node: Node) -> None:
    assert node.program.digest_of(["ab", "c"]) != node.program.digest_of(["a", "bc"])


def test_it_is_written_at_once_and_for_root_alone(node: Node) -> None:
    target = node.root / "run/main.digest"
    assert node.program.main(["--write", str(target), *node.things]) == 0
    assert target.read_text() == node.text()
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert [path.name for path in target.parent.iterdir()] == ["main.digest"]


@pytest.mark.parametrize("thing", ["other:/x", "file:relative", "/x", ""])
def test_a_thing_of_no_kind_is_refused(node: Node, thing: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert node.program.main([thing]) == 1
    assert "is none of" in capsys.readouterr().err


def test_without_a_file_it_is_what_it_was_before_that_file_came(node: Node) -> None:
    fallback = str(node.root / "server.d/server.fallback.conf")
    node.things.append(f"file:{fallback}")
    before = node.text()
    node.write("server.d/server.fallback.conf", "ExecStart=y")
    assert node.text() != before
    assert node.program.describe(node.things, fallback) == before
    node.write("server.d/server.conf", "ExecStart=z")
    assert node.program.describe(node.things, fallback) != before


def test_the_options_of_the_program_come_in_any_order(
    node: Node, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fallback = str(node.write("server.d/server.fallback.conf", "ExecStart=y"))
    assert node.program.main(["--without", fallback, "--write", str(tmp_path / "written"), *node.things]) == 0
    assert node.program.main(["--without", fallback, *node.things]) == 0
    assert capsys.readouterr().out == (tmp_path / "written").read_text()
