# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Proofs: by whom, how they survive crashes, and how they are remembered."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.inference.plugins.module_utils import _bytecode_judge, _bytecode_prove
from ansible_collections.blackwell.inference.plugins.module_utils._bytecode_prove import (
    Interpreters,
    Worker,
    WorkerError,
    worker_command,
)
from ansible_collections.blackwell.inference.tests.unit.plugins.module_utils.bytecode_case import (
    ENVIRONMENT,
    Project,
    cache,
    reasons,
)
from ansible_collections.blackwell.inference.tests.unit.plugins.module_utils.bytecode_pythons import chosen, found

TAG = sys.implementation.cache_tag
PYC = f"m.{TAG}.pyc"
SOURCE = b"def f(x):\n    try:\n        return x + 1\n    finally:\n        del x\n"


def script(path: Path, text: str) -> str:
    """An executable."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("name", chosen())
@pytest.mark.parametrize("flags", [[], ["-X", "no_debug_ranges"]], ids=["", "without columns"])
def test_every_interpreter_proves_its_own_code(name: str, flags: list[str]) -> None:
    code = "import marshal, sys; sys.stdout.buffer.write(marshal.dumps(compile(sys.stdin.buffer.read(), 'm', 'exec')))"
    command = [chosen()[name], *flags, "-c", code]
    compiled = subprocess.run(command, input=SOURCE, env=ENVIRONMENT, capture_output=True, check=True).stdout
    worker = Worker(chosen()[name])
    try:
        assert worker.ask("prove", "0", SOURCE, compiled) == "same"
        assert worker.ask("prove", "0", SOURCE.replace(b"1", b"2"), compiled) == "code_differs"
        assert worker.ask("prove", "0", b"\n" + SOURCE, compiled) == "code_differs"
    finally:
        worker.stop()


@pytest.mark.parametrize("name", chosen())
@pytest.mark.parametrize(
    "source",
    [b"V = " + b"9" * 5000, b"V = 1\nW = " + b"+".join([b"V"] * 4000)],
    ids=["long number", "long sum"],
)
def test_limits_that_a_program_may_lift_are_lifted_for_the_proof(name: str, source: bytes) -> None:
    code = (
        "import marshal, sys; sys.setrecursionlimit(10000)\n"
        "sys.stdout.buffer.write(marshal.dumps(compile(sys.stdin.buffer.read(), 'm', 'exec')))"
    )
    command = [chosen()[name], "-X", "int_max_str_digits=0", "-c", code]
    done = subprocess.run(command, input=source, env=ENVIRONMENT, capture_output=True, check=False)
    if done.returncode:
        pytest.skip("this interpreter can't compile it at all")
    worker = Worker(chosen()[name])
    try:
        assert worker.ask("prove", "0", source, done.stdout) == "same"
    finally:
        worker.stop()


@pytest.mark.parametrize("name", chosen())
def test_what_runs_in_another_order_is_removed(tmp_path: Path, name: str) -> None:
    project = Project(tmp_path / "app", chosen()[name])
    project.write("m.py", "V = [x for x in {8, 0, 16, 24, 32, 40, 1, 9}]\n")
    project.value()
    assert project.invalidate().kept == 1
    project.write("m.py", "V = [x for x in {9, 1, 40, 32, 24, 16, 0, 8}]\n")
    before = project.value()
    outcome = project.invalidate()
    project.value()
    assert bool(outcome.removed) == (before != project.value())


def test_a_worker_starts_again_after_it_died() -> None:
    worker = Worker(sys.executable)
    try:
        with pytest.raises(WorkerError):
            worker.ask("one word too many", "0", b"", b"")
        assert worker.ask("hash", "1", b"", b"") == "broken"
    finally:
        worker.stop()


def test_a_worker_that_does_not_answer_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_bytecode_prove, "_ANSWER_MAY_TAKE", 0.2)
    worker = Worker(script(tmp_path / "python", "#!/bin/sh\necho 1 sleepy\nexec sleep 60\n"))
    with pytest.raises(WorkerError, match="did not answer"):
        worker.ask("prove", "0", b"", b"")


@pytest.mark.parametrize("begin", ["printf 1", "echo 1 sleepy"], ids=["half a line", "no reader"])
def test_a_worker_that_stops_in_the_middle_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begin: str
) -> None:
    monkeypatch.setattr(_bytecode_prove, "_STARTING_MAY_TAKE", 0.2)
    monkeypatch.setattr(_bytecode_prove, "_ANSWER_MAY_TAKE", 0.2)
    monkeypatch.setattr(_bytecode_prove, "_ANSWER_MAY_TAKE_PER_BYTE", 0.0)
    python = script(tmp_path / "python", f"#!/bin/sh\n{begin}\nexec sleep 60\n")
    with pytest.raises(WorkerError, match="did not answer"):
        Worker(python).ask("prove", "0", b"#" * (1 << 20), b"")


def test_an_answer_that_means_nothing_proves_nothing(tmp_path: Path) -> None:
    project = Project(tmp_path / "app")
    project.write("m.py", "V = 1\n")
    project.value()
    number = int.from_bytes((project.root / "__pycache__" / PYC).read_bytes()[:2], "little")
    text = f"#!/bin/sh\necho {number} {TAG}\nread request\necho gargle\nexec sleep 60\n"
    project.python = script(tmp_path / "python", text)
    outcome = project.invalidate(check=True)
    assert (reasons(outcome), outcome.proved) == ({PYC: "unproved"}, 0)
    assert project.python in outcome.warnings[0]


@pytest.mark.parametrize("text", ["#!/bin/sh\nexit 1\n", "#!/bin/sh\necho hello\n", "#!/does/not/exist\n", ""])
def test_what_is_no_interpreter_is_passed_over_and_named(tmp_path: Path, text: str) -> None:
    interpreters = Interpreters([script(tmp_path / "python", text), sys.executable])
    try:
        worker = interpreters.find(Worker(sys.executable).number)
        assert worker is not None
        assert worker.python == sys.executable
        assert len(interpreters.unusable) == 1
    finally:
        interpreters.stop()


def test_the_interpreter_of_the_environment_is_preferred(tmp_path: Path) -> None:
    pythons = []
    for name in ("a", "a/nested", "b"):
        (tmp_path / name / "bin").mkdir(parents=True)
        (tmp_path / name / "bin" / "python").symlink_to(os.path.realpath(sys.executable))
        pythons.append(str(tmp_path / name / "bin" / "python"))
    interpreters = Interpreters(pythons)
    assert interpreters.at_home(str(tmp_path / "b/lib/m.py")) == pythons[2]
    assert interpreters.at_home(str(tmp_path / "a/nested/lib/m.py")) == pythons[1]
    assert interpreters.at_home("/elsewhere/m.py") is None
    number = Worker(sys.executable).number
    try:
        for preferred, expected in ((pythons[2], pythons[2]), (None, pythons[0])):
            worker = interpreters.find(number, preferred)
            assert worker is not None
            assert worker.python == expected
    finally:
        interpreters.stop()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_root_runs_no_interpreter_of_others_as_root(tmp_path: Path) -> None:
    python = script(tmp_path / "bin" / "python", "#!/bin/sh\nid -u > id\nexec sleep 60\n")
    assert worker_command(python)[0] == python
    os.chown(tmp_path / "bin", 65534, 65534)
    command = worker_command(python)
    assert command[0] == sys.executable
    for parent in (tmp_path, *tmp_path.parents[:3]):
        parent.chmod(parent.stat().st_mode | 0o011)
    echo = [*command[:7], "/bin/sh", "-c", "id -u; id -g; id -G"]
    done = subprocess.run(echo, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["65534"] * 3


# What can't be proved


def test_without_an_interpreter_the_doubtful_goes_and_a_warning_says_why(tmp_path: Path) -> None:
    others = [name for name in found() if found()[name] != sys.executable and name != f"3.{sys.version_info[1]}"]
    if not others:
        pytest.skip("needs two interpreters")
    project = Project(tmp_path / "app", found()[others[0]])
    project.write("m.py", "V = 1\n")
    project.value()
    project.python = sys.executable
    outcome = project.invalidate()
    assert list(reasons(outcome).values()) == ["unproved"]
    assert "no interpreter with magic number" in outcome.warnings[0]


def test_the_hash_needs_no_interpreter(tmp_path: Path) -> None:
    for name, python in chosen().items():
        project = Project(tmp_path / name, python)
        for text, expected in (("V = 1\n", []), ("V = 2\n", ["hash_differs"])):
            project.write("m.py", text)
            if not expected:
                project.compile("m.py", "UNCHECKED_HASH")
            assert list(reasons(project.invalidate(prove=False)).values()) == expected


def test_other_interpreters_hash_their_own_pycs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(magic: bytes, source: bytes) -> bytes:
        raise AssertionError("pure Python is slow")

    monkeypatch.setattr(_bytecode_prove, "source_hash", refuse)
    for name, python in chosen().items():
        project = Project(tmp_path / name, python)
        project.write("m.py", "V = 1\n")
        project.compile("m.py", "CHECKED_HASH")
        assert project.invalidate().kept == 1
        project.write("m.py", "V = 2\n")
        assert list(reasons(project.invalidate()).values()) == ["hash_differs"]


def test_bytecode_of_import_hooks_is_kept_if_times_prove_it(tmp_path: Path) -> None:
    project = Project(tmp_path / "app")
    project.write("m.py", "V = 1\n")
    time.sleep(1.1)
    project.compile("m.py", cfile=str(project.root / "__pycache__" / f"m.{TAG}-pytest-8.3.4.pyc"))
    assert project.invalidate().kept == 1
    os.utime(project.root / "m.py")
    assert list(reasons(project.invalidate()).values()) == ["unproved"]


def test_optimization_beyond_the_second_level_is_the_second(tmp_path: Path) -> None:
    project = Project(tmp_path / "app")
    project.write("m.py", '"""Words."""\nassert True\nV = 1\n')
    project.value("m", "-OOO")
    assert project.pycs() == [f"__pycache__/m.{TAG}.opt-3.pyc"]
    assert project.invalidate().kept == 1
    project.write("m.py", '"""Words."""\nassert True\nV = 2\n')
    assert list(reasons(project.invalidate()).values()) == ["code_differs"]


# Memory


@pytest.fixture
def doubtful(tmp_path: Path) -> Project:
    """A project whose bytecode is fresh, which only a proof can tell."""
    project = Project(tmp_path / "app")
    project.write("m.py", "V = 1\n")
    project.value()
    time.sleep(1.1)  # a source that has just been changed is not sealed
    return project


def test_a_proof_is_remembered(doubtful: Project) -> None:
    assert (doubtful.invalidate().proved, doubtful.invalidate().proved) == (1, 0)


def test_check_mode_remembers_nothing(doubtful: Project) -> None:
    assert (doubtful.invalidate(check=True).proved, doubtful.invalidate(check=True).proved) == (1, 1)


def test_a_remembered_proof_ends_with_an_edit(doubtful: Project) -> None:
    doubtful.invalidate()
    doubtful.write("m.py", "V = 2\n")
    assert reasons(doubtful.invalidate()) == {PYC: "code_differs"}


def test_a_remembered_proof_does_not_move_with_a_copy(doubtful: Project, tmp_path: Path) -> None:
    doubtful.invalidate()
    (tmp_path / "copy").mkdir()
    subprocess.run(["cp", "-a", f"{doubtful.root}/.", tmp_path / "copy"], check=True)
    copy = Project(tmp_path / "copy")
    copy.write("m.py", "V = 2\n")
    assert reasons(copy.invalidate()) == {PYC: "code_differs"}


def test_a_proof_ends_when_the_bytecode_is_written_again_under_its_old_time(doubtful: Project) -> None:
    doubtful.invalidate()
    pyc = doubtful.root / "__pycache__" / PYC
    sealed = pyc.stat()
    stale = pyc.read_bytes().replace(b"\xe9\x01\x00\x00\x00", b"\xe9\x02\x00\x00\x00")
    assert stale != pyc.read_bytes()
    time.sleep(2.1)
    pyc.write_bytes(stale)
    os.utime(pyc, ns=(sealed.st_atime_ns, sealed.st_mtime_ns))
    assert reasons(doubtful.invalidate()) == {PYC: "code_differs"}


def note_opened_pycs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A list that grows with every pyc that is opened."""
    opened: list[str] = []
    real_open = os.open

    def noted_open(path: Any, *arguments: Any, **options: Any) -> int:
        opened.extend(name for name in [str(path)] if name.endswith(".pyc"))
        return real_open(path, *arguments, **options)

    monkeypatch.setattr(os, "open", noted_open)
    return opened


def test_what_was_proved_is_not_opened_again(doubtful: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        doubtful.write(f"n{number}.py", f"V = {number}\n")
        doubtful.compile(f"n{number}.py")
    time.sleep(1.1)
    for source in doubtful.root.glob("*.py"):
        os.utime(source, (1, 1))
    time.sleep(1.1)
    assert doubtful.invalidate().proved == 4
    opened = note_opened_pycs(monkeypatch)
    assert doubtful.invalidate().kept == 4
    assert len(opened) == 1, "the first one says that they are sealed"


@pytest.mark.parametrize("mode", ["TIMESTAMP", "CHECKED_HASH", "UNCHECKED_HASH"])
def test_what_needs_no_proof_is_not_opened_again_either(
    doubtful: Project, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    for number in range(5):
        doubtful.write(f"n{number}.py", f"V = {number}\n")
    time.sleep(1.1)
    for source in doubtful.root.glob("*.py"):
        doubtful.compile(source.name, mode)
    assert doubtful.invalidate().proved == 0
    opened = note_opened_pycs(monkeypatch)
    assert doubtful.invalidate().kept == 6
    assert len(opened) <= 2, "the newest, which keeps its times, and the first one that says that they are sealed"
    opened.clear()
    doubtful.write("m.py", "V = 2\n")
    assert list(reasons(doubtful.invalidate())) == [PYC]


def with_a_newer_neighbour(project: Project) -> None:
    """Compile m.py so that it may be sealed, which the newest bytecode of a folder never is."""
    project.write("newest.py", "V = 1\n")
    time.sleep(1.1)
    project.compile("m.py")
    time.sleep(0.05)
    project.compile("newest.py")


def test_check_mode_seals_nothing(doubtful: Project) -> None:
    with_a_newer_neighbour(doubtful)
    before = (doubtful.root / "__pycache__" / PYC).stat()
    assert (doubtful.invalidate(check=True).kept, doubtful.invalidate(check=True).proved) == (2, 0)
    after = (doubtful.root / "__pycache__" / PYC).stat()
    assert (after.st_mtime_ns, after.st_ctime_ns) == (before.st_mtime_ns, before.st_ctime_ns)


def test_a_seal_spares_the_neighbours_of_what_is_removed(doubtful: Project) -> None:
    doubtful.write("n.py", "V = 1\n")
    time.sleep(1.1)
    doubtful.compile("m.py")
    doubtful.compile("n.py")
    doubtful.invalidate()
    doubtful.write("n.py", "V = 22\n")
    assert reasons(doubtful.invalidate()) == {f"n.{TAG}.pyc": "size_differs"}
    outcome = doubtful.invalidate()
    assert (outcome.kept, outcome.proved) == (1, 0)


def test_hard_linked_bytecode_that_times_clear_keeps_its_times(doubtful: Project) -> None:
    with_a_newer_neighbour(doubtful)
    pyc = doubtful.root / "__pycache__" / PYC
    os.link(pyc, doubtful.root / "other-name")
    before = pyc.stat().st_mtime_ns
    outcome = doubtful.invalidate()
    assert (outcome.kept, outcome.proved, pyc.stat().st_mtime_ns) == (2, 0, before)


def test_a_run_on_one_source_costs_its_neighbours_no_proof(doubtful: Project) -> None:
    doubtful.write("n.py", "V = 1\n")
    time.sleep(1.1)
    doubtful.compile("n.py")
    time.sleep(0.2)
    doubtful.compile("m.py")  # the newest one clears the whole folder
    assert doubtful.invalidate("m.py", prove=False).kept == 1
    assert [doubtful.invalidate(prove=False).kept for _run in range(2)] == [2, 2]


def with_whole_blocks(project: Project, name: str) -> None:
    """Write a source whose bytecode is as long as the smallest block."""
    project.write(name, "V = ''\n")
    project.compile(name)
    missing = 512 - (cache(project) / f"{name[:-3]}.{TAG}.pyc").stat().st_size
    for length in range(missing - 8, missing + 8):
        project.write(name, f"V = {'x' * length!r}\n")
        project.compile(name)
        if (cache(project) / f"{name[:-3]}.{TAG}.pyc").stat().st_size == 512:
            return
    raise AssertionError("no length fits")


@pytest.mark.parametrize("obstacle", ["whole blocks", "hard link"])
def test_what_can_not_be_sealed_keeps_the_newest_as_its_witness(doubtful: Project, obstacle: str) -> None:
    with_whole_blocks(doubtful, "n.py")
    time.sleep(1.1)
    doubtful.compile("m.py" if obstacle == "hard link" else "n.py")
    if obstacle == "hard link":
        os.link(cache(doubtful) / PYC, doubtful.root / "other-name")
    time.sleep(0.2)
    doubtful.compile("n.py" if obstacle == "hard link" else "m.py")
    assert [doubtful.invalidate(prove=False).kept for _run in range(3)] == [2, 2, 2]


def test_a_seal_holds_although_a_server_has_another_clock(doubtful: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    there = time.time
    for ahead in (5, -5):
        monkeypatch.setattr(time, "time", lambda ahead=ahead: there() + ahead)
        os.utime(cache(doubtful) / PYC)
        assert [doubtful.invalidate().proved for _run in range(2)] == [1, 0]


def test_nothing_is_sealed_where_times_have_no_fractions(doubtful: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_bytecode_judge, "SECOND", 1)
    with_a_newer_neighbour(doubtful)
    before = (cache(doubtful) / PYC).stat().st_ctime_ns
    assert doubtful.invalidate(prove=False).kept == 2
    assert (cache(doubtful) / PYC).stat().st_ctime_ns == before


def test_a_touched_source_needs_one_proof_only(doubtful: Project) -> None:
    os.utime(doubtful.root / "m.py", (1, 1))
    time.sleep(1.1)
    assert (doubtful.invalidate().proved, doubtful.invalidate().proved) == (1, 0)


def test_a_linked_source_needs_one_proof_only(tmp_path: Path) -> None:
    project = Project(tmp_path / "app")
    (tmp_path / "target.py").write_text("V = 1\n")
    (project.root / "m.py").symlink_to(tmp_path / "target.py")
    project.value()
    time.sleep(1.1)
    assert (project.invalidate().proved, project.invalidate().proved) == (1, 0)


def test_hard_linked_bytecode_is_proved_for_each_source(doubtful: Project, tmp_path: Path) -> None:
    twin = Project(tmp_path / "twin")
    twin.write("m.py", "V = 2\n")
    (twin.root / "__pycache__").mkdir()
    os.link(doubtful.root / "__pycache__" / PYC, twin.root / "__pycache__" / PYC)
    assert doubtful.invalidate().kept == 1
    assert reasons(twin.invalidate()) == {PYC: "code_differs"}


def test_a_hash_needs_no_proof(doubtful: Project) -> None:
    doubtful.compile("m.py", "CHECKED_HASH")
    os.utime(doubtful.root / "m.py")
    time.sleep(0.2)
    (doubtful.root / "__pycache__" / "later").touch()
    outcome = doubtful.invalidate()
    assert (outcome.kept, outcome.proved) == (1, 0)


def test_what_was_written_in_place_below_a_hash_needs_one_proof_only(doubtful: Project) -> None:
    doubtful.compile("m.py", "CHECKED_HASH")
    time.sleep(0.1)
    pyc = doubtful.root / "__pycache__" / PYC
    pyc.write_bytes(pyc.read_bytes())
    assert (doubtful.invalidate().proved, doubtful.invalidate().proved) == (1, 0)


def test_a_young_source_is_proved_again(tmp_path: Path) -> None:
    project = Project(tmp_path / "app")
    project.write("m.py", "V = 1\n")
    project.value()
    assert (project.invalidate().proved, project.invalidate().proved) == (1, 1)


def test_many_proofs_are_shared_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_bytecode_prove, "_PYCS_PER_WORKER", 5)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2})
    project = Project(tmp_path / "app")
    for number in range(30):
        project.write(f"m{number}.py", f"V = {number}\n")
    project.run(f"import compileall; compileall.compile_dir({str(project.root)!r}, quiet=1)")
    project.write("m7.py", "V = 8\n")
    outcome = project.invalidate()
    assert reasons(outcome) == {f"m7.{TAG}.pyc": "code_differs"}
    assert (outcome.kept, outcome.proved) == (29, 30)


def test_nothing_is_proved_for_what_times_prove(tmp_path: Path) -> None:
    project = Project(tmp_path / "app")
    project.write("m.py", "V = 1\n")
    time.sleep(1.1)
    project.value()
    outcome = project.invalidate()
    assert (outcome.kept, outcome.proved) == (1, 0)
    shutil.rmtree(project.root)
