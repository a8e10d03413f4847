# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables against the roles that they are named after: which no role knows, and which a role could not take."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

ROLES = Path(__file__).resolve().parents[2] / "roles"
# What roles leave for the rest of the play under their own names.
RESULTS = frozenset(("node_preflight_findings", "nccl_env_decision", "registry_patches_done"))


class UnknownRoleError(ValueError):
    """There is no role of this name."""


@lru_cache(maxsize=None)
def options_of(role: str) -> Mapping[str, Any]:
    """The options of a role's argument specification, by their names. Raises UnknownRoleError."""
    options: Mapping[str, Any] = _read(role, "meta/argument_specs.yml")["argument_specs"]["main"]["options"]
    return options


@lru_cache(maxsize=None)
def defaults_of(role: str) -> Mapping[str, Any]:
    """The defaults of a role as they are written, with their templates. Raises UnknownRoleError."""
    return _read(role, "defaults/main.yml")


def _read(role: str, name: str) -> Mapping[str, Any]:
    try:
        text = (ROLES / role / name).read_text(encoding="utf-8")
    except OSError as error:
        raise UnknownRoleError(f"no role is called {role} ({error})") from error
    read: Mapping[str, Any] = yaml.safe_load(text)
    return read


def given_names(role: str, variables: Mapping[str, Any]) -> list[str]:
    """The variables with a role's name that somebody has set. A default of the role is not set by anybody.

    A default often follows a variable of another role; what is wrong there is said of that one alone.
    """
    own, defaults = sorted(name for name in variables if name.startswith(f"{role}_")), defaults_of(role)
    return [name for name in own if not (name in defaults and variables[name] == defaults[name])]


def unknown_names(role: str, names: Iterable[str], roles: Iterable[str]) -> list[str]:
    """A sentence for each name that the role does not know, with the nearest name that one of the roles knows."""
    known = [name for one in {role, *roles} for name in options_of(one)]
    told = []
    for name in names:
        if name in options_of(role) or name in RESULTS:
            continue
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"The nearest is {near[0]}." if near else f"What it knows stands in roles/{role}/defaults/main.yml."
        told.append(f"{name}: the role {role} knows no such variable and would ignore it. {hint} Correct or remove it.")
    return told


def wrong_values(role: str, values: Mapping[str, Any]) -> list[str]:
    """A sentence for each value that has not the form that the role's specification asks for."""
    told = []
    for name, value in values.items():
        spec = options_of(role).get(name)
        if spec is not None:
            messages = ArgumentSpecValidator({name: spec}).validate({name: value}).error_messages
            told += [f"{name}: {message.rstrip('.')}. Correct it." for message in messages]
    return told
