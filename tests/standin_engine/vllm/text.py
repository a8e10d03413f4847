# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the stand-in writes, at which speed, and what its counters say about it. No randomness."""

from __future__ import annotations

import hashlib
import threading
from typing import Iterator

from vllm.behaviour import Behaviour

WORDS = ("lamp", "stairs", "sea", "keeper", "fog", "rope", "light", "wind", "stone", "evening", "boat", "bell")
BYTES_PER_TOKEN = 4


class Writer:
    """Generates tokens and counts them. Thread-safe, since requests are served side by side."""

    def __init__(self, behaviour: Behaviour, speculates: bool) -> None:
        """speculates: whether the server was started with a draft."""
        self.behaviour = behaviour
        self.speculates = speculates
        self._lock = threading.Lock()
        self.prompt_tokens = 0
        self.generated = 0
        self.drafts = 0
        self.accepted = [0] * len(behaviour.accepted_per_position)

    def words(self, prompt: str, count: int) -> Iterator[tuple[list[str], float]]:
        """`count` tokens in steps, each with the seconds that it takes."""
        told = self.behaviour
        rate = told.speculative_tokens_per_second if self.speculates else told.tokens_per_second
        seed = hashlib.sha256((prompt + str(told.text_changes and self.speculates)).encode()).digest()
        with self._lock:
            self.prompt_tokens += max(1, len(prompt.encode()) // BYTES_PER_TOKEN)
        done = 0
        while done < count:
            size = min(count - done, 1 + self._verify() if self.speculates else 1)
            words = [" " + WORDS[seed[(done + i) % len(seed)] % len(WORDS)] for i in range(size)]
            with self._lock:
                self.generated += size
            done += size
            yield words, size / rate

    def _verify(self) -> int:
        """How many tokens of one draft are accepted. Over n drafts, position p has floor(n * its share) of them."""
        accepted = 0
        with self._lock:
            self.drafts += 1
            for position, share in enumerate(self.behaviour.accepted_per_position):
                gained = int(self.drafts * share + 1e-9) - self.accepted[position]
                self.accepted[position] += gained
                accepted += gained
        return accepted

    def metrics(self) -> str:
        """The counters in Prometheus' text format, under the names of vLLM 0.11 to 0.33."""
        with self._lock:
            counters: dict[str, float] = {
                "vllm:prompt_tokens_total": self.prompt_tokens,
                "vllm:generation_tokens_total": self.generated,
            }
            if self.speculates:
                counters["vllm:spec_decode_num_drafts_total"] = self.drafts
                counters["vllm:spec_decode_num_draft_tokens_total"] = self.drafts * len(self.accepted)
                counters["vllm:spec_decode_num_accepted_tokens_total"] = sum(self.accepted)
            lines = [f'{name}{{engine="0"}} {float(value)}' for name, value in counters.items()]
            if self.speculates:
                name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
                lines += [f'{name}{{engine="0",position="{p}"}} {float(n)}' for p, n in enumerate(self.accepted)]
        return "\n".join(lines) + "\n"
