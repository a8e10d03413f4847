# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where to look: the given paths checked, and the interpreters of the environments in which they lie."""

from __future__ import annotations

import os
import stat
from typing import Iterable, Iterator, NamedTuple

from ansible_collections.blackwell.inference.plugins.module_utils._bytecode_scan import CACHE


class PathError(Exception):
    """A given path cannot be what it must be."""


class Targets(NamedTuple):
    """The given paths, each once."""

    folders: list[str]
    sources: list[str]


def check_paths(paths: list[str]) -> Targets:
    """Sort paths into folders and sources, before anything is touched.

    Raises PathError for a path that is relative, missing, the root of the file system, a cache folder, or neither a
    folder nor a regular file named `*.py`. Paths inside other given folders are dropped.
    """
    folders: dict[str, str] = {}  # as they were given, by their real paths
    sources: dict[str, str] = {}
    for given in paths:
        path = os.path.normpath(given) if given else given
        if _is_folder(path):
            folders.setdefault(os.path.realpath(path), path)
        else:
            sources.setdefault(os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path)), path)
    return Targets(
        [path for real, path in folders.items() if not any(_walks_to(root, real) for root in folders)],
        [path for real, path in sources.items() if not any(_walks_to(root, real) for root in folders)],
    )


def _is_folder(path: str) -> bool:
    if not os.path.isabs(path):
        raise PathError(f"path {path!r} is not absolute: write it from the root of the file system")
    try:
        status = os.stat(path)
    except OSError as error:
        hint = f"use become, or look what is there with: namei -l {path}"
        raise PathError(f"path {path}: {error.strerror}; {hint}") from error
    if stat.S_ISDIR(status.st_mode):
        if os.path.realpath(path) == "/":
            raise PathError(f"path {path} is the whole file system: name an environment, a package or a source")
        if os.path.basename(path) == CACHE:
            raise PathError(f"path {path} is a cache: name {os.path.dirname(path)}, where the sources are")
        return True
    if not stat.S_ISREG(status.st_mode) or not path.endswith(".py"):
        hint = "name the source that it belongs to" if path.endswith(".pyc") else f"look what it is with: file {path}"
        raise PathError(f"path {path} is neither a folder nor a Python source (*.py): {hint}")
    return False


def _walks_to(root: str, path: str) -> bool:
    """Whether a walk from `root` reaches `path`; caches are not descended into."""
    inside = path.startswith(root + "/")
    return inside and CACHE not in path[len(root) :].split("/")


def check_pythons(pythons: list[str]) -> None:
    """Raise PathError for an interpreter that was named and cannot be started."""
    for python in pythons:
        if not os.path.isabs(python) or not os.path.isfile(python) or not os.access(python, os.X_OK):
            raise PathError(f"python {python!r} is not an executable on this node; look with: ls -l {python}")


def check_prefix(prefix: str) -> list[str]:
    """The `pycache_prefix` tree that was named, or nothing if it is empty or no interpreter has made it yet."""
    if not prefix:
        return []
    if not os.path.isabs(prefix) or os.path.realpath(prefix) == "/":
        hint = "it must be an absolute path to a folder of its own, as /var/cache/pycache"
        raise PathError(f"pycache_prefix {prefix!r}: {hint}")
    if os.path.exists(prefix) and not os.path.isdir(prefix):
        raise PathError(f"pycache_prefix {prefix} is not a folder")
    return [os.path.normpath(prefix)] if os.path.isdir(prefix) else []


def interpreters_of(places: Iterable[str]) -> Iterator[str]:
    """The interpreters of the environments in which folders lie: the nearest `bin/python` upwards from each."""
    for place in places:
        candidates = (os.path.join(folder, "bin", name) for folder in _upwards(place) for name in ("python", "python3"))
        nearest = next((python for python in candidates if os.access(python, os.X_OK)), None)
        if nearest:
            yield nearest


def _upwards(folder: str) -> Iterator[str]:
    yield folder
    while folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
        yield folder
