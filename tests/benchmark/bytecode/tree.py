# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes a tree of real Python sources with their bytecode, from what is installed on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from typing import Iterator

WANTED = 27_000  # sources; between 25 and 30 thousand
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def make(root: Path) -> Path:
    """The tree below `root`; it is kept and used again. Its bytecode is younger than its sources, as after pip.

    The bytecode is written anew every time, because a search leaves seals on it.
    """
    tree = root / "tree"
    if not (root / "complete").exists():
        shutil.rmtree(root, ignore_errors=True)
        copied = 0
        for number, library in enumerate(_libraries()):
            copied += _copy(library, tree / str(number), WANTED - copied)
            if copied >= WANTED:
                break
        time.sleep(1.5)
        (root / "complete").touch()
    compile_all(tree)
    return tree


def make_linked(root: Path) -> Path:
    """The same tree as uv leaves it whose cache is removed: the last change of each source is the end of a link.

    So the times prove nothing, and all bytecode is doubtful until a run has proved it.
    """
    tree = root / "linked"
    if not (root / "linked-complete").exists():
        shutil.rmtree(tree, ignore_errors=True)
        subprocess.run(["cp", "-a", str(root / "tree"), str(tree)], check=True)
        cache = root / "cache"
        for source in tree.rglob("*.py"):
            cache.hardlink_to(source)
            cache.unlink()
        (root / "linked-complete").touch()
    return tree


def compile_all(tree: Path) -> None:
    """Compile everything with this interpreter. Some sources are meant for others and do not compile."""
    command = [sys.executable, "-m", "compileall", "-q", "-f", "-j", str(len(os.sched_getaffinity(0))), str(tree)]
    subprocess.run(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def _libraries() -> Iterator[Path]:
    """Folders with sources, again and again."""
    here = [Path(sysconfig.get_path("purelib")), Path(sysconfig.get_path("stdlib"))]
    others = sorted(Path("~/.pyenv/versions").expanduser().glob("3.*/lib/python3.*"))
    while True:
        yield from here
        yield from others


def _copy(source: Path, target: Path, most: int) -> int:
    """Copy sources without their bytecode; returns how many."""
    copied = 0
    for path in source.rglob("*.py"):
        if copied == most:
            break
        if path.is_file() and not path.is_symlink():
            place = target / path.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, place)
            copied += 1
    return copied
