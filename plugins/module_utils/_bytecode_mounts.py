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
# Local file systems that show the times and the inode of a file as they were written, to everybody and at once. A seal
# elsewhere may not hold: the clock of a server is not that of this node, and an overlay would copy each file that is
# sealed and might then give it another inode.
_SEALS_HOLD = ("ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "tmpfs")
_LOWER_FOLDERS = re.compile(r"(?:^|,)lowerdir\+?=([^,]+)")


class Mounts(NamedTuple):
    """The mount points below a folder, and whether everything there records the time of its last change.

    `seals_hold` says that setting the time of a file costs no more than that, and is not lost by itself.
    """

    points: AbstractSet[str]
    have_ctime: bool
    seals_hold: bool


class Devices(NamedTuple):
    """The mounted devices, as the status of a file names them, by whether they record the time of the last change.

    An overlay, like Btrfs, gives devices to files that no mount names; `others` says whether those may be trusted.
    """

    trusted: AbstractSet[int]
    distrusted: AbstractSet[int]
    others: bool

    def have_ctime(self, device: int) -> bool:
        """Whether the ctime of a file on this device is that of its last change."""
        return device in self.trusted or (self.others and device not in self.distrusted)


class _Mount(NamedTuple):
    device: int
    point: str
    kind: str
    options: str


def mounts_of(path: str) -> Mounts:
    """The mounts of a folder, with paths spelled as a search from `path` spells them.

    A file that is mounted over a source has the ctime of its own past, so times prove nothing about it.
    """
    real = os.path.realpath(path)
    mounts = _mounted()
    if not mounts:
        return Mounts(frozenset(), True, False)
    below = [mount for mount in mounts if mount.point.startswith(real + "/")]
    points = frozenset(path + mount.point[len(real) :] for mount in below)
    own = _mount_of(real, mounts)
    return Mounts(
        points,
        _has_ctime(real, mounts) and all(_keeps_ctime(mount, mounts) for mount in below),
        all(mount is not None and mount.kind in _SEALS_HOLD for mount in (own, *below)),
    )


def devices() -> Devices:
    """All that is mounted, by whether it has a ctime."""
    mounts = _mounted()
    distrusted = [mount for mount in mounts if not _keeps_ctime(mount, mounts)]
    names = frozenset(mount.device for mount in distrusted)
    return Devices(
        frozenset(mount.device for mount in mounts) - names, names, all(mount.kind != "overlay" for mount in distrusted)
    )


def _mounted() -> list[_Mount]:
    try:
        with open(MOUNT_TABLE, "rb") as file:
            return [_parsed(line) for line in file]
    except OSError:
        return []


def _parsed(line: bytes) -> _Mount:
    """A line of the mount table: fields, a dash after a varying number of them, then type, source and options."""
    front, _dash, back = line.rstrip(b"\n").partition(b" - ")
    fields = front.split(b" ")
    major, minor = map(int, fields[2].split(b":"))
    point = re.sub(rb"\\(\d{3})", lambda code: bytes([int(code[1], 8)]), fields[4])
    kind, _source, options = (back + b"  ").split(b" ")[:3]
    return _Mount(os.makedev(major, minor), os.fsdecode(point), os.fsdecode(kind), os.fsdecode(options))


def _has_ctime(path: str, mounts: Sequence[_Mount]) -> bool:
    """Whether the file system on which a path lies records ctimes; the last one mounted on a point hides the others."""
    own = _mount_of(path, mounts)
    return own is None or _keeps_ctime(own, mounts)


def _mount_of(path: str, mounts: Sequence[_Mount]) -> _Mount | None:
    own = [mount for mount in mounts if (path + "/").startswith(mount.point.rstrip("/") + "/")]
    return max(reversed(own), key=lambda mount: len(mount.point), default=None)


def _keeps_ctime(mount: _Mount, mounts: Sequence[_Mount]) -> bool:
    """An overlay shows the times of the folders below it, where they can be seen from here."""
    if mount.kind != "overlay":
        return mount.kind.split(".")[0] not in _WITHOUT_CTIME
    others = [other for other in mounts if other is not mount]
    lower = [folder for listed in _LOWER_FOLDERS.findall(mount.options) for folder in listed.split(":") if folder]
    return all(_has_ctime(os.path.realpath(folder), others) for folder in lower)
