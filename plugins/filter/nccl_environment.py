# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter: the NCCL variables of a node, decided from its facts."""

from __future__ import annotations

DOCUMENTATION = r"""
name: nccl_environment
short_description: Decide a node's NCCL variables from its facts
version_added: 0.1.0
author:
  - the blackwell.inference authors (@blackwell-inference)
description:
  - Decides which NCCL variables a node should have, from how its GPUs are linked, and says for each why, with the
    evidence and its date. What was considered and is not set is listed, too.
  - Refuses every name and value that NCCL would ignore or misread, in the overrides as well. NCCL itself is silent
    about nearly all of them.
  - The result is a pure function of its input. What C(gpu_node_facts) could not know is never guessed; nothing is
    tuned then, and a note says so.
positional: profile, overrides, engine
options:
  _input:
    description: The facts RV(blackwell.inference.gpu_node_facts#module:ansible_facts.gpu_node).
    type: dict
    required: true
  profile:
    description:
      - V(conservative) leaves NCCL's own choices, but for what is needed to be correct.
      - V(latency) is for few streams, V(throughput) for many. Both let the GPUs talk directly where NCCL's default
        reach would not.
    type: str
    choices: [conservative, latency, throughput]
    default: conservative
  overrides:
    description:
      - Variables to set whatever the profile says, by name. Null unsets one that the profile sets.
    type: dict
    default: {}
  engine:
    description: The engine that the variables are for. With V(sglang), what it overwrites is reported.
    type: str
    default: ''
"""

EXAMPLES = r"""
- name: Look at the node
  blackwell.inference.gpu_node_facts:

- name: Show the variables and why
  ansible.builtin.debug:
    msg: "{{ ansible_facts.gpu_node | blackwell.inference.nccl_environment('latency', {'NCCL_DEBUG': 'WARN'}) }}"
"""

RETURN = r"""
_value:
  description: The decision.
  type: dict
  contains:
    variables:
      description: The variables to set, sorted by name.
      type: list
      elements: dict
      contains:
        name:
          description: Name of the variable.
          type: str
        value:
          description: Its value.
          type: str
        reason:
          description: Why it is set on this node.
          type: str
        evidence:
          description: What was measured or read, where, and when.
          type: str
    warnings:
      description: What is dangerous, deprecated, or has no effect.
      type: list
      elements: str
    notes:
      description: Why nothing, or nothing more, is set.
      type: list
      elements: str
    considered:
      description: Settings that recipes carry and that are not set, with the reason and the evidence.
      type: list
      elements: dict
    environment_file:
      description: The variables as a unit's environment file.
      type: str
    conf_file:
      description: NCCL's own variables in the exact syntax of C(/etc/nccl.conf).
      type: str
"""

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.blackwell.inference.plugins.plugin_utils._nccl_node import NcclError, read_node
from ansible_collections.blackwell.inference.plugins.plugin_utils._nccl_rules import decide


def nccl_environment(
    gpu_node: object, profile: object = "conservative", overrides: object = None, engine: object = ""
) -> dict[str, Any]:
    """The variables of the node; AnsibleFilterError for what NCCL would not take as it is said."""
    try:
        return decide(read_node(gpu_node), profile, overrides, engine)
    except NcclError as error:
        raise AnsibleFilterError(f"nccl_environment: {error}") from error


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, Callable[..., dict[str, Any]]]:
        """The filter by its name."""
        return {"nccl_environment": nccl_environment}
