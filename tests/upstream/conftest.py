# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which releases are tried, an environment for them, and the matrix of what came out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.blackwell.inference.tests.upstream import engines
from ansible_collections.blackwell.inference.tests.upstream.matrix import as_markdown, as_text
from packaging.specifiers import SpecifierSet

Cell = tuple[engines.Release, str]
CELLS: pytest.StashKey[dict[Cell, str]] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("engine releases")
    group.addoption("--all-releases", action="store_true", help="try every release of releases.yml, not only a handful")
    group.addoption("--release", action="append", default=[], help="try this one, verified or not: sglang==0.5.24")
    group.addoption("--matrix", help="write the matrix of releases and patches to this Markdown file")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[CELLS] = {}
    config.addinivalue_line("markers", "engine(name): for the releases of one engine")
    config.addinivalue_line("markers", "patched_by(id, ...): for each release that a patch is for, and the patch")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "release" not in metafunc.fixturenames:
        return
    releases = _chosen(metafunc.config)
    engine, patched_by = (metafunc.definition.get_closest_marker(name) for name in ("engine", "patched_by"))
    if patched_by:
        pairs = [(release, patch) for release in releases for patch in patched_by.args if _is_for(patch, release)]
        metafunc.parametrize(("release", "patch"), pairs, ids=[f"{release}-{patch}" for release, patch in pairs])
    else:
        wanted = [release for release in releases if not engine or release.engine in engine.args]
        metafunc.parametrize("release", wanted, ids=str)


def _is_for(patch: str, release: engines.Release) -> bool:
    entry = engines.catalogue()[patch]
    return bool(entry["engine"] == release.engine and SpecifierSet(entry["releases"]).contains(release.number))


def _chosen(config: pytest.Config) -> list[engines.Release]:
    wanted: list[str] = config.getoption("--release")
    if wanted:
        return [engines.parse(requirement) for requirement in wanted]
    return engines.all_releases() if config.getoption("--all-releases") else engines.representative_releases()


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment without packages."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    return folder


@pytest.fixture
def record(request: pytest.FixtureRequest) -> dict[Cell, str]:
    """The cells of the matrix."""
    return request.config.stash[CELLS]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    cells = config.stash[CELLS]
    if not cells:
        return
    terminalreporter.section("patches and releases")
    terminalreporter.write(as_text(cells))
    if config.getoption("--matrix"):
        Path(config.getoption("--matrix")).write_text(as_markdown(cells))
