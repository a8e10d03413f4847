# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who holds GPUs and shared memory, and who only seems to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.inference.plugins.module_utils._gpu_files import Tree
from ansible_collections.blackwell.inference.plugins.module_utils._gpu_findings import Findings
from ansible_collections.blackwell.inference.plugins.module_utils._gpu_holders import read_holders, shm_size_mib
from ansible_collections.blackwell.inference.tests.unit.fixtures.gpu.mutations import NOISE, mutated
from ansible_collections.blackwell.inference.tests.unit.fixtures.gpu.trees import tree_of
from hypothesis import given

DRIVER = {"/proc/driver/nvidia": {"directory": True}}
SHM = {"/dev/shm": {"directory": True}, "/proc/mounts": "tmpfs /dev/shm tmpfs rw,size=1024k 0 0\n"}
CUDA = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia3")


def process(
    pid: int,
    name: str = "python3",
    parent: int = 900,
    session: int = 900,
    unit: str = "ssh.service",
    opened: tuple[str, ...] = (),
    mapped: tuple[str, ...] = (),
) -> dict[str, Any]:
    return {
        f"/proc/{pid}/status": f"Name:\t{name}\nState:\tS (sleeping)\nPPid:\t{parent}\nUid:\t7\t7\t7\t7\n"
        f"NSsid:\t{session}\n",
        f"/proc/{pid}/cgroup": f"0::/system.slice/{unit}\n",
        f"/proc/{pid}/maps": "".join(f"7f00-7f01 rw-s 00000000 00:1a 77    {path}\n" for path in mapped),
        f"/proc/{pid}/fd": {"directory": True},
        **{f"/proc/{pid}/fd/{number}": {"link": path} for number, path in enumerate(opened)},
    }


def listed(pid: int, memory_mib: int | None = 100, name: str = "/usr/bin/python3") -> dict[str, Any]:
    return {"pid": pid, "kind": "C", "name": name, "memory_mib": memory_mib}


def look(directory: Path, files: dict[str, Any], smi: list[tuple[int, dict[str, Any]]] | None = None) -> Findings:
    findings = Findings(tree_of(files, directory))
    read_holders(findings, smi or [])
    return findings


class TestProcesses:
    def test_listed_on_several_gpus(self, tmp_path: Path) -> None:
        findings = look(tmp_path, {**SHM, **DRIVER, **process(50)}, [(0, listed(50)), (2, listed(50, 300))])
        assert findings.facts["processes"] == [
            {
                "pid": 50,
                "listed": True,
                "gpus": [0, 2],
                "memory_mib": 400,
                "name": "python3",
                "state": "S",
                "parent": 900,
                "session": 900,
                "uid": 7,
                "unit": "ssh.service",
                "orphan": False,
            }
        ]
        assert not [path for path in findings.reasons if path.startswith("processes")]

    def test_memory_that_is_not_told_for_one_gpu(self, tmp_path: Path) -> None:
        findings = look(tmp_path, {**SHM, **DRIVER, **process(50)}, [(0, listed(50)), (1, listed(50, None))])
        assert findings.facts["processes"][0]["memory_mib"] is None
        assert "processes.0.memory_mib" in findings.reasons

    def test_cuda_process_that_nvidia_smi_does_not_list(self, tmp_path: Path) -> None:
        findings = look(tmp_path, {**SHM, **DRIVER, **process(60, opened=CUDA)})
        (found,) = findings.facts["processes"]
        assert (found["pid"], found["listed"], found["gpus"], found["memory_mib"]) == (60, False, None, None)

    @pytest.mark.parametrize(
        "opened",
        [
            ("/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia1"),  # nvidia-persistenced
            ("/dev/nvidia-uvm",),
            ("/dev/nvidia-modeset", "/dev/nvidia-uvm"),
            ("/dev/null", "/home/u/nvidia0"),
        ],
    )
    def test_no_cuda_process(self, opened: tuple[str, ...], tmp_path: Path) -> None:
        assert look(tmp_path, {**SHM, **DRIVER, **process(60, opened=opened)}).facts["processes"] == []

    def test_without_a_driver_nobody_is_looked_into(self, tmp_path: Path) -> None:
        assert look(tmp_path, {**SHM, **process(60, opened=CUDA)}).facts["processes"] == []

    def test_process_of_a_container_that_is_not_visible(self, tmp_path: Path) -> None:
        findings = look(tmp_path, {**SHM, **DRIVER}, [(0, listed(99, name="/app/worker"))])
        (found,) = findings.facts["processes"]
        assert (found["name"], found["orphan"], found["parent"]) == ("/app/worker", None, None)
        assert "not visible here" in findings.reasons["processes.0"]

    def test_processes_that_may_not_be_looked_into(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        listdir = os.listdir

        def without_root(path: str | Path) -> list[str]:
            if str(path).endswith("/fd"):
                raise PermissionError(13, "Permission denied")
            return listdir(path)

        monkeypatch.setattr(os, "listdir", without_root)
        files = {**SHM, **DRIVER, **process(60, opened=CUDA), "/dev/shm/nccl-x": {"size": 1}}
        findings = look(tmp_path, files)
        assert findings.facts["processes"] == []
        assert findings.reasons["processes.unlisted"] == "1 processes may not be looked into without root"
        assert findings.facts["shm"]["leftovers"][0]["orphan"] is None
        assert "one of them may hold it" in findings.reasons["shm.leftovers.0.orphan"]


class TestOrphans:
    @pytest.mark.parametrize(
        ("parent", "session", "others", "orphan"),
        [
            (1, 40, [], True),
            (1, 50, [], False),  # a service's main process leads its own session
            (1, 40, [40], False),  # started from a shell that is still there
            (41, 40, [], False),
            (41, 40, [41], False),
            (1, 0, [], None),
        ],
        ids=["killed server", "main process", "live shell", "other parent", "live parent", "session unknown"],
    )
    def test_parent_and_session_leader(
        self, parent: int, session: int, others: list[int], orphan: bool | None, tmp_path: Path
    ) -> None:
        files = {**SHM, **DRIVER, **process(50, parent=parent, session=session)}
        for pid in others:
            files.update(process(pid))
        findings = look(tmp_path, files, [(0, listed(50))])
        assert findings.facts["processes"][0]["orphan"] is orphan
        assert ("processes.0.orphan" in findings.reasons) == (orphan is None)

    def test_name_with_brackets_and_blanks(self, tmp_path: Path) -> None:
        findings = look(tmp_path, {**SHM, **DRIVER, **process(50, name="a) S 1 (b")}, [(0, listed(50))])
        assert findings.facts["processes"][0]["name"] == "a) S 1 (b"

    @pytest.mark.parametrize(
        ("cgroup", "unit"),
        [
            ("0::/system.slice/specdecode@main.service\n", "specdecode@main.service"),
            ("0::/system.slice/docker-0123.scope\n", "docker-0123.scope"),
            ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/x.scope\n", "x.scope"),
            ("12:cpu:/x.service\n1:name=systemd:/system.slice/old.service\n0::/\n", "old.service"),
            ("0::/\n", ""),
            ("", ""),
        ],
    )
    def test_unit(self, cgroup: str, unit: str, tmp_path: Path) -> None:
        files = {**SHM, **DRIVER, **process(50), "/proc/50/cgroup": cgroup}
        assert look(tmp_path, files, [(0, listed(50))]).facts["processes"][0]["unit"] == unit

    @pytest.mark.parametrize("status", ["", "Name:\n", "PPid:\tx\nNSsid:\t-1\n", "no colon", "Name: a\nState:\n"])
    def test_status_of_another_form(self, status: str, tmp_path: Path) -> None:
        files = {**SHM, **DRIVER, **process(50), "/proc/50/status": status}
        findings = look(tmp_path, files, [(0, listed(50))])
        assert findings.facts["processes"][0]["orphan"] is None
        assert "processes.0.orphan" in findings.reasons


class TestSharedMemory:
    @pytest.mark.parametrize("name", ["nccl-Ab12", "vllm_offload_77", "sgl_shm_mm_0", "psm_1a2b"])
    def test_leftover_without_holder(self, name: str, tmp_path: Path) -> None:
        findings = look(tmp_path, {**SHM, f"/dev/shm/{name}": {"size": 4096}, **process(50, opened=("/dev/null",))})
        assert findings.facts["shm"]["leftovers"] == [
            {"path": f"/dev/shm/{name}", "size_bytes": 4096, "holders": [], "orphan": True}
        ]

    @pytest.mark.parametrize(
        "holder",
        [
            {"opened": ("/dev/shm/nccl-Ab12",)},
            {"mapped": ("/dev/shm/nccl-Ab12",)},
            {"mapped": ("/run/container/shm/nccl-Ab12",)},
            {"mapped": ("/dev/shm/nccl-Ab12 (deleted)",)},
        ],
        ids=["open", "mapped after closing", "under another path", "deleted and made again"],
    )
    def test_held(self, holder: dict[str, Any], tmp_path: Path) -> None:
        files = {**SHM, "/dev/shm/nccl-Ab12": {"size": 1}, **process(50, **holder), **process(51)}
        (leftover,) = look(tmp_path, files).facts["shm"]["leftovers"]
        assert (leftover["holders"], leftover["orphan"]) == ([50], False)

    def test_other_files_are_not_ours(self, tmp_path: Path) -> None:
        names = ("sem.mp-ab", "PostgreSQL.1", "my-nccl-x", "nccl")
        files = {**SHM, **{f"/dev/shm/{name}": {"size": 1} for name in names}}
        assert look(tmp_path, files).facts["shm"]["leftovers"] == []

    def test_no_shared_memory_is_unknown(self, tmp_path: Path) -> None:
        (tmp_path / "proc").mkdir()
        findings = Findings(Tree(str(tmp_path)))
        read_holders(findings, [])
        assert findings.facts["shm"] == {"size_mib": None, "leftovers": None}
        assert set(findings.reasons) == {"shm.size_mib", "shm.leftovers"}

    def test_no_proc_is_unknown(self, tmp_path: Path) -> None:
        (tmp_path / "dev" / "shm").mkdir(parents=True)
        (tmp_path / "dev" / "shm" / "psm_1").write_bytes(b"x")
        findings = Findings(Tree(str(tmp_path)))
        read_holders(findings, [])
        assert findings.facts["shm"]["leftovers"][0]["orphan"] is None


MEMORY = "MemFree: 1 kB\nMemTotal:       65536000 kB\n"


class TestSharedMemorySize:
    @pytest.mark.parametrize(
        ("mounts", "size"),
        [
            ("tmpfs /dev/shm tmpfs rw,nosuid,nodev,inode64 0 0\n", 32000),
            ("shm /dev/shm tmpfs rw,nosuid,size=65536k 0 0\n", 64),
            ("tmpfs /dev/shm tmpfs rw 0 0\nshm /dev/shm tmpfs rw,size=1024k,mode=1777 0 0\n", 1),
            ("tmpfs /run/shm tmpfs rw,size=65536k 0 0\n", None),
            ("/dev/sda1 /dev/shm ext4 rw,size=1024k 0 0\n", None),
            ("tmpfs /dev/shm tmpfs rw,size=50% 0 0\n", None),
            ("tmpfs /dev/shm\n", None),
            ("", None),
        ],
        ids=["half of memory", "container", "mounted over", "elsewhere", "no tmpfs", "unknown unit", "cut", "empty"],
    )
    def test_by_mounts(self, mounts: str, size: int | None) -> None:
        assert shm_size_mib(mounts, MEMORY) == size

    def test_unknown_memory(self) -> None:
        assert shm_size_mib("tmpfs /dev/shm tmpfs rw 0 0\n", "") is None

    @given(mutated("tmpfs /dev/shm tmpfs rw,size=65536k 0 0\n", "([, ])") | NOISE)
    def test_mutated(self, mounts: str) -> None:
        assert shm_size_mib(mounts, MEMORY) in (None, 64, 32000)
