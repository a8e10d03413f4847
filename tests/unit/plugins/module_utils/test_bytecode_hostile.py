# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Trees that are damaged, surprising, or built to lead a purge astray. Each has one documented outcome."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Callable, Iterator

import pytest
from ansible_collections.blackwell.inference.plugins.module_utils import (
    _bytecode,
    _bytecode_files,
    _bytecode_judge,
    _bytecode_scan,
)
from ansible_collections.blackwell.inference.plugins.module_utils._bytecode import Request, invalidate
from ansible_collections.blackwell.inference.tests.unit.plugins.module_utils.bytecode_case import (
    LONG_AGO,
    Project,
    cache,
    left,
    reasons,
    stale_project,
)
from ansible_collections.blackwell.inference.tests.unit.plugins.module_utils.bytecode_pythons import chosen

TAG = sys.implementation.cache_tag
PYC = f"m.{TAG}.pyc"
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project with one module that was imported, and then edited so that its bytecode is stale."""
    return stale_project(tmp_path / "app")


# Links and other file systems


def in_own_mounts(mount: str, root: Path, code: str) -> str:
    """What code prints that is run after a shell command has mounted something, seen by nobody else."""
    code = (
        "import os, sys; sys.path[:0] = sys.argv[3:]\n"
        "from ansible_collections.blackwell.inference.plugins.module_utils._bytecode import Request, invalidate\n"
    ) + code
    command = ["sh", "-c", f'{mount} && exec "$@"', str(root), sys.executable, "-c", code, str(root), sys.executable]
    done = subprocess.run(["unshare", "-m", *command, *sys.path], capture_output=True, text=True, check=False)
    if "unshare failed" in done.stderr or "mount" in done.stderr:
        pytest.skip("may not mount here")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_linked_cache_is_not_followed(project: Project, tmp_path: Path) -> None:
    cache(project).rename(tmp_path / "elsewhere")
    cache(project).symlink_to(tmp_path / "elsewhere")
    for outcome in (project.invalidate(), project.invalidate("m.py")):
        assert (outcome.removed, left(outcome)) == ([], {"__pycache__": "link"})
    assert (tmp_path / "elsewhere" / PYC).exists()


def test_a_linked_folder_that_leaves_the_tree_is_named_and_not_followed(project: Project, tmp_path: Path) -> None:
    outside = stale_project(tmp_path / "outside")
    (project.root / "package").symlink_to(outside.root)
    outcome = project.invalidate()
    assert len(outcome.removed) == 1
    assert left(outcome) == {"package": "link"}
    assert (cache(outside) / PYC).exists()


def test_a_linked_folder_inside_the_tree_is_searched_once(project: Project) -> None:
    (project.root / "lib").mkdir()
    (project.root / "lib64").symlink_to("lib")
    inside = stale_project(project.root / "lib")
    outcome = project.invalidate()
    assert (len(outcome.removed), outcome.left) == (2, [])
    assert not (cache(inside) / PYC).exists()


def test_a_link_with_the_name_of_a_pyc_stays(project: Project, tmp_path: Path) -> None:
    (cache(project) / PYC).rename(tmp_path / "kept.pyc")
    (cache(project) / PYC).symlink_to(tmp_path / "kept.pyc")
    outcome = project.invalidate()
    assert (outcome.removed, left(outcome)) == ([], {PYC: "link"})
    assert (tmp_path / "kept.pyc").exists()


def test_a_linked_source_is_judged_by_what_it_links_to(tmp_path: Path) -> None:
    project = Project(tmp_path / "app")
    for text in ("1", "2"):
        (tmp_path / text).write_text(f"V = {text}\n")
        os.utime(tmp_path / text, (LONG_AGO, LONG_AGO))
    (project.root / "m.py").symlink_to(tmp_path / "1")
    time.sleep(1.1)
    assert project.value() == "1"
    assert project.invalidate().kept == 1
    (project.root / "m.py").unlink()
    (project.root / "m.py").symlink_to(tmp_path / "2")
    assert project.value() == "1", "the trap: the target has long had this ctime"
    assert reasons(project.invalidate()) == {PYC: "code_differs"}


def test_a_given_path_may_be_a_link(project: Project, tmp_path: Path) -> None:
    (tmp_path / "current").symlink_to("app")
    assert len(project.invalidate(str(tmp_path / "current")).removed) == 1


@AS_ROOT
def test_a_file_mounted_over_a_source_is_seen(tmp_path: Path) -> None:
    project = Project(tmp_path / "app")
    project.write("m.py", "V = 1\n")
    other = tmp_path / "other.py"
    other.write_text("V = 2\n")
    os.utime(other, (LONG_AGO, LONG_AGO))
    time.sleep(1.1)
    project.value()
    code = "print(invalidate(Request([sys.argv[1]], [sys.argv[2]], '')).removed[0].reason)"
    assert in_own_mounts(f"mount --bind {other} $0/m.py", project.root, code) == "code_differs\n"


# What is no file


@pytest.fixture(params=["fifo", "socket", "device", "folder"])
def make_special(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Makes a file that is none."""

    def make_socket(path: Path) -> None:
        monkeypatch.chdir(path.parent)
        socket.socket(socket.AF_UNIX).bind(path.name)

    def make_device(path: Path) -> None:
        try:
            os.mknod(path, 0o600 | 0o020000, os.makedev(1, 5))
        except PermissionError:
            pytest.skip("may not make devices here")

    makers = {"fifo": os.mkfifo, "socket": make_socket, "device": make_device, "folder": os.mkdir}
    return makers[request.param]


def test_what_is_no_file_is_never_opened(project: Project, make_special: Callable[[Path], None]) -> None:
    (cache(project) / PYC).unlink()
    make_special(cache(project) / PYC)
    outcome = project.invalidate()
    assert (outcome.removed, outcome.errors, left(outcome)) == ([], [], {PYC: "special"})


def test_a_source_that_is_no_file_is_no_source(project: Project, make_special: Callable[[Path], None]) -> None:
    (project.root / "m.py").unlink()
    make_special(project.root / "m.py")
    assert left(project.invalidate()) == {PYC: "orphan"}


def test_a_fifo_beside_a_source_stays(project: Project) -> None:
    os.mkfifo(project.root / "m.pyc")
    assert left(project.invalidate("m.py")) == {"m.pyc": "special"}
    assert left(project.invalidate()) == {"m.pyc": "special"}


def test_folders_may_have_the_names_of_files(project: Project) -> None:
    for name in ("package.py", "package.pyc"):
        stale_project(project.root / name)
    assert len(project.invalidate().removed) == 3


# Damaged bytecode


def damage(project: Project, change: Callable[[bytes], bytes], mode: str = "TIMESTAMP") -> None:
    """Write fresh bytecode, changed, over the stale one."""
    project.compile("m.py", mode)
    data = (cache(project) / PYC).read_bytes()
    (cache(project) / PYC).write_bytes(change(data))


@pytest.mark.parametrize(
    "change",
    [
        lambda data: b"",
        lambda data: data[:15],
        lambda data: b"\0\0" + data[2:],
        lambda data: data[:2] + b"\n\r" + data[4:],
        lambda data: data[:4] + b"\4\0\0\0" + data[8:],
    ],
    ids=["empty", "15 bytes", "other magic", "no magic", "unknown flags"],
)
def test_a_header_that_every_interpreter_ignores_stays(project: Project, change: Callable[[bytes], bytes]) -> None:
    damage(project, change)
    outcome = project.invalidate()
    assert (outcome.removed, left(outcome)) == ([], {PYC: "unusable_header"})
    assert project.value("m", "-B") == "2"


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[:16],
        lambda data: data[: len(data) // 2],
        lambda data: data[:16] + b"\xff" * 40,
        lambda data: data[:16] + b"N",
    ],
    ids=["header only", "half", "garbage", "None"],
)
@pytest.mark.parametrize("mode", ["TIMESTAMP", "CHECKED_HASH", "UNCHECKED_HASH"])
def test_what_no_import_survives_is_removed(project: Project, change: Callable[[bytes], bytes], mode: str) -> None:
    time.sleep(1.1)  # so that nothing but the damage is doubtful
    damage(project, change, mode)
    with pytest.raises(AssertionError):
        project.value("m", "-B")
    assert reasons(project.invalidate()) == {PYC: "broken"}
    assert project.value() == "2"


def write_in_blocks(project: Project, text: str, mode: str) -> bytes:
    """Have bytecode put into its place as an interpreter does, and filled up to whole blocks of a disk."""
    project.write("m.py", text)
    time.sleep(1.1)
    project.compile("m.py", mode)
    size = len((cache(project) / PYC).read_bytes())
    project.write("m.py", text.replace("x", "x" * (1 + -size % 512)))
    time.sleep(1.1)
    project.compile("m.py", mode)
    return (cache(project) / PYC).read_bytes()


@pytest.mark.parametrize("mode", ["TIMESTAMP", "CHECKED_HASH", "UNCHECKED_HASH"])
def test_what_a_full_disk_may_have_cut_off_is_loaded_once(tmp_path: Path, mode: str) -> None:
    project = Project(tmp_path / "app")
    data = write_in_blocks(project, f"V = 1\nW = 'x{'y' * 600}'\n", mode)
    assert len(data) % 512 == 0
    with_proof, without_proof, again = project.invalidate(), project.invalidate(prove=False), project.invalidate()
    assert [(outcome.kept, outcome.proved) for outcome in (with_proof, without_proof, again)] == [(1, 0)] * 3
    stump = cache(project) / "stump"
    stump.write_bytes(data[:512])
    stump.rename(cache(project) / PYC)
    with pytest.raises(AssertionError):
        project.value("m", "-B")
    assert project.invalidate(prove=False).kept == 1, "nobody could load it"
    assert reasons(project.invalidate()) == {PYC: "broken"}


@pytest.mark.parametrize("name", chosen())
def test_what_a_limit_cut_off_is_broken(tmp_path: Path, name: str) -> None:
    project = Project(tmp_path / "app", chosen()[name])
    project.write("m.py", f"V = 1\nW = 'x{'y' * 2000}'\n")
    time.sleep(1.1)
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))"
    project.run(f"{limit}; import sys; sys.path.insert(0, {str(project.root)!r}); import m")
    if not project.pycs():
        pytest.skip("this patch release leaves no incomplete bytecode")
    assert list(reasons(project.invalidate()).values()) == ["broken"]


@pytest.mark.parametrize("mode", ["TIMESTAMP", "UNCHECKED_HASH"])
def test_huge_bytecode_is_not_taken_for_broken(project: Project, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    monkeypatch.setattr(_bytecode_files, "LARGEST_PYC", 64)
    project.compile("m.py", mode)
    os.utime(cache(project) / PYC, (LONG_AGO, LONG_AGO))
    monkeypatch.setattr(_bytecode_judge, "computes_quickly", lambda magic: False)
    outcome = project.invalidate()
    assert reasons(outcome) == {PYC: "unproved"}
    assert "it is larger than" in outcome.warnings[0]


def test_the_flag_for_checking_without_a_hash_is_harmless(project: Project) -> None:
    damage(project, lambda data: data[:4] + b"\2\0\0\0" + data[8:])
    assert project.value("m", "-B") == "2"
    assert project.invalidate().kept == 1


def test_code_that_crashes_the_interpreter_is_unproved(project: Project) -> None:
    code = "(lambda: 0).__code__.replace(co_code=b'', co_consts=())"
    body = project.run(f"import marshal, sys; print(marshal.dumps({code}).hex())")
    damage(project, lambda data: data[:16] + bytes.fromhex(body))
    project.write("other.py", "V = 1\n")
    project.value("other")
    outcome = project.invalidate()
    assert reasons(outcome)[PYC] in ("unproved", "code_differs")
    assert outcome.kept == 1, "the rest is judged all the same"


# Sources


def test_a_source_that_does_not_compile_loses_its_bytecode(project: Project) -> None:
    project.write("m.py", "V = (\n")
    assert reasons(project.invalidate()) == {PYC: "does_not_compile"}


def test_a_huge_source_is_neither_read_nor_compiled(project: Project) -> None:
    project.write("m.py", "V = 1\n")
    with open(project.root / "m.py", "ab") as file:
        file.truncate(64 << 20)
    os.utime(project.root / "m.py", (LONG_AGO, LONG_AGO))
    header = (cache(project) / PYC).read_bytes()[:12] + (64 << 20).to_bytes(4, "little")
    (cache(project) / PYC).write_bytes(header)
    outcome = project.invalidate()
    assert reasons(outcome) == {PYC: "unproved"}
    assert outcome.warnings == ["1 unproved: the source is larger than 8 MiB"]


def test_a_huge_source_below_a_hash_is_unproved_too(project: Project) -> None:
    project.compile("m.py", "CHECKED_HASH")
    with open(project.root / "m.py", "ab") as file:
        file.truncate(64 << 20)
    assert reasons(project.invalidate()) == {PYC: "unproved"}


def test_an_unreadable_source_is_unproved(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    python = "/usr/bin/python3"  # one that every account can run
    if not os.access(python, os.X_OK):
        pytest.skip(f"{python} is missing on this machine")
    project = Project(tmp_path / "app", python)
    project.write("m.py", "V = 1\n")
    project.value()
    request.getfixturevalue("as_nobody")
    (project.root / "m.py").chmod(0)
    outcome = project.invalidate()
    assert list(reasons(outcome).values()) == ["unproved"]
    assert "cannot be read: Permission denied" in outcome.warnings[0]


# Names


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    project = stale_project(tmp_path / os.fsdecode(b"caf\xe9"))
    os.rename(project.root / "m.py", project.root / os.fsdecode(b"\xff\xfe.py"))
    os.rename(cache(project) / PYC, cache(project) / (os.fsdecode(b"\xff\xfe.") + f"{TAG}.pyc"))
    assert list(reasons(project.invalidate()).values()) == ["code_differs"]


def test_names_as_long_as_they_can_be(project: Project) -> None:
    stem = "m" * (255 - len(f".{TAG}.pyc"))
    os.rename(project.root / "m.py", project.root / f"{stem}.py")
    os.rename(cache(project) / PYC, cache(project) / f"{stem}.{TAG}.pyc")
    project.write("n" * 252 + ".py", "V = 1\n")
    assert list(reasons(project.invalidate())) == [f"{stem}.{TAG}.pyc"]


def test_stems_and_tags_with_dots(project: Project) -> None:
    for source, pyc in (("a.b.py", f"a.b.{TAG}.pyc"), ("c.py", f"c.{TAG}-pytest-8.3.4.pyc")):
        shutil.copy2(project.root / "m.py", project.root / source)
        shutil.copy2(cache(project) / PYC, cache(project) / pyc)
    assert reasons(project.invalidate()) == {
        PYC: "code_differs",
        f"a.b.{TAG}.pyc": "code_differs",
        f"c.{TAG}-pytest-8.3.4.pyc": "unproved",
    }


def test_folders_too_deep_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_bytecode_scan, "_FOLDERS_WORTH_SHARING", 0)
    project = Project(tmp_path / "app")
    folder = project.root
    for _level in range(402):
        folder = folder / "d"
    folder.mkdir(parents=True)
    outcome = project.invalidate()
    assert [item.reason for item in outcome.left] == ["too_deep"]


# What can't be done


@pytest.fixture
def as_nobody(tmp_path: Path) -> Iterator[None]:
    """Run as an account that owns the files but is not root."""
    if os.geteuid() != 0:
        yield
        return
    for path in (tmp_path, *tmp_path.rglob("*")):
        os.lchown(path, 65534, 65534)
    for parent in tmp_path.parents[:3]:
        parent.chmod(parent.stat().st_mode | 0o011)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("check", [False, True], ids=["run", "check mode"])
def test_a_folder_that_is_not_writable_is_an_error(project: Project, as_nobody: None, check: bool) -> None:
    cache(project).chmod(0o555)
    outcome = project.invalidate(prove=False, check=check)
    assert outcome.removed == []
    assert [path for path, _error in outcome.errors] == [str(cache(project) / PYC)]


@AS_ROOT
@pytest.mark.parametrize("check", [False, True], ids=["run", "check mode"])
def test_files_of_others_in_a_shared_folder_are_an_error(project: Project, as_nobody: None, check: bool) -> None:
    os.seteuid(0)
    for path in (cache(project), cache(project) / PYC):
        os.chown(path, 0, 0)
    cache(project).chmod(0o1777)
    os.seteuid(65534)
    outcome = project.invalidate(prove=False, check=check)
    assert outcome.removed == []
    assert [error.errno for _path, error in outcome.errors] == [errno.EPERM]


@AS_ROOT
@pytest.mark.parametrize("check", ["", "check"], ids=["run", "check mode"])
def test_a_file_system_that_is_not_writable_is_an_error(project: Project, check: str) -> None:
    request = f"Request([sys.argv[1]], [sys.argv[2]], '', dry_run={bool(check)})"
    code = f"print(os.strerror(invalidate({request}).errors[0][1].errno))"
    mount = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0"'
    assert in_own_mounts(mount, project.root, code) == "Read-only file system\n"


@pytest.mark.parametrize("name", ["__pycache__", f"__pycache__/{PYC}", "."])
def test_what_cannot_be_read_is_an_error(project: Project, as_nobody: None, name: str) -> None:
    (project.root / name).chmod(0)
    outcome = project.invalidate(prove=False)
    (project.root / name).chmod(0o755)
    assert outcome.removed == []
    assert len(outcome.errors) == 1


@AS_ROOT
def test_an_immutable_pyc_is_an_error_and_the_rest_is_done(project: Project) -> None:
    other = stale_project(project.root / "other")
    if subprocess.run(["chattr", "+i", cache(project) / PYC], capture_output=True, check=False).returncode:
        pytest.skip("no immutable files on this file system")
    try:
        outcome = project.invalidate()
    finally:
        subprocess.run(["chattr", "-i", cache(project) / PYC], check=True)
    ((path, error),) = outcome.errors
    assert path == str(cache(project) / PYC)
    assert error.strerror == "code_differs, and it can't be removed: Operation not permitted"
    assert [removed.path for removed in outcome.removed] == [str(cache(other) / PYC)]


# Several paths


def test_paths_inside_each_other_are_judged_once(project: Project) -> None:
    outcome = project.invalidate("", "m.py", "../app", "./m.py")
    assert (len(outcome.removed), outcome.examined) == (1, 1)


def test_hard_linked_bytecode_of_another_tree_stays(project: Project, tmp_path: Path) -> None:
    shutil.copytree(project.root, tmp_path / "twin", copy_function=os.link)
    assert len(project.invalidate().removed) == 1
    assert (tmp_path / "twin" / "__pycache__" / PYC).exists()


def test_stale_bytecode_goes_from_all_trees_that_share_it_at_once(project: Project) -> None:
    for number in range(6):
        subprocess.run(["cp", "-al", project.root, f"{project.root}{number}"], check=True)
    project.root = project.root.parent
    assert len(project.invalidate(check=True).removed) == 7
    outcome = project.invalidate()
    assert (len(outcome.removed), outcome.examined, outcome.left) == (7, 7, [])
    assert project.pycs() == []


def test_shared_bytecode_that_was_replaced_meanwhile_stays(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    subprocess.run(["cp", "-al", project.root, f"{project.root}2"], check=True)
    shared = [Project(project.root), Project(Path(f"{project.root}2"))]
    real_unlink = os.unlink

    def unlink_and_import(name: str, dir_fd: int) -> None:
        real_unlink(name, dir_fd=dir_fd)
        monkeypatch.setattr(os, "unlink", real_unlink)
        for refreshed in shared:
            refreshed.compile("m.py")

    project.write("m.py", "V = 3\n")
    monkeypatch.setattr(os, "unlink", unlink_and_import)
    project.root = project.root.parent
    assert len(project.invalidate().removed) == 1
    assert len(project.pycs()) == 2


def test_a_cache_that_was_moved_here_is_doubted(tmp_path: Path) -> None:
    project = Project(tmp_path / "app")
    for name, text in (("m.py", "V = 2\n"), ("other/m.py", "V = 1\n"), ("n.py", "V = 1\n"), ("other/n.py", "V = 1\n")):
        project.write(name, text)
    time.sleep(1.1)
    project.compile("other/n.py")
    project.compile("other/m.py")
    time.sleep(0.2)
    os.rename(project.root / "other" / "__pycache__", cache(project))
    (cache(project) / f"n.{TAG}.pyc").chmod(0o600)  # which makes it younger than the move
    assert project.value("m", "-B") == "1"
    assert reasons(project.invalidate()) == {PYC: "code_differs"}


def test_bytecode_copied_with_its_times_is_doubted(tmp_path: Path) -> None:
    project = Project(tmp_path / "app")
    project.write("other/m.py", "V = 1\n")
    time.sleep(1.1)
    project.compile("other/m.py")
    project.write("m.py", "V = 2\n")
    time.sleep(1.1)
    subprocess.run(["cp", "-a", project.root / "other" / "__pycache__", cache(project)], check=True)
    assert project.value("m", "-B") == "1"
    assert reasons(project.invalidate()) == {PYC: "code_differs"}


def test_the_whole_file_system_and_caches_are_refused(project: Project) -> None:
    for path in ("/", "/usr/..", str(cache(project)), str(cache(project) / PYC)):
        with pytest.raises(_bytecode.PathError):
            invalidate(Request([str(project.root), path], [], ""))
    assert (cache(project) / PYC).exists(), "paths are checked before anything is removed"
