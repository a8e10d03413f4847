# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A decision about NCCL as text: a unit's environment file, and /etc/nccl.conf in its exact syntax."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ansible_collections.blackwell.inference.plugins.plugin_utils._nccl_names import MAX_BYTES, PREFIX, SOURCE


def render_environment(variables: Sequence[Mapping[str, str]], notes: Sequence[str]) -> str:
    """The variables as a unit's environment file, each below its reason."""
    lines = _head(notes)
    for variable in variables:
        lines += _comment(variable)
        lines.append(f"{variable['name']}={variable['value']}")
    return "\n".join(lines) + "\n"


def render_conf(variables: Sequence[Mapping[str, str]], notes: Sequence[str]) -> str:
    """The variables in the exact syntax of /etc/nccl.conf: `#` in the first column, KEY=VALUE without a blank.

    Variables that are not NCCL's are left out: NCCL reads the file after CUDA has read its own.
    """
    lines = _head([*notes, "A variable of the process's environment wins over this file."])
    for variable in variables:
        line = f"{variable['name']}={variable['value']}"
        if variable["name"].startswith(PREFIX) and len(line) <= MAX_BYTES:
            lines += _comment(variable)
            lines.append(line)
    return "\n".join(lines) + "\n"


def _head(notes: Sequence[str]) -> list[str]:
    return [
        line for note in (f"Written by blackwell.inference (rules after {SOURCE}).", *notes) for line in _wrap(note)
    ]


def _comment(variable: Mapping[str, str]) -> list[str]:
    return ["", *_wrap(f"{variable['reason']}. Evidence: {variable['evidence']}.")]


def _wrap(text: str, width: int = 100) -> list[str]:
    """Comment lines. NCCL reads 4095 bytes a line and would take the rest of a longer comment for a setting."""
    lines, line = [], "#"
    # A word that alone is longer than a line, such as a path, is cut: it is a comment.
    for word in (word[: width * 4] for word in text.split()):
        if len(line) + 1 + len(word) > width and line != "#":
            lines.append(line)
            line = "#"
        line += " " + word
    return [*lines, line]
