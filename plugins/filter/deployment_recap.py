# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter: what was deployed, measured and decided on all nodes, as a text, as JSON, and as what the page shows.

The contract, for whoever collects the nodes:

* The input is a list with a dict for each node. Its keys are `host`, `deployment`, `with`, `without`, `patches`,
  `purged`, `nccl`, `findings` and `history`; every one but `host` may be missing or null, as may everything below it. A
  node that failed early has its name and nothing else. What is missing is shown as "not known", and never concluded
  from something else. An empty list is a fact ("nothing found"), not the same as a missing one; an empty dict is as
  good as a missing one, but for `deployment.speculative`, where it says that no speculation was asked for.
* `with` and `without` are records of measurements.jsonl, `patches` are those of engine_patch, `purged` is `removed` of
  pyc_invalidate, `nccl` is what nccl_environment gave, `findings` are those of preflight_findings. Keys that the recap
  has no use for are left out.
* `history` is that of deployment_record, in any order. One whose `id` is that of `deployment` is the present one, and
  is not counted as earlier; nor is what was there before the first one.
* What a node reported may be damaged or hostile. A value of the wrong kind is left out, and a sentence in the node's
  `unread` says so. Texts lose control, direction and other invisible characters, which are shown as escapes, and are
  cut after 2000 characters. They are escaped for HTML by the template, not here.
* Only what the caller alone can have done wrong is an error: no list, an item that is no dict, no host, an unknown key.
* The same nodes give the same result, so that a second run does not change the files: there is no clock in it.
"""

from __future__ import annotations

DOCUMENTATION = r"""
name: deployment_recap
short_description: Recap what was deployed, measured and decided on all nodes
version_added: 0.1.0
author:
  - the blackwell.inference authors (@blackwell-inference)
description:
  - Puts together what the parts of a deployment said about each node, for the terminal, for programs, and for the page
    that the role C(specdecode_gate) writes.
  - What is missing is shown as not known, and never concluded from something else. What a node reported in another form
    than expected is left out, and RV(_value) says so.
  - Speeds whose C(low) to C(high) overlap are said not to differ.
  - The result is a pure function of its input. Its texts are safe to show in a terminal; for HTML they still have to
    be escaped.
options:
  _input:
    description:
      - The nodes. Each has C(host), and may have C(deployment), C(with), C(without), C(patches), C(purged), C(nccl),
        C(findings) and C(history).
      - C(deployment) has C(id), C(time), C(instance), C(engine), C(release), C(digest), C(decision) (V(keep),
        V(fallback) or V(fail)), C(reasons), C(model), C(draft) and C(speculative).
      - C(with) and C(without) are what M(blackwell.inference.spec_decode_probe) returned with and without speculation.
      - C(patches) is RV(blackwell.inference.engine_patch#module:patches), C(purged) is
        RV(blackwell.inference.pyc_invalidate#module:removed).
      - C(nccl) is the decision of P(blackwell.inference.nccl_environment#filter), C(findings) that of
        P(blackwell.inference.preflight_findings#filter).
      - C(history) is RV(blackwell.inference.deployment_record#module:history), of which C(about) has C(decision),
        C(accept_length), C(tokens_per_second_with) and C(tokens_per_second_without). The present deployment may be
        among them.
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the recap of two nodes, of which the second failed before it could tell anything
  ansible.builtin.debug:
    msg: "{{ (nodes | blackwell.inference.deployment_recap).text.splitlines() }}"
  vars:
    nodes:
      - host: gpu-a01
        deployment: {decision: keep, reasons: [one stream is 1.35 times as fast]}
        with: "{{ measured_with }}"
        without: "{{ measured_without }}"
      - host: gpu-a02
"""

RETURN = r"""
_value:
  description: The recap in three forms.
  type: dict
  contains:
    text:
      description: Table of all nodes and what there is to say about each, in lines of at most 100 columns.
      type: str
    json:
      description:
        - C(format), which is V(1), C(decisions) with the number of nodes for each, and C(nodes), each with what is
          known about it, C(comparison) (speeds, texts, caveats) and C(unread).
        - What is not known is null.
      type: dict
    page:
      description: What the template C(recap.html.j2) of the role shows. Its form may change with every release.
      type: dict
"""

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible.utils.unsafe_proxy import wrap_var
from ansible_collections.blackwell.inference.plugins.plugin_utils._recap_json import render_json
from ansible_collections.blackwell.inference.plugins.plugin_utils._recap_nodes import RecapError, read_nodes
from ansible_collections.blackwell.inference.plugins.plugin_utils._recap_page import render_page
from ansible_collections.blackwell.inference.plugins.plugin_utils._recap_text import render_text


def deployment_recap(nodes: object) -> dict[str, Any]:
    """The recap in its three forms; AnsibleFilterError when the list of nodes is not one.

    Nodes' texts may look like templates. ansible-core 2.18 would evaluate them if they were not wrapped.
    """
    try:
        read = read_nodes(nodes)
    except RecapError as error:
        raise AnsibleFilterError(f"deployment_recap: {error}") from error
    recap = {"text": render_text(read), "json": render_json(read), "page": render_page(read)}
    wrapped: dict[str, Any] = wrap_var(recap)
    return wrapped


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, Callable[..., dict[str, Any]]]:
        """The filter by its name."""
        return {"deployment_recap": deployment_recap}
