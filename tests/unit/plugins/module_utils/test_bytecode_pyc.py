# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names, headers and times of pycs."""

from __future__ import annotations

import importlib.util
import os
import struct
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.inference.plugins.module_utils._bytecode_pyc import (
    RELEASED_MAGIC,
    SEAL_OFFSET_SECONDS,
    SECOND,
    Identity,
    compiled_after_last_change,
    identity,
    is_sealed,
    owner_of,
    parse_header,
    plain_header,
    seal_nanoseconds,
    stamp_matches,
)

NOW = 1_800_000_000 * SECOND


def status(**changes: int) -> os.stat_result:
    """A status with the given times in nanoseconds."""
    values = {"st_dev": 1, "st_ino": 2, "st_size": 1000, "st_mtime_ns": NOW, "st_ctime_ns": NOW, **changes}
    seconds = {7: 0, 8: values["st_mtime_ns"] // SECOND, 9: values["st_ctime_ns"] // SECOND}
    plain = [0o100644, values["st_ino"], values["st_dev"], 1, 0, 0, values["st_size"], *seconds.values()]
    return os.stat_result(plain, {key: values[key] for key in ("st_mtime_ns", "st_ctime_ns")})


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("m.cpython-312.pyc", ("m.py", "cpython-312", "")),
        ("m.cpython-312.opt-2.pyc", ("m.py", "cpython-312", "2")),
        ("a.b.cpython-38.opt-1.pyc", ("a.b.py", "cpython-38", "1")),
        ("m.pypy39.pyc", ("m.py", "pypy39", "")),
        ("m.cpython-312-pytest-8.3.4.pyc", ("m.py", "cpython-312-pytest-8.3.4", "")),
        ("m.cpython-312.opt-beartype0v19.pyc", ("m.py", "cpython-312", "beartype0v19")),
        ("n.cpython-312.pyc", None),
        ("m.pyc", None),
        (".pyc", None),
        ("m.cpython-312\n.pyc", ("m.py", "cpython-312\n", "")),
    ],
)
def test_the_source_of_a_pyc_is_found_by_its_name(name: str, owner: Any) -> None:
    assert owner_of(name, {"m.py", "a.b.py", "a.py"}) == owner


def test_the_magic_of_this_interpreter_is_known() -> None:
    tag = sys.implementation.cache_tag
    assert RELEASED_MAGIC.get(tag, 0) in (0, int.from_bytes(importlib.util.MAGIC_NUMBER[:2], "little"))


def header(number: int, flags: int = 0, end: bytes = b"\r\n") -> bytes:
    """The bytes of a header."""
    return struct.pack("<H2sIII", number, end, flags, 1, 2)


@pytest.mark.parametrize("flags", [0, 1, 2, 3])
@pytest.mark.parametrize(
    ("number", "tag"), [(3531, "cpython-312"), (3531, None), (336, "pypy39"), (3999, "cpython-399"), (336, None)]
)
def test_headers_that_some_interpreter_accepts(number: int, tag: str | None, flags: int) -> None:
    parsed = parse_header(header(number, flags), tag)
    assert parsed is not None
    assert (parsed.number, parsed.flags, parsed.stamp) == (number, flags, struct.pack("<II", 1, 2))


@pytest.mark.parametrize(
    ("data", "tag"),
    [
        (header(3531)[:15], "cpython-312"),
        (header(3531, 4), "cpython-312"),
        (header(3531, end=b"\n\r"), "cpython-312"),
        (header(3495), "cpython-312"),
        (header(3379), None),
        (header(62211), None),
    ],
    ids=["short", "flags", "end", "of another tag", "Python 3.6", "Python 2.7"],
)
def test_headers_that_no_interpreter_accepts(data: bytes, tag: str | None) -> None:
    assert parse_header(data, tag) is None


def test_stamps_are_compared_for_equality_in_32_bits() -> None:
    stamp = struct.pack("<II", 1_700_000_000, 1000)
    assert stamp_matches(stamp, status(st_mtime_ns=1_700_000_000 * SECOND + 5)) == (True, True)
    assert stamp_matches(stamp, status(st_mtime_ns=(1_700_000_000 + 2**32) * SECOND)) == (True, True)
    assert stamp_matches(stamp, status(st_mtime_ns=1_699_999_999 * SECOND)) == (False, True)
    assert stamp_matches(stamp, status(st_mtime_ns=1_700_000_000 * SECOND, st_size=1001)) == (True, False)


def test_a_plain_header_is_what_the_interpreter_writes(tmp_path: Path) -> None:
    source = tmp_path / "m.py"
    source.write_text("V = 1\n")
    os.utime(source, (2**33 + 7, 2**33 + 7))
    tag = sys.implementation.cache_tag
    expected = importlib.util.MAGIC_NUMBER + struct.pack("<III", 0, 7, 6)
    assert plain_header(tag, source.stat()) == expected
    assert plain_header("cpython-312-pytest-8.3.4", source.stat()) == b""
    assert plain_header(None, source.stat()) == b""


LONG_BEFORE = NOW - 10 * SECOND


def test_times_that_prove() -> None:
    source = status(st_mtime_ns=LONG_BEFORE, st_ctime_ns=LONG_BEFORE)
    assert compiled_after_last_change(status(), source, NOW)


@pytest.mark.parametrize(
    ("pyc", "source", "now"),
    [
        ({}, {"st_ctime_ns": NOW - SECOND}, NOW),
        ({}, {"st_ctime_ns": NOW - SECOND - 4_000_000, "st_size": 1000}, NOW),
        ({"st_ctime_ns": NOW + SECOND // 10}, {}, NOW + SECOND),
        ({"st_ctime_ns": NOW - 1}, {}, NOW),
        ({}, {}, NOW - 1),
        ({}, {"st_mtime_ns": LONG_BEFORE + 1}, NOW),
        ({"st_dev": 9}, {}, NOW),
    ],
    ids=["edited within a second", "within the time it compiled", "touched", "mtime set ahead", "in the future",
         "source from the future", "other device"],
)  # fmt: skip
def test_times_that_prove_nothing(pyc: dict[str, int], source: dict[str, int], now: int) -> None:
    before = {"st_mtime_ns": LONG_BEFORE, "st_ctime_ns": LONG_BEFORE}
    assert not compiled_after_last_change(status(**pyc), status(**{**before, **source}), now)


PYC: Identity = (1, 10, 200, NOW, NOW)
SOURCE: Identity = (1, 11, 300, NOW - SECOND, NOW - SECOND)


def sealed_status() -> os.stat_result:
    """The status of the pyc after its proof was remembered."""
    sealed = NOW + seal_nanoseconds("m.pyc", PYC, SOURCE)
    return status(st_ino=10, st_size=200, st_mtime_ns=sealed, st_ctime_ns=NOW + SEAL_OFFSET_SECONDS * SECOND)


def source_status(**changes: int) -> os.stat_result:
    """The status of the source at the time of the proof, but for the changes."""
    return status(**{"st_ino": 11, "st_size": 300, "st_mtime_ns": NOW - SECOND, "st_ctime_ns": NOW - SECOND, **changes})


def test_a_seal_holds_for_what_was_proved() -> None:
    assert identity(source_status()) == SOURCE
    assert is_sealed("m.pyc", sealed_status(), source_status())
    assert is_sealed("m.pyc", sealed_status(), source_status(st_dev=77)), "devices are renumbered at boot"


@pytest.mark.parametrize("change", ["st_ino", "st_size", "st_mtime_ns", "st_ctime_ns"])
def test_a_seal_ends_with_any_change_of_the_source(change: str) -> None:
    changed = source_status(**{change: getattr(source_status(), change) + 1})
    assert not is_sealed("m.pyc", sealed_status(), changed)


def test_a_seal_knows_no_last_year() -> None:
    for mtime in (-(2**63), 2**63, 2**70):
        source: Identity = (1, 11, 300, mtime, NOW)
        assert 0 <= seal_nanoseconds("m.pyc", PYC, source) < SECOND


def test_a_seal_belongs_to_one_pyc() -> None:
    sealed = sealed_status()
    assert not is_sealed("n.pyc", sealed, source_status())
    times = {"st_mtime_ns": sealed.st_mtime_ns, "st_ctime_ns": sealed.st_ctime_ns}
    assert not is_sealed("m.pyc", status(st_ino=12, st_size=200, **times), source_status())


@pytest.mark.parametrize("seconds", [-3600, -2, 2, 3600])
def test_a_seal_ends_with_any_change_of_the_pyc(seconds: int) -> None:
    sealed = sealed_status()
    times = {"st_mtime_ns": sealed.st_mtime_ns, "st_ctime_ns": sealed.st_ctime_ns + seconds * SECOND}
    assert not is_sealed("m.pyc", status(st_ino=10, st_size=200, **times), source_status())
