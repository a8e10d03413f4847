# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one pyc says about itself: its name, its header, its times, and the proof remembered on it.

The layout of the header is that of PEP 552 (Python 3.7 and later); names follow PEP 3147 and PEP 488.
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
from typing import Container, NamedTuple, Optional, Tuple

HEADER_SIZE = 16
FLAG_HASH = 0b01
FLAG_CHECKED = 0b10
ALL_LEVELS = "012"  # nothing says at which level a pyc outside __pycache__ was compiled

SECOND = 10**9  # nanoseconds
# An edit that lands while the interpreter is compiling leaves a stale pyc that is *younger* than the edit. Measured on
# CPython 3.8 to 3.13 (2026-11): 15,000 compilations, up to 24 at once on 2 cores, none took longer than this.
COMPILE_WINDOW = SECOND
COMPILE_WINDOW_PER_BYTE = 4000
# An interpreter renames its finished pyc into place at once. A pyc whose ctime is later was copied, moved or touched.
SETTLED_AT_ONCE = SECOND // 10
# A full disk, a quota or a limit ends a file with a whole block. CPython up to 3.12.7 and 3.13.0 did not look whether
# all had been written and put the stump into its place (https://github.com/python/cpython/issues/126606).
SMALLEST_BLOCK = 512  # bytes
# How far a seal moves the pyc's mtime back, so that it can never look like a pyc that was just compiled.
SEAL_OFFSET_SECONDS = 10
SEALED_AT_ONCE_SECONDS = 1  # between asking for the time and setting it; later costs another look, no more

# The magic number of the final releases. Another number under the same tag is ignored by that interpreter.
RELEASED_MAGIC = {
    "cpython-37": 3394,
    "cpython-38": 3413,
    "cpython-39": 3425,
    "cpython-310": 3439,
    "cpython-311": 3495,
    "cpython-312": 3531,
    "cpython-313": 3571,
    "cpython-314": 3627,
}
# CPython 3.6 and older wrote headers of 12 or 8 bytes, and Python 2 numbered from 20121 upwards.
_FIRST_CPYTHON_MAGIC = 3000
_FIRST_PEP_552_MAGIC = 3392
_FIRST_PYTHON_2_MAGIC = 20000

_unpack_header = struct.Struct("<4sI8s").unpack
_unpack_stamp = struct.Struct("<II").unpack
_pack_stamp = struct.Struct("<II").pack
_PLAIN_START: dict[str | None, bytes] = {
    tag: struct.pack("<H2sI", number, b"\r\n", 0) for tag, number in RELEASED_MAGIC.items()
}
# Import hooks put versions, and so dots, into their tags: m.cpython-312-pytest-8.3.4.pyc
_TAGGED = re.compile(
    r"(?P<stem>.+?)\.(?P<tag>(?:cpython|pypy|graalpy|pyston)-?\d.*?)(?:\.opt-(?P<optimization>\w+))?", re.S
)

# name of the source, tag (None outside __pycache__), optimization (empty for an ordinary pyc)
Owner = Tuple[str, Optional[str], str]
# device, inode, size in bytes, mtime and ctime in nanoseconds
Identity = Tuple[int, int, int, int, int]


class Header(NamedTuple):
    """The parts of a header that an interpreter may accept; `stamp` is mtime and size, or the hash of the source."""

    magic: bytes
    flags: int
    stamp: bytes

    @property
    def number(self) -> int:
        """The magic number as the release notes of Python print it."""
        return self.magic[0] | self.magic[1] << 8


def owner_of(name: str, sources: Container[str]) -> Owner | None:
    """The source among `sources` that a pyc in `__pycache__` belongs to; None if there is none.

    The name is read from the right, because a stem may contain dots.
    """
    stem, _dot, tag = name[:-4].rpartition(".")
    optimization = ""
    if tag[:4] == "opt-":
        optimization = tag[4:]
        stem, _dot, tag = stem.rpartition(".")
    if stem + ".py" in sources:
        return stem + ".py", tag, optimization
    hooked = _TAGGED.fullmatch(name[:-4])
    if hooked and hooked["stem"] + ".py" in sources:
        return hooked["stem"] + ".py", hooked["tag"], hooked["optimization"] or ""
    return None


def is_tagged(name: str) -> bool:
    """Whether an interpreter gave a pyc this name for `__pycache__` or a `pycache_prefix` tree."""
    return _TAGGED.fullmatch(name[:-4]) is not None


def parse_header(data: bytes, tag: str | None) -> Header | None:
    """The header, or None where every interpreter ignores such a pyc and writes a new one.

    That is: fewer than 16 bytes, unknown flags, or a magic number that does not belong to the tag (PEP 552 and
    `importlib._bootstrap_external._classify_pyc`). `tag` is None for a pyc outside `__pycache__`.
    """
    if len(data) < HEADER_SIZE:
        return None
    header = Header(*_unpack_header(data[:HEADER_SIZE]))
    if header.flags & ~(FLAG_HASH | FLAG_CHECKED) or header.magic[2:] != b"\r\n":
        return None
    number = header.number
    if tag is None:
        old = _FIRST_CPYTHON_MAGIC <= number < _FIRST_PEP_552_MAGIC or number >= _FIRST_PYTHON_2_MAGIC
        return None if old else header
    return header if RELEASED_MAGIC.get(tag, number) == number else None


def identity(status: os.stat_result) -> Identity:
    """What changes whenever a file is replaced, written, or given other metadata."""
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def plain_header(tag: str | None, source: os.stat_result) -> bytes:
    """The header of a timestamp pyc that the released interpreter with this tag would use; empty for other tags."""
    start = _PLAIN_START.get(tag)
    return start + _pack_stamp(source.st_mtime_ns // SECOND & 0xFFFFFFFF, source.st_size & 0xFFFFFFFF) if start else b""


def stamp_matches(stamp: bytes, source: os.stat_result) -> tuple[bool, bool]:
    """Whether mtime and size in a timestamp pyc equal the source's, both as unsigned 32 bits.

    Equality is the whole rule of CPython: a newer pyc is not a better one.
    """
    mtime, size = _unpack_stamp(stamp)
    return mtime == source.st_mtime_ns // SECOND & 0xFFFFFFFF, size == source.st_size & 0xFFFFFFFF


def left_as_written(pyc: os.stat_result) -> bool:
    """Whether nothing happened to a pyc after an interpreter had put it into its place."""
    return 0 <= pyc.st_ctime_ns - pyc.st_mtime_ns < SETTLED_AT_ONCE


def compiled_after_last_change(pyc: os.stat_result, source: os.stat_result, now: int) -> bool:
    """Whether the times alone prove that the pyc was compiled from the source as it is now.

    The ctime of the source is the time of its last change, whatever was done to its mtime. It must lie before the pyc
    by more than a compilation can last, and the pyc must be exactly as the interpreter left it. `now` is in
    nanoseconds since the epoch.
    """
    written = pyc.st_mtime_ns
    return (
        source.st_ctime_ns + COMPILE_WINDOW + COMPILE_WINDOW_PER_BYTE * source.st_size < written <= now
        and left_as_written(pyc)
        and source.st_mtime_ns <= source.st_ctime_ns
        and source.st_dev == pyc.st_dev
    )


def may_be_cut_off(pyc: os.stat_result) -> bool:
    """Whether a pyc may be the beginning of one for which there was no room; every import of such a stump fails."""
    return pyc.st_size % SMALLEST_BLOCK == 0


def seal_nanoseconds(name: str, pyc: Identity, source: Identity) -> int:
    """The nanoseconds that a seal writes into the mtime of the pyc: a digest of what was found to belong together.

    It covers the name, inode and size of the pyc and the inode, size, mtime and ctime of the source, so it holds for
    linked sources, for `pycache_prefix` trees and for hard links as well, and ends with any change of the source.
    Devices are left out: their numbers change from boot to boot.
    """
    # As text: a time in the far future does not fit into 64 bits of nanoseconds.
    proved = repr((pyc[1], pyc[2], *source[1:])).encode("ascii") + os.fsencode(name)
    digest = hashlib.blake2b(proved, digest_size=8, person=b"pyc_invalidate").digest()
    return int.from_bytes(digest, "little") % SECOND


def is_sealed(name: str, pyc: os.stat_result, source: os.stat_result) -> bool:
    """Whether an earlier run has found this very pyc to belong to this very source, and nothing happened to it since.

    Sealing it was its last change, so its ctime says when, and its mtime lies so far before. Whoever writes into it
    later can put back the mtime, not the ctime.
    """
    since = pyc.st_ctime_ns // SECOND - pyc.st_mtime_ns // SECOND - SEAL_OFFSET_SECONDS
    if not -1 <= since <= SEALED_AT_ONCE_SECONDS:
        return False
    return pyc.st_mtime_ns % SECOND == seal_nanoseconds(name, identity(pyc), identity(source))
