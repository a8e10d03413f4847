# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the stand-in is told to do: a JSON file, named by STANDIN_BEHAVIOUR in the environment; see README.md."""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple, Sequence


class Behaviour(NamedTuple):
    """How a server behaves. The defaults are a server without faults."""

    start_seconds: float = 0.0
    crash_at_start: str = ""
    crash_on_prompt_bytes: int = 0
    garbage: str = ""
    hang: bool = False
    workers: int = 1
    holds: Sequence[str] = ()
    shm: Sequence[str] = ()
    workers_survive: bool = False
    tokens_per_second: float = 500.0
    speculative_tokens_per_second: float = 1000.0
    accepted_per_position: Sequence[float] = (0.8, 0.5, 0.2)
    text_changes: bool = False


def read_behaviour() -> Behaviour:
    """The told behaviour; raises ValueError for a key that nothing reads, OSError for a file that is not there."""
    path = os.environ.get("STANDIN_BEHAVIOUR", "")
    told: dict[str, Any] = {}
    if path:
        with open(path, encoding="utf-8") as file:
            told = json.load(file)
    unknown = sorted(set(told) - set(Behaviour._fields))
    if unknown:
        raise ValueError(f"{path} tells {', '.join(unknown)}, which the stand-in does not know")
    return Behaviour(**told)
