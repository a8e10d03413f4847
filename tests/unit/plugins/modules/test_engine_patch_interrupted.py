# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""engine_patch killed between two files, on a full or read-only disk, and twice at once."""

from __future__ import annotations

import os
import subprocess
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.inference.plugins.module_utils._lock import LockError
from ansible_collections.blackwell.inference.plugins.module_utils._patch_store import StoreError, load_manifest
from ansible_collections.blackwell.inference.plugins.modules import engine_patch
from ansible_collections.blackwell.inference.tests.unit.plugins.module_utils.patch_case import (
    CONFIG,
    MODEL,
    PATCHED_CONFIG,
    PATCHED_MODEL,
    Environment,
    entry,
    replace_edit,
)


@pytest.fixture
def node(tmp_path: Path) -> Environment:
    environment = Environment(tmp_path)
    environment.install()
    return environment


def kill_before_rename_of(name: str, run: Callable[[], object]) -> None:
    """Run in a child process that dies before it renames the file into place."""
    child = os.fork()
    if child == 0:
        original = os.replace

        def replace(source: Any, target: Any) -> None:
            if str(target).endswith(name):
                os._exit(9)
            original(source, target)

        os.replace = replace  # type: ignore[assignment]  # in the child only
        run()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def leftovers(node: Environment) -> list[str]:
    return [path for path in node.tree() if path.endswith(".engine_patch")]


class TestKilled:
    def test_the_next_run_completes_it(self, node: Environment) -> None:
        kill_before_rename_of("models/model.py", lambda: node.run(entry()))
        assert (node.path("config.py").read_text(), node.path().read_text()) == (PATCHED_CONFIG, MODEL)
        assert leftovers(node) != []
        assert node.run(entry())["changed"]
        assert (node.path("config.py").read_text(), node.path().read_text()) == (PATCHED_CONFIG, PATCHED_MODEL)
        assert leftovers(node) == []
        assert not node.run(entry())["changed"]

    def test_the_next_run_can_take_it_back(self, node: Environment) -> None:
        kill_before_rename_of("models/model.py", lambda: node.run(entry()))
        assert node.run(entry(), state="reverted")["changed"]
        assert (node.path("config.py").read_text(), node.path().read_text()) == (CONFIG, MODEL)
        assert leftovers(node) == []
        assert not node.run(entry(), state="reverted")["changed"]

    def test_while_it_replaced_an_earlier_version(self, node: Environment) -> None:
        first = [replace_edit("1", "2"), replace_edit('"llama"', '"qwen"', file="config.py", scope="verify")]
        second = [replace_edit("1", "3"), replace_edit('"llama"', '"gemma"', file="config.py", scope="verify")]
        node.run(entry(edits=first))
        kill_before_rename_of("models/model.py", lambda: node.run(entry(edits=second)))
        assert ("gemma" in node.path("config.py").read_text(), "return 2" in node.path().read_text()) == (True, True)
        assert node.run(entry(edits=second))["changed"]
        assert node.path().read_text() == MODEL.replace("return 1", "return 3")
        node.run(state="reverted")
        assert (node.path("config.py").read_text(), node.path().read_text()) == (CONFIG, MODEL)

    def test_before_the_manifest_was_final(self, node: Environment) -> None:
        node.run(entry())
        undisturbed = load_manifest(str(node.state))
        node.run(state="reverted")
        kill_before_rename_of("models/model.py", lambda: node.run(entry()))
        node.run(entry())
        records = load_manifest(str(node.state))
        assert [record._replace(patches=[]) for record in records.values()] == [
            record._replace(patches=[]) for record in undisturbed.values()
        ]

    def test_staged_files_are_swept_even_if_nothing_else_is_to_do(self, node: Environment) -> None:
        node.run(entry())
        stray = node.path().parent / ".model.py.engine_patch"
        stray.write_text("half of it")
        assert node.run(entry(), check=True)["changed"]
        assert node.run(entry())["changed"]
        assert not stray.exists()


@pytest.fixture
def small_disk(node: Environment) -> Iterator[Path]:
    """The engine's models on a file system of their own, 256 KiB large."""
    folder = node.path().parent
    options = ["-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    if subprocess.run(["mount", *options], check=False, capture_output=True).returncode != 0:
        pytest.skip("file systems can't be mounted here")
    node.path().write_text(MODEL)
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def unchanged(node: Environment, message: str) -> None:
    before = {path: content for path, content in node.tree().items() if "/state/" not in path}
    with pytest.raises(StoreError, match=message):
        node.run(entry())
    assert {path: content for path, content in node.tree().items() if "/state/" not in path} == before
    assert load_manifest(str(node.state)) == {}


class TestDisk:
    def test_a_full_disk(self, node: Environment, small_disk: Path) -> None:
        (small_disk / "filler").write_bytes(b"x" * (256 * 1024 - 4096))
        unchanged(node, r"\.model\.py\.engine_patch: No space left on device; no source was changed")
        (small_disk / "filler").unlink()
        assert node.run(entry())["changed"]

    def test_a_read_only_disk(self, node: Environment, small_disk: Path) -> None:
        subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
        unchanged(node, r"\.model\.py\.engine_patch: Read-only file system; no source was changed")
        subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
        assert node.run(entry())["changed"]

    def test_a_state_directory_that_cannot_be_made(self, node: Environment) -> None:
        node.state.parent.joinpath("file").write_text("")
        node.state = node.state.parent / "file" / "state"
        with pytest.raises(LockError, match="name a directory that can be written"):
            node.run(entry())
        assert node.path().read_text() == MODEL


def _run_at_the_gate(node: Environment, gate: tuple[int, int], answer: int) -> int:
    """A child that patches as soon as the gate is opened, and answers whether it changed anything."""
    child = os.fork()
    if child:
        return child
    try:
        os.close(gate[1])
        os.read(gate[0], 1)  # ends when the parent closes its end
        os.write(answer, b"1" if node.run(entry())["changed"] else b"0")
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def test_two_at_once_end_with_one_change_and_complete_files(node: Environment) -> None:
    gate, (answers, answer) = os.pipe(), os.pipe()
    children = [_run_at_the_gate(node, gate, answer) for dummy in range(2)]
    for descriptor in (*gate, answer):
        os.close(descriptor)
    for child in children:
        os.waitpid(child, 0)
    assert sorted(os.read(answers, 8)) == sorted(b"01")
    os.close(answers)
    assert (node.path("config.py").read_text(), node.path().read_text()) == (PATCHED_CONFIG, PATCHED_MODEL)
    assert leftovers(node) == []


def test_the_first_run_ever_began_while_this_one_looked(node: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    def load_and_be_overtaken(directory: str) -> Any:
        monkeypatch.setattr(engine_patch, "load_manifest", load_manifest)
        manifest = load_manifest(directory)
        assert node.run(entry())["changed"]
        return manifest

    monkeypatch.setattr(engine_patch, "load_manifest", load_and_be_overtaken)
    assert not node.run(entry())["changed"]
