# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an import of a source would run. Runs inside the environment's interpreter; executes none of the code."""

from __future__ import annotations

import importlib.util
import os
from importlib.machinery import SourceFileLoader
from types import CodeType
from typing import Any, Sequence


def effects(engine: str, paths: Sequence[str]) -> list[dict[str, Any]]:
    """For each source: whether it lies in the tree that is imported, and whether its present text is what would run.

    engine: name of the import package; paths: absolute paths of its sources.
    The code comes from the loader that an import uses, so bytecode is taken exactly where an import would take it.
    Raises OSError when a source can't be read, SyntaxError when it does not compile.
    """
    spec = importlib.util.find_spec(engine)
    package = os.path.realpath(os.path.dirname(spec.origin)) if spec and spec.origin else ""
    return [{"path": path, "imported": _lies_in(package, path), "current": _is_current(path)} for path in paths]


def _lies_in(package: str, path: str) -> bool:
    return bool(package) and os.path.realpath(path).startswith(package + os.sep)


def _is_current(path: str) -> bool:
    would_run = SourceFileLoader("source", path).get_code("source")
    with open(path, "rb") as stream:
        present = compile(stream.read(), path, "exec", dont_inherit=True)
    return isinstance(would_run, CodeType) and _without_paths(would_run) == _without_paths(present)


def _without_paths(code: CodeType) -> CodeType:
    """The code without the path that it was compiled under, which says nothing about its text."""
    constants = tuple(_without_paths(item) if isinstance(item, CodeType) else item for item in code.co_consts)
    return code.replace(co_filename="", co_consts=constants)
