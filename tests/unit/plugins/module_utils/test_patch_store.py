# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writing all files or none: interrupted, refused or killed at every step that touches the disk."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.inference.plugins.module_utils import _patch_store
from ansible_collections.blackwell.inference.plugins.module_utils._patch_store import (
    AppliedPatch,
    FileRecord,
    Manifest,
    StoreError,
    Write,
    commit,
    digest_of,
    dump_manifest,
    load_manifest,
    load_original,
    staging_path,
)

STEPS = ("open", "write", "fsync", "fchmod", "replace")


class Case:
    """Two files to be written, with their manifests."""

    def __init__(self, folder: Path) -> None:
        self.state = str(folder / "state")
        self.files = [folder / "a.py", folder / "b.py"]
        self.before, self.after = [b"a = 1\n", b"b = 1\n"], [b"a = 2\n", b"b = 2\n"]
        for path, content in zip(self.files, self.before, strict=True):
            path.write_bytes(content)
        self.old: Manifest = {}
        self.new = {str(path): self.record(index) for index, path in enumerate(self.files)}

    def record(self, index: int) -> FileRecord:
        pristine, result = digest_of(self.before[index]), digest_of(self.after[index])
        patches = [AppliedPatch("p", [{"kind": "diff"}], [], "now", "me")]
        path = str(self.files[index])
        return FileRecord(path, "x.py", "/python", "engine", "1.0", pristine, result, [], None, patches)

    def commit(self) -> None:
        contents = zip(self.files, self.before, self.after, strict=True)
        writes = [Write(str(path), before, after) for path, before, after in contents]
        commit(self.state, writes, self.old, self.new, self.before)

    def contents(self) -> list[bytes]:
        return [path.read_bytes() for path in self.files]

    def staged(self) -> list[str]:
        return [path for path in map(staging_path, map(str, self.files)) if os.path.lexists(path)]


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


def at_step(number: int, action: Callable[[str], None]) -> Iterator[pytest.MonkeyPatch]:
    """Let the number-th call of any function of STEPS run an action instead."""
    count = 0

    def replacement(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal count
            count += 1
            if count == number:
                action(str(arguments[0]))
            return original(*arguments, **options)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in STEPS:
            patch.setattr(os, name, replacement(name, getattr(os, name)))
        yield patch


def count_steps(folder: Path) -> int:
    steps = 0

    def never(path: str) -> None:
        raise AssertionError(path)

    while True:
        steps += 1
        (folder / str(steps)).mkdir()
        try:
            for dummy in at_step(steps, never):
                Case(folder / str(steps)).commit()
        except AssertionError:
            continue
        return steps - 1


def test_all_is_written(case: Case) -> None:
    case.commit()
    assert case.contents() == case.after
    assert load_manifest(case.state) == case.new
    assert [load_original(case.state, digest_of(content)) for content in case.before] == case.before
    assert case.staged() == []


def test_there_are_enough_steps_to_fail_at(tmp_path: Path) -> None:
    assert count_steps(tmp_path) > 20


@pytest.mark.parametrize("number", range(1, 40))
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
def test_a_refused_step_leaves_all_files_or_none(case: Case, number: int, code: int) -> None:
    def refuse(path: str) -> None:
        raise OSError(code, os.strerror(code), path)

    for dummy in at_step(number, refuse):
        try:
            case.commit()
        except StoreError as error:
            assert os.strerror(code) in str(error)
            written = "all sources are written" in str(error)
            assert case.contents() == (case.after if written else case.before)
            assert written or "no source was changed" in str(error)
    assert case.staged() == []
    assert_recognised(case)
    case.old = load_manifest(case.state)
    if case.contents() == case.before:
        case.commit()
    assert case.contents() == case.after


@pytest.mark.parametrize("number", range(1, 40))
def test_a_killed_run_leaves_only_what_the_next_one_recognises(case: Case, number: int) -> None:
    child = os.fork()
    if child == 0:
        for dummy in at_step(number, lambda path: os._exit(9)):
            case.commit()
        os._exit(0)
    os.waitpid(child, 0)
    assert all(content in pair for content, *pair in zip(case.contents(), case.before, case.after, strict=True))
    assert_recognised(case)
    case.before, case.old = case.contents(), load_manifest(case.state)
    case.commit()
    assert case.contents() == case.after
    assert load_manifest(case.state) == case.new
    assert case.staged() == []


def assert_recognised(case: Case) -> None:
    """Every file is untouched, or the manifest knows its digest and the original is there."""
    manifest = load_manifest(case.state)
    for index, content in enumerate(case.contents()):
        record = manifest.get(str(case.files[index]))
        pristine = digest_of([b"a = 1\n", b"b = 1\n"][index])
        if digest_of(content) != pristine:
            assert record is not None
            assert digest_of(content) in {record.result, *record.earlier}
            assert load_original(case.state, pristine) is not None


def test_a_failed_rename_is_undone(case: Case) -> None:
    original = os.replace

    def replace(source: str, target: str) -> None:
        if source == staging_path(str(case.files[1])):
            raise OSError(errno.EIO, os.strerror(errno.EIO), source)
        original(source, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", replace)
        with pytest.raises(StoreError, match=r"b\.py.*; no source was changed"):
            case.commit()
    assert case.contents() == case.before
    assert load_manifest(case.state) == {}
    assert case.staged() == []
    assert os.listdir(os.path.join(case.state, "originals")) == []


def test_while_files_are_written_the_manifest_knows_the_earlier_results(case: Case) -> None:
    case.commit()
    case.old, case.before = case.new, case.after
    case.after = [b"a = 3\n", b"b = 3\n"]
    case.new = {
        key: record._replace(result=digest_of(content))
        for (key, record), content in zip(case.old.items(), case.after, strict=True)
    }
    seen: list[Manifest] = []
    with pytest.MonkeyPatch.context() as patch:
        original = os.replace

        def replace(source: str, target: str) -> None:
            if target.endswith(".py"):
                seen.append(load_manifest(case.state))
            original(source, target)

        patch.setattr(os, "replace", replace)
        case.commit()
    key = str(case.files[0])
    assert [digest_of(b"a = 2\n")] == seen[0][key].earlier
    assert load_manifest(case.state)[key].earlier == []


def test_a_planted_file_at_the_staging_place_is_not_written_through(case: Case, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    os.symlink(victim, staging_path(str(case.files[0])))
    case.commit()
    assert victim.read_text() == "untouched"
    assert case.contents() == case.after


def test_not_even_one_that_is_planted_at_the_last_moment(case: Case, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    os.symlink(victim, staging_path(str(case.files[0])))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_patch_store, "remove_leftovers", lambda paths: None)
        with pytest.raises(StoreError, match="File exists"):
            case.commit()
    assert victim.read_text() == "untouched"
    assert case.contents() == case.before


def test_equal_manifests_are_equal_bytes(case: Case) -> None:
    assert dump_manifest(dict(reversed(list(case.new.items())))) == dump_manifest(case.new)
