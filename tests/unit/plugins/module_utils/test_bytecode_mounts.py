# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""File systems on which times prove nothing, and mount points."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from ansible_collections.blackwell.inference.plugins.module_utils import _bytecode_mounts
from ansible_collections.blackwell.inference.plugins.module_utils._bytecode_mounts import mounts_of
from ansible_collections.blackwell.inference.tests.unit.plugins.module_utils.bytecode_case import Project

ROOT = "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"


def mount(point: str, kind: str, options: str = "rw") -> str:
    """A line of the mount table."""
    return f"30 22 0:40 / {point} rw,relatime shared:2 master:1 - {kind} source {options}\n"


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
    assert mounts_of("/nowhere") == (frozenset(), True)


def test_times_without_ctime_prove_nothing(table: Path, tmp_path: Path) -> None:
    project = Project(tmp_path / "app")
    project.write("m.py", "V = 1\n")
    time.sleep(1.1)
    project.value()
    for kind, paths, proved in (("xfs", [], 0), ("squashfs", [], 1), ("squashfs", ["m.py"], 1)):
        table.write_text(ROOT + mount(str(project.root), kind))
        assert project.invalidate(*paths, check=True).proved == proved
