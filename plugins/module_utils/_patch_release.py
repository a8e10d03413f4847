# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Releases and release specifiers, as far as the engines use them.

The rules are those of PEP 440 (release, pre-release, post-release and development segments; local parts are ignored),
without epochs and without the operators ``~=`` and ``===``. Own code, because a node's Python has no `packaging`.
"""

from __future__ import annotations

import re
from typing import Callable, NamedTuple, Sequence, Tuple

_RELEASE = re.compile(
    r"v?(?P<numbers>\d+(?:\.\d+)*)"
    r"(?:[-_.]?(?P<pre>a|b|rc|alpha|beta|c|pre|preview)[-_.]?(?P<pre_number>\d*))?"
    r"(?:[-_.]?post[-_.]?(?P<post>\d*))?"
    r"(?:[-_.]?dev[-_.]?(?P<dev>\d*))?"
    r"(?:\+[a-z0-9]+(?:[-_.][a-z0-9]+)*)?",
    re.IGNORECASE,
)
_CLAUSE = re.compile(r"(?P<operator>==|!=|>=|<=|>|<)?\s*(?P<release>[^\s=<>!*]+?)(?P<prefix>\.\*)?")
_PRE_LETTER = {"alpha": "a", "beta": "b", "c": "rc", "pre": "rc", "preview": "rc"}
# What an absent segment counts as: a development release precedes its pre-releases, these precede the release.
_BEFORE_PRE = ("", -1)
_NO_PRE = ("z", 0)
_NO_DEV = 1 << 62

Key = Tuple[Tuple[int, ...], Tuple[str, int], int, int]


class Release(NamedTuple):
    """A release, in the order of PEP 440: two releases that are the same compare equal (0.5 and 0.5.0)."""

    numbers: tuple[int, ...]
    pre: tuple[str, int]
    post: int
    dev: int

    @property
    def is_preview(self) -> bool:
        """Whether this is a pre-release or a development release."""
        return self.pre != _NO_PRE or self.dev != _NO_DEV

    @property
    def key(self) -> Key:
        """What releases are ordered by."""
        return (self.numbers, self.pre, self.post, self.dev)


def parse_release(text: str) -> Release:
    """Read a release such as ``0.5.10.post1``, ``0.17.0rc2`` or ``0.32.0+cpu`` (the local part is dropped).

    Raises ValueError when the text is not such a release.
    """
    match = _RELEASE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a release number; expected something like 0.5.10.post1")
    numbers = tuple(int(number) for number in match["numbers"].split("."))
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers = numbers[:-1]
    post = -1 if match["post"] is None else int(match["post"] or 0)
    dev = _NO_DEV if match["dev"] is None else int(match["dev"] or 0)
    if match["pre"]:
        letter = match["pre"].lower()
        pre = (_PRE_LETTER.get(letter, letter), int(match["pre_number"] or 0))
    else:
        pre = _BEFORE_PRE if dev != _NO_DEV and post == -1 else _NO_PRE
    return Release(numbers, pre, post, dev)


def matches(release: str, specifiers: Sequence[str]) -> bool:
    """Whether a release satisfies any one of several specifiers.

    A specifier is a comma-separated conjunction such as ``>=0.5.7,<=0.5.13.post1``; a bare release means ``==``.
    As in PEP 440, ``>0.5.5`` excludes 0.5.5.post1, and a preview (rc, dev) satisfies only a specifier that itself
    names a preview: a nightly is never taken for the release that a patch was verified on.
    Raises ValueError for a malformed release or specifier.
    """
    return any(_satisfies(parse_release(release), _clauses(specifier)) for specifier in specifiers)


Clause = Tuple[str, Release, bool]


def _clauses(specifier: str) -> list[Clause]:
    clauses: list[Clause] = []
    for part in specifier.split(","):
        match = _CLAUSE.fullmatch(part.strip())
        operator = (match["operator"] or "==") if match else ""
        if match is None or (match["prefix"] and operator not in ("==", "!=")):
            raise ValueError(
                f"{specifier!r} is not a release specifier; expected something like >=0.5.7,<=0.5.13.post1"
            )
        clauses.append((operator, parse_release(match["release"]), bool(match["prefix"])))
    return clauses


def _satisfies(release: Release, clauses: list[Clause]) -> bool:
    if release.is_preview and not any(clause[1].is_preview for clause in clauses):
        return False
    return all(_holds(operator, release, bound, prefix) for operator, bound, prefix in clauses)


def _holds(operator: str, release: Release, bound: Release, prefix: bool) -> bool:
    if prefix:
        width = len(bound.numbers)
        padded = release.numbers + (0,) * width
        return (padded[:width] == bound.numbers) is (operator == "==")
    if operator == ">" and release.numbers == bound.numbers and release.post > -1 and bound.post == -1:
        return False
    if operator == "<" and release.numbers == bound.numbers and release.is_preview and not bound.is_preview:
        return False
    return _COMPARE[operator](release.key, bound.key)


_COMPARE: dict[str, Callable[[Key, Key], bool]] = {
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    ">=": lambda left, right: left >= right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    "<": lambda left, right: left < right,
}
