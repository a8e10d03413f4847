# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""File systems on which times prove nothing, and mount points."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from ansible_collections.blackwell.inference.plugins.module_utils import _bytecode_mounts
from ansible_collections.blackwell.inference.plugins.module_utils._bytecode_mounts import devices, mounts_of
from ansible_collections.blackwell.inference.tests.unit.plugins.module_utils.bytecode_case import Project, cache

ROOT = "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"


def mount(point: str, kind: str, options: str = "rw", device: str = "0:40") -> str:
    """A line of the mount table."""
    return f"30 22 {device} / {point} rw,relatime shared:2 master:1 - {kind} source {options}\n"


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A mount table to write."""
    path = tmp_path / "mountinfo"
    monkeypatch.setattr(_bytecode_mounts, "MOUNT_TABLE", str(path))
    return path


@pytest.mark.parametrize(
    ("mounted", "have_ctime"),
    [
        ("", True),
        (mount("/nowhere", "tmpfs"), True),
        (mount("/nowhere", "squashfs"), False),
        (mount("/nowhere/env", "fuse.sshfs"), False),
        (mount("/nowhere/env/lib/deep", "vfat"), False),
        (mount("/nowhere/env2", "vfat"), True),
        (mount("/nowhere", "squashfs") + mount("/nowhere/env", "xfs"), True),
        (mount("/nowhere/env", "squashfs") + mount("/nowhere/env", "xfs"), True),
        (mount("/nowhere/env", "xfs") + mount("/nowhere/env", "squashfs"), False),
        (mount("/low", "erofs") + mount("/nowhere/env", "overlay", "rw,lowerdir=/low/a,upperdir=/u,workdir=/w"), False),
        (mount("/low", "erofs") + mount("/nowhere/env", "overlay", "rw,lowerdir=/a:/low/b,upperdir=/u"), False),
        (mount("/low", "erofs") + mount("/nowhere/env", "overlay", "rw,lowerdir+=/a,lowerdir+=/low/b"), False),
        (mount("/low", "erofs") + mount("/nowhere/env", "overlay", "rw,lowerdir=/a:/b"), True),
        (mount("/nowhere/env", "overlay", "rw,lowerdir=/nowhere/env,upperdir=/u"), True),
    ],
)
def test_some_file_systems_have_no_ctime(table: Path, mounted: str, have_ctime: bool) -> None:
    table.write_text(ROOT + mounted)
    assert mounts_of("/nowhere/env").have_ctime is have_ctime


def test_points_are_spelled_as_the_search_spells_them(table: Path, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    table.write_text(ROOT + mount(f"{tmp_path}/real/a\\040b/m.py", "ext4") + mount(f"{tmp_path}/real2", "ext4"))
    assert mounts_of(str(tmp_path / "link")).points == {f"{tmp_path}/link/a b/m.py"}


def test_without_a_table_nothing_is_mounted(table: Path) -> None:
    assert mounts_of("/nowhere") == (frozenset(), True, False)
    assert devices().have_ctime(5)


@pytest.mark.parametrize(
    ("mounted", "seals_hold"),
    [
        ("", True),
        (mount("/nowhere/env", "btrfs"), True),
        (mount("/nowhere/env", "overlay", "rw,lowerdir=/a,upperdir=/u"), False),
        (mount("/nowhere/env", "nfs4"), False),
        (mount("/nowhere/env/lib", "nfs4"), False),
        (mount("/nowhere/env2", "nfs4"), True),
    ],
)
def test_seals_hold_on_local_file_systems(table: Path, mounted: str, seals_hold: bool) -> None:
    table.write_text(ROOT + mounted)
    assert mounts_of("/nowhere/env").seals_hold is seals_hold


@pytest.mark.parametrize(
    ("mounted", "trusted"),
    [
        ("", (True, True, True)),
        (mount("/a", "squashfs"), (True, False, True)),
        (mount("/a", "squashfs") + mount("/b", "overlay", "rw,lowerdir=/a", "0:41"), (True, False, False)),
        (mount("/a", "xfs") + mount("/b", "overlay", "rw,lowerdir=/a", "0:41"), (True, True, True)),
    ],
)
def test_devices_are_trusted_by_their_ctime(table: Path, mounted: str, trusted: tuple[bool, ...]) -> None:
    table.write_text(ROOT + mounted)
    assert tuple(devices().have_ctime(os.makedev(*device)) for device in ((254, 0), (0, 40), (0, 99))) == trusted


@pytest.mark.parametrize("kind", ["overlay", "nfs4"])
def test_what_times_clear_is_not_sealed_where_a_seal_might_not_hold(table: Path, tmp_path: Path, kind: str) -> None:
    project = Project(tmp_path / "app")
    project.write("m.py", "V = 1\n")
    project.write("newest.py", "V = 1\n")
    time.sleep(1.1)
    project.value()
    (pyc,) = cache(project).iterdir()
    time.sleep(0.05)
    project.compile("newest.py")
    before = pyc.stat().st_ctime_ns
    table.write_text(ROOT + mount(str(project.root), kind))
    assert (project.invalidate(prove=False).kept, pyc.stat().st_ctime_ns) == (2, before)


@pytest.mark.parametrize("mode", ["TIMESTAMP", "UNCHECKED_HASH"])
def test_nothing_is_sealed_for_a_source_without_ctime(table: Path, tmp_path: Path, mode: str) -> None:
    project = Project(tmp_path / "app")
    project.write("m.py", "V = 1\n")
    time.sleep(1.1)
    project.compile("m.py", mode)
    (pyc,) = cache(project).iterdir()
    before = pyc.stat().st_ctime_ns
    device = project.root.stat().st_dev
    table.write_text(ROOT + mount(str(project.root), "erofs", device=f"{os.major(device)}:{os.minor(device)}"))
    assert (project.invalidate().kept, pyc.stat().st_ctime_ns) == (1, before)


def test_times_without_ctime_prove_nothing(table: Path, tmp_path: Path) -> None:
    project = Project(tmp_path / "app")
    project.write("m.py", "V = 1\n")
    time.sleep(1.1)
    project.value()
    for kind, paths, proved in (("xfs", [], 0), ("squashfs", [], 1), ("squashfs", ["m.py"], 1)):
        table.write_text(ROOT + mount(str(project.root), kind))
        assert project.invalidate(*paths, check=True).proved == proved
