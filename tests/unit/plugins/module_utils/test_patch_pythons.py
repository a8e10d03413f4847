# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The same patch by nodes and environments of different Pythons: an engine's source may be newer than the node's."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from ansible_collections.blackwell.inference.tests.unit.plugins.module_utils.bytecode_pythons import chosen
from ansible_collections.blackwell.inference.tests.unit.plugins.module_utils.patch_case import (
    MODEL,
    PATCHED_CONFIG,
    PATCHED_MODEL,
    Environment,
    entry,
)

COLLECTIONS = next(path for path in Path(__file__).resolve().parents if (path / "galaxy.yml").exists()) / ".collections"
CPYTHONS = [name for name in chosen() if name.startswith("3.")]
PYTHONS = {name: chosen()[name] for name in sorted(CPYTHONS, key=lambda name: int(name[2:]))}
NEWEST = list(PYTHONS)[-1]
# What a node does, without Ansible: plan and write.
NODE = """
import json, sys
sys.path.insert(0, sys.argv[1])
from ansible_collections.blackwell.inference.plugins.module_utils import (
    _patch_entry, _patch_interpreter, _patch_plan, _patch_sources, _patch_store,
)
request = json.load(sys.stdin)
entries = _patch_entry.read_entries(request["entries"])
manifest = _patch_store.load_manifest(request["state"])
with _patch_interpreter.Interpreter(request["python"], _patch_sources.ROOMS) as interpreter:
    sources = _patch_sources.Sources(request["python"], interpreter, request["state"])
    plan = _patch_plan.plan_applied(sources, manifest, _patch_plan.Stamp("now", "me"), entries)
results = plan.results
_patch_store.commit(request["state"], results.writes, manifest, results.manifest, results.originals)
print(json.dumps([report.status for report in plan.reports]))
"""


def run_on(node_python: str, environment: Environment) -> list[str]:
    request = {"entries": [entry()], "state": str(environment.state), "python": str(environment.python)}
    command = [node_python, "-I", "-c", NODE, str(COLLECTIONS)]
    done = subprocess.run(command, input=json.dumps(request), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    statuses: list[str] = json.loads(done.stdout)
    return statuses


@pytest.mark.parametrize("environment", PYTHONS)
@pytest.mark.parametrize("node", PYTHONS)
def test_every_node_patches_every_environment(tmp_path: Path, node: str, environment: str) -> None:
    installed = Environment(tmp_path, PYTHONS[environment])
    installed.install()
    assert run_on(PYTHONS[node], installed) == ["applied"]
    assert installed.path().read_text() == PATCHED_MODEL
    assert installed.path("config.py").read_text() == PATCHED_CONFIG


@pytest.mark.parametrize("node", PYTHONS)
def test_the_environments_syntax_counts(tmp_path: Path, node: str) -> None:
    newer = "\n\ndef f(x):\n    match x:\n        case {'a': 1}:\n            return x\n"
    if float(NEWEST.partition(".")[2]) >= 12:
        newer = "type Alias = int\n" + newer.replace("return x", "return f'{x['a']}'")
    installed = Environment(tmp_path, PYTHONS[NEWEST])
    installed.install(files={"models/model.py": MODEL + newer})
    assert run_on(PYTHONS[node], installed) == ["applied"]
    assert installed.path().read_text() == PATCHED_MODEL + newer
