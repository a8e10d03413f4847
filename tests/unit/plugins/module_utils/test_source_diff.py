# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Unified diffs are placed by their context alone."""

from __future__ import annotations

import difflib

import pytest
from ansible_collections.blackwell.inference.plugins.module_utils._source_diff import (
    apply_diff,
    parse_hunks,
    split_by_file,
)
from ansible_collections.blackwell.inference.plugins.module_utils._source_edit import apply_edits
from ansible_collections.blackwell.inference.plugins.module_utils._source_text import EditError, split_lines
from hypothesis import given
from hypothesis import strategies as st

TEXT = "import a\n\n\ndef f():\n    x = 1\n    return x\n\n\ndef g():\n    y = 1\n    return y\n"
DIFF = "@@ -400,3 +400,4 @@ def f():\n def f():\n-    x = 1\n+    x = 2\n+    x += 1\n     return x\n"
PATCHED = TEXT.replace("    x = 1\n", "    x = 2\n    x += 1\n")


def patched(text: str, diff: str) -> str | None:
    return apply_diff(split_lines(text), diff)


def test_line_numbers_do_not_matter() -> None:
    assert patched(TEXT, DIFF) == PATCHED
    assert patched("# more\n" * 50 + TEXT, DIFF) == "# more\n" * 50 + PATCHED


def test_a_diff_that_is_applied_is_recognised() -> None:
    assert patched(PATCHED, DIFF) is None


def test_the_files_line_ends_are_kept_and_taken_over() -> None:
    assert patched(TEXT.replace("\n", "\r\n"), DIFF) == PATCHED.replace("\n", "\r\n")


def test_a_missing_final_newline_stays_missing() -> None:
    diff = "@@ -1,2 +1,3 @@\n     y = 1\n     return y\n\\ No newline at end of file\n+    # never\n"
    assert patched(TEXT[:-1], diff) == TEXT + "    # never"
    assert patched(TEXT, diff) == TEXT + "    # never\n"


def test_several_hunks_are_all_applied_or_none() -> None:
    two = DIFF + "@@ -1,2 +1,2 @@\n-    y = 1\n+    y = 3\n     return y\n"
    assert patched(TEXT, two) == PATCHED.replace("y = 1", "y = 3")
    with pytest.raises(EditError, match="1 of 2 applied"):
        patched(PATCHED, two)


@pytest.mark.parametrize("missing", ["    x = 1\n", "    return x\n"])
def test_context_that_is_not_there_shows_what_is(missing: str) -> None:
    with pytest.raises(EditError) as caught:
        patched(TEXT.replace(missing, "    surprise()\n"), DIFF)
    assert "-    x = 1" in caught.value.expected
    assert "surprise()" in caught.value.found


def test_context_that_fits_twice_is_refused() -> None:
    with pytest.raises(EditError, match="2 such places"):
        patched(TEXT + TEXT, DIFF)


def test_a_hunk_that_only_inserts_needs_context() -> None:
    with pytest.raises(EditError, match="such places"):
        patched(TEXT, "@@ -1,0 +1,1 @@\n+x = 1\n")


def test_removed_lines_may_look_like_headers() -> None:
    text = "x = (a\n-- b\n++ c)\n"
    assert patched(text, "@@ -1,3 +1,2 @@\n x = (a\n--- b\n ++ c)\n") == "x = (a\n++ c)\n"


@pytest.mark.parametrize("diff", ["", "just text\n", "@@ -1 +1 @@\n x\n", "@@ -1 +1 @@\n*x\n"])
def test_what_is_no_diff_is_refused(diff: str) -> None:
    with pytest.raises(ValueError, match="diff"):
        parse_hunks(diff)


@given(
    before=st.lists(st.sampled_from([f"x{n} = {n}" for n in range(40)]), unique=True, min_size=1, max_size=20),
    data=st.data(),
)
def test_any_diff_of_unique_lines_turns_one_text_into_the_other(before: list[str], data: st.DataObject) -> None:
    kept = [line for line in before if data.draw(st.booleans())]
    after = list(kept)
    for number in range(data.draw(st.integers(1, 4))):
        after.insert(data.draw(st.integers(0, len(after))), f"new{number} = 1")
    hunks = "".join(line + "\n" for line in list(difflib.unified_diff(before, after, lineterm=""))[2:])
    old, new = ("".join(line + "\n" for line in lines) for lines in (before, after))
    assert patched(old, hunks) == new
    assert patched(new, hunks) is None


PULL_REQUEST = """diff --git a/python/sglang/srt/a.py b/python/sglang/srt/a.py
index 1111111..2222222 100644
--- a/python/sglang/srt/a.py
+++ b/python/sglang/srt/a.py
@@ -1,2 +1,2 @@
-x = 1
+x = 2
 y = 1
--- a/python/sglang/srt/b.py\t2026-01-01
+++ b/python/sglang/srt/b.py\t2026-01-02
@@ -1,3 +1,2 @@
 z = (a
--- b
 )
"""


def test_a_pull_request_is_split_into_its_files() -> None:
    parts = split_by_file(PULL_REQUEST)
    assert list(parts) == ["python/sglang/srt/a.py", "python/sglang/srt/b.py"]
    assert patched("x = 1\ny = 1\n", parts["python/sglang/srt/a.py"]) == "x = 2\ny = 1\n"
    assert patched("z = (a\n-- b\n)\n", parts["python/sglang/srt/b.py"]) == "z = (a\n)\n"


@pytest.mark.parametrize(
    "headers",
    [("/dev/null", "b/x.py"), ("a/x.py", "/dev/null"), ("a/x.py", "b/y.py")],
    ids=["new", "deleted", "renamed"],
)
def test_files_are_neither_created_nor_deleted_nor_renamed(headers: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match="existing files"):
        split_by_file(f"--- {headers[0]}\n+++ {headers[1]}\n@@ -1 +1 @@\n-x\n+y\n")


def test_a_diff_without_files_is_refused() -> None:
    with pytest.raises(ValueError, match="no file headers"):
        split_by_file(DIFF)


def test_a_diff_is_an_edit_like_the_others() -> None:
    edit = {"kind": "diff", "text": DIFF}
    outcome = apply_edits(TEXT.encode(), [edit])
    assert outcome.source.decode() == PATCHED
    assert apply_edits(outcome.source, [edit]).present == [True]
