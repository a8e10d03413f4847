# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A worker: a process of its own that holds GPUs and segments in /dev/shm, as the workers of an engine do."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time
from typing import Any, Sequence

from vllm.behaviour import Behaviour, read_behaviour

SHM = "/dev/shm"


def hold_gpus(paths: Sequence[str]) -> list[Any]:
    """Open and lock the device files; RuntimeError when another process has one, as a full GPU would say it."""
    held = []
    for path in paths:
        device = open(path, "rb")  # noqa: SIM115  # open as long as the process lives
        try:
            fcntl.flock(device, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RuntimeError(f"CUDA error: out of memory ({path} is held by another process)") from None
        held.append(device)
    return held


def make_segments(names: Sequence[str]) -> list[Any]:
    """Make the segments; FileExistsError for one that an earlier server left behind."""
    return [open(os.path.join(SHM, name), "xb") for name in names]


def main() -> None:
    """Hold what is told until the server ends: an end of the standard input says so."""
    behaviour = read_behaviour()
    held = hold_gpus(behaviour.holds) + make_segments(behaviour.shm)
    print("ready", flush=True)
    wait(behaviour)
    for name in behaviour.shm:
        os.unlink(os.path.join(SHM, name))
    del held


def wait(behaviour: Behaviour) -> None:
    """Wait until the server says that it ends, or for ever where the worker is told to survive it."""
    if behaviour.workers_survive:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        while True:
            time.sleep(3600)
    if not sys.stdin.buffer.read(1):
        # killed, not stopped: nothing is tidied up
        os._exit(1)


if __name__ == "__main__":
    main()
