# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every patch of the catalogue against the sources of real engine releases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.blackwell.inference.plugins.module_utils._patch_entry import read_entries
from ansible_collections.blackwell.inference.plugins.module_utils._patch_plan import FAILURES
from ansible_collections.blackwell.inference.plugins.modules.engine_patch import PatchesFailed, run
from ansible_collections.blackwell.inference.tests.upstream import engines
from packaging.specifiers import SpecifierSet

CATALOGUE = engines.catalogue()
EXPECTED = yaml.safe_load((Path(__file__).parent / "expected.yml").read_text())


class Installed:
    """A release in an environment, and engine_patch for it."""

    def __init__(self, release: engines.Release, environment: Path, folder: Path, verify: bool) -> None:
        self.release = release
        self.site = folder / "site-packages"
        self.state = folder / "state"
        self.python = environment / "bin" / "python"
        self.verify = verify
        entries = [entry for entry in CATALOGUE.values() if entry["engine"] == release.engine]
        files = {edit["file"] for entry in entries for edit in entry["edits"]}
        files |= {item["file"] for entry in entries for item in entry.get("upstream", {}).get("when", [])}
        engines.install(release, self.site, files)
        own = next(environment.glob("lib/python*/site-packages"))
        (own / "engine.pth").write_text(f"{self.site}\n")

    def run(self, ids: list[str], state: str = "applied", check: bool = False) -> dict[str, Any]:
        data = [dict(CATALOGUE[name]) for name in ids]
        if self.verify:
            data = [{**entry, "verified": f"=={self.release.number}"} for entry in data]
        params = {"python": str(self.python), "state_directory": str(self.state), "state": state, "exclusive": False}
        return run(params, read_entries(data), check)

    def bytes(self) -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in sorted(self.site.rglob("*.py"))}


@pytest.fixture
def installed(release: engines.Release, environment: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Installed:
    return Installed(release, environment, tmp_path, bool(request.config.getoption("--release")))


def expected_status(patch: str, number: str) -> str:
    for specifier, status in EXPECTED[patch]:
        if SpecifierSet(specifier).contains(number):
            return str(status)
    return "unsupported"


def ids_for(release: engines.Release) -> list[str]:
    return [name for name, entry in CATALOGUE.items() if entry["engine"] == release.engine]


def test_each_patch_alone_is_what_was_read_and_reverts_to_the_wheels_bytes(
    installed: Installed, record: dict[Any, str]
) -> None:
    pristine, problems = installed.bytes(), []
    for name in ids_for(installed.release):
        status, reason = _status(installed, name)
        record[installed.release, name] = status
        if status == "drifted" or (not installed.verify and status != expected_status(name, installed.release.number)):
            problems.append(f"{name} is {status}: {reason}")
        if status == "applied":
            _cycle(installed, name, pristine)
        assert installed.bytes() == pristine
    assert not problems, "\n".join(problems)


def _status(installed: Installed, name: str) -> tuple[str, str]:
    try:
        patch = installed.run([name], check=True)["patches"][0]
    except PatchesFailed as failure:
        return failure.reports[0].status, failure.reports[0].reason
    return patch["status"], patch["reason"]


def _cycle(installed: Installed, name: str, pristine: dict[str, bytes]) -> None:
    first = installed.run([name])
    patched = installed.bytes()
    assert first["changed"]
    assert {path for path in patched if patched[path] != pristine[path]} == set(first["files"])
    for path in first["files"]:
        compile(patched[path], path, "exec")
    assert not installed.run([name])["changed"]
    assert installed.bytes() == patched
    assert installed.run([name], state="reverted")["changed"]


def test_all_patches_together_apply_and_revert(installed: Installed) -> None:
    pristine = installed.bytes()
    statuses = {name: _status(installed, name)[0] for name in ids_for(installed.release)}
    ids = [name for name, status in statuses.items() if status not in FAILURES]
    assert installed.run(ids)["changed"] == ("applied" in statuses.values())
    assert not installed.run(ids)["changed"]
    installed.run([], state="reverted")
    assert installed.bytes() == pristine
    assert not any(installed.state.glob("originals/*"))


def test_a_release_after_the_last_verified_one_is_unsupported(installed: Installed) -> None:
    if installed.verify:
        pytest.skip("the release is taken as verified")
    metadata = next(installed.site.glob("*.dist-info")) / "METADATA"
    metadata.write_text(metadata.read_text().replace(f"Version: {installed.release.number}", "Version: 999.0", 1))
    with pytest.raises(PatchesFailed) as caught:
        installed.run(ids_for(installed.release), check=True)
    assert {report.status for report in caught.value.reports} == {"unsupported"}


def test_everything_in_the_catalogue_is_expected_somewhere() -> None:
    assert set(EXPECTED) == set(CATALOGUE)
