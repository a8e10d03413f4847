# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run functions of this collection inside another interpreter: that of an engine's environment.

A module runs under the node's Python, which may be older than the engine's and cannot tell what the engine's would
import or compile. One process is started, asked any number of questions, and ended. The rooms travel as source text, so
nothing is written to the node for this.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from types import ModuleType, TracebackType
from typing import IO, Any, Sequence

# Reads one JSON request a line, answers each with one line on a descriptor of its own: an environment's start-up code
# may print. The first request brings the rooms.
_SERVER = r"""
import json, os, sys, types
answers = os.fdopen(int(sys.argv[1]), "w")
for line in sys.stdin:
    request = json.loads(line)
    try:
        for name, source in request.get("rooms", []):
            room = types.ModuleType(name)
            sys.modules[name] = room
            exec(compile(source, name, "exec", dont_inherit=True), room.__dict__)
        function = getattr(sys.modules[request["room"]], request["function"])
        answer = {"result": function(*request["arguments"])}
    except Exception as error:
        answer = {"error": type(error).__name__, "message": str(error)}
    answers.write(json.dumps(answer) + "\n")
    answers.flush()
"""


class InterpreterError(Exception):
    """The interpreter could not be started, died, or raised what the caller does not expect."""


class Interpreter:
    """A running interpreter of an environment, isolated from the caller's own Python settings (``-I``)."""

    def __init__(self, python: str, rooms: Sequence[ModuleType]) -> None:
        """Remember the interpreter's path, and the rooms in the order in which they import each other."""
        self.python = python
        self._rooms: list[list[str]] = [[room.__name__, _source_of(room)] for room in rooms]
        self._process: subprocess.Popen[str] | None = None
        self._answers: IO[str] | None = None
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process; a pipe could fill up

    def __enter__(self) -> Interpreter:
        """Start the process. Raises InterpreterError when that fails."""
        reader, writer = os.pipe()
        command = [self.python, "-I", "-B", "-c", _SERVER, str(writer)]
        try:
            # A conversation, which run_command of AnsibleModule can't hold.
            self._process = subprocess.Popen(  # pylint: disable=ansible-bad-function
                command,
                stdin=subprocess.PIPE,
                stdout=self._said,
                stderr=self._said,
                pass_fds=[writer],
                encoding="utf-8",
            )
        except OSError as error:
            os.close(reader)
            raise InterpreterError(f"{self.python} can't be started: {error.strerror}") from error
        finally:
            os.close(writer)
        self._answers = os.fdopen(reader, encoding="utf-8")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the process."""
        if self._process is not None and self._answers is not None:
            self._process.communicate()
            self._answers.close()
        self._said.close()

    def call(self, room: ModuleType, function: str, *arguments: Any) -> dict[str, Any]:
        """Call a function of a room with JSON-able arguments.

        Returns ``{"result": ...}``, or ``{"error": <exception name>, "message": ...}`` when it raised.
        Raises InterpreterError when the process does not answer.
        """
        process = self._process
        if process is None or process.stdin is None or self._answers is None:
            raise InterpreterError("the interpreter was not started")
        request = {"rooms": self._rooms, "room": room.__name__, "function": function, "arguments": arguments}
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            pass  # it died; what it said follows
        line = self._answers.readline()
        if not line:
            process.wait()
            self._said.seek(0)
            said = self._said.read().decode("utf-8", "replace").strip()
            raise InterpreterError(f"{self.python} ended without an answer: {said[-2000:] or 'it said nothing'}")
        self._rooms = []
        answer: dict[str, Any] = json.loads(line)
        return answer


def _source_of(module: ModuleType) -> str:
    """The source of a module, also of one that lies in a zip file as modules do on their way to a node."""
    get_source = getattr(getattr(module, "__loader__", None), "get_source", None)
    source = get_source(module.__name__) if get_source else None
    if isinstance(source, str):
        return source
    try:  # Ansible's own loader on the controller keeps no text
        with open(str(module.__file__), encoding="utf-8") as stream:
            return stream.read()
    except OSError as error:
        raise InterpreterError(f"the source of {module.__name__} can't be read: {error}") from error
