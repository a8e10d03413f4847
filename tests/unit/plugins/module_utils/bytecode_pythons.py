# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The interpreters of this machine on which the truth table is tried.

By default the oldest, the newest and the running one. BYTECODE_PYTHONS=all takes every one that is found;
BYTECODE_PYTHONS=3.8,3.12,pypy3.9 takes these, and fails if one is missing.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

from ansible_collections.blackwell.inference.tests.unit.plugins.module_utils.bytecode_case import ENVIRONMENT

SUPPORTED = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14", "pypy3.9", "pypy3.10", "pypy3.11")
_NAME = (
    "import sys; v = '%d.%d' % sys.version_info[:2]; "
    "print(v if sys.implementation.name == 'cpython' else sys.implementation.name + v)"
)


@functools.lru_cache(maxsize=None)
def found() -> dict[str, str]:
    """The interpreters on PATH and of pyenv, by names as in SUPPORTED."""
    names = [f"python{version}" for version in SUPPORTED if version[0] == "3"] + ["pypy3"]
    candidates = [sys.executable, *filter(None, map(shutil.which, names))]
    candidates += [str(path) for path in sorted(Path("~/.pyenv/versions").expanduser().glob("*/bin/python"))]
    pythons: dict[str, str] = {}
    for python in candidates:
        done = subprocess.run(
            [python, "-I", "-S", "-c", _NAME], env=ENVIRONMENT, capture_output=True, text=True, check=False
        )
        name = done.stdout.strip()
        if done.returncode == 0 and name in SUPPORTED:
            pythons.setdefault(name, python)
    return pythons


@functools.lru_cache(maxsize=None)
def chosen() -> dict[str, str]:
    """The interpreters to try now."""
    wanted = os.environ.get("BYTECODE_PYTHONS", "")
    if wanted == "all":
        return found()
    if wanted:
        return {name: found()[name] for name in wanted.split(",")}
    in_order = [name for name in SUPPORTED if name in found()]
    running = f"{sys.version_info[0]}.{sys.version_info[1]}"
    cpythons = [name for name in in_order if name[0] == "3"]
    return {name: found()[name] for name in in_order if name in (cpythons[0], running, cpythons[-1])}
