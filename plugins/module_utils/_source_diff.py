# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Unified diffs, placed by their context alone.

Line numbers of a diff are those of the tree it was made from, and drift from release to release. A hunk goes where its
context and removed lines stand, all of them, unchanged, and in exactly one place of the file.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Sequence

from ansible_collections.blackwell.inference.plugins.module_utils._source_text import EditError, ending

_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@")
_FILE = re.compile(r"(?:---|\+\+\+) (?P<path>[^\t]+)(?:\t.*)?")
_NO_NEWLINE = "\\ No newline at end of file"


class Hunk(NamedTuple):
    """The lines that a hunk expects and those that it leaves, without line ends, and the hunk's own lines."""

    old: list[str]
    new: list[str]
    lines: list[str]


def split_by_file(diff: str) -> dict[str, str]:
    """The part of a diff for each file that it changes, by the path after ``+++`` (without a leading ``b/``).

    Raises ValueError for a diff that creates, deletes or renames a file: an installed package keeps its files.
    """
    parts: dict[str, list[str]] = {}
    current: list[str] | None = None
    old_path = ""
    for line in diff.splitlines():
        header = _FILE.fullmatch(line)
        if header and line.startswith("---") and (current is None or not _in_hunk(current)):
            old_path = header["path"].strip()
        elif header and old_path:
            path = _same_path(old_path, header["path"].strip())
            current = parts.setdefault(path, [])
            old_path = ""
        elif current is not None and not line.startswith(("diff --git ", "index ")):
            current.append(line)
    if not parts:
        raise ValueError("the diff has no file headers (--- a/..., +++ b/...)")
    return {path: "\n".join(lines) + "\n" for path, lines in parts.items()}


def _same_path(old: str, new: str) -> str:
    bare = [re.sub(r"\A[ab]/", "", path) for path in (old, new)]
    if bare[0] != bare[1]:
        raise ValueError(f"the diff turns {old} into {new}; only changes of existing files can be applied")
    return bare[0]


def _in_hunk(lines: list[str]) -> bool:
    """Whether the last hunk of the collected lines still waits for lines, so that '--- x' is a removed line."""
    starts = [index for index, line in enumerate(lines) if _HUNK.match(line)]
    if not starts:
        return False
    counts = [int(part.split(",")[1]) if "," in part else 1 for part in lines[starts[-1]].split()[1:3]]
    body = lines[starts[-1] + 1 :]
    old = sum(1 for line in body if line[:1] in (" ", "-", ""))
    new = sum(1 for line in body if line[:1] in (" ", "+", ""))
    return old < counts[0] or new < counts[1]


def parse_hunks(diff: str) -> list[Hunk]:
    """The hunks of the diff of one file. Raises ValueError when there is none, or a line is no line of a diff."""
    hunks: list[Hunk] = []
    for line in diff.splitlines():
        if _HUNK.match(line):
            hunks.append(Hunk([], [], []))
        elif hunks and line != _NO_NEWLINE:
            mark, content = line[:1] or " ", line[1:]
            if mark not in " +-":
                raise ValueError(f"{line!r} is not a line of a unified diff")
            hunks[-1].lines.append(mark + content)
            if mark != "+":
                hunks[-1].old.append(content)
            if mark != "-":
                hunks[-1].new.append(content)
    if not hunks or any(hunk.old == hunk.new for hunk in hunks):
        raise ValueError("the diff has no hunk, or a hunk that changes nothing")
    return hunks


def apply_diff(lines: Sequence[str], diff: str) -> str | None:
    """Apply the diff of one file to its lines (with their line ends); None when all its hunks are applied already.

    Raises EditError when a hunk has no place or several, or when some hunks are applied already and others are not.
    """
    hunks = parse_hunks(diff)
    bare = [line.rstrip("\r\n") for line in lines]
    done = [_is_done(bare, hunk) for hunk in hunks]
    if all(done):
        return None
    if any(done):
        raise EditError("none or all hunks of the diff applied", f"{sum(done)} of {len(done)} applied")
    result = list(lines)
    for hunk in hunks:
        result = _apply_hunk(result, hunk)
    return "".join(result)


def _is_done(bare: Sequence[str], hunk: Hunk) -> bool:
    """Whether the new lines are there once, and the old ones nowhere but in them, as context of an insertion is."""
    new = _places(bare, hunk.new)
    ends = [place + len(hunk.new) for place in new]
    outside = [place for place in _places(bare, hunk.old) if not new or not new[0] <= place <= ends[0] - len(hunk.old)]
    return len(new) == 1 and not outside


def _places(bare: Sequence[str], block: Sequence[str]) -> list[int]:
    width = len(block)
    return [start for start in range(len(bare) - width + 1) if list(bare[start : start + width]) == list(block)]


def _apply_hunk(lines: list[str], hunk: Hunk) -> list[str]:
    bare = [line.rstrip("\r\n") for line in lines]
    places = _places(bare, hunk.old)
    if len(places) != 1:
        raise EditError(
            "exactly one place for the hunk\n" + "\n".join(hunk.lines), _closest(bare, hunk.old, len(places))
        )
    position = start = places[0]
    newline = next(filter(None, map(ending, lines[start:] + lines[:start])), "\n")
    changed: list[str] = []
    for line in hunk.lines:
        if line[0] == "+":
            changed.append(line[1:] + newline)
        else:
            changed.extend([lines[position]] if line[0] == " " else [])
            position += 1
    return _keep_last_ending(lines[:start] + changed + lines[position:], lines, newline)


def _keep_last_ending(result: list[str], before: Sequence[str], newline: str) -> list[str]:
    """A file without a final newline keeps having none, and only its last line has none."""
    ended = [line if ending(line) else line + newline for line in result]
    if ended and before and not ending(before[-1]):
        ended[-1] = ended[-1].rstrip("\r\n")
    return ended


def _closest(bare: Sequence[str], block: Sequence[str], count: int) -> str:
    """What stands where most of the wanted lines are, to see what drifted."""
    if count > 1:
        return f"{count} such places; the hunk needs more context"
    starts = range(max(1, len(bare) - len(block) + 1))
    best = max(starts, key=lambda start: sum(a == b for a, b in zip(bare[start:], block)), default=0)
    return "at the most similar place:\n" + "\n".join(bare[best : best + len(block)])
