# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter: what is wrong with a node, said before anything is changed."""

from __future__ import annotations

DOCUMENTATION = r"""
name: preflight_findings
short_description: Say what is wrong with a node before anything is changed
version_added: 0.1.0
author:
  - the blackwell.inference authors (@blackwell-inference)
description:
  - Judges the facts of a node against what it is wanted for, and returns everything that there is to say, the gravest
    first. The role C(node_preflight) collects the facts and describes every check.
  - A fact that can't be known is a finding too, one step milder than a broken rule, and says why it can't.
  - The result is a pure function of its input.
positional: wants
options:
  _input:
    description:
      - The facts. C(node) is what the role saw of the node, C(gpu_node) what
        M(blackwell.inference.gpu_node_facts) returned.
    type: dict
    required: true
  wants:
    description:
      - What the node is wanted for. An unknown key is refused. C(hardware) is V(gpu) or V(cpu); C(accepted) lists ids
        of findings that are known and accepted; the others are described with the role's variables.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Judge what was seen
  ansible.builtin.set_fact:
    findings: "{{ {'node': seen} | blackwell.inference.preflight_findings({'hardware': 'cpu', 'port': 8000}) }}"
"""

RETURN = r"""
_value:
  description: The findings, errors first.
  type: list
  elements: dict
  contains:
    id:
      description: Name of the check, for O(wants) C(accepted).
      type: str
    severity:
      description: V(error), V(warning) or V(info).
      type: str
    found:
      description: The fact.
      type: str
    rule:
      description: What the fact breaks, and why that matters.
      type: str
    remedy:
      description: What to do.
      type: str
    evidence:
      description: Where the rule comes from.
      type: str
    accepted:
      description: Whether the finding was accepted beforehand.
      type: bool
    acceptable:
      description: Whether a server may serve all the same. Else a later step fails even if the finding is accepted.
      type: bool
"""

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.blackwell.inference.plugins.plugin_utils._preflight_model import (
    Facts,
    PreflightError,
    parse_wants,
)
from ansible_collections.blackwell.inference.plugins.plugin_utils._preflight_rules import findings


def preflight_findings(facts: object, wants: object) -> list[dict[str, Any]]:
    """Findings about a node; AnsibleFilterError when facts or wants are not what the checks can judge."""
    try:
        return findings(Facts(facts), parse_wants(wants))
    except PreflightError as error:
        raise AnsibleFilterError(f"preflight_findings: {error}") from error


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, Callable[..., list[dict[str, Any]]]]:
        """The filter by its name."""
        return {"preflight_findings": preflight_findings}
