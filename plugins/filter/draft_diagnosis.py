# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter: why a draft that loads is not accepted."""

from __future__ import annotations

DOCUMENTATION = r"""
name: draft_diagnosis
short_description: Say why an EAGLE-3 draft that loads and answers is not accepted
version_added: 0.1.0
author:
  - the blackwell.inference authors (@blackwell-inference)
description:
  - To an engine it is no error that a draft is fed other layers than it was trained on, or lacks its output head. The
    answers stay right, and nothing that is drafted is accepted.
  - Says which layers are in force, by which rule of the release, which are expected, and whether the head is there.
  - Says nothing while the accept length is above 1.05 and, where it is declared, above three quarters of that.
  - The result is a pure function of its input.
positional: served, accept_length, declared
options:
  _input:
    description:
      - What is known of the two models. C(target) and C(draft) are what matters of their C(config.json), C(draft_path)
        is the directory, C(has_head) whether the draft's weights hold C(lm_head.weight). Each may be null.
    type: dict
    required: true
  served:
    description: What serves them.
    type: dict
    required: true
    suboptions:
      engine:
        description: The engine.
        type: str
        choices: [sglang, vllm]
        required: true
      release:
        description: The installed release.
        type: str
        required: true
      boundaries:
        description: Layers that the draft was trained on, as P(blackwell.inference.draft_layer_ids#filter) takes them.
        type: list
        elements: int
        default: []
  accept_length:
    description: Accept length as measured, null when it is not known.
    type: float
    required: true
  declared:
    description: Accept length that the draft was published with, V(0) when it is not known.
    type: float
    default: 0
"""

EXAMPLES = r"""
- name: Say why nothing is accepted
  ansible.builtin.debug:
    msg: "{{ look | blackwell.inference.draft_diagnosis(served, 1.0, 2.0) }}"
  vars:
    served: {engine: vllm, release: 0.32.0, boundaries: [0, 2, 4]}
    look:
      target: {architectures: [Glm4ForCausalLM], num_hidden_layers: 8}
      draft: {eagle_aux_hidden_state_layer_ids: [2, 4, 5]}
      draft_path: /srv/models/eagle3
      has_head: true
"""

RETURN = r"""
_value:
  description: Sentences, empty when there is nothing to say.
  type: list
  elements: str
"""

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.blackwell.inference.plugins.plugin_utils._draft_diagnosis import Served, diagnose


def draft_diagnosis(look: Any, served: Any, accept_length: Any, declared: Any = 0) -> list[str]:
    """The sentences; AnsibleFilterError for what is no such input. Before ansible-core 2.19 numbers come as texts."""
    if not isinstance(look, Mapping) or not isinstance(served, Mapping):
        raise AnsibleFilterError("draft_diagnosis: what is known of the models, and what serves them, are dictionaries")
    try:
        boundaries = [int(item) for item in served.get("boundaries") or []]
        measured = None if accept_length in (None, "") else float(accept_length)
        return diagnose(look, Served(served["engine"], str(served["release"]), boundaries), measured, float(declared))
    except (KeyError, TypeError, ValueError) as error:
        raise AnsibleFilterError(f"draft_diagnosis: {error!r}") from error


class FilterModule:
    """The filter, by its name."""

    def filters(self) -> dict[str, Callable[..., list[str]]]:
        """Names of the filters in this file."""
        return {"draft_diagnosis": draft_diagnosis}
