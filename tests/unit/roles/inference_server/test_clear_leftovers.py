# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What earlier servers left behind: only orphans of the service's user and segments that nobody holds are removed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

USER = 999


@pytest.fixture
def program(load: Callable[[str], ModuleType]) -> ModuleType:
    return load("clear_leftovers")


def process(program: ModuleType, **given: Any) -> Any:
    """An orphan of the service's user that holds a GPU, unless something else is given."""
    facts: dict[str, Any] = {
        "pid": 500,
        "name": "VLLM::Worker_TP0",
        "parent": 1,
        "session": 400,
        "uid": USER,
        "start": 1,
        "files": frozenset({"/dev/nvidia-uvm", "/dev/nvidia0", "socket:[1]"}),
        "cgroup": "0::/user.slice/user-0.slice/session-1.scope\n",
    }
    return program.Process(**{**facts, **given})


NOT_ORPHANS: dict[str, dict[str, Any]] = {
    "it has a parent": {"parent": 77},
    "it leads its session": {"session": 500},
    "the GPUs are open, CUDA is not": {"files": frozenset({"/dev/nvidia0"})},
    "CUDA is open, no GPU is": {"files": frozenset({"/dev/nvidia-uvm", "/dev/nvidiactl"})},
    "it belongs to another server": {"cgroup": "0::/system.slice/system-specdecode.slice/specdecode@other.service\n"},
}


class TestHolders:
    def test_an_orphan_with_a_gpu_is_found(self, program: ModuleType) -> None:
        assert [found.pid for found in program.gpu_holders([process(program)])] == [500]

    @pytest.mark.parametrize("why", NOT_ORPHANS)
    def test_others_are_not(self, program: ModuleType, why: str) -> None:
        assert program.gpu_holders([process(program, **NOT_ORPHANS[why])]) == []

    def test_a_session_whose_leader_lives_is_looked_after(self, program: ModuleType) -> None:
        leader = process(program, pid=400, files=frozenset())
        assert program.gpu_holders([process(program), leader]) == []

    def test_only_those_of_the_service_are_ended(self, program: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
        ended: list[int] = []
        found = [process(program), process(program, pid=501, uid=0)]
        monkeypatch.setattr(program, "read_processes", lambda: (found, 0))
        monkeypatch.setattr(program, "end", lambda orphan: bool(ended.append(orphan.pid)) or True)
        lines = program.clear_holders(USER)
        assert ended == [500]
        assert lines[0].startswith("Cleared: ended process 500 (VLLM::Worker_TP0), which held /dev/nvidia0")
        assert lines[1].startswith("Left: process 501")


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that does not end at SIGTERM, and is taken away at once when it is dead."""
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)"
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    started = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert started.stdout
    started.stdout.readline()
    yield started
    started.kill()
    started.stdout.close()
    signal.signal(signal.SIGCHLD, before)


class TestEnd:
    def test_a_process_that_does_not_listen_is_killed(self, program: ModuleType, child: Any) -> None:
        assert program.end(program.read_process(f"/proc/{child.pid}"), patience=0.3)
        assert not os.path.exists(f"/proc/{child.pid}")

    def test_a_later_process_with_the_same_number_is_left_alone(self, program: ModuleType, child: Any) -> None:
        earlier = program.read_process(f"/proc/{child.pid}")._replace(start=0)
        assert program.end(earlier, patience=0.3)
        assert os.path.exists(f"/proc/{child.pid}")


@pytest.fixture
def shm(tmp_path: Path) -> Path:
    for name in ("nccl-a", "vllm_offload_b", "sgl_shm_mm_c", "psm_d", "other", "sem.nccl-x"):
        (tmp_path / name).write_text("x")
    return tmp_path


class TestSegments:
    def clear(
        self, program: ModuleType, shm: Path, monkeypatch: pytest.MonkeyPatch, *held: str, unseen: int = 0
    ) -> Any:
        holder = process(program, files=frozenset(held))
        monkeypatch.setattr(program, "read_processes", lambda: ([holder], unseen))
        return program.clear_segments(os.getuid(), str(shm))

    def test_unheld_ones_of_engines_go_and_others_stay(
        self, program: ModuleType, shm: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lines = self.clear(program, shm, monkeypatch)
        assert sorted(path.name for path in shm.iterdir()) == ["other", "sem.nccl-x"]
        assert len(lines) == 4
        assert lines[0] == f"Cleared: removed {shm}/nccl-a, 1 bytes, held by nobody"

    def test_held_ones_stay(self, program: ModuleType, shm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clear(
            program, shm, monkeypatch, "/dev/shm/nccl-a", "/run/elsewhere/psm_d", "/dev/shm/sgl_shm_mm_c (deleted)"
        )
        assert sorted(path.name for path in shm.iterdir()) == ["nccl-a", "other", "psm_d", "sem.nccl-x", "sgl_shm_mm_c"]

    def test_pythons_own_go_only_if_they_are_the_services(
        self, program: ModuleType, shm: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(program, "read_processes", lambda: ([], 0))
        lines = program.clear_segments(os.getuid() + 1, str(shm))
        assert (shm / "psm_d").exists()
        assert not (shm / "nccl-a").exists()
        assert any(line.startswith(f"Left: {shm}/psm_d") for line in lines)

    def test_nothing_goes_while_a_holder_may_be_unseen(
        self, program: ModuleType, shm: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lines = self.clear(program, shm, monkeypatch, unseen=1)
        assert len(list(shm.iterdir())) == 6
        assert "1 processes can't be looked into" in lines[0]

    def test_links_and_directories_stay(self, program: ModuleType, shm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (shm / "nccl-link").symlink_to(shm / "other")
        (shm / "nccl-directory").mkdir()
        self.clear(program, shm, monkeypatch)
        assert (shm / "nccl-link").is_symlink()
        assert (shm / "nccl-directory").is_dir()


def test_a_process_is_read_as_the_kernel_shows_it(program: ModuleType, tmp_path: Path) -> None:
    with open(tmp_path / "held", "w") as held:
        own = program.read_process(f"/proc/{os.getpid()}")
        assert held.name in own.files
    assert own.parent == os.getppid()
    assert own.uid == os.getuid()
    assert any(path.endswith(".so") or ".so." in path for path in own.files)
