# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lookup: what is wrong with the variables that are named after a role."""

from __future__ import annotations

DOCUMENTATION = r"""
name: variable_problems
short_description: Tell which variables a role does not know, or could not take
version_added: 0.1.0
author:
  - the blackwell.inference authors (@blackwell-inference)
description:
  - Every public variable of a role of this collection begins with the role's name. One that begins so and that the
    role's argument specification does not have is misspelt, and Ansible would ignore it without a word.
  - Of the others, those that somebody has set are compared with the specification. A default that follows a variable of
    another role is left out, so that the variable that was set is blamed, and not one that follows it.
  - A value that can't be templated yet, because it follows a fact that is not known so early, is left to the role.
options:
  _terms:
    description: Names of roles of this collection, without its own name.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Refuse variables that no role knows, or that a role could not take
  ansible.builtin.assert:
    that: problems | length == 0
    fail_msg: "{{ problems | join('\n') }}"
  vars:
    problems: "{{ query('blackwell.inference.variable_problems', 'ml_env', 'inference_server') }}"
"""

RETURN = r"""
_list:
  description: One sentence for each problem, empty if there is none.
  type: list
  elements: str
  sample:
    - >-
      inference_server_max_modle_len: the role inference_server knows no such variable and would ignore it. The nearest
      is inference_server_max_model_len. Correct or remove it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleError, AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.blackwell.inference.plugins.plugin_utils._role_variables import (
    UnknownRoleError,
    given_names,
    unknown_names,
    wrong_values,
)


class LookupModule(LookupBase):  # type: ignore[misc]  # ansible-core carries no types
    """Ansible's entry point."""

    def run(self, terms: Sequence[str], variables: Mapping[str, Any] | None = None, **_options: Any) -> list[str]:
        """The problems of all named roles, in their order; AnsibleLookupError for a role that is not there."""
        told: list[str] = []
        try:
            for role in terms:
                names = given_names(role, variables or {})
                told += unknown_names(role, names, terms)
                told += wrong_values(role, self._values(names, variables or {}))
        except UnknownRoleError as error:
            raise AnsibleLookupError(f"variable_problems: {error}") from error
        return told

    def _values(self, names: Sequence[str], variables: Mapping[str, Any]) -> dict[str, Any]:
        """The values of variables, but for those that follow what is not known yet."""
        values = {}
        for name in names:
            try:
                values[name] = self._templar.template(variables[name])
            except AnsibleError:
                continue
        return values
