# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Texts and numbers of a recap, made fit to be shown. What nodes say is hostile until it went through `clean`."""

from __future__ import annotations

import math
import re
import unicodedata

NOT_KNOWN = "not known"
LONGEST_TEXT = 2000
# Controls, format characters (with the ones that turn the direction of text), surrogates, private and unassigned ones.
_INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_TIME = re.compile(r"(\d{4}-\d{2}-\d{2})T(\d{2}:\d{2})(?::\d{2}(?:\.\d+)?)?Z")


def clean(value: str, limit: int = LONGEST_TEXT) -> str:
    """The text on one line, with everything that steers a terminal or is invisible written as an escape.

    Plain `str` comes back whatever subclass went in. What is longer than `limit` characters is cut, and says so.
    """
    cut = len(value) - limit
    kept = " ".join("".join(value[:limit]).split())
    shown = "".join(_escaped(char) if unicodedata.category(char) in _INVISIBLE else char for char in kept)
    return f"{shown} [{cut} more characters]" if cut > 0 else shown


def _escaped(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def width(text: str) -> int:
    """Columns that a cleaned text takes in a terminal."""
    return sum(_columns(char) for char in text)


def _columns(char: str) -> int:
    if unicodedata.category(char) in {"Mn", "Me"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def clip(text: str, columns: int) -> str:
    """The text in at most so many columns (at least 3); what is cut is marked by two dots."""
    return text if width(text) <= columns else pieces(text, columns - 2)[0] + ".."


def pieces(text: str, columns: int) -> list[str]:
    """The text cut where a line of so many columns is full."""
    cut, used, start = [], 0, 0
    for index, char in enumerate(text):
        needed = _columns(char)
        if used + needed > columns:
            cut.append(text[start:index])
            used, start = 0, index
        used += needed
    return [*cut, text[start:]]


def pad(text: str, columns: int, right: bool = False) -> str:
    """The text in exactly so many columns, at their left or right end."""
    text = clip(text, columns)
    blanks = " " * (columns - width(text))
    return blanks + text if right else text + blanks


def figure(value: float | None) -> str:
    """A measured number with about four significant digits."""
    if value is None:
        return NOT_KNOWN
    if value != 0 and (value >= 1e7 or value < 0.001):
        return f"{value:.3g}"
    return f"{value:.0f}" if value >= 1000 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def milliseconds(seconds: float | None) -> str:
    """A delay; its unit is part of it."""
    return NOT_KNOWN if seconds is None else f"{figure(seconds * 1000)} ms"


def percent(share: float | None) -> str:
    """A share of 0 to 1 in whole percent, where only exactly nothing is 0 % and only everything is 100 %."""
    if share is None:
        return NOT_KNOWN
    whole = round(share * 100)
    if whole == 0 and share > 0:
        return "<1 %"
    return ">99 %" if whole == 100 and share < 1 else f"{whole} %"


def count(number: int, one: str, many: str = "") -> str:
    """A number with its noun."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def moment(time: str | None) -> str:
    """A point in time to the minute, as in `2026-11-30 11:12 UTC`. A time in another form is shown as it is."""
    match = _TIME.fullmatch(time or "")
    return f"{match[1]} {match[2]} UTC" if match else time or NOT_KNOWN


def is_moment(time: str | None) -> bool:
    """Whether a point in time is in the form that can be compared."""
    return _TIME.fullmatch(time or "") is not None


def day(time: str | None) -> str:
    """The date of a point in time, for a narrow place."""
    match = _TIME.fullmatch(time or "")
    return match[1] if match else clip(time or NOT_KNOWN, 12)


def finite(value: object) -> float | None:
    """A measured number: not negative, finite, and no truth value.

    ansible-core 2.18 turns a number in a template of its own into a text, so a text that is a number counts.
    """
    if isinstance(value, str) and re.fullmatch(r"\d{1,18}(\.\d{1,18})?", value, re.ASCII):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value > 1e15:
        return None
    return float(value) if math.isfinite(value) and value >= 0 else None
