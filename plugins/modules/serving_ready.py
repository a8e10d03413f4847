#!/usr/bin/python
# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: serving_ready
short_description: Wait until a server serves, or say why it does not
version_added: 0.1.0
author:
  - the blackwell.inference authors (@blackwell-inference)
description:
  - Waits until an OpenAI-compatible server gave back a completion. Engines answer C(/health) and C(/v1/models) long
    before that, or without ever serving.
  - Then, if asked to, sends one long prompt (some kernels die of the first one) and several prompts at once.
  - Stops as soon as the unit's process ends, is restarted, or the server refuses for a reason that waiting does not
    cure, and then shows the lines of the engine's log that tell why, not the whole log.
  - Changes nothing. In check mode it does not wait, because nothing was started.
options:
  url:
    description: Address of the server. A path V(/v1) at its end is optional.
    type: str
    required: true
  model:
    description: Name under which the server serves the model. Default is the first that it lists.
    type: str
  unit:
    description:
      - The systemd unit of the server. Without it, the module cannot tell a slow start from a dead process, and has no
        log to show.
    type: str
  api_key_file:
    description:
      - File on the node with the API key, either alone or as a line that sets a variable whose name ends in
        C(API_KEY), as an environment file does.
    type: path
  prompt:
    description: The text to complete.
    type: str
    default: Every evening the keeper climbed the stairs of the lighthouse because
  long_bytes:
    description:
      - Size of a document to send once a first completion came back, V(0) for none. 48000 bytes are more than 8000
        tokens with usual tokenizers. A model that is too small for it is reported in RV(stages), not failed.
    type: int
    default: 0
  parallel:
    description: Number of prompts to send at the same time after that, V(0) for none.
    type: int
    default: 0
  timeout:
    description:
      - Seconds to wait for a first completion. A request that is under way then, and the stages after it, have
        O(request_timeout) each.
    type: int
    default: 600
  request_timeout:
    description: Seconds that one completion may take.
    type: int
    default: 120
  fail_on_timeout:
    description:
      - Whether the module fails when O(timeout) is over and the process still lives. With V(false) it returns RV(ready)
        V(false) and the phase, so that a play can wait in slices and show how far the start has come.
    type: bool
    default: true
attributes:
  check_mode:
    description: Does not wait in check mode.
    support: full
  diff_mode:
    description: Has no differences to show.
    support: none
"""

EXAMPLES = r"""
- name: Wait until the server serves
  blackwell.inference.serving_ready:
    url: http://127.0.0.1:8000
    unit: specdecode@main.service
    api_key_file: /etc/specdecode/main.env
    timeout: 1800
    long_bytes: 48000
    parallel: 8

- name: Wait in slices of a minute, and show the phase of each
  blackwell.inference.serving_ready:
    url: http://127.0.0.1:8000
    unit: specdecode@main.service
    timeout: 60
    fail_on_timeout: false
  register: start
  until: start.ready
  retries: 30
  delay: 0
"""

RETURN = r"""
ready:
  description: Whether every stage passed. Null in check mode.
  returned: always
  type: bool
  sample: true
cause:
  description:
    - Empty when ready. V(died) when the process ended, V(timeout), V(refused) when the server answers something that
      waiting does not cure, V(failed) when the long prompt or the parallel ones did not come back.
  returned: always
  type: str
  sample: ""
message:
  description: The cause in words.
  returned: always
  type: str
  sample: ""
seconds:
  description: How long the module waited.
  returned: always
  type: float
  sample: 45.3
phase:
  description: How far the start has come, by the engine's log.
  returned: always
  type: str
  sample: serving
phases:
  description: The phases that were seen, with the seconds after which.
  returned: always
  type: list
  elements: dict
  sample: [{phase: loading weights 3 of 8, seconds: 12.0}, {phase: capturing graphs, seconds: 31.0}]
stages:
  description: What was tried, with its result.
  returned: always
  type: list
  elements: dict
  sample: [{stage: completion, status: passed, seconds: 44.1}, {stage: long prompt, status: passed, seconds: 45.3}]
log:
  description: The lines of the engine's log that tell why it does not serve.
  returned: always
  type: list
  elements: str
  sample: []
"""

from functools import partial
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.blackwell.inference.plugins.module_utils._serving_http import parse_url, read_key
from ansible_collections.blackwell.inference.plugins.module_utils._serving_prompts import FIXED
from ansible_collections.blackwell.inference.plugins.module_utils._serving_ready import Wait, wait_until_ready
from ansible_collections.blackwell.inference.plugins.module_utils._serving_unit import UnitError

LIMITS = {"timeout": (1, 86400), "request_timeout": (1, 3600), "parallel": (0, 128), "long_bytes": (0, 4000000)}


def main() -> None:
    """Ansible's entry point."""
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    options = module.params
    try:
        wait = wait_of(options)
        if module.check_mode:
            module.exit_json(changed=False, skipped=True, **not_waited())
        result = wait_until_ready(wait, partial(module.run_command, errors="replace", handle_exceptions=False))
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"{error}. Correct the option and run again.")
    except UnitError as error:
        module.fail_json(msg=str(error))
    if result["cause"] and (result["cause"] != "timeout" or options["fail_on_timeout"]):
        module.fail_json(msg=failure(options, result), **result)
    module.exit_json(changed=False, **result)


def argument_spec() -> dict[str, Any]:
    """The options."""
    return {
        "url": {"type": "str", "required": True},
        "model": {"type": "str"},
        "unit": {"type": "str"},
        "api_key_file": {"type": "path", "no_log": False},
        "prompt": {"type": "str", "default": FIXED[0].text},
        "long_bytes": {"type": "int", "default": 0},
        "parallel": {"type": "int", "default": 0},
        "timeout": {"type": "int", "default": 600},
        "request_timeout": {"type": "int", "default": 120},
        "fail_on_timeout": {"type": "bool", "default": True},
    }


def wait_of(options: dict[str, Any]) -> Wait:
    """The wait that the options describe; raises ValueError or OSError for options that make no sense."""
    limits = {
        "timeout": (1, 86400),
        "request_timeout": (1, 3600),
        "parallel": (0, 128),
        "long_bytes": (0, 4000000),
    }
    for name, (low, high) in limits.items():
        if not low <= options[name] <= high:
            raise ValueError(f"{name} is {options[name]}, it must lie from {low} to {high}")
    if (options["unit"] or "").startswith("-"):
        raise ValueError(f"unit is {options['unit']}, which is no name of a unit")
    key = read_key(options["api_key_file"]) if options["api_key_file"] else ""
    return Wait(
        endpoint=parse_url(options["url"], key),
        model=options["model"] or "",
        unit=options["unit"] or "",
        prompt=options["prompt"],
        timeout=float(options["timeout"]),
        request_timeout=float(options["request_timeout"]),
        long_bytes=options["long_bytes"],
        parallel=options["parallel"],
    )


def not_waited() -> dict[str, Any]:
    """The result in check mode."""
    message = "check mode: nothing was started, so nothing is waited for"
    empty: dict[str, Any] = {"phases": [], "stages": [], "log": []}
    return {"ready": None, "cause": "", "message": message, "seconds": 0.0, "phase": "", **empty}


def failure(options: dict[str, Any], result: dict[str, Any]) -> str:
    """What happened, at which phase, the engine's own lines, and the next command to type."""
    unit = options["unit"]
    reached = f" It had come to: {result['phase']}." if result["phase"] else ""
    said = ["The engine said:", *(f"  {line}" for line in result["log"])] if result["log"] else []
    command = f"The whole log: journalctl -u {unit}" if unit else "Name the unit to see the engine's log."
    return "\n".join([f"{unit or options['url']} does not serve: {result['message']}.{reached}", *said, command])


if __name__ == "__main__":
    main()
