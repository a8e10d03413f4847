# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node as the planner of patches sees it: installed engines, their files, and what an edit would make of them."""

from __future__ import annotations

import base64
import os
from typing import Any, Mapping, NamedTuple, Sequence

from ansible_collections.blackwell.inference.plugins.module_utils import (
    _patch_survey,
    _source_diff,
    _source_edit,
    _source_text,
)
from ansible_collections.blackwell.inference.plugins.module_utils._patch_interpreter import (
    Interpreter,
    InterpreterError,
)
from ansible_collections.blackwell.inference.plugins.module_utils._patch_store import load_original

# In the order in which they import each other.
ROOMS = (_source_text, _source_diff, _source_edit, _patch_survey)


class Engine(NamedTuple):
    """An installed engine: package directory as an import sees it, release, digests that its installer recorded."""

    name: str
    python: str
    package: str
    distribution: str
    release: str
    recorded: dict[str, str]


class Misfit(Exception):
    """An edit does not fit a source."""

    def __init__(self, expected: str, found: str) -> None:
        """What was expected and what was found, as phrases."""
        super().__init__(f"expected {expected}; found {found}")


class Sources:
    """Reads the node; changes nothing. Raises InterpreterError when the environment's interpreter doesn't answer."""

    def __init__(self, python: str, interpreter: Interpreter | None, state_directory: str) -> None:
        """python: path of the environment's interpreter; interpreter: it, running, or None when it is gone.

        state_directory: where originals are.
        """
        self.python = python
        self._interpreter = interpreter
        self._state_directory = state_directory

    def engine(self, name: str, files: Sequence[str]) -> Engine | None:
        """The installed engine, or None. Raises InterpreterError when its distributions contradict each other."""
        found = self._ask(_patch_survey, "survey", name, list(files)) if self._interpreter else None
        if found is None:
            return None
        releases = {version.partition("+")[0] for version in found["releases"].values()}
        if len(releases) != 1:
            said = ", ".join(f"{key} {value}" for key, value in found["releases"].items()) or "no distribution"
            raise InterpreterError(
                f"{self.python} has the package {name} in {found['package']}, but its release is not clear: {said}; "
                f"see which are installed: {self.python} -m pip list, and reinstall {name}"
            )
        return Engine(
            name, self.python, found["package"], next(iter(found["releases"])), releases.pop(), found["recorded"]
        )

    def original(self, digest: str) -> bytes | None:
        """The stored original with that digest, or None."""
        return load_original(self._state_directory, digest)

    def edit(self, source: bytes, edits: Sequence[Mapping[str, Any]]) -> tuple[bytes, list[bool]]:
        """What edits make of a source, and which of them were there already.

        Raises Misfit, or ValueError for an edit that is wrong in itself.
        """
        answer = self._ask(_source_edit, "answer_edits", base64.b64encode(source).decode("ascii"), list(edits))
        if "expected" in answer:
            raise Misfit(answer["expected"], answer["found"])
        return base64.b64decode(answer["source"]), answer["present"]

    def holds(self, source: bytes, condition: Mapping[str, str]) -> bool:
        """Whether a condition of `upstream.when` holds for a source."""
        return bool(self._ask(_source_edit, "answer_condition", base64.b64encode(source).decode("ascii"), condition))

    def _ask(self, room: Any, function: str, *arguments: Any) -> Any:
        if self._interpreter is None:
            raise InterpreterError(f"{self.python} does not exist")
        answer = self._interpreter.call(room, function, *arguments)
        if answer.get("error") in ("InvalidEdit", "ValueError"):
            raise ValueError(answer["message"])
        if "error" in answer:
            raise InterpreterError(f"{self.python}: {answer['error']}: {answer['message']}")
        return answer["result"]


def read_source(path: str) -> bytes | None:
    """The content of a file; None when there is none."""
    try:
        with open(path, "rb") as stream:
            return stream.read()
    except (FileNotFoundError, NotADirectoryError):
        return None


def canonical_path(package: str, file: str) -> str:
    """The one name of a package's file: symlinks above the package resolved.

    Raises ValueError when the package or a folder in it is a symlink: a file renamed into place there would land in a
    tree that other environments may share. A symlink above the package (a versioned environment) does no harm.
    """
    top = os.path.join(os.path.realpath(os.path.dirname(package)), os.path.basename(package))
    folder = top
    for part in ["", *file.split("/")[:-1]]:
        folder = os.path.join(folder, part) if part else folder
        if os.path.islink(folder):
            raise ValueError(
                f"{folder} is a symlink to {os.readlink(folder)}; a change there would reach every environment that "
                "uses it. Install the engine as a copy (uv: --link-mode copy)"
            )
    return os.path.join(top, *file.split("/"))
