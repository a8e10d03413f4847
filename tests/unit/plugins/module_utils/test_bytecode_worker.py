# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The comparison of code: equal exactly if everything that runs or is shown is equal."""

from __future__ import annotations

import io
import marshal
import sys

import pytest
from ansible_collections.blackwell.inference.plugins.module_utils._bytecode_worker import answer

SOURCE = '''
"""Words."""
import os

class Thing:
    """A thing."""
    limit = 1e-3

    def method(self, a, /, b=2, *c, d: int = 4, **e):
        """Do it."""
        assert a, "no a"
        return [x for x in c if x in {1, 2.0, "three", None}], float("nan"), -0.0, 1j, b"x", (1, (2, 3)), ...

def outer():
    inner = 1
    def closure():
        nonlocal inner
        inner += 1
        try:
            return inner
        finally:
            del inner
    return closure
'''


def pyc(source: str, level: int = 0, filename: str = "/tmp/pip-target/m.py") -> bytes:
    """The code of a source as it stands in a pyc."""
    return marshal.dumps(compile(source, filename, "exec", dont_inherit=True, optimize=level))


def prove(levels: str, source: bytes, code: bytes) -> str:
    """Ask for a proof."""
    return answer(io.BytesIO(source + code), f"prove {levels} {len(source)} {len(code)}\n".encode())


@pytest.mark.parametrize("level", [0, 1, 2])
def test_unchanged_sources_give_the_same_code(level: int) -> None:
    assert prove(str(level), SOURCE.encode(), pyc(SOURCE, level)) == "same"
    assert prove("012", SOURCE.encode(), pyc(SOURCE, level)) == "same", "at a level that nobody noted"


@pytest.mark.parametrize(("old", "new"), [(0, 1), (1, 2), (2, 0)])
def test_levels_differ(old: int, new: int) -> None:
    assert prove(str(new), SOURCE.encode(), pyc(SOURCE, old)) == "code_differs"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("1e-3", "1e-4"),
        ("limit", "limix"),
        ("b=2", "b=3"),
        ("*c", "*z"),
        (", /,", ",   "),
        ("nonlocal", "global  "),
        ("{1, 2.0", "{1.0, 2"),
        ("-0.0", "+0.0"),
        ("1j", "2j"),
        ('b"x"', '"x" '),
        ("(2, 3)", "(2, 4)"),
        ("(1, (2", "(True, (2"),
        ("...", "None"),
        ("d: int", "d: str"),
        ("A thing", "A think"),
        ("import os", "import re"),
        ("import os\n\n", "\nimport os\n"),
        ("+= 1", "-= 1"),
        ("try:\n            return inner", "try:\n             return inner"),
    ],
)
def test_every_edit_shows(old: str, new: str) -> None:
    assert old in SOURCE
    edited = SOURCE.replace(old, new, 1)
    columns_only = (old, new) == ("try:\n            return inner", "try:\n             return inner")
    expected = "same" if columns_only and sys.version_info < (3, 11) else "code_differs"
    assert prove("0", edited.encode(), pyc(SOURCE)) == expected


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("0x1", "1.0"),
        ("0x01", "True"),
        ("+0.0", "-0.0"),
        ("+0j", "-0j"),
        ("(1, 0x2)", "(1, 2.0)"),
        ("x in {7, 0x01}", "x in {7, True}"),
        ("u'a'", "b'a'"),
    ],
)
def test_constants_are_typed(old: str, new: str) -> None:
    assert len(old) == len(new), "or the columns would tell"
    assert prove("0", f"V = lambda x: {new}".encode(), pyc(f"V = lambda x: {old}")) == "code_differs"


def test_the_constant_nan_equals_itself() -> None:
    assert prove("0", b"V = 1e999 - 1e999, 1e999", pyc("V = 1e999 - 1e999, 1e999")) == "same"


def test_the_order_of_numbers_in_a_set_counts_where_bytecode_keeps_it() -> None:
    one, other = "V = [x for x in {8, 0}]", "V = [x for x in {0, 8}]"
    results = []
    for source in (one, other):
        names: dict[str, list[int]] = {}
        exec(marshal.loads(pyc(source)), names)
        results.append(names["V"])
    expected = "same" if results[0] == results[1] else "code_differs"
    assert prove("0", one.encode(), pyc(one)) == "same"
    assert prove("0", other.encode(), pyc(one)) == expected


def test_encodings_are_those_of_the_source() -> None:
    latin = '# -*- coding: latin-1 -*-\nV = "\xe9"\n'
    code = marshal.dumps(compile(latin.encode("latin-1"), "m.py", "exec", dont_inherit=True))
    assert prove("0", latin.encode("latin-1"), code) == "same"
    assert prove("0", latin.replace("\xe9", "\xe8").encode("latin-1"), code) == "code_differs"


@pytest.mark.parametrize("source", [b"V = (", b"V = 1\0", b"\xff", b"return"])
def test_sources_that_do_not_compile(source: bytes) -> None:
    assert prove("0", source, pyc("V = 1")) == "does_not_compile"


def test_a_source_in_an_encoding_of_the_application_is_unproved() -> None:
    assert prove("0", b"# coding: of-our-own\nV = 1\n", pyc("V = 1")).split()[0] == "unproved"
    assert prove("0", b"\xef\xbb\xbf# coding: of-our-own\nV = 1\n", pyc("V = 1")) == "does_not_compile"


@pytest.mark.parametrize("code", [b"", b"\xff" * 40, marshal.dumps(None), pyc(SOURCE)[:-10]])
def test_bytes_that_are_no_code(code: bytes) -> None:
    assert prove("0", SOURCE.encode(), code) == "broken"


def test_a_source_that_is_too_much_for_the_compiler() -> None:
    deep = b"V = " + b"-" * 200_000 + b"1"
    assert prove("0", deep, pyc("V = 1")).split()[0] in ("unproved", "does_not_compile")


def test_requests_are_read_from_a_stream() -> None:
    source, code = SOURCE.encode(), pyc(SOURCE)
    stream = io.BytesIO(source + code + b"next")
    assert answer(stream, b"prove 0 %d %d\n" % (len(source), len(code))) == "same"
    assert stream.read() == b"next"
