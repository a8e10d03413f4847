# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compiles sources and compares the code with that of pycs. Its text is run by the interpreter that wrote the pycs.

It reads from standard input and opens no file. A request is a line `prove <optimizations> <bytes of source> <bytes of
code>`, with `hash <magic>` or `load 0` in the place of the first two words, followed by those bytes; the answer is one
line. Comparing corrupt code objects crashes CPython 3.12 and 3.13, which is why this never happens in the process of
the module.
"""

from __future__ import annotations

import _imp
import marshal
import os
import resource
import struct
import sys
from importlib.util import MAGIC_NUMBER
from types import CodeType
from typing import Any, BinaryIO

_FIELDS = [
    field
    for field in (
        "co_argcount",
        "co_posonlyargcount",
        "co_kwonlyargcount",
        "co_nlocals",
        "co_stacksize",
        "co_flags",
        "co_code",
        "co_names",
        "co_varnames",
        "co_freevars",
        "co_cellvars",
        "co_name",
        "co_qualname",
        "co_firstlineno",
        "co_exceptiontable",
    )
    if hasattr(CodeType, field)
]
_MEMORY_LIMIT = 4 << 30
# A program may have raised this limit before it imported the source. What is too deep for the stack ends the worker.
_RECURSION_LIMIT = 10_000


def constant_key(value: Any) -> Any:
    """A key that is equal exactly for equal constants: 1, 1.0 and True differ, 0j and -0j too; nan equals itself."""
    kind = type(value)
    if kind is tuple:
        return (kind, tuple(constant_key(item) for item in value))
    if kind is frozenset:
        keys = tuple(constant_key(item) for item in value)
        # The order of numbers is that of the source, as far as it survived marshal; other orders follow the hash seed.
        return (kind, keys if {type(item) for item in value} == {int} else frozenset(keys))
    if kind is float:
        return (kind, struct.pack("<d", value))
    if kind is complex:
        return (kind, struct.pack("<dd", value.real, value.imag))
    if kind is slice:
        return (kind, constant_key(value.start), constant_key(value.stop), constant_key(value.step))
    return (kind, value)


def same_positions(old: Any, new: Any) -> bool:
    """Whether both map code to the same lines, and columns too unless one side was compiled without them."""
    if sys.version_info < (3, 10):
        return bool(old.co_lnotab == new.co_lnotab)
    if old.co_linetable == new.co_linetable:
        return True
    if sys.version_info < (3, 11) or list(old.co_lines()) != list(new.co_lines()):
        return False
    return any(all(position[2] is None for position in code.co_positions()) for code in (old, new))


def same_code(old: CodeType, new: CodeType) -> bool:
    """Compare all that runs or is shown, recursively, but `co_filename`: installers bake temporary paths in."""
    pending = [(old, new)]
    while pending:
        one, other = pending.pop()
        if any(getattr(one, field) != getattr(other, field) for field in _FIELDS) or not same_positions(one, other):
            return False
        if len(one.co_consts) != len(other.co_consts):
            return False
        for left, right in zip(one.co_consts, other.co_consts):
            if isinstance(left, CodeType) and isinstance(right, CodeType):
                pending.append((left, right))
            elif constant_key(left) != constant_key(right):
                return False
    return True


def load(payload: bytes) -> CodeType | None:
    """The code in a pyc, or None if there is none."""
    try:
        code = marshal.loads(payload)
    except MemoryError:
        raise
    except Exception:  # marshal raises what the garbage makes it stumble over
        return None
    return code if isinstance(code, CodeType) else None


def written_code(source: bytes, level: int) -> CodeType:
    """The code of a source as an interpreter finds it in a pyc that it has just written."""
    code = compile(source, "<source>", "exec", dont_inherit=True, optimize=level)
    written: CodeType = marshal.loads(marshal.dumps(code))
    return written


def prove(optimizations: str, source: bytes, old: CodeType) -> str:
    """Whether `old` is the code of `source` at one of the optimization levels (digits)."""
    try:
        same = any(same_code(old, written_code(source, int(level))) for level in optimizations)
    except SyntaxError as error:
        if str(error.msg).startswith("unknown encoding"):  # a codec that the application or its `.pth` file brings
            return "unproved Python itself does not know the encoding of the source"
        return "does_not_compile"
    except ValueError:
        return "does_not_compile"
    return "same" if same else "code_differs"


def answer(stream: BinaryIO, line: bytes) -> str:
    """Answer one request."""
    verb, argument, source_size, payload_size = line.decode("ascii").split()
    source = stream.read(int(source_size))
    payload = stream.read(int(payload_size))
    try:
        old = load(payload)
        if old is None:
            return "broken"
        if verb == "load":
            return "same"
        return _imp.source_hash(int(argument), source).hex() if verb == "hash" else prove(argument, source, old)
    except (MemoryError, RecursionError):
        return "unproved it is too much for the compiler"


def limit_resources() -> None:
    """No core files, no runaway memory, no competition with the server on this node; but room for deep sources."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_LIMIT if hard < 0 else min(hard, _MEMORY_LIMIT), hard))
    os.nice(5)
    sys.setrecursionlimit(_RECURSION_LIMIT)


def say(line: str) -> None:
    """Write a line that the module is waiting for."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    """Introduce this interpreter by its magic number and cache tag, then answer until standard input ends."""
    limit_resources()
    say(f"{int.from_bytes(MAGIC_NUMBER[:2], 'little')} {sys.implementation.cache_tag}")
    stream = sys.stdin.buffer
    for line in iter(stream.readline, b""):
        say(answer(stream, line))


if __name__ == "__main__":
    main()
