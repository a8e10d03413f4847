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

Cell = tuple[engines.Release, str]
CELLS: pytest.StashKey[dict[Cell, str]] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("engine releases")
    group.addoption("--all-releases", action="store_true", help="try every release of releases.yml, not only a handful")
    group.addoption("--release", action="append", default=[], help="try this one, verified or not: sglang==0.5.24")
    group.addoption("--matrix", help="write the matrix of releases and patches to this Markdown file")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[CELLS] = {}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "release" in metafunc.fixturenames:
        releases = _chosen(metafunc.config)
        metafunc.parametrize("release", releases, ids=str, scope="module")


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
