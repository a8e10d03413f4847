# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random histories of a tree: whatever was done to it, exactly the stale bytecode goes.

BYTECODE_SEEDS=200 tries that many histories instead of a few.
"""

from __future__ import annotations

import importlib.util
import marshal
import os
import py_compile
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable

import pytest
from ansible_collections.blackwell.inference.plugins.module_utils import _bytecode_pyc
from ansible_collections.blackwell.inference.tests.unit.plugins.module_utils.bytecode_case import LONG_AGO, Project

TAG = sys.implementation.cache_tag
MODULES = ("a", "b", "c", "package/d")
SEEDS = range(int(os.environ.get("BYTECODE_SEEDS", "8")))
MODES = list(py_compile.PycInvalidationMode)


class History:
    """A tree to which random things happen."""

    def __init__(self, root: Path, seed: int) -> None:
        self.choose = random.Random(seed)
        self.project = Project(root / "app")
        self.root = self.project.root
        self.log: list[str] = []
        for module in MODULES:
            self.project.write(f"{module}.py", "V = 10\n")

    def source(self) -> Path:
        """One of the sources."""
        return self.root / f"{self.choose.choice(MODULES)}.py"

    def pyc(self, source: Path, optimization: str = "") -> Path:
        """The bytecode of a source."""
        level = f".opt-{optimization}" if optimization else ""
        return source.parent / "__pycache__" / f"{source.stem}.{TAG}{level}.pyc"

    def edit(self) -> None:
        """Write another version, mostly of the same size, with one of many times, in place or by renaming."""
        source = self.source()
        before = source.stat().st_mtime
        text = f"V = {self.choose.randint(10, 13)}\n" + self.choose.choice(["", "", "", "# longer\n"])
        target = source if self.choose.random() < 0.7 else source.with_suffix(".new")
        target.write_text(text)
        mtime = self.choose.choice([None, before, LONG_AGO, LONG_AGO + 0.5, before + 2**32])
        if mtime is not None:
            os.utime(target, (mtime, mtime))
        target.replace(source)

    def touch(self) -> None:
        """Set the time of a source."""
        mtime = self.choose.choice([None, LONG_AGO])
        os.utime(self.source(), None if mtime is None else (mtime, mtime))

    def change_mode(self) -> None:
        """Change the mode of a source or of bytecode."""
        source = self.source()
        for path in (source, self.pyc(source)):
            if path.exists() and self.choose.random() < 0.5:
                path.chmod(self.choose.choice([0o600, 0o644]))

    def hard_link(self) -> None:
        """Link a source and take the link away again."""
        source = self.source()
        os.link(source, source.with_suffix(".linked"))
        source.with_suffix(".linked").unlink()

    def compile(self) -> None:
        """Compile as an import or a build would."""
        source = self.source()
        level = self.choose.choice([0, 0, 1, 2])
        py_compile.compile(str(source), optimize=level, invalidation_mode=self.choose.choice(MODES), doraise=True)

    def compile_beside(self) -> None:
        """Compile to the place that only sourceless modules use."""
        source = self.source()
        py_compile.compile(str(source), cfile=f"{source}c", optimize=self.choose.choice([0, 1, 2]), doraise=True)

    def copy_source(self) -> None:
        """Copy one source onto another, with its times."""
        one, other = self.source(), self.source()
        if one != other:
            subprocess.run(["cp", "-p", one, other], check=True)

    def copy_pyc(self) -> None:
        """Copy or move the bytecode of one source to the place of another, with its times."""
        one, other = self.pyc(self.source()), self.pyc(self.source())
        if one != other and one.exists():
            other.parent.mkdir(exist_ok=True)
            subprocess.run([*self.choose.choice([["cp", "-p"], ["mv"]]), one, other], check=True)

    def copy_tree(self) -> None:
        """Move the whole tree through a copy with all times."""
        subprocess.run(["cp", "-a", self.root, f"{self.root}.copy"], check=True)
        shutil.rmtree(self.root)
        Path(f"{self.root}.copy").rename(self.root)

    def swap_caches(self) -> None:
        """Move the bytecode of one folder to another."""
        one, other = self.root / "__pycache__", self.root / "package" / "__pycache__"
        if one.exists() and not other.exists():
            one.rename(other)
        elif other.exists() and not one.exists():
            other.rename(one)

    def predict_or_purge(self) -> None:
        """Run the code under test, sometimes in check mode."""
        self.purge(check=self.choose.random() < 0.2)

    def purge(self, check: bool = False) -> None:
        """Run the code under test, and compare what it did with what should be."""
        pycs = {path: self.is_fresh(path) for path in self.root.rglob("*.pyc")}
        outcome = self.project.invalidate(check=check)
        removed = {Path(item.path) for item in outcome.removed}
        assert removed == {path for path, fresh in pycs.items() if fresh is False}, (self.log, outcome.removed)
        assert outcome.errors == []
        assert outcome.examined == outcome.kept + len(outcome.removed) + len(outcome.left)
        assert {path for path in pycs if not path.exists()} == (set() if check else removed), self.log

    def is_fresh(self, pyc: Path) -> bool | None:
        """Whether bytecode holds what its source says; None if there is no source."""
        folder = pyc.parent.parent if pyc.parent.name == "__pycache__" else pyc.parent
        source = folder / (pyc.name.split(".")[0] + ".py")
        if not source.exists():
            return None
        found: dict[str, Any] = {}
        exec(marshal.loads(pyc.read_bytes()[16:]), found)
        header = pyc.read_bytes()[:16]
        wanted: dict[str, Any] = {}
        exec(source.read_text(), wanted)
        # Another size or hash is another source, even if the difference is only a comment.
        same_size = header[4] & 1 or int.from_bytes(header[12:16], "little") == source.stat().st_size
        same_hash = not header[4] & 1 or self.hash_of(source) == header[8:16]
        return bool(same_size and same_hash and found["V"] == wanted["V"])

    @staticmethod
    def hash_of(source: Path) -> bytes:
        """The hash that a hash pyc of this source holds."""
        return importlib.util.source_hash(source.read_bytes())


@pytest.mark.parametrize("seed", SEEDS)
def test_exactly_the_stale_goes(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Nothing happens during a compilation here, so in half of the histories times are trusted at once. What was moved
    # within a tenth of a second after its compilation can't be told by times; there, bytecode does not move.
    trusting = bool(seed % 2)
    if trusting:
        monkeypatch.setattr(_bytecode_pyc, "COMPILE_WINDOW", 0)
        monkeypatch.setattr(_bytecode_pyc, "COMPILE_WINDOW_PER_BYTE", 0)
    history = History(tmp_path, seed)
    events: list[tuple[Callable[[], None], int]] = [
        (history.edit, 6),
        (history.compile, 8),
        (history.predict_or_purge, 4),
        (history.touch, 2),
        (history.change_mode, 2),
        (history.hard_link, 1),
        (history.compile_beside, 1),
        (history.copy_source, 2),
        (history.copy_pyc, 0 if trusting else 2),
        (history.copy_tree, 1),
        (history.swap_caches, 0 if trusting else 1),
    ]
    actions, weights = zip(*events)
    for action in history.choose.choices(actions, weights, k=40):
        history.log.append(action.__name__)
        action()
    history.purge()
    for source in MODULES:
        package, _slash, module = source.rpartition("/")
        expected = (history.root / f"{source}.py").read_text().split()[2]
        name = f"{package}.{module}" if package else module
        assert history.project.value(name) == expected, history.log
