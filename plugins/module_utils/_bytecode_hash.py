# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hash of a source as the interpreter that wrote a hash pyc computes it.

The key is the pyc's magic number, the algorithm is SipHash (Aumasson and Bernstein, 2012): SipHash-2-4 up to CPython
3.10 and in PyPy, SipHash-1-3 from CPython 3.11. The `_imp.source_hash` of one interpreter therefore gives wrong
answers for the pycs of another.
"""

from __future__ import annotations

import _imp
import struct
from typing import Tuple

_MASK = (1 << 64) - 1
_FIRST_SIPHASH_1_3_MAGIC = 3450  # CPython 3.11 alpha 1
_FIRST_CPYTHON_MAGIC = 3000

Rounds = Tuple[int, int]  # compression, finalization
SIPHASH_2_4: Rounds = (2, 4)
SIPHASH_1_3: Rounds = (1, 3)
_State = Tuple[int, int, int, int]


def rounds_of(number: int) -> Rounds:
    """The variant of SipHash that the interpreter with this magic number uses."""
    return SIPHASH_1_3 if number >= _FIRST_SIPHASH_1_3_MAGIC else SIPHASH_2_4


def source_hash(magic: bytes, source: bytes) -> bytes:
    """The eight bytes that a hash pyc with this magic (four bytes) holds if it was compiled from `source`."""
    key = int.from_bytes(magic, "little")
    rounds = rounds_of(magic[0] | magic[1] << 8)
    if rounds == _OWN_ROUNDS:
        return _imp.source_hash(key, source)
    return siphash(rounds, key, source)


def computes_quickly(magic: bytes) -> bool:
    """Whether the running interpreter computes this hash itself; pure Python manages 3 MB/s."""
    return rounds_of(magic[0] | magic[1] << 8) == _OWN_ROUNDS


def siphash(rounds: Rounds, key: int, data: bytes) -> bytes:
    """SipHash of `data` with the 128-bit key (`key`, 0), as CPython uses it for sources."""
    whole = len(data) - len(data) % 8
    words = struct.unpack(f"<{whole // 8}Q", data[:whole])
    last = (len(data) & 255) << 56 | int.from_bytes(data[whole:], "little")
    state = (key ^ 0x736F6D6570736575, 0x646F72616E646F6D, key ^ 0x6C7967656E657261, 0x7465646279746573)
    for word in (*words, last):
        v0, v1, v2, v3 = _sip_rounds(rounds[0], (state[0], state[1], state[2], state[3] ^ word))
        state = (v0 ^ word, v1, v2, v3)
    v0, v1, v2, v3 = _sip_rounds(rounds[1], (state[0], state[1], state[2] ^ 255, state[3]))
    return (v0 ^ v1 ^ v2 ^ v3).to_bytes(8, "little")


def _sip_rounds(count: int, state: _State) -> _State:
    v0, v1, v2, v3 = state
    for _round in range(count):
        v0 = v0 + v1 & _MASK
        v1 = (v1 << 13 & _MASK | v1 >> 51) ^ v0
        v0 = v0 << 32 & _MASK | v0 >> 32
        v2 = v2 + v3 & _MASK
        v3 = (v3 << 16 & _MASK | v3 >> 48) ^ v2
        v0 = v0 + v3 & _MASK
        v3 = (v3 << 21 & _MASK | v3 >> 43) ^ v0
        v2 = v2 + v1 & _MASK
        v1 = (v1 << 17 & _MASK | v1 >> 47) ^ v2
        v2 = v2 << 32 & _MASK | v2 >> 32
    return v0, v1, v2, v3


_OWN_ROUNDS = SIPHASH_2_4 if _imp.source_hash(1, b"") == siphash(SIPHASH_2_4, 1, b"") else SIPHASH_1_3
