# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The drop-in of a fallback: reasons, some of them from files of strangers, in a unit that starts programs as root."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ansible.plugins.filter.core import regex_replace
from jinja2 import Environment, FileSystemLoader

TEMPLATES = Path(__file__).parents[4] / "roles/inference_server/templates"


def render(*reasons: str) -> str:
    environment = Environment(loader=FileSystemLoader(TEMPLATES), trim_blocks=True)
    environment.filters["regex_replace"] = regex_replace
    return environment.get_template("server.fallback.conf.j2").render(
        ansible_managed="managed",
        inference_server_fallback_reasons=reasons,
        __inference_server_plain_command=["serve", "a b"],
        __inference_server_asked_digest="0" * 64,
    )


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\0", "\x0b", "\x0c", "\x1c"])
def test_a_reason_stays_a_comment(end: str) -> None:
    """systemd ends lines at newlines, carriage returns and zeros."""
    lines = re.split(r"[\n\r\0]", render("fine", f"fed L{end}ExecStartPre=+/bin/true"))
    assert lines.count("# * fed L ExecStartPre=+/bin/true") == 1 and "# * fine" in lines
    assert [line for line in lines if line.startswith("ExecStart")] == ["ExecStart=", 'ExecStart="serve" \\']
