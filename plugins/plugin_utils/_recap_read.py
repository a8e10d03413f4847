# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Take values out of what a node reported. What is missing is None, what is of another kind is None and is said."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from ansible_collections.blackwell.inference.plugins.plugin_utils._recap_words import clean, finite

T = TypeVar("T")


class Reader:
    """One dict of a report, whose place is known by a name such as `with.tokens_per_second[0]`."""

    def __init__(self, fields: Mapping[object, object], place: str, unread: list[str]) -> None:
        """`unread` collects a sentence for each value that could not be read."""
        self.fields = fields
        self.place = place
        self.unread = unread

    def text(self, key: str) -> str | None:
        """A text, cleaned. An empty one is as good as none."""
        value = self.fields.get(key)
        if isinstance(value, str):
            return clean(value) or None
        self._refuse(key, value, "a text")
        return None

    def word(self, key: str, known: Iterable[str]) -> str | None:
        """One of some words."""
        value = self.text(key)
        if value is None or value in known:
            return value
        self.unread.append(f"{self._name(key)} is {clean(value, 60)}, not one of {', '.join(known)}")
        return None

    def number(self, key: str) -> float | None:
        """A number that is finite and not negative."""
        number = finite(self.fields.get(key))
        if number is None:
            self._refuse(key, self.fields.get(key), "a finite number of 0 or more")
        return number

    def whole(self, key: str) -> int | None:
        """A whole number."""
        number = self.number(key)
        if number is None or number.is_integer():
            return None if number is None else int(number)
        self._refuse(key, number, "a whole number")
        return None

    def truth(self, key: str) -> bool | None:
        """True or false."""
        value = self.fields.get(key)
        if isinstance(value, bool):
            return value
        self._refuse(key, value, "true or false")
        return None

    def inner(self, key: str, read: Callable[[Reader], T]) -> T | None:
        """What `read` makes of the dict below a key. An empty dict says nothing, like a missing one."""
        value = self.fields.get(key)
        if isinstance(value, Mapping):
            return read(Reader(value, self._name(key), self.unread)) if value else None
        self._refuse(key, value, "a dict")
        return None

    def rows(self, key: str, read: Callable[[Reader], T | None]) -> list[T] | None:
        """What `read` makes of each dict of a list; rows for which that is None are left out.

        A list of which nothing could be read is not an empty one: None.
        """
        items = self._items(key)
        if items is None:
            return None
        found, unread = [], len(self.unread)
        for place, value in items:
            if isinstance(value, Mapping):
                found.append(read(Reader(value, place, self.unread)))
            else:
                self.unread.append(f"{place} is not a dict")
        rows = [row for row in found if row is not None]
        return None if not rows and len(self.unread) > unread else rows

    def texts(self, key: str) -> list[str] | None:
        """A list of texts."""
        return self._each(key, lambda value: clean(value) if isinstance(value, str) else None, "a text")

    def numbers(self, key: str) -> list[float] | None:
        """A list of numbers."""
        return self._each(key, finite, "a finite number of 0 or more")

    def _each(self, key: str, read: Callable[[object], T | None], wanted: str) -> list[T] | None:
        items = self._items(key)
        if items is None:
            return None
        found = []
        for place, value in items:
            item = read(value)
            if item is None:
                self.unread.append(f"{place} is not {wanted}")
            else:
                found.append(item)
        return found

    def _items(self, key: str) -> list[tuple[str, object]] | None:
        value = self.fields.get(key)
        if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
            return [(f"{self._name(key)}[{index}]", item) for index, item in enumerate(value)]
        self._refuse(key, value, "a list")
        return None

    def _name(self, key: str) -> str:
        return f"{self.place}.{key}" if self.place else key

    def _refuse(self, key: str, value: object, wanted: str) -> None:
        """Say that a value is not what is wanted. A missing one is not worth a word."""
        if value is not None:
            self.unread.append(f"{self._name(key)} is not {wanted}")
