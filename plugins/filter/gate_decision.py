# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter: two measurements, as a judgement of speculation."""

from __future__ import annotations

DOCUMENTATION = r"""
name: gate_decision
short_description: Judge speculation from a measurement with it and one without
version_added: 0.1.0
author:
  - the blackwell.inference authors (@blackwell-inference)
description:
  - Compares two results of M(blackwell.inference.spec_decode_probe) with what is asked of speculation.
  - A difference of speed within the ranges of the two measurements counts as none.
  - The result is a pure function of its input.
positional: without, limits
options:
  _input:
    description: The measurement with speculation.
    type: dict
    required: true
  without:
    description: The measurement without speculation, empty when there is none.
    type: dict
    required: true
  limits:
    description: What is asked.
    type: dict
    required: true
    suboptions:
      accept_length_min:
        description: Least tokens of one verification, the target's own included. V(0) not to judge it.
        type: float
        default: 0
      speedup_min:
        description: Least speed of the fewest streams as a multiple of that without speculation.
        type: float
        default: 0
      speedup_many_min:
        description: The same for every other number of streams.
        type: float
        default: 0
      equal_text:
        description: Whether every text must equal that of the run without speculation.
        type: bool
        default: false
      accept_length_declared:
        description: Accept length that the draft was published with, for the diagnosis. V(0) when it is not known.
        type: float
        default: 0
"""

EXAMPLES = r"""
- name: Judge what was measured
  ansible.builtin.debug:
    msg: "{{ measured | blackwell.inference.gate_decision(plain, {'accept_length_min': 1.8, 'speedup_min': 1.0}) }}"
"""

RETURN = r"""
_value:
  description: The judgement.
  type: dict
  contains:
    holds:
      description: Whether speculation holds what is asked of it.
      type: bool
    reasons:
      description: What speaks against it, each with the fact, the rule and what to do.
      type: list
      elements: str
    facts:
      description: What was measured, with what is asked, whatever the judgement is.
      type: list
      elements: str
    speedups:
      description:
        - For each number of streams C(ratio), C(differs) (false where the ranges meet) and C(effective) (1.0 then).
      type: list
      elements: dict
    texts_differ:
      description: Prompts whose text differs.
      type: list
      elements: str
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.blackwell.inference.plugins.plugin_utils._gate_decision import Limits, decide


def gate_decision(measured: Any, without: Any, limits: Any) -> dict[str, Any]:
    """The judgement; AnsibleFilterError for limits that make no sense."""
    if not isinstance(measured, Mapping) or not isinstance(without, Mapping) or not isinstance(limits, Mapping):
        raise AnsibleFilterError("gate_decision: measurements and limits are dictionaries")
    try:
        return decide(measured, without, _limits(limits))._asdict()
    except (TypeError, ValueError, KeyError) as error:
        raise AnsibleFilterError(f"gate_decision: {error}") from error


def _limits(limits: Mapping[str, Any]) -> Limits:
    """Limits may come as text. Raises TypeError for one that is unknown or no boolean, ValueError for no number."""
    numbers = {name: float(value) for name, value in limits.items() if name != "equal_text"}
    strange = [name for name, value in numbers.items() if not 0 <= value < math.inf]
    if strange:
        raise ValueError(f"{strange[0]} is {limits[strange[0]]}; a limit is a number from 0, and 0 is not to judge it")
    return Limits(equal_text=boolean(limits.get("equal_text", False)), **numbers)


class FilterModule:
    """The filter, by its name."""

    def filters(self) -> dict[str, Callable[..., dict[str, Any]]]:
        """Names of the filters in this file."""
        return {"gate_decision": gate_decision}
