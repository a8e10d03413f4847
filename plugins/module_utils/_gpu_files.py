# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of a node, below a root that may be another directory: a recording of some host, or a test."""

from __future__ import annotations

import os


class UnreadableError(Exception):
    """A file, link or directory cannot be read; the message names it and says why."""

    def __init__(self, path: str, error: OSError) -> None:
        super().__init__(f"{path}: {error.strerror or error}")
        self.denied = isinstance(error, PermissionError)


class Tree:
    """The files of /proc, /sys and /dev below a root directory. Paths are absolute, as seen by the node."""

    def __init__(self, root: str = "/") -> None:
        self.root = os.path.realpath(root)

    def text(self, path: str, limit: int = -1) -> str:
        """The content of a file, at most so many bytes, without white space around. Raises UnreadableError."""
        return self.content(path, limit).decode("utf-8", "replace").strip()

    def content(self, path: str, limit: int = -1) -> bytes:
        """The bytes of a file, at most so many. Raises UnreadableError."""
        try:
            with open(self._real(path), "rb") as file:
                return file.read(limit)
        except OSError as error:
            raise UnreadableError(path, error) from error

    def target(self, path: str) -> str:
        """What a symbolic link says. Raises UnreadableError."""
        try:
            return os.readlink(self._real(path))
        except OSError as error:
            raise UnreadableError(path, error) from error

    def names(self, path: str) -> list[str]:
        """The names in a directory, sorted. Raises UnreadableError."""
        try:
            return sorted(os.listdir(self._real(path)))
        except OSError as error:
            raise UnreadableError(path, error) from error

    def resolved(self, path: str) -> str:
        """The path with its links followed, as seen by the node."""
        return "/" + os.path.relpath(os.path.realpath(self._real(path)), self.root)

    def size(self, path: str) -> int:
        """The size of a file in bytes; links are not followed. Raises UnreadableError."""
        try:
            return os.lstat(self._real(path)).st_size
        except OSError as error:
            raise UnreadableError(path, error) from error

    def exists(self, path: str) -> bool:
        """Whether there is something at the path."""
        return os.path.lexists(self._real(path))

    def _real(self, path: str) -> str:
        return os.path.join(self.root, path.lstrip("/"))
