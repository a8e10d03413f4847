# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each kind of edit: what it changes, finds done already, and refuses; and that all else keeps its bytes."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from ansible_collections.blackwell.inference.plugins.module_utils._source_edit import (
    answer_condition,
    answer_edits,
    apply_edits,
)
from ansible_collections.blackwell.inference.plugins.module_utils._source_text import EditError
from hypothesis import given
from hypothesis import strategies as st


def edited(text: str, *edits: dict[str, Any]) -> str:
    """The text after the edits; a second time, every edit finds its effect and changes nothing."""
    outcome = apply_edits(text.encode(), edits)
    again = apply_edits(outcome.source, edits)
    assert again.source == outcome.source
    assert all(again.present)
    return outcome.source.decode()


def refused(text: str, *edits: dict[str, Any]) -> EditError:
    with pytest.raises(EditError) as caught:
        apply_edits(text.encode(), edits)
    return caught.value


def extend_import(*names: str, module: str = ".interfaces") -> dict[str, Any]:
    return {"kind": "extend_import", "module": module, "names": list(names)}


def extend_bases(name: str, *names: str) -> dict[str, Any]:
    return {"kind": "extend_bases", "class": name, "names": list(names)}


def extend_list(target: str, *items: Any, scope: str = "") -> dict[str, Any]:
    return {"kind": "extend_list", "scope": scope, "target": target, "items": list(items)}


def insert_methods(name: str, before: str, text: str) -> dict[str, Any]:
    return {"kind": "insert_methods", "class": name, "before": before, "text": text}


def replace(expression: str, replacement: str, count: int = 1, scope: str = "") -> dict[str, Any]:
    return {
        "kind": "replace_expression",
        "scope": scope,
        "expression": expression,
        "replacement": replacement,
        "count": count,
    }


def insert(text: str, scope: str = "", **anchor: str) -> dict[str, Any]:
    return {"kind": "insert_statements", "scope": scope, "text": text, **anchor}


class TestExtendImport:
    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ("from .interfaces import A\n", "from .interfaces import A, B\n"),
            ("from .interfaces import A as X  # why\n", "from .interfaces import A as X, B  # why\n"),
            ("from .interfaces import (A, C)\n", "from .interfaces import (A, C, B)\n"),
            (
                "from .interfaces import (\n    A,\n    C,\n)\n",
                "from .interfaces import (\n    A,\n    C,\n    B,\n)\n",
            ),
            (
                "from .interfaces import (\n    A,\n    C  # last\n)\n",
                "from .interfaces import (\n    A,\n    C,\n    B  # last\n)\n",
            ),
            ("from .interfaces import A, \\\n    C\nx = 1\n", "from .interfaces import A, \\\n    C, B\nx = 1\n"),
            ("import x; from .interfaces import A; y = 1\n", "import x; from .interfaces import A, B; y = 1\n"),
            ("from .interfaces import (\r\n\tA,\r\n)\r\n", "from .interfaces import (\r\n\tA,\r\n\tB,\r\n)\r\n"),
            ("from .interfaces import A", "from .interfaces import A, B"),
        ],
    )
    def test_adds_behind_the_last_name(self, before: str, after: str) -> None:
        assert edited(before, extend_import("B")) == after

    def test_is_done_when_all_names_are_imported_from_the_module(self) -> None:
        text = "from .interfaces import A\nfrom .interfaces import B as B2, C\n"
        assert edited(text, extend_import("B as B2", "C")) == text
        assert edited(text, extend_import("B")) == text.replace("import A", "import A, B")

    def test_adds_only_what_is_missing(self) -> None:
        assert edited("from .interfaces import A\n", extend_import("A", "B")) == "from .interfaces import A, B\n"

    @pytest.mark.parametrize(
        "text",
        [
            "from interfaces import A\n",
            "from ..interfaces import A\n",
            "from .interfaces import *\n",
            "if 1:\n    from .interfaces import A\n",
            "",
        ],
    )
    def test_refuses_where_there_is_no_such_import(self, text: str) -> None:
        error = refused(text, extend_import("B"))
        assert "from .interfaces import" in error.expected

    def test_the_refusal_shows_the_imports_that_are_there(self) -> None:
        assert "from .models import Z" in refused("from .models import Z\n", extend_import("B")).found


class TestExtendBases:
    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ("class X(A): pass\n", "class X(A, B): pass\n"),
            ("class X(A, metaclass=M): pass\n", "class X(A, B, metaclass=M): pass\n"),
            ("class X(metaclass=M): pass\n", "class X(B, metaclass=M): pass\n"),
            ("class X: pass\n", "class X(B): pass\n"),
            ("class X(): pass\n", "class X(B): pass\n"),
            (
                "class X(  # why\n    A,\n    C.D,\n):\n    pass\n",
                "class X(  # why\n    A,\n    C.D,\n    B,\n):\n    pass\n",
            ),
            ("class X(\n    A, C\n):\n    pass\n", "class X(\n    A, C,\n    B\n):\n    pass\n"),
            ("@deco(a)\nclass X(A):\n    pass\n", "@deco(a)\nclass X(A, B):\n    pass\n"),
            ("class É(A): pass\nclass X(É): pass\n", "class É(A): pass\nclass X(É, B): pass\n"),
        ],
    )
    def test_adds_behind_the_last_base(self, before: str, after: str) -> None:
        assert edited(before, extend_bases("X", "B")) == after

    def test_is_done_when_the_base_is_there(self) -> None:
        assert edited("class X(m.B, A): pass\n", extend_bases("X", "m.B")) == "class X(m.B, A): pass\n"

    def test_finds_nested_classes_and_those_in_branches(self) -> None:
        text = "try:\n    import a\nexcept ImportError:\n    class O:\n        class X(A): pass\n"
        assert edited(text, extend_bases("O.X", "B")) == text.replace("X(A)", "X(A, B)")

    def test_refuses_unless_there_is_exactly_one_such_class(self) -> None:
        assert "0 of X among: Y" in refused("class Y: pass\n", extend_bases("X", "B")).found
        two = "if 1:\n    class X: pass\nelse:\n    class X: pass\n"
        assert "2 of X" in refused(two, extend_bases("X", "B")).found
        assert "function" in refused("def X(): pass\n", extend_bases("X", "B")).found

    def test_a_splice_that_means_something_else_is_refused(self) -> None:
        # Behind the last base, but inside its parentheses: the result would derive from a tuple.
        refused("class X((A)): pass\n", extend_bases("X", "B"))


class TestExtendList:
    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ('names = ["a"]\n', 'names = ["a", "b"]\n'),
            ("names = ['a',]\n", "names = ['a', \"b\",]\n"),
            ("names: list[str] = []\n", 'names: list[str] = ["b"]\n'),
            ("names = ()\n", 'names = ("b",)\n'),
            ('names = ("a",)\n', 'names = ("a", "b",)\n'),
            ('names = {"a"}\n', 'names = {"a", "b"}\n'),
            ('names = [\n    "a",  # one\n]\n', 'names = [\n    "a",\n    "b",  # one\n]\n'),
            ('names = [\n    "a"\n]\n', 'names = [\n    "a",\n    "b"\n]\n'),
        ],
    )
    def test_adds_behind_the_last_item(self, before: str, after: str) -> None:
        assert edited(before, extend_list("names", "b")) == after

    def test_is_done_when_all_items_are_there_in_any_spelling(self) -> None:
        text = "class C:\n    def f(self):\n        self.x = ['a', \"b\", 3]\n"
        assert edited(text, extend_list("self.x", "b", 3, scope="C.f")) == text

    def test_writes_values_as_python(self) -> None:
        assert edited("x = [0]\n", extend_list("x", 'a"b', "c\\d", 2, True)) == "x = [0, 'a\"b', 'c\\\\d', 2, True]\n"

    def test_looks_only_in_the_scope(self) -> None:
        text = "x = [1]\ndef f():\n    x = [2]\ndef g():\n    x = [3]\n"
        assert edited(text, extend_list("x", 9, scope="g")) == text.replace("[3]", "[3, 9]")

    @pytest.mark.parametrize("text", ["x = [1]\nx = [2]\n", "x = f()\n", "y = [1]\n", "x = 'ab'\n"])
    def test_refuses_unless_one_literal_is_assigned(self, text: str) -> None:
        assert "assigned to x" in refused(text, extend_list("x", 1)).expected


METHODS = "def new(self):\n    return 1\n\ndef other(self):\n    pass\n"


class TestInsertMethods:
    def test_inserts_before_the_method_its_decorators_and_its_comments(self) -> None:
        text = "class X:\n    a = 1\n\n    # about f\n    @deco(\n        1)\n    def f(self): pass\n"
        expected = text.replace(
            "    # about f",
            "    def new(self):\n        return 1\n\n    def other(self):\n        pass\n\n    # about f",
        )
        assert edited(text, insert_methods("X", "f", METHODS)) == expected

    def test_takes_over_tabs_and_crlf(self) -> None:
        text = "class X:\r\n\tdef f(self):\r\n\t\tpass"
        expected = text.replace("\tdef f", "\tdef new(self):\r\n\t\treturn 1\r\n\r\n\tdef f")
        assert edited(text, insert_methods("X", "f", METHODS.split("\n\n", 1)[0])) == expected

    def test_is_done_when_the_class_defines_the_names(self) -> None:
        text = "class X:\n    def new(self): return 7\n    async def other(self): pass\n    def f(self): pass\n"
        assert edited(text, insert_methods("X", "f", METHODS)) == text

    def test_half_of_the_methods_is_not_done_and_not_to_do(self) -> None:
        text = "class X:\n    def new(self): pass\n    def f(self): pass\n"
        assert "only new" in refused(text, insert_methods("X", "f", METHODS)).found

    @pytest.mark.parametrize("body", ["def g(self): pass", "def f(self): pass\n    def f(self): pass", "x = 1"])
    def test_refuses_unless_the_method_is_there_once(self, body: str) -> None:
        assert "exactly one method f" in refused(f"class X:\n    {body}\n", insert_methods("X", "f", METHODS)).expected


class TestReplaceExpression:
    def test_replaces_each_occurrence_in_the_scope(self) -> None:
        text = "def f(h, r):\n    a(h + r)\n    return [ h+r ]  # h + r\ndef g(h, r): return h + r\n"
        edit = replace("h + r", "(h if r is None else h + r)", 2, "f")
        new = "(h if r is None else h + r)"
        assert edited(text, edit) == text.replace("a(h + r)", f"a({new})").replace("[ h+r ]", f"[ {new} ]")

    def test_matches_by_structure_not_by_spelling(self) -> None:
        assert edited("x = f( 'a',\n  b )\n", replace('f("a", b)', "g()")) == "x = g()\n"

    def test_the_count_is_exact(self) -> None:
        error = refused("x = a + b\ny = a + b\n", replace("a + b", "c", 1))
        assert "1 times" in error.expected
        assert "it 2 times" in error.found

    def test_some_replaced_and_some_not_is_refused(self) -> None:
        assert "replacement 1 times" in refused("x = a + b\ny = c(1)\n", replace("a + b", "c(1)", 2)).found

    def test_an_assigned_name_is_no_expression(self) -> None:
        assert edited("x = x\n", replace("x", "y")) == "x = y\n"

    def test_f_strings_are_left_alone(self) -> None:
        assert edited('x = f"{a} {a!r}" + a\n', replace("a", "b")) == 'x = f"{a} {a!r}" + b\n'

    def test_precedence_that_changes_the_meaning_is_refused(self) -> None:
        refused("x = a.b\n", replace("a", "c or d"))

    def test_wide_characters_before_it_do_not_shift_it(self) -> None:
        assert edited("x = '日本é' + a + 'ü'\n", replace("a", "(b)")) == "x = '日本é' + (b) + 'ü'\n"


class TestInsertStatements:
    TEXT = "def f(x):\n    if x > 1:\n        y = 1  # one\n        z = 2\n    return y\n"

    def test_after_a_statement_at_its_depth(self) -> None:
        expected = self.TEXT.replace("# one\n", "# one\n        log(y)\n        if y:\n            stop()\n")
        assert edited(self.TEXT, insert("log(y)\nif y:\n    stop()", "f", after="y = 1")) == expected

    def test_before_a_statement_and_its_comment(self) -> None:
        text = self.TEXT.replace("    return", "    # done\n    return")
        assert edited(text, insert("y += 1", "f", before="return y")) == text.replace(
            "    # done", "    y += 1\n    # done"
        )

    def test_the_head_of_a_compound_statement_names_it(self) -> None:
        edit = insert("import z", "f", before="if x > 1:")
        assert edited(self.TEXT, edit) == self.TEXT.replace("    if x", "    import z\n    if x")
        after = insert("import z", "f", after="if x > 1:")
        assert edited(self.TEXT, after) == self.TEXT.replace("    return", "    import z\n    return")

    def test_at_the_end_of_a_file_without_a_final_newline(self) -> None:
        assert edited("x = 1", insert("y = 2", after="x = 1")) == "x = 1\ny = 2"
        assert edited("x = 1\r\nz = 1", insert("y = 2", after="z = 1")) == "x = 1\r\nz = 1\r\ny = 2"

    def test_the_anchor_is_there_exactly_once(self) -> None:
        assert "0 of them" in refused(self.TEXT, insert("a", "f", after="y = 3")).found
        assert "2 of them" in refused("x = 1\nx = 1\n", insert("a", after="x = 1")).found

    @pytest.mark.parametrize(
        ("text", "anchor"),
        [
            ("a = 1; x = 1\n", "x = 1"),
            ("x = 1; a = 1\n", "x = 1"),
            ("if a: x = 1\n", "x = 1"),
            ("if a:\n    pass\nelif b:\n    pass\n", "if b:"),
        ],
    )
    def test_a_statement_that_shares_its_lines_is_no_place(self, text: str, anchor: str) -> None:
        assert "lines of its own" in refused(text, insert("y = 2", before=anchor)).expected

    def test_inserting_the_anchor_again_is_refused(self) -> None:
        refused("x = 1\n", insert("x = 1", after="x = 1"))


class TestSequences:
    def test_edits_build_on_each_other(self) -> None:
        text = "from .interfaces import A\nclass X(A):\n    def f(self): return 1\n"
        edits = [
            extend_import("B"),
            extend_bases("X", "B"),
            insert_methods("X", "f", METHODS),
            replace("1", "2", 1, "X.f"),
        ]
        result = edited(text, *edits)
        assert result.startswith("from .interfaces import A, B\nclass X(A, B):\n    def new(self):")
        assert result.endswith("    def f(self): return 2\n")

    def test_it_is_told_which_were_there_already(self) -> None:
        outcome = apply_edits(b"class X(A): pass\ny = 1\n", [extend_bases("X", "A"), replace("1", "2")])
        assert outcome.present == [True, False]

    def test_what_does_not_compile_is_not_returned(self) -> None:
        # It parses; only the compiler knows that return belongs into a function.
        with pytest.raises(SyntaxError):
            apply_edits(b"x = 1\n", [insert("return 1", after="x = 1")])

    def test_a_source_that_is_not_python_is_an_answer(self) -> None:
        assert answer_edits(_base64(b"def f(:\n"), [])["expected"] == "source that compiles"

    def test_a_character_that_the_encoding_lacks_is_refused(self) -> None:
        source = "# coding: latin-1\nx = 'é'\n".encode("latin-1")
        with pytest.raises(EditError, match="latin-1"):
            apply_edits(source, [insert("y = '日'", after="x = 'é'")])

    def test_the_encoding_is_kept(self) -> None:
        source = "# coding: latin-1\nx = 'é'\n".encode("latin-1")
        assert apply_edits(source, [insert("y = 'ü'", after="x = 'é'")]).source == source + "y = 'ü'\n".encode(
            "latin-1"
        )

    def test_a_byte_order_mark_is_kept(self) -> None:
        source = b"\xef\xbb\xbfclass X(A): pass\n"
        assert apply_edits(source, [extend_bases("X", "B")]).source == b"\xef\xbb\xbfclass X(A, B): pass\n"

    @given(
        before=st.lists(st.sampled_from(["", "# é", "\tx = 1", "y = '日'", "z = 2  # \x0c", "\x0c"]), max_size=5),
        newline=st.sampled_from(["\n", "\r\n", "\r"]),
        final=st.booleans(),
        bom=st.booleans(),
    )
    def test_all_around_the_edit_keeps_its_bytes(self, before: list[str], newline: str, final: bool, bom: bool) -> None:
        lines = [line.replace("\t", "") for line in before] + ["class X(A):", "\tdef f(self): pass", "k = 1"]
        text = newline.join(lines) + (newline if final else "")
        source = (b"\xef\xbb\xbf" if bom else b"") + text.encode()
        result = apply_edits(source, [extend_bases("X", "B"), insert_methods("X", "f", "def g(self):\n    pass")])
        added = f"\tdef g(self):{newline}\t\tpass{newline}{newline}".encode()
        assert result.source.replace(b"(A, B)", b"(A)").replace(added, b"") == source


class TestConditions:
    SOURCE = "class X:\n    def f(self):\n        return g(a=b if c else None)\nnames = []\n"

    @pytest.mark.parametrize(
        ("condition", "holds"),
        [
            ({"present": "b if c else None"}, True),
            ({"present": "b if c else None", "scope": "X.f"}, True),
            ({"present": "names"}, True),
            ({"present": "names", "scope": "X"}, False),
            ({"absent": "names", "scope": "X"}, True),
            ({"absent": "names"}, False),
            ({"absent": "names", "scope": "Y"}, False),
            ({"present": "names", "scope": "Y"}, False),
        ],
    )
    def test_they_hold_where_the_scope_exists(self, condition: dict[str, str], holds: bool) -> None:
        assert answer_condition(_base64(self.SOURCE.encode()), {"file": "x.py", **condition}) is holds

    def test_they_do_not_hold_for_what_is_not_python(self) -> None:
        assert not answer_condition(_base64(b"def f(:\n"), {"absent": "x"})


def _base64(source: bytes) -> str:
    return base64.b64encode(source).decode()
