# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shares work out among forked processes.

Looking at files is bound by system calls while they are cached and by the disk while they are not; processes help with
both, threads only with the latter. Plain `fork` and pipes need neither semaphores nor `/dev/shm`, which hardened
nodes may not grant.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import struct
from typing import Callable, Sequence, TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")

_INDEX = struct.Struct("<H")
_MOST_BUNDLES = 2000  # their numbers must fit at once into the smallest pipe that Linux makes, one page


class LostWorkError(Exception):
    """A process ended before its work was done."""


def share_out(jobs: Sequence[Job], work: Callable[[Job], Result], processes: int) -> list[Result]:
    """The results of `work` for every job, in no particular order.

    Jobs and `work` are inherited and may be anything; results must be picklable. Raises LostWorkError if a process
    failed or was killed.
    """
    bundles = [jobs[start::_MOST_BUNDLES] for start in range(min(len(jobs), _MOST_BUNDLES))]
    queue, filler = os.pipe()
    os.write(filler, b"".join(map(_INDEX.pack, range(len(bundles)))))
    os.close(filler)
    children = [_start(bundles, work, queue) for _child in range(min(processes, len(bundles)))]
    os.close(queue)
    results: list[Result] = []
    lost = False
    for child, answers in children:
        with open(answers, "rb") as stream:
            data = stream.read()
        status = os.waitpid(child, 0)[1]
        lost = lost or status != 0
        if status == 0:
            results += pickle.loads(data)
    if lost:
        raise LostWorkError("a process that looked at files was killed or failed; is the node out of memory?")
    return results


def _start(bundles: Sequence[Sequence[Job]], work: Callable[[Job], Result], queue: int) -> tuple[int, int]:
    """Fork a process that takes bundles until none is left; returns its id and the pipe with its results."""
    answers, writer = os.pipe()
    child = os.fork()
    if child:
        os.close(writer)
        return child, answers
    status = 1
    with contextlib.suppress(BaseException):  # the parent's handlers and buffers must not run here
        numbers = iter(lambda: os.read(queue, _INDEX.size), b"")
        results = [work(job) for number in numbers for job in bundles[_INDEX.unpack(number)[0]]]
        with open(writer, "wb") as stream:
            pickle.dump(results, stream, pickle.HIGHEST_PROTOCOL)
        status = 0
    os._exit(status)
