# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read an engine's log: how far its start has come, and which lines say why it died.

The patterns were read in the logs and sources of SGLang 0.5.5 to 0.5.23 and vLLM 0.16.0 to 0.32.0.
"""

from __future__ import annotations

import re

ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
# Who is speaking, and the level and time: "(EngineCore pid=71) ERROR 11-30 10:42:01 [core.py:88]" (vLLM),
# "[2026-11-30 10:42:01 TP0]" (SGLang).
SPEAKER = re.compile(
    r"^\s*(?:\([A-Za-z_]+[^()]*\)\s*)?"
    r"(?:(?:DEBUG|INFO|WARNING|ERROR|CRITICAL):?\s+(?:\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?\s+)?(?:\[[^\]]*:\d+\]\s?)?)?"
    r"(?:\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[^\]]*\]\s?)?"
)
LEVEL = re.compile(r"^\s*(?:\([^()]*\)\s*)?(ERROR|CRITICAL)\b")
EXCEPTION = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Fault)\b(?::|\s*$)")
FATAL = re.compile(
    r"out of memory|CUDA error|NCCL (?:WARN|error)|no kernel image|undefined symbol|cannot open shared object|"
    r"No space left|address already in use|Segmentation fault|core dumped|Killed|: error: |unrecognized arguments|"
    r"No such file or directory|Permission denied|scheduler_\d+ died|received sigquit",
    re.IGNORECASE,
)
NOISE = re.compile(
    r'^\s*File "|^Traceback \(most recent|^The above exception was|^During handling of the above|^\s*[~^]+\s*$|'
    r"See root cause above|^\s*$|^For further information visit"
)
# A line that only says that another process failed hides the reason above it.
SECOND_HAND = re.compile(
    r"Engine core initialization failed|Initialization failed|died with exit code|WorkerProc init", re.I
)

PHASES = tuple(
    (re.compile(pattern), phase)
    for pattern, phase in (
        (r"Application startup complete|fired up and ready to roll", "answering"),
        (
            r"Capturing (?:CUDA graphs?|batches|num tokens|prefill shape)[^|]*\|[^|]*\|\s*(\d+)/(\d+)",
            "capturing graphs {0} of {1}",
        ),
        (r"(?i:capture [\w -]*cuda graph begin)", "capturing graphs"),
        (r"Graph capturing finished|(?i:capture [\w -]*cuda graph end)", "graphs captured"),
        (r"Dynamo bytecode transform|Compiling a graph|torch\.compile takes|Start compiling", "compiling"),
        (r"JIT session|flashinfer\.jit|Building (?:CUDA|extension)|ninja", "compiling kernels"),
        (r"KV [Cc]ache (?:is allocated|size)|KV cache memory|# (?:GPU|CPU) blocks", "cache allocated"),
        (
            r"(?:Loading|loading) (?:\w+ )?(?:checkpoint )?shards:\s+\d+% Completed \| (\d+)/(\d+)",
            "loading weights {0} of {1}",
        ),
        (r"Loading drafter model|Loading draft", "loading the draft"),
        (r"Load weight end|Loading weights took|Model loading took", "weights loaded"),
        (r"Load weight begin|Starting to load model|Loading model from", "loading weights"),
        (r"(?:Downloading|Fetching \d+ files:)[^|]*\|[^|]*\|\s*(\d+)/(\d+)", "downloading {0} of {1}"),
        (r"Init torch distributed begin|Initializing a V1 LLM engine|world_size=\d+ rank=", "starting the workers"),
        (r"Started server process|Waiting for application startup|vLLM API server version|server_args=", "starting"),
    )
)


def split_log(text: str) -> list[str]:
    """The lines of a log without colours; a progress bar's overwritten states count as lines."""
    return [line for line in re.split(r"[\r\n]+", ANSI.sub("", text)) if line.strip()]


def phase_of(lines: list[str]) -> str:
    """How far the start has come by the latest line that tells, or '' when none does."""
    for line in reversed(lines):
        for pattern, phase in PHASES:
            match = pattern.search(line)
            if match:
                return phase.format(*match.groups())
    return ""


def meaningful_lines(lines: list[str], count: int = 8) -> list[str]:
    """The lines that say why the engine failed: exceptions and fatal messages, the first cause first.

    When no line looks like a reason, the last lines stand, because silence would be worse.
    """
    found: list[str] = []
    for line in lines:
        bare = SPEAKER.sub("", line).rstrip()
        if NOISE.search(bare) or not _tells(line, bare):
            continue
        if bare not in found:
            found.append(bare)
    first_hand = [line for line in found if not SECOND_HAND.search(line)] or found
    exceptions = [line for line in first_hand if EXCEPTION.match(line)]
    if not first_hand:
        return [SPEAKER.sub("", line).rstrip() for line in lines if not NOISE.search(line)][-count:]
    kept = first_hand[-count:]
    # The first exception is the cause of those that follow it.
    return kept if not exceptions or exceptions[0] in kept else [exceptions[0], *kept[1:]]


def _tells(line: str, bare: str) -> bool:
    if EXCEPTION.match(bare) or FATAL.search(bare):
        return True
    # Lines of a traceback are logged as errors, too; they are indented.
    return bool(LEVEL.match(line)) and not bare.startswith(" ")
