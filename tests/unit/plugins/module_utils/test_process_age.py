# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which processes run code older than the disk: on real processes, and rule by rule on described ones."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.inference.plugins.module_utils._process_age import (
    belongs,
    find_stale,
    image_starts,
    judge,
)
from ansible_collections.blackwell.inference.plugins.module_utils._process_code import (
    Change,
    change_time,
    code_changes,
)
from ansible_collections.blackwell.inference.plugins.module_utils._process_table import (
    Process,
    boot_offset,
    parse_maps,
    parse_stat,
    parse_unit,
    read_processes,
)

ENV = "/opt/env"
LAYOUT = ("100", "200", "300", "400", "500")


def process(pid: int = 10, start: int = 100, **more: Any) -> Process:
    given: dict[str, Any] = {
        "pid": pid,
        "ppid": 1,
        "start": start,
        "layout": LAYOUT,
        "command": [f"{ENV}/bin/python", "-m", "sglang.launch_server", "--api-key", "secret"],
        "exe": "/usr/bin/python3.12",
        "cwd": "/",
        "environ": {},
        "mapped": {},
        "unit": "specdecode@main.service",
    }
    return Process(**{**given, **more})


def stranger(**more: Any) -> Process:
    return process(**{"command": ["/usr/bin/sleep", "9"], "exe": "/usr/bin/sleep", "layout": ("1",) * 5, **more})


# --- real processes ---------------------------------------------------------------------------------------------------

MASTER = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
import engine
print("ready", flush=True)
if len(sys.argv) > 2:
    sys.stdin.readline()
    worker = os.fork()
    if worker:
        print(worker, flush=True)
time.sleep(60)
"""


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    root = tmp_path / "env"
    root.mkdir()
    (root / "engine.py").write_text("value = 1\n")
    (root / "main.py").write_text(MASTER)
    return root


@pytest.fixture
def started(environment: Path) -> Iterator[Any]:
    running: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        time.sleep(0.5)  # a file written within the clock's tick of the start counts as newer, to be safe
        # without bytecode: the first import would make __pycache__, and so change the folder after the start
        variables = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, str(environment / "main.py"), str(environment), *arguments]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        running.append(subprocess.Popen(command, env=variables, **pipes))
        assert running[-1].stdout is not None and running[-1].stdout.readline() == "ready\n"
        return running[-1]

    yield start
    for child in running:
        child.kill()
        child.communicate()


def pids(found: dict[str, Any], key: str) -> list[int]:
    return [item["pid"] for item in found[key]]


def test_a_process_is_current_until_its_code_changes(environment: Path, started: Any) -> None:
    child = started()
    found = find_stale([str(environment)])
    assert pids(found, "current") == [child.pid] and found["stale"] == []
    assert abs(found["current"][0]["started"] - time.time()) < 60
    time.sleep(0.05)
    (environment / "engine.py").write_text("value = 2\n")
    found = find_stale([str(environment)])
    assert pids(found, "stale") == [child.pid] and found["current"] == []
    assert found["stale"][0]["files"] == [str(environment / "engine.py")]
    assert found["newest"]["path"] == str(environment / "engine.py")
    assert found["stale"][0]["evidence"] == ["argument 1", "argument 2"]


def test_a_change_whose_modification_time_was_put_back_is_seen(environment: Path, started: Any) -> None:
    about = (environment / "engine.py").stat()
    child = started()
    time.sleep(0.05)
    (environment / "engine.py").write_text("value = 3\n")
    os.utime(environment / "engine.py", ns=(about.st_atime_ns, about.st_mtime_ns))
    assert pids(find_stale([str(environment)]), "stale") == [child.pid]


def test_a_process_started_after_the_change_is_current(environment: Path, started: Any) -> None:
    (environment / "engine.py").write_text("value = 2\n")
    child = started()
    assert pids(find_stale([str(environment)]), "current") == [child.pid]


def test_a_worker_forked_after_the_change_runs_its_masters_code(environment: Path, started: Any) -> None:
    master = started("fork")
    time.sleep(0.05)
    (environment / "engine.py").write_text("value = 2\n")
    time.sleep(0.05)
    master.stdin.write("\n")
    master.stdin.flush()
    worker = int(master.stdout.readline())
    try:
        found = find_stale([str(environment)])
        assert pids(found, "stale") == sorted([master.pid, worker])
        by_pid = {item["pid"]: item for item in found["stale"]}
        assert by_pid[worker]["started"] > by_pid[worker]["code_from"] == by_pid[master.pid]["code_from"]
    finally:
        os.kill(worker, 9)


def test_linking_a_file_elsewhere_is_no_change_but_replacing_its_name_is(
    environment: Path, started: Any, tmp_path: Path
) -> None:
    child = started()
    time.sleep(0.05)
    os.link(environment / "engine.py", tmp_path / "other-environment.py")
    assert pids(find_stale([str(environment)]), "current") == [child.pid]
    # An installer exchanges the release: the new name is a link to a file that is old in its cache.
    cached = tmp_path / "cached.py"
    cached.write_text("value = 9\n")
    os.utime(cached, (1, 1))
    os.link(cached, environment / "new")
    os.replace(environment / "new", environment / "engine.py")
    assert pids(find_stale([str(environment)]), "stale") == [child.pid]


def test_the_scan_reads_the_test_itself() -> None:
    own = next(p for p in read_processes() if p.pid == os.getpid())
    assert own.ppid == os.getppid() and own.command and own.exe == os.readlink("/proc/self/exe")
    assert own.environ and own.mapped
    assert 0 < time.time_ns() - own.start < 3600 * 10**9


def test_a_root_that_does_not_exist_is_an_error() -> None:
    for root in ("/does/not/exist", "relative"):
        with pytest.raises(ValueError, match="does not exist"):
            find_stale([root])


# --- the rules, on described processes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("described", "evidence"),
    [
        (process(), ["argument 0"]),
        (process(command=["/usr/bin/python3", f"{ENV}/bin/vllm", "serve"]), ["argument 1"]),
        (process(command=["python", "bin/vllm"], cwd=ENV), ["argument 1"]),
        (process(command=["VLLM::EngineCore"], mapped={f"{ENV}/lib/x.so": ("08:01", "5")}), ["mapped file"]),
        (process(command=["VLLM::EngineCore"], mapped={"/else/x.so": ("08:01", "7")}), ["mapped inode"]),
        (process(command=["x"], environ={"VIRTUAL_ENV": ENV}), ["VIRTUAL_ENV"]),
        (process(command=["x"], environ={"PYTHONPATH": f"/a:{ENV}/src"}), ["PYTHONPATH"]),
        (process(command=["x"], environ={"VIRTUAL_ENV": ENV + "-other"}), []),
        (process(command=[f"{ENV}2/bin/python"]), []),
        (process(command=["rsync", "-a", "--x", "y", f"{ENV}/"]), []),
        (process(command=["sh", f"--prefix={ENV}"]), []),
        (process(command=["python"], environ=None, mapped=None), []),
        (process(command=[]), []),
    ],
)
def test_what_shows_that_a_process_belongs(described: Process, evidence: list[str]) -> None:
    assert belongs(described, [ENV], {("08:01", "7")}) == evidence


def test_a_bare_interpreter_is_found_by_the_processes_own_path() -> None:
    folder = str(Path(sys.executable).parent)
    name = next(n for n in os.listdir(folder) if n.startswith("python"))
    own = process(pid=os.getpid(), command=[name], environ={"PATH": f"/nowhere:{folder}:/usr/bin"})
    assert belongs(own, [folder], set()) == ["PATH"]
    assert belongs(own._replace(environ={"PATH": "/usr/bin"}), [folder], set()) == []


def test_a_fork_is_dated_by_the_oldest_process_of_its_image() -> None:
    changes = [Change(150, f"{ENV}/x.py"), Change(50, f"{ENV}/y.py")]
    master, worker, restarted = process(1, 100), process(2, 200), process(3, 200, layout=("7",) * 5)
    found = judge([master, worker, restarted], changes, [ENV], set())
    assert (pids(found, "stale"), pids(found, "current")) == ([1, 2], [3])
    # The master is gone: the worker looks new. A limit that is documented.
    assert pids(judge([worker], changes, [ENV], set()), "current") == [2]


def test_images_whose_addresses_are_hidden_are_not_one_image() -> None:
    hidden = ("1", "1", "0", "0", "0")
    assert image_starts([process(1, 100, layout=hidden), process(2, 200, layout=hidden)]) == {}
    assert image_starts([process(1, 100, exe=None), process(2, 200, exe=None)]) == {}


def test_what_is_told_of_a_process() -> None:
    changes = [Change(300 - i, f"{ENV}/{i}.py") for i in range(50)]
    found = judge([process(10, 260), stranger(pid=11, start=1)], changes, [ENV], set())
    (item,) = found["stale"]
    assert item["changed_since"] == 41 and len(item["files"]) == 20 and item["files"][0] == f"{ENV}/0.py"
    assert item["command"] == f"{ENV}/bin/python -m sglang.launch_server" and "secret" not in str(found)
    assert found["units"] == ["specdecode@main.service"] and found["files"] == 50


def test_an_environment_without_code_makes_nobody_stale() -> None:
    found = judge([process()], [], [ENV], set())
    assert found["stale"] == [] and found["newest"] is None and pids(found, "current") == [10]


# --- reading ----------------------------------------------------------------------------------------------------

STAT = "71 (a) (b) c) S 1 71 71 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 13 0 4242 " + " ".join(map(str, range(1, 31)))


def test_a_stat_line_with_blanks_and_parentheses_in_its_name_is_read() -> None:
    stat = parse_stat(STAT)
    assert (stat.ppid, stat.flags, stat.ticks) == (1, 4194560, 4242)
    assert stat.layout == ("4", "5", "6", "26", "27")
    for text in ("", "71 (x", "71 (x) S 1", "no parenthesis"):
        with pytest.raises(ValueError):
            parse_stat(text)


def test_processes_are_read_as_far_as_they_show_themselves(tmp_path: Path) -> None:
    def describe(pid: str, **files: str) -> None:
        (tmp_path / "proc" / pid).mkdir(parents=True)
        for name, content in files.items():
            (tmp_path / "proc" / pid / name).write_text(content)

    (tmp_path / "a.py").write_text("")
    own = f"python\0{tmp_path}/a.py\0"
    cgroup = "0::/system.slice/specdecode@main.service\n"
    describe("10", stat=STAT, cmdline=own, environ="A=1\0B=2=3\0", maps="", cgroup=cgroup)
    describe("11", stat=STAT, cmdline=own)  # of another user
    describe("12", stat=STAT.replace("4194560", "2129984"), cmdline="")  # a kernel thread
    describe("13", cmdline=own)  # gone
    describe("14", stat="14 (x", cmdline=own)
    describe("self", stat=STAT, cmdline=own)
    shown, hidden = sorted(read_processes(str(tmp_path / "proc")), key=lambda process: process.pid)
    assert shown.unit == "specdecode@main.service" and shown.environ == {"A": "1", "B": "2=3"} and shown.mapped == {}
    assert (hidden.pid, hidden.unit, hidden.environ, hidden.mapped) == (11, None, None, None)
    found = find_stale([str(tmp_path / "a.py")], str(tmp_path / "proc"))
    assert pids(found, "stale") == [10, 11] and (found["examined"], found["hidden"]) == (2, 1)
    assert found["units"] == ["specdecode@main.service"]


@pytest.mark.parametrize(
    ("cgroup", "unit"),
    [
        ("0::/system.slice/system-specdecode.slice/specdecode@main.service\n", "specdecode@main.service"),
        ("12:cpu:/x\n1:name=systemd:/system.slice/vllm.service/sub\n0::/\n", "vllm.service"),
        ("0::/user.slice/user-0.slice/user@0.service/app.slice/mine.service\n", "mine.service"),
        ("0::/user.slice/user-0.slice/session-3.scope\n", "session-3.scope"),
        ("0::/init.scope\n", "init.scope"),
        ("0::/\n", None),
        ("", None),
        ("nonsense\n", None),
    ],
)
def test_the_unit_is_read_from_the_control_group(cgroup: str, unit: str | None) -> None:
    assert parse_unit(cgroup) == unit


def test_maps_are_read_with_deleted_files_and_blanks() -> None:
    text = (
        "7f00-7f01 r-xp 00000000 08:01 42 /opt/e/a b.so\n"
        "7f02-7f03 r-xp 00000000 08:01 43 /opt/e/c.so (deleted)\n"
        "7f04-7f05 rw-p 00000000 00:00 0 [heap]\n7f06-7f07 rw-p 00000000 00:00 0\n"
    )
    assert parse_maps(text) == {"/opt/e/a b.so": ("08:01", "42"), "/opt/e/c.so": ("08:01", "43")}


def test_the_boot_clock_is_placed_on_the_wall_clock() -> None:
    boot = time.clock_gettime_ns(time.CLOCK_BOOTTIME) + boot_offset()
    assert abs(boot - time.time_ns()) < 10**8


def test_code_is_sources_and_libraries_but_no_caches_and_no_linked_folders(tmp_path: Path) -> None:
    for name in ("a.py", "b.so", "c.so.1", "d.pth", "e.pyc", "f.txt", "lib/g.py", "__pycache__/a.cpython-312.pyc"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "lib64").symlink_to("lib")
    (tmp_path / "dangling.py").symlink_to("nowhere")
    changes, unreadable = code_changes([str(tmp_path)])
    names = sorted(os.path.relpath(change.path, tmp_path) for change in changes)
    assert names == ["a.py", "b.so", "c.so.1", "d.pth", "e.pyc", "lib/g.py"] and unreadable == []
    assert changes == sorted(changes, reverse=True)
    assert [change.path for change in code_changes([str(tmp_path / "a.py")])[0]] == [str(tmp_path / "a.py")]


def times(links: int, ctime: int, mtime: int) -> Any:
    return type("Stat", (), {"st_nlink": links, "st_ctime_ns": ctime, "st_mtime_ns": mtime})


@pytest.mark.parametrize(
    ("links", "ctime", "mtime", "folder", "expected"),
    [
        (1, 50, 10, 5, 50),  # the change time, whatever the modification time says
        (2, 50, 10, 5, 10),  # linked into another environment at 50: no change here
        (2, 50, 40, 5, 40),  # written to at 40
        (2, 50, 10, 30, 30),  # a name in the folder was replaced at 30
        (2, 50, 10, 90, 50),  # the folder changed later, for another reason: at 50 at the latest
    ],
)
def test_when_a_file_changed(links: int, ctime: int, mtime: int, folder: int, expected: int) -> None:
    assert change_time(times(links, ctime, mtime), times(2, folder, folder)) == expected
