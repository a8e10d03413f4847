# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter: the layers that an EAGLE-3 draft was trained on, as the engine's release counts them."""

from __future__ import annotations

DOCUMENTATION = r"""
name: draft_layer_ids
short_description: Turn the layers that an EAGLE-3 draft was trained on into what the engine's release needs
version_added: 0.1.0
author:
  - the blackwell.inference authors (@blackwell-inference)
description:
  - An EAGLE-3 draft reads hidden states of its target. Which ones it was trained on is said here by boundaries.
    Boundary C(i) is the state that enters layer C(i), and V(0) is the output of the embedding.
  - Engines count layers differently from release to release, and feed a draft other states than it was trained on
    without a word. SGLang 0.5.13 changed the meaning of the same numbers. The filter gives what the installed release
    needs in the draft's C(config.json), and refuses what the release cannot capture.
  - The rules were read in the sources of SGLang 0.5.5 to 0.5.23 and vLLM 0.11.0 to 0.33.0. Other releases are refused.
  - The result is a pure function of its input.
positional: engine, release, target, layers
options:
  _input:
    description: The boundaries, in ascending order.
    type: list
    elements: int
    required: true
  engine:
    description: The engine.
    type: str
    choices: [sglang, vllm]
    required: true
  release:
    description: The installed release, as its distribution says.
    type: str
    required: true
  target:
    description: The architecture in the target's C(config.json), such as V(KimiK25ForConditionalGeneration).
    type: str
    required: true
  layers:
    description:
      - How many hidden layers the target has (C(num_hidden_layers) of its C(config.json)). With it, boundaries beyond
        the last layer are refused, and the engine's defaults are recognised.
    type: int
"""

EXAMPLES = r"""
- name: Show what SGLang 0.5.10 needs for a draft that was trained on the embedding and the layers 3 and 31
  ansible.builtin.debug:
    msg: "{{ [0, 3, 31] | blackwell.inference.draft_layer_ids('sglang', '0.5.10', target, 61) }}"
  vars:
    target: KimiK25ForConditionalGeneration

# Gives: ids [-1, 2, 30], config {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [-1, 2, 30]}},
#        patches [embedding-boundary, cuda-graph-aux-layers]
"""

RETURN = r"""
_value:
  description: What the release needs.
  type: dict
  contains:
    ids:
      description: The layer ids, as the release counts them.
      type: list
      elements: int
    config:
      description: What to merge into the draft's C(config.json); for SGLang nested under C(eagle_config).
      type: dict
    patches:
      description: Catalogue entries of M(blackwell.inference.engine_patch) that must be applied or upstream.
      type: list
      elements: str
    arguments:
      description: Arguments that the server must be started with.
      type: list
      elements: str
    reasons:
      description: Why.
      type: list
      elements: str
"""

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.blackwell.inference.plugins.plugin_utils._draft_layers import draft_layers


def draft_layer_ids(
    boundaries: Any, engine: str, release: str, target: str, layers: int | None = None
) -> dict[str, object]:
    """What the release needs for the boundaries; AnsibleFilterError when it cannot capture them."""
    if not isinstance(boundaries, list):
        raise AnsibleFilterError(f"draft_layer_ids: boundaries are a list of whole numbers; got {boundaries!r}")
    try:
        return draft_layers(boundaries, engine, str(release), target, layers)._asdict()
    except ValueError as error:
        raise AnsibleFilterError(f"draft_layer_ids: {error}") from error


class FilterModule:
    """The filter, by its name."""

    def filters(self) -> dict[str, Callable[..., dict[str, object]]]:
        """Names of the filters in this file."""
        return {"draft_layer_ids": draft_layer_ids}
