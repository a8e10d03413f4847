#!/usr/bin/python
# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: spec_decode_probe
short_description: Measure a live server's speed, the acceptance of its drafts, and its text
version_added: 0.1.0
author:
  - the blackwell.inference authors (@blackwell-inference)
description:
  - Sends fixed prompts to an OpenAI-compatible server, one stream and several, at temperature 0 and with a fixed seed,
    and returns tokens per second, time to first token, how many drafted tokens were accepted, and the text.
  - The prompts are real text that is shipped with the collection and does not change within a release of it. Every
    prompt is sent once for warm-up, which is not measured.
  - A failure of the server is a result (RV(errors)), never a failure of the module. The module fails only for options
    that make no sense, such as an address that is none or a key file that cannot be read.
  - Prompts that are too long for the model are reported in RV(not_applicable).
  - Acceptance is judged by RV(accept_length), the tokens of one verification with the target's own; V(1.0) means that
    no drafted token was accepted. For vLLM it is the difference of the engine's counters over the measured run. For
    SGLang each prompt is sent once more to its own C(/generate), which tells the verifications of a request; where that
    is closed, a gauge of the latest batches is read and RV(acceptance_reason) says so.
  - The load is bounded by O(max_tokens), O(streams), O(repetitions), O(timeout) and O(max_seconds).
options:
  url:
    description: Address of the server. A path V(/v1) at its end is optional.
    type: str
    required: true
  model:
    description: Name under which the server serves the model. Default is the first that it lists.
    type: str
  engine:
    description: The engine, whose metrics are read.
    type: str
    choices: [vllm, sglang]
    required: true
  api_key_file:
    description:
      - File on the node with the API key, either alone or as a line that sets a variable whose name ends in
        C(API_KEY), as an environment file does.
    type: path
  prompts:
    description:
      - Kinds of prompts to send. V(short) are four of at most 75 bytes, V(code), V(prose), V(reasoning) and V(chat) two
        each of 350 to 900 bytes, V(long) is a document of O(long_bytes).
    type: list
    elements: str
    choices: [short, code, prose, reasoning, chat, long]
    default: [short, code, prose, reasoning, chat]
  long_bytes:
    description: Size of the long document. The default is more than 8000 tokens with usual tokenizers.
    type: int
    default: 48000
  max_tokens:
    description: Most tokens that an answer may have.
    type: int
    default: 128
  streams:
    description: Numbers of simultaneous requests, measured one after the other.
    type: list
    elements: int
    default: [1, 8]
  repetitions:
    description: How often each number of streams is measured. The spread comes from these.
    type: int
    default: 3
  seed:
    description: Seed that is sent with each request.
    type: int
    default: 1
  ignore_eos:
    description:
      - Whether answers go on past the end that the model gives them, so that all have O(max_tokens). Acceptance is then
        measured on text that the model would not have written.
    type: bool
    default: false
  reference:
    description: RV(texts) of an earlier measurement, to compare with. Compare only runs with the same O(max_tokens).
    type: list
    elements: dict
  timeout:
    description: Seconds that a single request may take.
    type: int
    default: 120
  max_seconds:
    description: Seconds that the whole measurement may take. What is not sent by then is reported in RV(errors).
    type: int
    default: 900
attributes:
  check_mode:
    description: Can run in check mode and give the same result, because it changes nothing.
    support: full
  diff_mode:
    description: Has no differences to show.
    support: none
"""

EXAMPLES = r"""
- name: Measure the server with one stream and with eight
  blackwell.inference.spec_decode_probe:
    url: http://127.0.0.1:8000
    engine: vllm
    api_key_file: /etc/specdecode/main.env
  register: measured

- name: Show what speculation does
  ansible.builtin.debug:
    msg: "{{ measured.accept_length }} tokens a step, {{ measured.tokens_per_second[0].median }} tokens/s alone"

- name: Measure a model of 256 tokens with short prompts only
  blackwell.inference.spec_decode_probe:
    url: http://127.0.0.1:8000
    engine: vllm
    prompts: [short]
    max_tokens: 64
    streams: [1, 4]
"""

RETURN = r"""
tokens_per_second:
  description:
    - Generated tokens per second of all streams together, one entry for each number of streams, over the repetitions.
    - Two measurements whose C(low) to C(high) overlap do not differ.
  returned: always
  type: list
  elements: dict
  sample:
    - streams: 1
      median: 61.2
      low: 60.8
      high: 61.5
      spread: 0.7
      values: [61.2, 60.8, 61.5]
      tokens: 4608
      requests: 36
time_to_first_token:
  description: Seconds until the first text of an answer arrived, by number of streams.
  returned: always
  type: list
  elements: dict
  sample: [{streams: 1, median: 0.05, low: 0.04, high: 0.09, spread: 0.05}]
inter_token_time:
  description: Seconds from token to token (mean of an answer), by number of streams.
  returned: always
  type: list
  elements: dict
  sample: [{streams: 1, median: 0.016, low: 0.015, high: 0.018, spread: 0.003}]
by_prompt:
  description: Speed of each prompt where it ran alone.
  returned: always
  type: list
  elements: dict
  sample:
    - prompt: code-sql
      kind: code
      prompt_tokens: 143
      tokens: 128
      tokens_per_second: {median: 70.1, low: 69.9, high: 70.4, spread: 0.5}
speculation:
  description: Whether the engine speculates, V(on), V(off) or V(unknown).
  returned: always
  type: str
  sample: "on"
acceptance_source:
  description: Where the acceptance was read.
  returned: always
  type: str
  sample: /metrics
acceptance_reason:
  description: Why there is no acceptance, or what it lacks. Empty when there is nothing to say.
  returned: always
  type: str
  sample: ""
accept_length:
  description: Tokens of one verification, the target's own included. V(1.0) means that no drafted token was accepted.
  returned: always, null when the engine does not speculate or does not tell
  type: float
  sample: 2.84
acceptance_rate:
  description: Share of the drafted tokens that were accepted.
  returned: always, null when the engine does not tell
  type: float
  sample: 0.613
drafts:
  description: Verifications during the measured run.
  returned: always, null when the engine does not tell
  type: int
  sample: 1620
draft_tokens:
  description: Drafted tokens.
  returned: always, null when the engine does not tell
  type: int
  sample: 4860
accepted_tokens:
  description: Accepted drafted tokens.
  returned: always, null when the engine does not tell
  type: int
  sample: 2981
accepted_per_position:
  description: Accepted tokens by their position in the draft.
  returned: always, null when the engine does not tell
  type: list
  elements: int
  sample: [1290, 980, 711]
acceptance_per_position:
  description: Share of the drafts whose token at that position was accepted.
  returned: always, null when the engine does not tell
  type: list
  elements: float
  sample: [0.7963, 0.6049, 0.4389]
texts:
  description: The text that each prompt gave first.
  returned: always
  type: list
  elements: dict
  sample: [{prompt: short-chat, kind: short, tokens: 64, sha256: 9f86d0..., text: " First, it holds paper."}]
texts_digest:
  description: SHA-256 over all texts with the names of their prompts. Equal only for the same prompts and texts.
  returned: always, null when there is no text
  type: str
  sample: 60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752
inconsistent:
  description:
    - Prompts that gave different texts within this measurement. Engines do not promise the same text for a prompt when
      others are in the batch.
  returned: always
  type: list
  elements: str
  sample: []
equality:
  description: The texts compared with O(reference).
  returned: when O(reference) is given
  type: dict
  contains:
    equal:
      description: Prompts with the same text.
      type: list
      elements: str
    different:
      description: Prompts with another text, each with the first differing character and what stands there.
      type: list
      elements: dict
    missing:
      description: Prompts that the reference does not have.
      type: list
      elements: str
not_applicable:
  description: Prompts that do not fit the model, with the reason.
  returned: always
  type: list
  elements: dict
  sample: [{prompt: long-48000, kind: long, reason: "9630 tokens and 128 to generate exceed the model's 8192"}]
errors:
  description:
    - Failed requests (at most 50). C(kind) is V(connection), V(timeout), V(http), V(garbage), V(budget) (the time was
      used up) or V(skipped) (three requests had failed and none was answered); C(phase) is V(ask), V(warm-up) or
      V(measured).
  returned: always
  type: list
  elements: dict
  sample:
    - phase: measured
      kind: timeout
      status: null
      message: no answer within the time allowed
      prompt: code-sql
      streams: 8
errors_total:
  description: Number of failed requests.
  returned: always
  type: int
  sample: 0
complete:
  description: Whether everything was measured that was asked for, without an error.
  returned: always
  type: bool
  sample: true
disturbed:
  description: Whether others used the server during the run. Null when that cannot be known.
  returned: always
  type: bool
  sample: false
requests:
  description: Measured requests.
  returned: always
  type: int
  sample: 72
seconds:
  description: Duration of the whole measurement.
  returned: always
  type: float
  sample: 84.2
model:
  description: The model that was asked.
  returned: always
  type: str
  sample: kimi-k2.5
max_model_len:
  description: Longest sequence that the model takes, as the server says.
  returned: always, null when the server does not tell
  type: int
  sample: 131072
engine_version:
  description: Release that the server says it is.
  returned: always, null when the server does not tell
  type: str
  sample: 0.32.0
engine_settings:
  description: The speculative arguments that the server says it resolved (SGLang).
  returned: always
  type: dict
  sample: {speculative_num_steps: 3, speculative_eagle_topk: 1, speculative_num_draft_tokens: 4}
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.blackwell.inference.plugins.module_utils._serving import Plan, measure
from ansible_collections.blackwell.inference.plugins.module_utils._serving_http import parse_url, read_key
from ansible_collections.blackwell.inference.plugins.module_utils._serving_prompts import KINDS, prompts
from ansible_collections.blackwell.inference.plugins.module_utils._serving_summary import compare_texts

LIMITS = {
    "max_tokens": (2, 4096),
    "repetitions": (1, 20),
    "timeout": (1, 3600),
    "max_seconds": (1, 7200),
    "long_bytes": (1000, 4000000),
}
MAX_STREAMS = 128


def main() -> None:
    """Ansible's entry point."""
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    try:
        plan = plan_of(module.params)
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"{error}. Correct the option and run again.")
    result = measure(plan)
    if module.params["reference"] is not None:
        result["equality"] = compare_texts(module.params["reference"], result["texts"])
    module.exit_json(changed=False, **result)


def argument_spec() -> dict[str, Any]:
    """The options."""
    return {
        "url": {"type": "str", "required": True},
        "model": {"type": "str"},
        "engine": {"type": "str", "choices": ["vllm", "sglang"], "required": True},
        "api_key_file": {"type": "path", "no_log": False},
        "prompts": {"type": "list", "elements": "str", "choices": list(KINDS), "default": list(KINDS[:-1])},
        "long_bytes": {"type": "int", "default": 48000},
        "max_tokens": {"type": "int", "default": 128, "no_log": False},
        "streams": {"type": "list", "elements": "int", "default": [1, 8]},
        "repetitions": {"type": "int", "default": 3},
        "seed": {"type": "int", "default": 1},
        "ignore_eos": {"type": "bool", "default": False},
        "reference": {"type": "list", "elements": "dict"},
        "timeout": {"type": "int", "default": 120},
        "max_seconds": {"type": "int", "default": 900},
    }


def plan_of(options: dict[str, Any]) -> Plan:
    """The measurement that the options describe; raises ValueError or OSError for options that make no sense."""
    for name, (low, high) in LIMITS.items():
        if not low <= options[name] <= high:
            raise ValueError(f"{name} is {options[name]}, it must lie from {low} to {high}")
    streams = options["streams"]
    if not streams or not all(1 <= count <= MAX_STREAMS for count in streams) or len(set(streams)) < len(streams):
        raise ValueError(f"streams is {streams}, it takes different numbers from 1 to {MAX_STREAMS}")
    if not options["prompts"]:
        raise ValueError("prompts is empty, nothing would be measured")
    key = read_key(options["api_key_file"]) if options["api_key_file"] else ""
    return Plan(
        endpoint=parse_url(options["url"], key),
        engine=options["engine"],
        model=options["model"] or "",
        prompts=prompts(options["prompts"], options["long_bytes"]),
        max_tokens=options["max_tokens"],
        streams=streams,
        repetitions=options["repetitions"],
        timeout=float(options["timeout"]),
        max_seconds=float(options["max_seconds"]),
        seed=options["seed"],
        ignore_eos=options["ignore_eos"],
    )


if __name__ == "__main__":
    main()
