# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes docs/guides/what_the_preflight_sees.md: what the roles say about the invented hosts, in their own words.

Usage:  PYTHONPATH=.collections python tests/replay/page.py > docs/guides/what_the_preflight_sees.md

The recordings tell of GPUs and what connects them. The rest of each node is taken to be in order.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import jinja2
from ansible_collections.blackwell.inference.plugins.filter.nccl_environment import nccl_environment
from ansible_collections.blackwell.inference.plugins.module_utils._gpu_node import read_node
from ansible_collections.blackwell.inference.plugins.plugin_utils._nccl_rules import PROFILES
from ansible_collections.blackwell.inference.tests.replay import hosts
from ansible_collections.blackwell.inference.tests.unit.fixtures.gpu.trees import answers_of, tree_of
from ansible_collections.blackwell.inference.tests.unit.plugins.filter.preflight_case import find

TEMPLATE = Path(__file__).parents[2] / "roles" / "node_preflight" / "templates" / "findings.txt.j2"
SHOWN = {
    "server-8x-two-sockets": """\
The error is what the day would have been lost to: `nvidia-smi topo -p2p` says OK for every pair of this host, every
rank of the first all-reduce says that it is ready, and then nothing happens. The play ends before anything is changed.
If you accept the finding, NCCL is kept off P2P, whatever the profile: right, and slow. With `iommu=pt` and a reboot the
error goes away, and NCCL is set like that of the next host.""",
    "orphans": """\
A server was killed with SIGKILL, and its workers stayed. One of them is not even listed by `nvidia-smi`; it is found by
the files that it has open. The remedy names them, and only them. NCCL does not depend on that: topology decides.""",
}


def facts_of(name: str) -> dict[str, Any]:
    """What gpu_node_facts sees of an invented host."""
    recorded = hosts.recording(name)
    with tempfile.TemporaryDirectory() as directory:
        return read_node(tree_of(recorded["files"], Path(directory) / "host"), answers_of(recorded["commands"]))


def findings_of(facts: dict[str, Any]) -> list[dict[str, Any]]:
    """What the preflight finds where all GPUs are to serve one model, or eight if none is seen."""
    return find({"gpu_node": facts}, {"tensor_parallel": len(facts["gpus"] or []) or 8})


def refused(findings: list[dict[str, Any]]) -> list[str]:
    """The ids of the findings that end a play."""
    return [one["id"] for one in findings if one["severity"] == "error" and not one["accepted"]]


def decided(facts: dict[str, Any], profile: str = "latency") -> dict[str, Any]:
    """The NCCL environment of a profile."""
    return nccl_environment(facts, profile, {}, "vllm")


def table_of_findings(name: str, findings: list[dict[str, Any]]) -> str:
    """The findings as the role shows them."""
    # as ansible.builtin.template renders
    template = jinja2.Environment(trim_blocks=True, autoescape=False).from_string(TEMPLATE.read_text("utf-8"))
    text = template.render(
        inventory_hostname=name,
        node_preflight_hardware="gpu",
        node_preflight_findings=findings,
        __node_preflight_refused=refused(findings),
    )
    return text.strip()


def variables(decision: dict[str, Any]) -> str:
    """The decided variables in one table cell."""
    return " ".join(f"`{one['name']}={one['value']}`" for one in decision["variables"]) or "nothing"


def chapter(name: str) -> str:
    """All about one host."""
    facts = facts_of(name)
    decisions = {profile: decided(facts, profile) for profile in PROFILES}
    rows = "\n".join(f"| `{profile}` | {variables(decision)} |" for profile, decision in decisions.items())
    warnings = "".join(f"\nThe role warns: {text}\n" for text in decisions["latency"]["warnings"])
    return f"""\
## {name}

{hosts.HOSTS[name].title}.

```text
{table_of_findings(name, findings_of(facts))}
```

{SHOWN[name]}

| `nccl_env_profile` | variables |
|---|---|
{rows}

With `nccl_env_profile: latency`, `/etc/specdecode/nccl.env` is:

```text
{decisions["latency"]["environment_file"].strip()}
```
{warnings}"""


def considered() -> str:
    """What no profile sets, and why. It is the same for every host on which none of it is set."""
    decision = decided(facts_of("server-8x-switches"), "conservative")
    return "\n".join(
        f"| `{one['name']}` = {one['value']} | {one['reason']} | {one['evidence']} |" for one in decision["considered"]
    )


def overview() -> str:
    """One row for each invented host."""
    rows = []
    for name, host in hosts.HOSTS.items():
        facts = facts_of(name)
        findings = findings_of(facts)
        ends = ", ".join(f"`{id_}`" for id_ in refused(findings)) or "-"
        warned = ", ".join(f"`{one['id']}`" for one in findings if one["severity"] == "warning") or "-"
        nccl = variables(decided(facts))
        rows.append(f"| `{name}` | {host.title} | {ends} | {warned} | {nccl} |")
    return "\n".join(rows)


def page() -> str:
    """The whole page."""
    chapters = "\n".join(chapter(name) for name in SHOWN)
    return f"""\
# What the preflight sees

`node_preflight` looks at a node once, and says everything that is wrong with it before anything is changed; `nccl_env`
decides the NCCL environment from the same facts. This page shows both for invented hosts, word for word. All addresses
and process ids are made up; the rest of each node (disks, Python, memory, clock, ports) is taken to be in order. For a
host of your own, see [Record your host](record_your_host.md); for all checks, the
[role's page](../../roles/node_preflight/README.md).

<!-- made by tests/replay/page.py; a unit test compares this file with what it would make -->

{chapters}
## What recipes carry, and no profile sets

NVIDIA files nearly all tuning variables under "for debugging, generally not for production". Each of these was looked
at, and is left to you (`nccl_env_overrides`), with a measurement:

| setting | why not | evidence |
|---|---|---|
{considered()}

## All invented hosts

`python tests/replay/hosts.py` lists them. The NCCL environment is that of `nccl_env_profile: latency`; "nothing" where
no GPU answers. The scenario `molecule/recordings` runs both roles against every one of them, on a node, over SSH.

| host | what it is | ends the play for | warns of | NCCL |
|---|---|---|---|---|
{overview()}
"""


if __name__ == "__main__":
    sys.stdout.write(page())
