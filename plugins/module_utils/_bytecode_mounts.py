# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is mounted where, as far as it decides whether times prove anything about a source (proc(5), mountinfo)."""

from __future__ import annotations

import os
import re
from typing import AbstractSet, NamedTuple, Sequence

MOUNT_TABLE = "/proc/self/mountinfo"
# These hold no time of the last change, or pass on one that somebody else may set. They report the modification time in
# its place, which an edit can put back: images (squashfs and its like), FAT, and what a program serves through FUSE.
_IMAGES = ("squashfs", "erofs", "cramfs", "romfs", "iso9660", "udf")
_FOREIGN = ("vfat", "msdos", "exfat", "hfs", "hfsplus", "ntfs")
_WITHOUT_CTIME = (*_IMAGES, *_FOREIGN, "fuse", "fuseblk")
_LOWER_FOLDERS = re.compile(r"(?:^|,)lowerdir\+?=([^,]+)")


class Mounts(NamedTuple):
    """The mount points below a folder, and whether everything there records the time of its last change."""

    points: AbstractSet[str]
    have_ctime: bool


class _Mount(NamedTuple):
    point: str
    kind: str
    options: str


def mounts_of(path: str) -> Mounts:
    """The mounts of a folder, with paths spelled as a search from `path` spells them.

    A file that is mounted over a source has the ctime of its own past, so times prove nothing about it.
    """
    real = os.path.realpath(path)
    try:
        with open(MOUNT_TABLE, "rb") as file:
            mounts = [_parsed(line) for line in file]
    except OSError:
        return Mounts(frozenset(), True)
    below = [mount for mount in mounts if mount.point.startswith(real + "/")]
    points = frozenset(path + mount.point[len(real) :] for mount in below)
    return Mounts(points, _has_ctime(real, mounts) and all(_keeps_ctime(mount, mounts) for mount in below))


def _parsed(line: bytes) -> _Mount:
    """A line of the mount table: fields, a dash after a varying number of them, then type, source and options."""
    front, _dash, back = line.rstrip(b"\n").partition(b" - ")
    point = re.sub(rb"\\(\d{3})", lambda code: bytes([int(code[1], 8)]), front.split(b" ")[4])
    kind, _source, options = (back + b"  ").split(b" ")[:3]
    return _Mount(os.fsdecode(point), os.fsdecode(kind), os.fsdecode(options))


def _has_ctime(path: str, mounts: Sequence[_Mount]) -> bool:
    """Whether the file system on which a path lies records ctimes; the last one mounted on a point hides the others."""
    own = [mount for mount in mounts if (path + "/").startswith(mount.point.rstrip("/") + "/")]
    return _keeps_ctime(max(reversed(own), key=lambda mount: len(mount.point)), mounts) if own else True


def _keeps_ctime(mount: _Mount, mounts: Sequence[_Mount]) -> bool:
    """An overlay shows the times of the folders below it, where they can be seen from here."""
    if mount.kind != "overlay":
        return mount.kind.split(".")[0] not in _WITHOUT_CTIME
    others = [other for other in mounts if other is not mount]
    lower = [folder for listed in _LOWER_FOLDERS.findall(mount.options) for folder in listed.split(":") if folder]
    return all(_has_ctime(os.path.realpath(folder), others) for folder in lower)
