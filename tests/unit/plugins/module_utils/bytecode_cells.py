# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds every cell of the truth table, kinds of bytecode by kinds of edits, with a real interpreter and real tools."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Callable, NamedTuple

from ansible_collections.blackwell.inference.plugins.module_utils._bytecode import Outcome, Request, invalidate
from ansible_collections.blackwell.inference.tests.unit.plugins.module_utils.bytecode_case import LONG_AGO, Project

OLD = "V = 'old'\n"
NEW = "V = 'new'\n"  # of the same size
LONGER = "V = 'new'  # and longer\n"

KINDS = ("timestamp", "opt-1", "opt-2", "checked", "unchecked", "prefix", "beside", "sourceless")
_FLAGS = {"opt-1": ["-O"], "opt-2": ["-OO"]}


class Cell:
    """One module whose bytecode is of one kind."""

    def __init__(self, root: Path, kind: str, edit: str, python: str) -> None:
        self.root = root
        self.kind = kind
        self.edit = edit
        self.app = root / "app"
        self.project = Project(self.app, python)
        self.flags = _FLAGS.get(kind, [])
        if kind == "prefix":
            self.project.environment["PYTHONPYCACHEPREFIX"] = str(root.parents[1] / "prefix")

    @property
    def source(self) -> Path:
        """The source that is there at first."""
        return self.app / ("m/__init__.py" if self.edit == "package becomes a module" else "m.py")

    def write_source(self) -> None:
        """Write the first source, in a folder that is reached through a link if it will be switched."""
        if self.edit == "release switched by a link":
            self.app.rmdir()
            (self.root / "r1").mkdir()
            self.app.symlink_to("r1")
        self.source.parent.mkdir(exist_ok=True)
        put(self.source, OLD, LONG_AGO + 0.2)

    def compile(self) -> None:
        """Make the bytecode of this kind."""
        name = str(self.source.relative_to(self.app))
        if self.kind in ("checked", "unchecked"):
            self.project.compile(name, f"{self.kind.upper()}_HASH")
        elif self.kind in ("beside", "sourceless"):
            self.project.compile(name, cfile=f"{self.source}c")
            if self.kind == "sourceless":
                self.source.unlink()
        else:
            assert self.project.value("m", *self.flags) == "old"

    def letter(self) -> str:
        """What a fresh interpreter runs: the present code (F), old code (S), no module (N), or no code (n)."""
        value = self.project.run(
            f"import sys; sys.path.insert(0, {str(self.app)!r})\n"
            "try: import m\nexcept ModuleNotFoundError: print('N')\nelse: print(getattr(m, 'V', 'n'))",
            "-B",
            *self.flags,
        )
        if value in ("N", "n"):
            return value
        sources = [path for path in (self.app / "m/__init__.py", self.app / "m.py") if path.exists()]
        present = "new" if sources and "new" in sources[0].read_text() else "old"
        return "F" if value == present and (sources or self.edit == "none") else "S"


def put(path: Path, text: str, mtime: float | None = None) -> None:
    """Write in place, and set the mtime unless it is None."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    if mtime is not None:
        os.utime(path, (mtime, mtime))


def put_by_rename(path: Path, text: str, mtime: float | None = None) -> None:
    """Replace a file as editors and installers do."""
    fresh = path.with_suffix(".fresh")
    put(fresh, text, mtime)
    fresh.replace(path)


def run(*command: str) -> None:
    """Run a tool."""
    subprocess.run(command, check=True, capture_output=True)


def touch_r(cell: Cell) -> None:
    """Edit, and put the mtime back."""
    run("cp", "-p", str(cell.source), str(cell.root / "reference"))
    put(cell.source, NEW)
    run("touch", "-r", str(cell.root / "reference"), str(cell.source))


def copy_preserving(cell: Cell) -> None:
    """Copy a version with the same mtime onto the source."""
    put(cell.root / "new.py", NEW, LONG_AGO)
    run("cp", "-p", str(cell.root / "new.py"), str(cell.source))


def rsync_ignoring_times(cell: Cell) -> None:
    """Transfer a version with the same mtime; without -I rsync would not even look at it."""
    put(cell.root / "release" / cell.source.relative_to(cell.app), NEW, LONG_AGO)
    run("rsync", "-rtI", f"{cell.root}/release/", f"{cell.app}/")


def clamped_layer(cell: Cell) -> None:
    """Unpack two layers of an image whose mtimes are clamped to the same moment."""
    run("tar", "-C", str(cell.root), "-cf", f"{cell.root}/1.tar", "app")
    put(cell.root / "2" / "app" / cell.source.relative_to(cell.app), NEW)
    run("tar", "-C", f"{cell.root}/2", f"--mtime=@{LONG_AGO}", "-cf", f"{cell.root}/2.tar", "app")
    shutil.rmtree(cell.app)
    for layer in ("1.tar", "2.tar"):
        run("tar", "-C", str(cell.root), "-xf", str(cell.root / layer))


def copied_with_tar(cell: Cell) -> None:
    """Move the project, with its bytecode, through an archive."""
    run("tar", "-C", str(cell.root), "-cf", f"{cell.root}/1.tar", "app")
    shutil.rmtree(cell.app)
    run("tar", "-C", str(cell.root), "-xf", f"{cell.root}/1.tar")


def become_package(cell: Cell) -> None:
    """Replace m.py by m/__init__.py."""
    cell.source.unlink(missing_ok=True)
    put(cell.app / "m/__init__.py", NEW)


def become_namespace(cell: Cell) -> None:
    """Replace m.py by a folder without sources."""
    cell.source.unlink(missing_ok=True)
    (cell.app / "m/sub").mkdir(parents=True)


def become_module(cell: Cell) -> None:
    """Replace m/__init__.py by m.py, leaving the folder and its bytecode behind."""
    cell.source.unlink(missing_ok=True)
    put(cell.app / "m.py", NEW)


def switch_release(cell: Cell) -> None:
    """Let the link to the release point to the next one."""
    put(cell.root / "r2" / "m.py", NEW, LONG_AGO)
    (cell.root / "next").symlink_to("r2")
    (cell.root / "next").replace(cell.app)


EDITS: dict[str, Callable[[Cell], None]] = {
    "none": lambda cell: None,
    "ordinary": lambda cell: put(cell.source, LONGER),
    "same size, new mtime": lambda cell: put(cell.source, NEW),
    "same second": lambda cell: put(cell.source, LONGER, LONG_AGO + 0.7),
    "same second, same size": lambda cell: put(cell.source, NEW, LONG_AGO + 0.7),
    "touch -r": touch_r,
    "cp -p": copy_preserving,
    "rsync -tI": rsync_ignoring_times,
    "renamed into place, mtime kept": lambda cell: put_by_rename(cell.source, NEW, LONG_AGO),
    "layer with clamped mtimes": clamped_layer,
    "mtime + 2^32": lambda cell: put(cell.source, NEW, LONG_AGO + 2**32),
    "other size, mtime kept": lambda cell: put(cell.source, LONGER, LONG_AGO),
    "mtime older than before": lambda cell: put(cell.source, NEW, LONG_AGO - 86400),
    "renamed into place": lambda cell: put_by_rename(cell.source, NEW),
    "deleted": lambda cell: cell.source.unlink(),
    "module becomes a package": become_package,
    "module becomes a namespace": become_namespace,
    "package becomes a module": become_module,
    "touched": lambda cell: os.utime(cell.source),
    "chmod": lambda cell: cell.source.chmod(0o600),
    "another hard link": lambda cell: os.link(cell.source, cell.root / "link.py"),
    "copied with tar": copied_with_tar,
    "release switched by a link": switch_release,
}
# Without a source there is nothing to edit; but a source, a package or a folder may appear beside the module.
SOURCELESS_EDITS = (
    "none",
    "ordinary",
    "same second, same size",
    "module becomes a package",
    "module becomes a namespace",
)


class Row(NamedTuple):
    """What happened to one edit, one character for each kind, `-` where the combination has no meaning."""

    before: str  # what a fresh interpreter ran after the edit, see Cell.letter
    action: str  # K kept, R removed, L left
    after: str  # what a fresh interpreter ran after that


class Table(NamedTuple):
    """The whole table for one interpreter."""

    rows: dict[str, Row]
    predicted: Outcome  # by check mode
    done: Outcome
    again: Outcome  # a second run, after every module was imported again


def build(root: Path, python: str) -> Table:
    """Make all cells, see what an interpreter does with them, run the code under test, and look again."""
    cells = [
        Cell(root / "cells" / f"{edit}-{kind}".replace(" ", "_"), kind, edit, python)
        for edit in EDITS
        for kind in KINDS
        if kind != "sourceless" or edit in SOURCELESS_EDITS
    ]
    (root / "prefix").mkdir(parents=True)
    for cell in cells:
        cell.write_source()
    time.sleep(1.1)  # so that times can prove something
    for cell in cells:
        cell.compile()
    for cell in cells:
        EDITS[cell.edit](cell)
    before = {(cell.edit, cell.kind): cell.letter() for cell in cells}
    request = Request([str(root / "cells")], [python], str(root / "prefix"))
    predicted = invalidate(request._replace(dry_run=True))
    done = invalidate(request)
    after = {(cell.edit, cell.kind): cell.letter() for cell in cells}
    actions = {(cell.edit, cell.kind): _action(done, str(cell.root)) for cell in cells}
    for cell in cells:
        cell.project.run(f"import sys; sys.path.insert(0, {str(cell.app)!r})\ntry: import m\nexcept ImportError: pass")
    rows = {edit: Row(*(_line(edit, column) for column in (before, actions, after))) for edit in EDITS}
    return Table(rows, predicted, done, invalidate(request))


def _line(edit: str, column: dict[tuple[str, str], str]) -> str:
    return "".join(column.get((edit, kind), "-") for kind in KINDS)


def _action(outcome: Outcome, root: str) -> str:
    """What was done to the one pyc of a cell."""
    if any(f"{root}/" in removed.path for removed in outcome.removed):
        return "R"
    return "L" if any(f"{root}/" in left.path for left in outcome.left) else "K"
