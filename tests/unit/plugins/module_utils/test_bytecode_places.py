# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which paths are accepted, which interpreters prove by default, and which trees of bytecode are found."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Iterator

import pytest
from ansible_collections.blackwell.inference.plugins.module_utils._bytecode import Request, invalidate
from ansible_collections.blackwell.inference.plugins.module_utils._bytecode_parallel import LostWorkError, share_out
from ansible_collections.blackwell.inference.plugins.module_utils._bytecode_places import (
    PathError,
    check_paths,
    check_prefix,
    check_pythons,
    interpreters_of,
)
from ansible_collections.blackwell.inference.plugins.module_utils._bytecode_prefix import prefixes_in_use
from ansible_collections.blackwell.inference.tests.unit.plugins.module_utils.bytecode_case import Project, reasons

TAG = sys.implementation.cache_tag


# Paths


def test_paths_are_sorted_into_folders_and_sources(tmp_path: Path) -> None:
    for name in ("a/b", "c", "ab"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("a/b/m.py", "c/m.py", "m.py"):
        (tmp_path / name).write_text("")
    (tmp_path / "link").symlink_to("a")
    names = ("a", "a/b", "ab", "a/b/m.py", "link/b/m.py", "c/m.py", "c//m.py", "m.py")
    targets = check_paths([f"{tmp_path}/{name}" for name in names])
    assert targets.folders == [f"{tmp_path}/a", f"{tmp_path}/ab"]
    assert targets.sources == [f"{tmp_path}/c/m.py", f"{tmp_path}/m.py"]


def test_two_names_of_one_folder_are_one(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to("a")
    assert check_paths([f"{tmp_path}/link", f"{tmp_path}/a"]).folders == [f"{tmp_path}/link"]


def test_a_folder_below_a_cache_is_not_taken_for_searched(tmp_path: Path) -> None:
    (tmp_path / "__pycache__" / "package").mkdir(parents=True)
    paths = [str(tmp_path), f"{tmp_path}/__pycache__/package"]
    assert check_paths(paths).folders == paths


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("missing", "namei -l"),
        ("dangling.py", "namei -l"),
        ("text.txt", "look what it is with: file"),
        ("fifo.py", "look what it is with: file"),
        ("m.pyc", "name the source"),
        ("__pycache__", "where the sources are"),
    ],
)
def test_other_paths_are_refused_by_name(tmp_path: Path, name: str, hint: str) -> None:
    (tmp_path / "text.txt").write_text("")
    os.mkfifo(tmp_path / "fifo.py")
    (tmp_path / "dangling.py").symlink_to("nothing")
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "m.pyc").touch()
    with pytest.raises(PathError, match=f"{name}.*{hint}"):
        check_paths([str(tmp_path / name)])


# Interpreters


def test_the_interpreter_of_the_environment_is_found_upwards(tmp_path: Path) -> None:
    (tmp_path / "env/bin").mkdir(parents=True)
    (tmp_path / "env/lib/python3.12/site-packages").mkdir(parents=True)
    (tmp_path / "env/bin/python3").symlink_to(sys.executable)
    places = [f"{tmp_path}/env/lib/python3.12/site-packages", f"{tmp_path}/env"]
    assert list(interpreters_of(places)) == [f"{tmp_path}/env/bin/python3"] * 2


def test_environments_below_a_path_prove_their_own_bytecode(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        python = tmp_path / name / "bin/python"
        python.parent.mkdir(parents=True)
        python.write_text(f'#!/bin/sh\ntouch {tmp_path}/asked-{name}\nexec {sys.executable} "$@"\n')
        python.chmod(0o755)
        (tmp_path / name / "pyvenv.cfg").write_text("")
        project = Project(tmp_path / name / "lib")
        project.write("m.py", "V = 1\n")
        project.value()
    assert invalidate(Request([str(tmp_path)], [], "")).kept == 3
    assert sorted(path.name for path in tmp_path.glob("asked-*")) == ["asked-a", "asked-b", "asked-c"]


@pytest.mark.parametrize("python", ["python3", "/does/not/exist", "/etc/passwd", "/usr/bin"])
def test_an_interpreter_that_was_named_must_exist(python: str) -> None:
    with pytest.raises(PathError, match="python"):
        check_pythons([python])


# Trees of bytecode


def test_a_prefix_need_not_exist_yet(tmp_path: Path) -> None:
    assert check_prefix("") == []
    assert check_prefix(f"{tmp_path}/later") == []
    assert check_prefix(f"{tmp_path}/") == [str(tmp_path)]


@pytest.mark.parametrize("prefix", ["relative", "/", "//", "/etc/passwd"])
def test_other_prefixes_are_refused(prefix: str) -> None:
    with pytest.raises(PathError):
        check_prefix(prefix)


@pytest.fixture
def prefixed(tmp_path: Path) -> Project:
    """A project whose bytecode, now stale, lies in the tree C(prefix)."""
    project = Project(tmp_path / "app")
    project.environment["PYTHONPYCACHEPREFIX"] = str(tmp_path / "prefix")
    project.write("m.py", "V = 1\n")
    project.value()
    project.write("m.py", "V = 2\n")
    assert project.value() == "1"
    return project


@pytest.mark.parametrize("path", ["", "m.py"])
def test_a_prefix_tree_is_searched(prefixed: Project, tmp_path: Path, path: str) -> None:
    assert prefixed.invalidate(path).examined == 0
    assert reasons(prefixed.invalidate(path, prefix=tmp_path / "prefix")) == {f"m.{TAG}.pyc": "code_differs"}
    assert prefixed.value() == "2"


def test_a_prefix_tree_below_the_path_is_searched_once(prefixed: Project, tmp_path: Path) -> None:
    outcome = prefixed.invalidate("..", prefix=tmp_path / "prefix")
    assert (len(outcome.removed), outcome.examined, outcome.left) == (1, 1, [])


def test_other_sources_in_a_prefix_tree_stay(prefixed: Project, tmp_path: Path) -> None:
    other = Project(tmp_path / "other")
    other.environment = prefixed.environment
    other.write("m.py", "V = 1\n")
    other.value()
    other.write("m.py", "V = 2\n")
    outcome = prefixed.invalidate(prefix=tmp_path / "prefix")
    assert (len(outcome.removed), outcome.examined) == (1, 1)


@pytest.mark.parametrize("path", ["", "m.py"])
def test_sources_are_known_by_all_their_names(tmp_path: Path, path: str) -> None:
    project = Project(tmp_path / "app")
    (tmp_path / "alias").symlink_to("app")
    alias = Project(tmp_path / "alias")
    alias.environment["PYTHONPYCACHEPREFIX"] = str(tmp_path / "prefix")
    alias.write("m.py", "V = 1\n")
    alias.value()
    alias.write("m.py", "V = 2\n")
    assert len(project.invalidate(path, prefix=tmp_path / "prefix").removed) == 1


def test_a_release_that_was_ready_before_the_compilation_is_doubted(tmp_path: Path) -> None:
    for release, text in (("r1", "V = 1\n"), ("r2", "V = 2\n")):
        Project(tmp_path / release).write("m.py", text)
    (tmp_path / "app").symlink_to("r1")
    time.sleep(1.1)
    project = Project(tmp_path / "app")
    project.environment["PYTHONPYCACHEPREFIX"] = str(tmp_path / "prefix")
    project.value()
    (tmp_path / "next").symlink_to("r2")
    (tmp_path / "next").replace(tmp_path / "app")
    assert project.value() == "1"
    assert len(project.invalidate(prefix=tmp_path / "prefix").removed) == 1


def test_links_in_a_prefix_tree_are_not_followed(prefixed: Project, tmp_path: Path) -> None:
    inside = Path(f"{tmp_path}/prefix{tmp_path}")
    (inside / "app").rename(tmp_path / "elsewhere")
    (inside / "app").symlink_to(tmp_path / "elsewhere")
    assert prefixed.invalidate(prefix=tmp_path / "prefix").removed == []
    assert len(list((tmp_path / "elsewhere").iterdir())) == 1


def test_a_proof_in_a_prefix_tree_is_remembered(tmp_path: Path) -> None:
    project = Project(tmp_path / "app")
    project.environment["PYTHONPYCACHEPREFIX"] = str(tmp_path / "prefix")
    project.write("m.py", "V = 1\n")
    project.value()
    time.sleep(1.1)
    outcomes = [project.invalidate(prefix=tmp_path / "prefix") for _run in range(2)]
    assert [(outcome.kept, outcome.proved) for outcome in outcomes] == [(1, 1), (1, 0)]


@contextlib.contextmanager
def waiting(command: list[str], **options: Any) -> Iterator[None]:
    """A process that has started and waits."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield
        process.kill()


WAIT = ["sh", "-c", "echo ready; read line"]


@pytest.fixture
def named_tree(tmp_path: Path) -> Iterator[Path]:
    """A tree that the environment of a process names."""
    tree = tmp_path / "with space"
    tree.mkdir()
    with waiting(WAIT, cwd=tmp_path, env={**os.environ, "PYTHONPYCACHEPREFIX": "with space"}):
        yield tree


def test_prefixes_of_processes_are_found(named_tree: Path) -> None:
    assert str(named_tree) in prefixes_in_use(unit_folders=())


def test_the_option_of_the_interpreter_is_found(tmp_path: Path) -> None:
    code = "print('ready', flush=True); input()"
    for option in (["-X", f"pycache_prefix={tmp_path}"], [f"-Xpycache_prefix={tmp_path}"]):
        with waiting([sys.executable, *option, "-c", code]):
            assert str(tmp_path) in prefixes_in_use(unit_folders=())


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_tree_of_a_third_account_does_not_count(named_tree: Path) -> None:
    os.chown(named_tree, 65534, 65534)
    assert str(named_tree) not in prefixes_in_use(unit_folders=())


def test_prefixes_of_units_are_found(tmp_path: Path) -> None:
    names = ("plain", "quoted", "dropin", "option", "file", "instance")
    trees = {name: tmp_path / name for name in names}
    for tree in trees.values():
        tree.mkdir()
    units = tmp_path / "units"
    (units / "b@.service.d").mkdir(parents=True)
    (tmp_path / "one.env").write_text(f"A=b\nPYTHONPYCACHEPREFIX={trees['file']}\n")
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "main.env").write_text(f'PYTHONPYCACHEPREFIX="{trees["instance"]}"\n')
    (units / "a.service").write_text(
        f"[Service]\nEnvironment=A=b PYTHONPYCACHEPREFIX={trees['plain']} C=d\n"
        f'Environment="PYTHONPYCACHEPREFIX={trees["quoted"]}"\n'
        f"ExecStart=/bin/python -X pycache_prefix={trees['option']} -m server\n"
        f"EnvironmentFile=-{tmp_path}/one.env\nEnvironmentFile=-{tmp_path}/missing.env\n"
        f"EnvironmentFile={tmp_path}/etc/%i.env\n"
    )
    (units / "b@.service.d" / "cache.conf").write_text(
        f"[Service]\nEnvironment=PYTHONPYCACHEPREFIX={trees['dropin']}\n"
        "Environment=PYTHONPYCACHEPREFIX=%S/unknown\nEnvironment=PYTHONPYCACHEPREFIX=/usr/%i\n"
    )
    assert prefixes_in_use(proc=str(tmp_path / "no-proc"), unit_folders=[str(units)]) == sorted(
        map(str, trees.values())
    )


def test_unset_means_the_trees_in_use(prefixed: Project, tmp_path: Path) -> None:
    with waiting(WAIT, env={**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path / "prefix")}):
        outcome = invalidate(Request([str(prefixed.root)], [sys.executable]))
    assert str(tmp_path / "prefix") in outcome.prefixes
    assert len(outcome.removed) == 1


# Sharing work out


def test_all_work_is_done_once() -> None:
    assert sorted(share_out(range(5000), lambda job: job * 2, 4)) == list(range(0, 10_000, 2))
    assert share_out([], lambda job: job, 4) == []


@pytest.mark.parametrize("fail", [lambda job: os._exit(3), lambda job: 1 // 0, lambda job: os.kill(os.getpid(), 9)])
def test_lost_work_is_an_error(fail: object) -> None:
    with pytest.raises(LostWorkError):
        share_out([1, 2, 3], fail, 2)  # type: ignore[arg-type]  # any callable will do


def test_large_trees_are_searched_completely(tmp_path: Path) -> None:
    project = Project(tmp_path / "app")
    for number in range(300):
        project.write(f"p{number}/m.py", "V = 1\n")
        project.write(f"p{number}/deep/m.py", "V = 1\n")
    project.run(f"import compileall; compileall.compile_dir({str(project.root)!r}, quiet=1)")
    project.write("p299/deep/m.py", "V = 2\n")
    (project.root / "p1" / "link").symlink_to("/usr/lib")
    outcome = project.invalidate()
    assert [removed.path for removed in outcome.removed] == [f"{project.root}/p299/deep/__pycache__/m.{TAG}.pyc"]
    assert (outcome.examined, outcome.kept, len(outcome.left)) == (600, 599, 1)
