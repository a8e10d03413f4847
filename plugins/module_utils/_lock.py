# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One run at a time in a directory with state of ours."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from typing import Iterator

WAIT = 60.0  # seconds; a run holds a lock for as long as it writes some files
_POLL = 0.1  # seconds


class LockError(Exception):
    """The lock can't be had; says why, and the next command to type."""


def lock_of(directory: str) -> str:
    """The file of the lock; it is made by the first run that has something to write, and never removed."""
    return os.path.join(directory, "lock")


@contextlib.contextmanager
def locked(directory: str, create: bool, mode: int = 0o755, wait: float = WAIT) -> Iterator[bool]:
    """Hold the lock of a directory; without `create`, a lock that isn't there is not held, which is the value.

    `mode` is that of a directory that has to be made. Raises LockError when another run holds the lock for longer than
    `wait` seconds, or when it can't be made.
    """
    path = lock_of(directory)
    try:
        if create:
            os.makedirs(directory, mode=mode, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), mode & 0o666)
    except FileNotFoundError:
        yield False
        return
    except OSError as error:
        raise LockError(
            f"{path} can't be opened: {error.strerror}; use become, or name a directory that can be written"
        ) from error
    try:
        _acquire(descriptor, path, wait)
        yield True
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, path: str, wait: float) -> None:
    deadline = time.monotonic() + wait
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise LockError(f"{path} can't be locked: {error.strerror}") from error
            if time.monotonic() >= deadline:
                message = f"another run has held {path} for {wait:.0f} s; see which one: fuser -v {path}"
                raise LockError(message) from error
        time.sleep(_POLL)
