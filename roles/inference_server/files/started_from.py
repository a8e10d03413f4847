# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prints what a server is started from, and one digest over it; Python 3.8 and later, standard library.

    started_from.py [--write FILE] [--without FILE] THING...

The unit runs it just before each start and hands the digest to the process, so a running server says what it was really
started from: also after a restart by hand, by systemd, or at boot. The role runs it to learn what the node holds now.
A THING is one of:

    file:PATH         its content
    units:DIRECTORY   the content of all drop-ins (*.conf) there
    packages:PATH     what is installed in a virtual environment: the RECORD of every distribution
    model:DIRECTORY   files of a model: up to 16 MiB by content, larger ones (weights) by size and modification time,
                      since reading hundreds of gigabytes would take minutes; hidden files don't count

The output is an environment file: each thing with its digest as a comment, then SPECDECODE_DIGEST. --without tells what
it would be if a file were not there.
"""

from __future__ import annotations

import glob
import hashlib
import os
import sys
from typing import Callable, Iterator

READ_WHOLE = 16 * 1024 * 1024
ABSENT = "absent"


def digest_of(parts: Iterator[str] | list[str]) -> str:
    """One digest over texts; their borders count."""
    total = hashlib.sha256()
    for part in parts:
        data = os.fsencode(part)
        total.update(b"%d:" % len(data) + data)
    return total.hexdigest()


def file_digest(path: str) -> str:
    """The digest of a file's content, or `absent`; OSError when it can't be read."""
    total = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            for block in iter(lambda: file.read(1 << 20), b""):
                total.update(block)
    except (FileNotFoundError, NotADirectoryError):
        return ABSENT
    return total.hexdigest()


def units_digest(directory: str, without: str = "") -> str:
    """The digest over the drop-ins in a directory, as systemd would read them."""
    paths = [path for path in sorted(glob.glob(os.path.join(glob.escape(directory), "*.conf"))) if path != without]
    return digest_of([word for path in paths for word in (path, file_digest(path))]) if paths else ABSENT


def packages_digest(environment: str) -> str:
    """The digest over what installers recorded: a distribution installed, removed or exchanged changes it."""
    pattern = os.path.join(glob.escape(environment), "lib", "python3*", "site-packages", "*.dist-info", "RECORD")
    records = sorted(glob.glob(pattern))
    if not records:
        return ABSENT
    return digest_of([word for path in records for word in (os.path.relpath(path, environment), file_digest(path))])


def model_digest(directory: str) -> str:
    """The digest over the files of a model; links to files are followed, as the engines do."""
    if not os.path.isdir(directory):
        return ABSENT
    return digest_of([word for path in model_files(directory) for word in (path, _about(directory, path))])


def model_files(directory: str) -> list[str]:
    """The files below a directory, relative to it; nothing hidden."""
    found = []
    for folder, folders, names in os.walk(directory):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [os.path.relpath(os.path.join(folder, name), directory) for name in names if name[0] != "."]
    return sorted(found)


def _about(directory: str, path: str) -> str:
    full = os.path.join(directory, path)
    try:
        status = os.stat(full)
    except FileNotFoundError:
        return "dangling link to " + os.readlink(full)
    if status.st_size <= READ_WHOLE:
        return file_digest(full)
    return f"{status.st_size} bytes of {status.st_mtime_ns}"


KINDS: dict[str, Callable[..., str]] = {
    "file": file_digest,
    "units": units_digest,
    "packages": packages_digest,
    "model": model_digest,
}


def describe(things: list[str], without: str = "") -> str:
    """The environment file; ValueError for a thing of no known kind."""
    lines = [f"# {_digest_of_thing(thing, without)} {thing}" for thing in things]
    return "\n".join([*lines, f"SPECDECODE_DIGEST={digest_of(lines)}", ""])


def _digest_of_thing(thing: str, without: str) -> str:
    kind, _colon, path = thing.partition(":")
    if kind not in KINDS or not os.path.isabs(path):
        raise ValueError(f"{thing!r} is none of {', '.join(KINDS)} with an absolute path")
    if kind == "units":
        return units_digest(path, without)
    return ABSENT if path == without else KINDS[kind](path)


def write(path: str, text: str) -> None:
    """Put the text in place at once, readable by root alone."""
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    fresh = f"{path}.{os.getpid()}"
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
    os.replace(fresh, path)


def main(arguments: list[str]) -> int:
    """Print the environment file, or write it."""
    options = {"--write": "", "--without": ""}
    while arguments[:1] and arguments[0] in options:
        options[arguments[0]], arguments = arguments[1], arguments[2:]
    target = options["--write"]
    try:
        text = describe(arguments, options["--without"])
        if target:
            write(target, text)
        else:
            print(text, end="")
    except (OSError, ValueError) as error:
        print(f"started_from: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
