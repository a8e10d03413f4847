# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sources as text: nothing is lost on the way there and back, and positions of the tree are found again."""

from __future__ import annotations

import ast

import pytest
from ansible_collections.blackwell.inference.plugins.module_utils._source_text import (
    SourceText,
    Splice,
    decode,
    encode,
    reindent,
    splice,
    split_lines,
)
from hypothesis import given
from hypothesis import strategies as st

BYTES = {
    "plain": b"x = 1\n",
    "no final newline": b"x = 1",
    "empty": b"",
    "crlf": b"x = 1\r\ny = 2\r\n",
    "lone cr": b"x = 1\ry = 2\r",
    "mixed": b"x = 1\r\ny = 2\nz = 3\r",
    "bom": b"\xef\xbb\xbfx = '\xc3\xa9'\n",
    "bom and cookie": b"\xef\xbb\xbf# -*- coding: utf-8 -*-\nx = 1\n",
    "latin-1 cookie": b"# -*- coding: latin-1 -*-\nx = '\xe9'\n",
    "cookie in line 2": b"#!/bin/sh\n# vim: set fileencoding=cp1252 :\nx = '\x80'\n",
    "form feed": b"x = 1\n\x0cy = 2\n",
    "tabs": b"if 1:\n\tx = 1\n",
}


@pytest.mark.parametrize("source", BYTES.values(), ids=BYTES)
def test_bytes_survive_decoding_and_encoding(source: bytes) -> None:
    form = decode(source)
    assert encode(form.text, form) == source
    assert "".join(split_lines(form.text)) == form.text


@given(st.text(alphabet="ab \t\r\n\x0c\x85\u2028é", max_size=30))
def test_lines_are_those_of_the_tokenizer(text: str) -> None:
    lines = split_lines(text)
    assert "".join(lines) == text
    assert all(set(line.rstrip("\r\n")).isdisjoint("\r\n") for line in lines)


@pytest.mark.parametrize(
    "source",
    [b"# coding: no-such-codec\nx = 1\n", b"x = '\xff'\n", b"# coding: ascii\nx = '\xc3\xa9'\n"],
    ids=["unknown codec", "not utf-8", "not ascii"],
)
def test_what_python_refuses_is_a_syntax_error(source: bytes) -> None:
    with pytest.raises(SyntaxError):
        decode(source)


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_spans_count_characters_where_the_tree_counts_utf8_bytes(newline: str) -> None:
    text = newline.join(["é = 'ü'", "if é:", "    name = '日本' + other  # ß", ""])
    source = SourceText(text)
    names = [node for node in ast.walk(source.tree) if isinstance(node, ast.Name)]
    assert sorted(source.segment(node) for node in names) == ["name", "other", "é", "é"]


def test_tokens_have_offsets_in_the_whole_text() -> None:
    source = SourceText("x = 'é'\r\nfrom a import (\r\n    b,  # ü\r\n    c,\r\n)\r\n")
    statement = source.tree.body[1]
    strings = [(token.string, source.text[token.start : token.end]) for token in source.tokens(statement)]
    assert all(shown == found for shown, found in strings if shown)
    assert [shown for shown, dummy in strings][:4] == ["from", "a", "import", "("]


def test_the_indentation_unit_is_that_of_the_first_block() -> None:
    assert SourceText("class A: x = 1\ndef f():\n\tpass\n").indent_unit() == "\t"
    assert SourceText("def f(\n    a,\n): return a\nif 1:\n  x = 1\n").indent_unit() == "  "
    assert SourceText("x = 1\n").indent_unit() == "    "


def test_splices_are_applied_to_the_text_as_it_was() -> None:
    assert splice("abcdef", [Splice(1, 2, "XX"), Splice(4, 5, ""), Splice(6, 6, "!")]) == "aXXcdf!"


def test_a_block_takes_the_files_own_indentation_and_line_ends() -> None:
    block = "  def f(self):\n      if 1:\n          return 2\n\n      return 3\n"
    expected = "\tdef f(self):\r\n\t\tif 1:\r\n\t\t\treturn 2\r\n\r\n\t\treturn 3\r\n"
    assert reindent(block, "\t", "\t", "\r\n") == expected


def test_lines_of_a_long_string_keep_their_bytes() -> None:
    block = 'x = """one\n    two\nthree"""\ny = f"""a\n  {x}\n"""\nz = 1\n'
    shifted = reindent(block, "    ", "    ", "\n")
    assert shifted == '    x = """one\n    two\nthree"""\n    y = f"""a\n  {x}\n"""\n    z = 1\n'
