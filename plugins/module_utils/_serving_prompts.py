# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fixed prompts that a server is measured with. They never change within a release of this collection.

Real text, because random tokens make every draft look bad: operators saw 0.13 to 0.27 of the drafted tokens accepted
on random prompts and 0.755 on a set of school arithmetic, with the same server.
"""

from __future__ import annotations

from typing import NamedTuple

KINDS = ("short", "code", "prose", "reasoning", "chat", "long")


class Prompt(NamedTuple):
    """One prompt: a stable name, its kind, and the text as sent."""

    name: str
    kind: str
    text: str


FIXED = (
    Prompt("short-prose", "short", "Every evening the keeper climbed the stairs of the lighthouse because"),
    Prompt("short-code", "short", 'def fibonacci(n):\n    """Return the n-th Fibonacci number."""\n'),
    Prompt("short-reasoning", "short", "A train leaves at 9:40 and arrives at 11:05. It travels for"),
    Prompt("short-chat", "short", "User: Name three uses of a paper clip.\nAssistant:"),
    Prompt(
        "code-class",
        "code",
        '''"""A bounded queue of jobs for one worker."""

from collections import deque


class JobQueue:
    """Keeps at most `limit` jobs, the oldest first."""

    def __init__(self, limit):
        if limit < 1:
            raise ValueError("a queue needs room for one job")
        self.limit = limit
        self.jobs = deque()

    def add(self, job):
        """Add a job, or return False when the queue is full."""
        if len(self.jobs) >= self.limit:
            return False
        self.jobs.append(job)
        return True

    def take(self):
        """Remove the oldest job and return it, or None when there is none."""
        return self.jobs.popleft() if self.jobs else None

    def drop(self, predicate):
        """Remove every job for which the predicate holds, and return how many were removed."""
''',
    ),
    Prompt(
        "code-sql",
        "code",
        """-- Stock of a small bookshop.
CREATE TABLE book (
    isbn TEXT PRIMARY KEY,
    title TEXT NOT NULL,
    author TEXT NOT NULL,
    price_cents INTEGER NOT NULL CHECK (price_cents > 0)
);

CREATE TABLE sale (
    id INTEGER PRIMARY KEY,
    isbn TEXT NOT NULL REFERENCES book (isbn),
    sold_on DATE NOT NULL,
    copies INTEGER NOT NULL CHECK (copies > 0)
);

-- Revenue of each author in the year 2025, the highest first:
SELECT
""",
    ),
    Prompt(
        "prose-harbour",
        "prose",
        """The harbour had been built for ships that no longer came. In the first years after the war forty boats left
it each morning, and the women on the quay could tell from the sound of an engine whose husband was late. Then the
herring moved north, the cannery closed, and one by one the boats were sold to people who painted them white and used
them on Sundays. What remained was a crane, a row of sheds with green doors, and Anselm, who had been told in writing
that his post no longer existed and who went on oiling the crane every Monday. When the council finally sent someone
to ask him why, he put down his can, wiped his hands and said that""",
    ),
    Prompt(
        "prose-glacier",
        "prose",
        """A glacier is not a block of ice that slides downhill. It is closer to a very slow river: under its own weight
the ice deforms, and the middle of the tongue moves faster than its edges, which drag along the rock. In summer, water
from the surface reaches the bed through shafts and spreads between ice and ground, so that for a few weeks the whole
mass moves on a thin film and may travel farther than in the rest of the year. Measuring this used to mean a line of
painted stones, set out straight in spring and surveyed again in autumn. Today""",
    ),
    Prompt(
        "reasoning-shop",
        "reasoning",
        """Question: A shop sells pencils in boxes of 12 for 3.60 and single pencils for 0.35. A teacher needs exactly
40 pencils and wants to pay as little as possible, and may buy more than she needs. What does she pay?

Let us think step by step. Three boxes hold 36 pencils and cost 3 * 3.60 = 10.80. Four single pencils cost
4 * 0.35 = 1.40, which gives 12.20 in total. Four boxes hold 48 pencils and cost""",
    ),
    Prompt(
        "reasoning-logic",
        "reasoning",
        """Question: Five colleagues sit in a row. Ida sits left of Ben, but not next to him. Carl sits at one of the
two ends. Dora sits directly right of Carl. Eli sits between Ida and Ben. Who sits where, from left to right?

Reasoning: Since Dora sits directly right of Carl, Carl cannot sit at the right end, so Carl has the first seat and Dora
the second. Three seats are left for Ida, Eli and Ben. Eli sits between Ida and Ben, and Ida is left of Ben, so""",
    ),
    Prompt(
        "chat-garden",
        "chat",
        """User: My tomatoes get brown, sunken spots at the bottom of the fruit. The leaves look healthy. What is it?
Assistant: That sounds like blossom end rot. It is not an infection: the fruit lacks calcium, mostly because the plant
gets water in fits and starts, so that calcium does not reach the fruit evenly.
User: I water them on Saturdays, a full can for each plant. Should I buy a calcium spray?
Assistant:""",
    ),
    Prompt(
        "chat-router",
        "chat",
        """User: The wireless in our flat works in the living room but not in the bedroom. One wall is between them.
Assistant: What is the wall made of, and where does the router stand?
User: It is an old brick wall, about 40 cm thick, and the router is on the floor behind the television.
Assistant: Then I would try three things, in this order. First,""",
    ),
)

# A long document is put together from these, always in the same order, so that it reads like a real logbook and has
# any length that is asked for.
_PLACES = (
    "the north quay",
    "the slipway",
    "shed four",
    "the pump house",
    "the fuel jetty",
    "the old crane",
    "berth nine",
)
_PEOPLE = ("Anselm", "Mrs. Kowal", "the pilot", "young Petersen", "the diver", "the harbour master")
_EVENTS = (
    "found the water {n} centimetres above the mark and closed the gate until the tide had turned",
    "replaced {n} metres of rope that had chafed on the rail, and noted that the rail itself wants filing",
    "counted {n} boats at anchor, two of them without a light, and spoke to their owners in the evening",
    "heard the bearing again at {n} turns a minute, the same dry sound as last month, and greased it",
    "signed for {n} barrels, of which one leaked and was set aside for the supplier to see",
    "measured {n} millimetres of play in the hinge, more than in spring but still within the limit",
)
_WEATHER = (
    "Fog until ten.",
    "Wind from the west, rising.",
    "Clear and cold.",
    "Rain, then a calm evening.",
    "Still air.",
)


def long_document(size: int) -> Prompt:
    """A logbook of at least `size` bytes, followed by a request to sum it up. The same size gives the same text."""
    lines = ["Logbook of the harbour, kept by the watch. Each entry gives the day, the weather and what was done.\n"]
    length, day = len(lines[0]), 0
    while length < size:
        entry = _entry(day)
        lines.append(entry)
        length += len(entry)
        day += 1
    lines.append("\nSummary of the logbook for the council, with the three most urgent repairs:\n")
    return Prompt(f"long-{size}", "long", "".join(lines))


def _entry(day: int) -> str:
    # Strides without a common divisor, so that the same sentence does not return with the same place and person.
    event = _EVENTS[(day * 5 + day // 6) % len(_EVENTS)].format(n=3 + (day * 7) % 41)
    who, where = _PEOPLE[(day + day // 7) % len(_PEOPLE)], _PLACES[day % len(_PLACES)]
    return f"\nDay {day + 1}. {_WEATHER[(day * 3) % len(_WEATHER)]} At {where}, {who} {event}.\n"


def prompts(kinds: list[str], long_bytes: int) -> list[Prompt]:
    """The prompts of the given kinds, in the order in which they stand here.

    Raises ValueError for a kind that does not exist.
    """
    unknown = sorted(set(kinds) - set(KINDS))
    if unknown:
        raise ValueError(f"there are no prompts of kind {', '.join(unknown)}; known are {', '.join(KINDS)}")
    chosen = [prompt for prompt in FIXED if prompt.kind in kinds]
    return [*chosen, long_document(long_bytes)] if "long" in kinds else chosen
