#!/usr/bin/python
# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remove bytecode that was not compiled from the present source."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: pyc_invalidate
short_description: Remove bytecode that was not compiled from the present source
version_added: 0.1.0
author:
  - the blackwell.inference authors (@blackwell-inference)
description:
  - Removes C(.pyc) files that were not compiled from the present source, and no others.
options:
  path:
    description:
      - Python sources, or folders that are searched for them.
    type: list
    elements: path
    required: true
    aliases: [paths]
  python:
    description:
      - Interpreters to prove with.
    type: list
    elements: path
    default: []
  pycache_prefix:
    description:
      - A C(PYTHONPYCACHEPREFIX) tree to search as well.
    type: path
  prove:
    description:
      - Whether doubtful bytecode is proved.
    type: bool
    default: true
"""

EXAMPLES = r"""
- name: Remove bytecode that no longer matches its source
  blackwell.inference.pyc_invalidate:
    path: /opt/specdecode/ml-env
"""

RETURN = r"""
removed:
  description: What was removed.
  returned: always
  type: list
  elements: dict
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.blackwell.inference.plugins.module_utils._bytecode import (
    Outcome,
    PathError,
    Request,
    invalidate,
)


def result_of(outcome: Outcome, diff: bool) -> dict[str, Any]:
    """The result of the task."""
    result: dict[str, Any] = {
        "changed": bool(outcome.removed),
        "removed": [removed._asdict() for removed in outcome.removed],
        "left": [left._asdict() for left in outcome.left],
        "kept": outcome.kept,
        "examined": outcome.examined,
        "proved": outcome.proved,
        "msg": f"{outcome.examined} pycs examined, {len(outcome.removed)} removed, {outcome.kept} kept",
    }
    if diff:
        lines = [f"{removed.path}  ({removed.reason})\n" for removed in outcome.removed]
        result["diff"] = {"before": "".join(lines), "after": ""}
    return result


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "list", "elements": "path", "required": True, "aliases": ["paths"]},
            "python": {"type": "list", "elements": "path", "default": []},
            "pycache_prefix": {"type": "path"},
            "prove": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    request = Request(
        module.params["path"],
        module.params["python"],
        module.params["pycache_prefix"],
        module.params["prove"],
        module.check_mode,
    )
    try:
        outcome = invalidate(request)
    except PathError as error:
        module.fail_json(msg=str(error))
    result = result_of(outcome, module._diff)
    if outcome.errors:
        module.fail_json(**dict(result, msg="; ".join(f"{path}: {error.strerror}" for path, error in outcome.errors)))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
