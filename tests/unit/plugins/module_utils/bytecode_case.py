# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small Python project on disk, run by a real interpreter, for the tests of bytecode."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from ansible_collections.blackwell.inference.plugins.module_utils._bytecode import Outcome, Request, invalidate

# The interpreters must write bytecode, whatever the environment of the test run says.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
LONG_AGO = 1_600_000_000  # an mtime, seconds since the epoch


class Project:
    """Modules in one folder, imported and compiled by one interpreter."""

    def __init__(self, root: Path, python: str = sys.executable) -> None:
        self.root = root
        self.python = python
        self.environment = dict(ENVIRONMENT)
        root.mkdir(parents=True, exist_ok=True)

    def write(self, name: str, text: str | bytes, mtime: float | None = LONG_AGO) -> Path:
        """Write a source in place; its mtime is set unless it is None."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        if mtime is not None:
            os.utime(path, (mtime, mtime))
        return path

    def run(self, code: str, *flags: str) -> str:
        """Run code in a fresh interpreter and return what it prints."""
        done = subprocess.run(
            [self.python, "-S", *flags, "-c", code],
            cwd=self.root.parent,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def value(self, module: str = "m", *flags: str) -> str:
        """Import a module in a fresh interpreter, which writes its bytecode, and return its V."""
        return self.run(f"import sys; sys.path.insert(0, {str(self.root)!r}); import {module} as m; print(m.V)", *flags)

    def compile(self, name: str, mode: str = "TIMESTAMP", **options: Any) -> None:
        """Compile a source with py_compile."""
        arguments = {"file": str(self.root / name), "doraise": True, **options}
        self.run(f"import py_compile as p; p.compile(**{arguments!r}, invalidation_mode=p.PycInvalidationMode.{mode})")

    def pycs(self) -> list[str]:
        """All bytecode below the folder, relative to it."""
        return sorted(str(path.relative_to(self.root)) for path in self.root.rglob("*.pyc"))

    def invalidate(self, *paths: str, prefix: Path | str = "", prove: bool = True, check: bool = False) -> Outcome:
        """Run the code under test on paths in the folder, or on the folder itself."""
        targets = [str(self.root / path) for path in paths] or [str(self.root)]
        pythons = [self.python] if prove else []
        return invalidate(Request(targets, pythons, str(prefix), prove=prove, dry_run=check))


def reasons(outcome: Outcome) -> dict[str, str]:
    """What was removed and why, by the name of the pyc."""
    return {os.path.basename(removed.path): removed.reason for removed in outcome.removed}


def stale_project(root: Path) -> Project:
    """A project whose only bytecode is stale."""
    project = Project(root)
    project.write("m.py", "V = 1\n")
    project.value()
    project.write("m.py", "V = 2\n")
    return project


def cache(project: Project) -> Path:
    """The folder with the bytecode."""
    return project.root / "__pycache__"


def left(outcome: Outcome) -> dict[str, str]:
    """What was left and why, by name."""
    return {os.path.basename(item.path): item.reason for item in outcome.left}
