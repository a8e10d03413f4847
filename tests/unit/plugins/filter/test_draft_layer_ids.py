# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter passes on what the rules say, and turns refusals into filter errors."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.blackwell.inference.plugins.filter.draft_layer_ids import FilterModule

draft_layer_ids = FilterModule().filters()["draft_layer_ids"]


def test_it_gives_a_mapping() -> None:
    found = draft_layer_ids([0, 3, 31], "sglang", "0.5.10", "KimiK25ForConditionalGeneration", layers=61)
    assert set(found) == {"ids", "config", "patches", "arguments", "reasons"}
    assert found["config"] == {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [-1, 2, 30]}}


@pytest.mark.parametrize("boundaries", ["0,3,31", [3, 0], None])
def test_refusals_are_filter_errors(boundaries: object) -> None:
    with pytest.raises(AnsibleFilterError, match="draft_layer_ids: "):
        draft_layer_ids(boundaries, "vllm", "0.32.0", "LlamaForCausalLM")
