# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hash of a source, compared with what real interpreters compute."""

from __future__ import annotations

import subprocess

import pytest
from ansible_collections.blackwell.inference.plugins.module_utils._bytecode_hash import (
    SIPHASH_1_3,
    SIPHASH_2_4,
    rounds_of,
    siphash,
    source_hash,
)
from ansible_collections.blackwell.inference.tests.unit.plugins.module_utils.bytecode_case import ENVIRONMENT
from ansible_collections.blackwell.inference.tests.unit.plugins.module_utils.bytecode_pythons import found

DATA = [bytes(range(size)) for size in (0, 1, 7, 8, 9, 63, 255)]


@pytest.mark.parametrize("name", found())
def test_the_hash_is_that_of_the_interpreter(name: str) -> None:
    code = (
        "import _imp; from importlib.util import MAGIC_NUMBER as m; k = int.from_bytes(m, 'little'); "
        f"print(m.hex(), *(_imp.source_hash(k, d).hex() for d in {DATA!r}))"
    )
    done = subprocess.run(
        [found()[name], "-I", "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    magic, *hashes = done.stdout.split()
    number = int.from_bytes(bytes.fromhex(magic)[:2], "little")
    assert [source_hash(bytes.fromhex(magic), data).hex() for data in DATA] == hashes
    key = int.from_bytes(bytes.fromhex(magic), "little")
    assert [siphash(rounds_of(number), key, data).hex() for data in DATA] == hashes


@pytest.mark.parametrize(
    ("number", "rounds"), [(3413, SIPHASH_2_4), (3439, SIPHASH_2_4), (3495, SIPHASH_1_3), (336, SIPHASH_2_4)]
)
def test_the_variant_changed_with_python_3_11(number: int, rounds: tuple[int, int]) -> None:
    assert rounds_of(number) == rounds
