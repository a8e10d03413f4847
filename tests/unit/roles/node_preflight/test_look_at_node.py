# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program that looks at a node: what it says about this machine, and about files that are put before it."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

PROGRAM = Path(__file__).parents[4] / "roles/node_preflight/files/look_at_node.py"


@pytest.fixture(scope="module")
def look() -> ModuleType:
    spec = importlib.util.spec_from_file_location("look_at_node", PROGRAM)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def questions(tmp_path: Path) -> dict[str, Any]:
    return {
        "port": 1,
        "unit": "specdecode@main.service",
        "python": sys.executable,
        "models": [],
        "disks": [{"name": "environment", "path": str(tmp_path / "not" / "yet"), "needed_gib": 1}],
        "newest_of": str(tmp_path / "absent"),
        "torch_python": "",
        "ours": [str(tmp_path), str(tmp_path / "absent")],
    }


@pytest.fixture
def files(look: ModuleType, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Texts that the program finds at these paths; every other path is absent."""
    texts: dict[str, str] = {}

    def read_text(path: str) -> str:
        if path not in texts:
            raise FileNotFoundError(2, "No such file or directory", path)
        return texts[path]

    monkeypatch.setattr(look, "read_text", read_text)
    return texts


def test_it_answers_every_question_from_standard_input(questions: dict[str, Any], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-B", "-", json.dumps(questions)],
        input=PROGRAM.read_text(),
        capture_output=True,
        text=True,
        check=True,
    )
    seen = json.loads(done.stdout)
    assert seen["reasons"] == {}
    assert seen["interpreter"]["path"] == sys.executable
    assert seen["interpreter"]["release"].startswith(f"{sys.version_info.major}.{sys.version_info.minor}.")
    assert seen["disks"]["environment"]["place"] == str(tmp_path)
    assert seen["disks"]["environment"]["exists"] is False
    assert seen["memory"]["total"] >= seen["memory"]["available"] > 0
    assert seen["torch"] == {"installed": False}
    assert seen["ours"] == [str(tmp_path)]


def test_a_section_that_cannot_be_read_is_null_with_its_reason(look: ModuleType, files: dict[str, str]) -> None:
    seen = look.look({"port": 1, "models": [], "disks": []})
    assert seen["memory"] is None
    assert "/proc/meminfo" in seen["reasons"]["memory"]
    assert seen["models"] == []


def test_a_missing_interpreter_is_told_with_those_that_are_there(
    look: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("python3.11", "python3.13", "python3.11-config", "python3"):
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "python3.9").write_text("")  # not executable
    monkeypatch.setattr(look, "search_path", lambda: [str(tmp_path)])
    assert look.interpreter({"python": "python3.12"}) == {
        "path": None,
        "release": None,
        "error": None,
        "others": ["python3.11", "python3.13"],
    }


def test_an_interpreter_that_does_not_run_is_told_with_its_words(look: ModuleType, tmp_path: Path) -> None:
    broken = tmp_path / "python3.12"
    broken.write_text("#!/bin/sh\necho 'error while loading shared libraries: libpython3.12.so' >&2\nexit 127\n")
    broken.chmod(broken.stat().st_mode | stat.S_IXUSR)
    seen = look.interpreter({"python": str(broken)})
    assert seen["path"] == str(broken)
    assert seen["release"] is None
    assert "libpython3.12.so" in seen["error"]


def test_a_listener_is_found_with_its_process(look: ModuleType) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        found = look.listeners({"port": port})
        assert [(one["address"], one["pid"]) for one in found] == [("127.0.0.1", os.getpid())]
        assert found[0]["command"]
    assert look.listeners({"port": port}) == []


def test_a_connected_socket_is_no_listener(look: ModuleType, files: dict[str, str]) -> None:
    head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    line = "   {n}: {address}:1F40 00000000:0000 {state} 00000000:00000000 00:00000000 00000000  0  0 {inode} 1\n"
    files["/proc/net/tcp"] = (
        head
        + line.format(n=0, address="0100007F", state="01", inode=11)
        + line.format(n=1, address="0100007F", state="0A", inode=12)
        + line.format(n=2, address="0100007F", state="0A", inode=13).replace(":1F40", ":1F41")
    )
    files["/proc/net/tcp6"] = head + line.format(n=0, address="0" * 32, state="0A", inode=14)
    assert list(look.listening(8000)) == [("12", "127.0.0.1"), ("14", "::")]


@pytest.mark.parametrize(
    ("cgroups", "unit"),
    [
        ("0::/system.slice/system-specdecode.slice/specdecode@main.service\n", "specdecode@main.service"),
        ("0::/system.slice/docker.service/abc\n", "docker.service"),
        ("9:name=systemd:/libpod_parent/libpod-1/system.slice/ssh.service\n8:pids:/libpod_parent\n", "ssh.service"),
        ("0::/user.slice/user-0.slice/session-3.scope\n", None),
        ("", None),
    ],
)
def test_the_service_of_a_process_is_read_from_its_control_groups(
    look: ModuleType, cgroups: str, unit: str | None
) -> None:
    assert look.service_in(cgroups) == unit


def test_used_space_is_measured_only_where_free_space_is_too_little(look: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(b"x" * 100_000)
    os.link(tmp_path / "weights", tmp_path / "same")
    assert look.disk_at(str(tmp_path), 0)["used"] is None
    used = look.disk_at(str(tmp_path), 2**60)["used"]
    assert 100_000 <= used < 200_000  # two names of one file count once


def test_a_model_lacks_the_files_that_its_index_names(look: ModuleType, tmp_path: Path) -> None:
    model = tmp_path / "a [model]"  # a name that a pattern would read otherwise
    model.mkdir()
    (model / "config.json").write_text("{}")
    (model / "model-00001-of-00002.safetensors").write_text("")
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    seen, absent = look.models({"models": [str(model), str(tmp_path / "absent")]})
    assert (seen["exists"], seen["config"]) == (True, True)
    assert seen["missing"] == ["model-00002-of-00002.safetensors"]
    assert (absent["exists"], absent["config"], absent["missing"]) == (False, False, [])


@pytest.mark.parametrize(("limit", "total"), [("max", 8192 * 1024), ("2097152", 2097152), (str(2**63), 8192 * 1024)])
def test_a_limit_of_the_control_group_bounds_memory(
    look: ModuleType, files: dict[str, str], limit: str, total: int
) -> None:
    files["/proc/meminfo"] = "MemTotal:        8192 kB\nMemFree:  1 kB\nMemAvailable:    4096 kB\nHugepagesize: 0\n"
    files["/sys/fs/cgroup/memory.max"] = limit + "\n"
    assert look.memory({}) == {"total": total, "available": min(total, 4096 * 1024)}


def test_limits_are_read_from_the_first_process(look: ModuleType, files: dict[str, str]) -> None:
    files["/proc/1/limits"] = (
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max stack size            8388608              unlimited            bytes     \n"
        "Max open files            1024                 524288               files     \n"
        "Max locked memory         65536                8388608              bytes     \n"
        "Max realtime timeout      unlimited            unlimited            us        \n"
    )
    files["/proc/1/status"] = "Name:\tsystemd\nCapEff:\t00000000a80425fb\n"
    files["/proc/sys/fs/nr_open"] = "1048576\n"
    seen = look.limits({})
    assert seen["hard"] == {"MEMLOCK": 8388608, "NOFILE": 524288, "STACK": 2**64 - 1}
    assert seen["may_raise"] is False
    assert seen["nr_open"] == 1048576
    files["/proc/1/status"] = "Name:\tsystemd\nCapEff:\t000001ffffffffff\n"
    assert look.limits({})["may_raise"] is True


def test_torch_that_cannot_be_imported_is_unknown_and_says_why(look: ModuleType, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho Traceback >&2\necho 'ImportError: libcudart.so.13' >&2\nexit 1\n")
    python.chmod(0o755)
    with pytest.raises(look.Unknown, match=r"can't import torch: ImportError: libcudart.so.13"):
        look.torch({"torch_python": str(python)})


def test_torch_is_asked_in_the_environment(look: ModuleType, tmp_path: Path) -> None:
    python = tmp_path / "python"
    answer = '{"installed": true, "release": "2.13.0", "cuda": "13.0", "arch_list": ["sm_120"]}'
    python.write_text(f"#!/bin/sh\necho a warning >&2\necho '{answer}'\n")
    python.chmod(0o755)
    assert look.torch({"torch_python": str(python)})["arch_list"] == ["sm_120"]
    # an environment without torch, and this interpreter has none either
    assert look.torch({"torch_python": sys.executable}) == {"installed": False}


def test_a_command_that_hangs_is_unknown(look: ModuleType) -> None:
    with pytest.raises(look.Unknown, match=r"gave no answer within 0\.1 s"):
        look.run(["sleep", "30"], 0.1)
