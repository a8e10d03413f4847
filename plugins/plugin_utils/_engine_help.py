# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check arguments against the help text of the engine that is really installed."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from ansible_collections.blackwell.inference.plugins.plugin_utils._engine_checks import is_number
from ansible_collections.blackwell.inference.plugins.plugin_utils._engine_server import EngineArgumentError

# The engines have hundreds of options. Fewer in a text mean that it is an overview (vLLM's plain --help).
WHOLE_HELP = 40
DECLARATION = re.compile(r"^\s+(-{1,2}[A-Za-z].*)$")
OPTION = re.compile(r"(?<![\w-])(-{1,2}[A-Za-z][\w-]*)")
# Short forms that the engine's parser rewrites before it parses, so that its help does not name them.
REWRITTEN = {"vllm": {"-O": ("--optimization-level", "--compilation-config")}}
HOW = {
    "vllm": "vllm serve --help=all",
    "sglang": "python -m sglang.launch_server --help",
}


def options_in_help(text: str) -> frozenset[str]:
    """The options that a help text of argparse declares, and those in its usage line."""
    found: set[str] = set()
    for line in text.splitlines():
        match = DECLARATION.match(line)
        if match:
            # What follows two blanks is the option's description, where other options may be named.
            found.update(OPTION.findall(re.split(r"\s{2,}", match.group(1))[0]))
        elif "[-" in line:
            found.update(OPTION.findall(" ".join(re.findall(r"\[(-[^\]]*)", line))))
    return frozenset(found)


def unknown_options(engine: str, text: str, arguments: Sequence[str]) -> list[str]:
    """What is wrong with each option among the arguments that the installed engine does not have.

    Raises EngineArgumentError when the text is not the whole help.
    """
    known = options_in_help(text)
    if len(known) < WHOLE_HELP:
        raise EngineArgumentError(
            f"the help text names {len(known)} options only, so it is not the whole help of {engine}. "
            f"Give the output of: {HOW[engine]}"
        )
    problems = []
    for argument in arguments:
        if argument.startswith("-") and not is_number(argument):
            option = _bare(engine, argument)
            if not known.intersection((option, *REWRITTEN.get(engine, {}).get(option, ()))):
                near = difflib.get_close_matches(option, sorted(known), n=3, cutoff=0.75)
                hint = f" Did you mean {' or '.join(near)}?" if near else ""
                problems.append(f"the installed {engine} has no option {option}, it would refuse to start.{hint}")
    return problems


def _bare(engine: str, argument: str) -> str:
    """The option without its value, as the help spells it."""
    option = argument.partition("=")[0]
    if engine == "vllm":
        # vLLM takes underscores for dashes, and a key of a JSON option after a dot (`--compilation-config.level`).
        option = option.partition(".")[0].replace("_", "-")
        option = re.sub(r"^-O\d+$", "-O", option)
    return option
