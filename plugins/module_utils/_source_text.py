# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Python source file as text that can be spliced and written back byte for byte.

Bytes become text and back without loss: byte order mark, encoding cookie, line ends, tabs, and a missing final newline
stay what they are. Positions of the `ast` module (line, UTF-8 column) become offsets into that text.
"""

from __future__ import annotations

import ast
import bisect
import codecs
import io
import re
import textwrap
import tokenize
from itertools import accumulate
from typing import Any, Iterator, NamedTuple

# Line ends as Python's tokenizer sees them. str.splitlines() knows more (form feed, U+2028) that end no line of source.
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")
_DEFAULT_INDENT = "    "


class EditError(Exception):
    """An edit does not fit the source: what was expected, and what was found there instead."""

    def __init__(self, expected: str, found: str) -> None:
        """Both as phrases or short excerpts."""
        super().__init__(f"expected {expected}; found {found}")
        self.expected = expected
        self.found = found


class InvalidEdit(ValueError):
    """An edit is wrong in itself, whatever the source."""


class Decoded(NamedTuple):
    """The text of a source and what is needed to turn it into bytes again."""

    text: str
    encoding: str
    bom: bytes


class Splice(NamedTuple):
    """Replace text[start:end] by `text`."""

    start: int
    end: int
    text: str


class Token(NamedTuple):
    """A token with its offsets in the text."""

    type: int
    string: str
    start: int
    end: int


def decode(source: bytes) -> Decoded:
    """Decode a source as Python would (PEP 263), keeping its line ends.

    Raises SyntaxError for an unknown encoding, and for bytes that the encoding does not allow.
    """
    encoding, dummy = tokenize.detect_encoding(io.BytesIO(source).readline)
    bom = codecs.BOM_UTF8 if source.startswith(codecs.BOM_UTF8) else b""
    codec = "utf-8" if encoding == "utf-8-sig" else encoding
    try:
        return Decoded(source[len(bom) :].decode(codec), codec, bom)
    except UnicodeDecodeError as error:
        raise SyntaxError(f"the source is not {codec}: {error}") from error


def encode(text: str, form: Decoded) -> bytes:
    """Turn edited text into bytes of the same form. Raises UnicodeEncodeError where the encoding lacks a character."""
    return form.bom + text.encode(form.encoding)


def split_lines(text: str) -> list[str]:
    """The lines of a source with their line ends."""
    return _LINE.findall(text)


def ending(line: str) -> str:
    """The line end of a line, empty when it has none."""
    return line[len(line.rstrip("\r\n")) :]


class SourceText:
    """A parsed source: its tree, and the way from positions of the tree to offsets of the text."""

    def __init__(self, text: str) -> None:
        """Parse the text. Raises SyntaxError when it is not Python for this interpreter."""
        self.text = text
        try:
            self.tree = ast.parse(text)
        except ValueError as error:  # null bytes, before Python 3.12
            raise SyntaxError(str(error)) from error
        self.lines = split_lines(text)
        self._starts = [0, *accumulate(map(len, self.lines))]

    def line_start(self, line: int) -> int:
        """Offset of the first character of a line (from 1); the end of the text for the line after the last."""
        return self._starts[min(line - 1, len(self.lines))]

    def line_at(self, offset: int) -> int:
        """The line (from 1) on which an offset lies; the last one for the end of the text."""
        return min(bisect.bisect_right(self._starts, offset), len(self.lines))

    def span(self, node: Any) -> tuple[int, int]:
        """First and last offset of a node that has a position, without its decorators."""
        start = self._offset(node.lineno, node.col_offset)
        return start, self._offset(node.end_lineno, node.end_col_offset)

    def _offset(self, line: int, column: int) -> int:
        head = self.lines[line - 1].encode("utf-8")[:column]
        return self._starts[line - 1] + len(head.decode("utf-8"))

    def segment(self, node: ast.AST) -> str:
        """The text of a node."""
        start, end = self.span(node)
        return self.text[start:end]

    def tokens(self, node: ast.AST) -> Iterator[Token]:
        """The tokens of a node, in their order."""
        begin, end = self.span(node)
        segment = self.text[begin:end]
        starts = [0, *accumulate(map(len, split_lines(segment))), len(segment)]
        for item in tokenize.generate_tokens(io.StringIO(segment, newline="").readline):
            first, last = (begin + starts[row - 1] + column for row, column in (item.start, item.end))
            yield Token(item.type, item.string, first, last)

    def first_line(self, node: Any) -> int:
        """First line of a statement, its decorators included."""
        return min([int(item.lineno) for item in [*getattr(node, "decorator_list", []), node]])

    def opens_line(self, node: ast.stmt) -> bool:
        """Whether only white space precedes a statement on its line."""
        return not self.text[self.line_start(node.lineno) : self.span(node)[0]].strip()

    def indent(self, line: int) -> str:
        """The white space at the beginning of a line (from 1)."""
        content = self.lines[line - 1]
        return content[: len(content) - len(content.lstrip(" \t\f"))]

    def indent_unit(self) -> str:
        """One level of indentation, as the first indented block of the file has it."""
        for node in ast.walk(self.tree):
            body = getattr(node, "body", None)
            if isinstance(node, ast.stmt) and isinstance(body, list) and self.opens_line(body[0]):
                return self.indent(body[0].lineno)[len(self.indent(node.lineno)) :]
        return _DEFAULT_INDENT

    def newline(self, line: int) -> str:
        """The line end to use near a line: its own, else that of the nearest line before it that has one."""
        return next(filter(None, map(ending, reversed(self.lines[:line]))), "\n")


def splice(text: str, splices: list[Splice]) -> str:
    """Apply replacements that don't overlap, the last first, so that offsets stay valid."""
    for piece in sorted(splices, reverse=True):
        text = text[: piece.start] + piece.text + text[piece.end :]
    return text


def reindent(block: str, indent: str, unit: str, newline: str) -> str:
    """Shift a block of statements to an indentation, in the file's own style; each of its lines gets the line end.

    Lines inside a string that spans lines are data and stay as they are; blank lines stay empty.
    """
    plain = textwrap.dedent(block).strip("\n")
    data_lines = _lines_inside_strings(plain)
    lines = []
    for number, line in enumerate(plain.split("\n"), 1):
        body = line.lstrip(" ")
        levels, rest = divmod(len(line) - len(body), len(_DEFAULT_INDENT))
        shifted = indent + unit * levels + " " * rest + body if body else ""
        lines.append(line if number in data_lines else shifted)
    return "".join(line + newline for line in lines)


def _lines_inside_strings(block: str) -> set[int]:
    inside: set[int] = set()
    for node in ast.walk(ast.parse(block)):
        if isinstance(node, (ast.Constant, ast.JoinedStr)) and isinstance(getattr(node, "value", ""), (str, bytes)):
            inside.update(range(node.lineno + 1, (node.end_lineno or node.lineno) + 1))
    return inside
