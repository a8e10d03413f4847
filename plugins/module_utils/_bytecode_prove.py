# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Has doubtful pycs compared with their present source by an interpreter that could have written them."""

from __future__ import annotations

import contextlib
import inspect
import os
import select
import subprocess
import sys
import threading
import time
from typing import IO, Iterable, Iterator, NamedTuple

# Imported so that it travels to the node; its text is run there by other interpreters.
from ansible_collections.blackwell.inference.plugins.module_utils import _bytecode_worker
from ansible_collections.blackwell.inference.plugins.module_utils._bytecode_files import (
    LARGEST_SOURCE,
    ReplacedError,
    Suspect,
    read_pyc,
    read_source,
    source_unchanged,
)
from ansible_collections.blackwell.inference.plugins.module_utils._bytecode_hash import source_hash
from ansible_collections.blackwell.inference.plugins.module_utils._bytecode_parallel import LostWorkError
from ansible_collections.blackwell.inference.plugins.module_utils._bytecode_pyc import ALL_LEVELS, HEADER_SIZE

SAME = "same"
REPLACED = "replaced"
UNPROVED = "unproved"
BROKEN = "broken"
_ANSWERS = (SAME, "code_differs", "hash_differs", "does_not_compile", BROKEN, UNPROVED)

_STARTING_MAY_TAKE = 30.0  # seconds
_ANSWER_MAY_TAKE = 30.0
_ANSWER_MAY_TAKE_PER_BYTE = 2e-5
_LONGEST_ANSWER = 4096  # bytes
_PYCS_PER_WORKER = 50
_MOST_WORKERS = 8
# An environment may belong to a service account. Its interpreter then runs as that account, not as root.
_AS_OWNER = (
    "import os, sys; owner, group = map(int, sys.argv[1:3]); "
    "os.setgroups([]); os.setgid(group); os.setuid(owner); os.execv(sys.argv[3], sys.argv[3:])"
)


class Verdict(NamedTuple):
    """SAME, REPLACED, or the reason for removing the pyc; `why` explains UNPROVED."""

    suspect: Suspect
    result: str
    why: str = ""


class WorkerError(Exception):
    """The interpreter could not be started, ended, or did not answer in time."""


class Worker:
    """An interpreter that runs _bytecode_worker. It starts anew after it died on a pyc."""

    def __init__(self, python: str) -> None:
        self.python = python
        self._process: subprocess.Popen[bytes] | None = None
        try:
            number, self.tag = self._start().split()
            self.number = int(number)
        except ValueError as error:
            self.stop()
            raise WorkerError(f"{python} is not a Python that can prove anything") from error

    def ask(self, verb: str, argument: str, source: bytes, code: bytes) -> str:
        """The answer to one request, see _bytecode_worker."""
        if self._process is None:
            self._start()
        request = b"%s %s %d %d\n" % (verb.encode("ascii"), argument.encode("ascii"), len(source), len(code))
        try:
            self._send(request + source + code)
        except OSError as error:
            self.stop()
            raise WorkerError(f"{self.python} ended or did not answer") from error
        return self._line(_ANSWER_MAY_TAKE + _ANSWER_MAY_TAKE_PER_BYTE * len(source))

    def stop(self) -> None:
        """End the interpreter."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with contextlib.suppress(OSError):  # what was not sent yet can't be sent any more
                        stream.close()

    def _start(self) -> str:
        try:
            # A conversation, which run_command of AnsibleModule can't hold.
            self._process = subprocess.Popen(  # pylint: disable=ansible-bad-function
                worker_command(self.python),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                cwd="/",
            )
        except OSError as error:
            raise WorkerError(f"{self.python}: {error.strerror}") from error
        return self._line(_STARTING_MAY_TAKE)

    def _send(self, request: bytes) -> None:
        """Write a request; TimeoutError if nobody reads it."""
        stream = self._process.stdin if self._process else None
        if stream is None:
            return
        os.set_blocking(stream.fileno(), False)
        left = memoryview(request)
        while left:
            if not select.select([], [stream], [], _ANSWER_MAY_TAKE)[1]:
                raise TimeoutError
            left = left[stream.write(left) or 0 :]

    def _line(self, seconds: float) -> str:
        stream = self._process.stdout if self._process else None
        line = read_line(stream, time.monotonic() + seconds) if stream else b""
        if line.endswith(b"\n"):
            return line.decode("ascii", "replace").strip()
        self.stop()
        raise WorkerError(f"{self.python} ended or did not answer")


def read_line(stream: IO[bytes], deadline: float) -> bytes:
    """A line from an unbuffered stream; what came until the end, the deadline (monotonic) or the limit if none did."""
    line = b""
    while not line.endswith(b"\n") and len(line) < _LONGEST_ANSWER:
        left = deadline - time.monotonic()
        part = stream.read(_LONGEST_ANSWER) if left > 0 and select.select([stream], [], [], left)[0] else b""
        if not part:
            break
        line += part
    return line


def worker_command(python: str) -> list[str]:
    """The command that runs the worker: isolated, without site, and never as root in somebody else's environment."""
    text = inspect.getsource(_bytecode_worker)
    options = ["-X", "utf8", "-X", "int_max_str_digits=0", "-W", "ignore"]
    command = [python, "-I", "-S", "-B", *options, "-c", text]
    if os.geteuid() == 0:
        for status in (os.stat(os.path.dirname(python)), os.stat(python)):
            if status.st_uid != 0:
                owner = [str(status.st_uid), str(status.st_gid)]
                return [sys.executable, "-I", "-S", "-c", _AS_OWNER, *owner, *command]
    return command


class Interpreters:
    """The interpreters that may prove, in order of preference; each is started when it is first needed."""

    def __init__(self, pythons: Iterable[str]) -> None:
        self._pythons = list(dict.fromkeys(pythons))
        self._workers: dict[str, Worker | None] = {}
        self.unusable: list[str] = []

    def find(self, number: int, preferred: str | None = None) -> Worker | None:
        """An interpreter with this magic number, or None."""
        for python in [preferred, *self._pythons] if preferred else self._pythons:
            worker = self._worker(python)
            if worker is not None and worker.number == number:
                return worker
        return None

    def at_home(self, source: str) -> str | None:
        """The interpreter of the environment in which a source lies."""
        homes = [python for python in self._pythons if source.startswith(_environment(python) + "/")]
        return max(homes, key=lambda python: len(_environment(python)), default=None)

    def stop(self) -> None:
        """End all interpreters."""
        for worker in self._workers.values():
            if worker is not None:
                worker.stop()

    def _worker(self, python: str) -> Worker | None:
        if python not in self._workers:
            try:
                self._workers[python] = Worker(python)
            except WorkerError as error:
                self._workers[python] = None
                self.unusable.append(str(error))
        return self._workers[python]


def _environment(python: str) -> str:
    """The folder above the `bin` that holds an interpreter."""
    return os.path.dirname(os.path.dirname(python))


def prove(suspects: Iterable[Suspect], interpreters: Interpreters) -> Iterator[Verdict]:
    """The verdict on every suspect, in no particular order.

    Each is proved by the interpreter of its own environment if that has the right magic number: patch releases with
    the same number may compile a few files differently.
    """
    groups: dict[tuple[int, str | None], list[Suspect]] = {}
    for suspect in suspects:
        number = int.from_bytes(suspect.magic[:2], "little")
        groups.setdefault((number, interpreters.at_home(suspect.source)), []).append(suspect)
    for (number, preferred), group in groups.items():
        worker = interpreters.find(number, preferred)
        if worker is None:
            yield from (_without_interpreter(suspect, number) for suspect in group)
        else:
            yield from _shared_out(group, worker)


def _shared_out(group: list[Suspect], worker: Worker) -> list[Verdict]:
    verdicts: list[Verdict] = []
    pending = list(reversed(group))

    def work(mine: Worker) -> None:
        while True:
            try:
                suspect = pending.pop()  # atomic, also between threads
            except IndexError:
                return
            verdicts.append(judge(suspect, mine))

    helpers = _helpers(worker, min(_MOST_WORKERS, len(os.sched_getaffinity(0)), len(group) // _PYCS_PER_WORKER) - 1)
    threads = [threading.Thread(target=work, args=(helper,)) for helper in helpers]
    for thread in threads:
        thread.start()
    work(worker)
    for thread in threads:
        thread.join()
    for helper in helpers:
        helper.stop()
    if len(verdicts) != len(group):
        raise LostWorkError("a proof ended without a verdict")
    return verdicts


def _helpers(worker: Worker, wanted: int) -> list[Worker]:
    """More workers of the same kind, as many as the machine grants."""
    helpers: list[Worker] = []
    with contextlib.suppress(WorkerError):
        while len(helpers) < wanted:
            helpers.append(Worker(worker.python))
    return helpers


def judge(suspect: Suspect, worker: Worker) -> Verdict:
    """Prove one pyc, compute its hash, or load it, with an interpreter of the same magic number."""
    why = unprovable(suspect, worker.tag)
    if why:
        return Verdict(suspect, UNPROVED, why)
    try:
        answer = _ask(suspect, worker)
    except ReplacedError:
        return Verdict(suspect, REPLACED)
    except WorkerError as error:
        return Verdict(suspect, UNPROVED, str(error))
    except OSError as error:
        return Verdict(suspect, UNPROVED, f"the source or the pyc cannot be read: {error.strerror}")
    return _verdict(suspect, answer, worker.python)


def _ask(suspect: Suspect, worker: Worker) -> str:
    code = read_pyc(suspect)[HEADER_SIZE:]
    if suspect.is_current:
        return worker.ask("load", "0", b"", code)
    source = read_source(suspect)
    if not suspect.hash_stamp:
        return worker.ask("prove", _levels(suspect.optimization), source, code)
    answer = worker.ask("hash", str(int.from_bytes(suspect.magic, "little")), source, code)
    if answer.startswith((BROKEN, UNPROVED)):
        return answer
    return SAME if answer == suspect.hash_stamp.hex() else "hash_differs"


def _verdict(suspect: Suspect, answer: str, python: str) -> Verdict:
    if not source_unchanged(suspect):
        return Verdict(suspect, REPLACED)
    result, _space, why = answer.partition(" ")
    if result in _ANSWERS:
        return Verdict(suspect, result, why)
    return Verdict(suspect, UNPROVED, f"{python} is not a Python that can prove anything")


def unprovable(suspect: Suspect, tag: str) -> str:
    """Why no interpreter can compile this source into this pyc; empty if one can, or need not."""
    if suspect.is_current:
        return ""
    if suspect.source_identity[2] > LARGEST_SOURCE:
        return f"the source is larger than {LARGEST_SOURCE >> 20} MiB"
    if not suspect.hash_stamp and (suspect.tag not in (None, tag) or not _levels(suspect.optimization)):
        return "an import hook compiled it"
    return ""


def _levels(optimization: str) -> str:
    """The levels, each a digit, at which a pyc may have been compiled; empty if its name tells none.

    `-OOO` is written into the name, but there is nothing beyond the second level.
    """
    if optimization in ("", "0", "1", "2", ALL_LEVELS):
        return optimization or "0"
    return "2" if optimization.isdecimal() else ""


def _without_interpreter(suspect: Suspect, number: int) -> Verdict:
    if suspect.is_current or not suspect.hash_stamp or suspect.source_identity[2] > LARGEST_SOURCE:
        why = f"no interpreter with magic number {number} ({suspect.tag or 'no tag'}); the option python may name one"
        return Verdict(suspect, UNPROVED, why)
    try:
        same = source_hash(suspect.magic, read_source(suspect)) == suspect.hash_stamp
    except ReplacedError:
        return Verdict(suspect, REPLACED)
    except OSError as error:
        return Verdict(suspect, UNPROVED, f"the source cannot be read: {error.strerror}")
    return Verdict(suspect, SAME if same else "hash_differs")
