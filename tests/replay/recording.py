# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recordings of hosts: one JSON file that can be unpacked into a directory to look at instead of a host.

Usage: python tests/replay/recording.py unpack FILE DIRECTORY     (FILE - is standard input)

A recording is an object with
  format, version   FORMAT and VERSION of this file
  title             what kind of host it is
  commands          what nvidia-smi answered: a list of objects with `arguments`, `status`, `output` and `errors`, or
                    with `hangs`: true instead of the last three. Empty: the host has no nvidia-smi
  files             by absolute path below /proc, /sys or /dev/shm, one of
                      "text"                                 a file with this content
                      {"link": "target"}                     a symbolic link
                      {"directory": true}                    a directory, where nothing in it tells of it
                      {"size": 4096, "bytes": {"0": "2210"}} a file of zeros with these bytes (hexadecimal) from these
                                                             offsets on

Unpacked, DIRECTORY has proc, sys and dev, and, if there are commands, nvidia-smi/nvidia-smi. Then
    gpu_node_facts: {root: DIRECTORY, nvidia_smi: DIRECTORY/nvidia-smi/nvidia-smi}
looks at the recorded host.
"""

from __future__ import annotations

import json
import os
import posixpath
import shutil
import sys
from pathlib import Path
from typing import Any

FORMAT = "blackwell.inference recording"
VERSION = 1

_ROOTS = ("/proc/", "/sys/", "/dev/shm/")
_LARGEST_FILE = 1 << 20

Recording = dict[str, Any]


class BadRecordingError(ValueError):
    """The object is no recording, or would be unpacked outside its directory; the message says why."""


def check(recording: object) -> Recording:
    """Return the object if it is a recording in every part. Raises BadRecordingError."""
    if not isinstance(recording, dict) or recording.get("format") != FORMAT:
        raise BadRecordingError(f"this is no {FORMAT}")
    if recording.get("version") != VERSION:
        raise BadRecordingError(f"version {recording.get('version')!r:.40} is not {VERSION}, which this program reads")
    commands, files = recording.get("commands"), recording.get("files")
    if not isinstance(commands, list) or not isinstance(files, dict):
        raise BadRecordingError("commands must be a list, and files an object")
    for command in commands:
        _check_command(command)
    for path, entry in files.items():
        _check_path(path, files)
        _check_entry(path, entry)
    return recording


def unpack(recording: object, directory: Path) -> None:
    """Write a recording's files, and its nvidia-smi, into a directory that is new or empty.

    Raises BadRecordingError before anything is written, or FileExistsError.
    """
    checked = check(recording)
    if directory.exists() and any(directory.iterdir()):
        raise FileExistsError(f"{directory} is not empty")
    for root in _ROOTS:
        (directory / root.strip("/")).mkdir(parents=True, exist_ok=True)
    for path, entry in sorted(checked["files"].items()):
        _write_entry(directory / path.lstrip("/"), entry)
    if checked["commands"]:
        _write_program(directory / "nvidia-smi", checked["commands"])


def _check_command(command: object) -> None:
    if not isinstance(command, dict) or not isinstance(command.get("arguments"), list):
        raise BadRecordingError("a command has no list of arguments")
    if command.get("hangs") is True:
        return
    if not isinstance(command.get("status"), int) or not isinstance(command.get("output"), str):
        raise BadRecordingError(f"the command {command['arguments']} has no status or no output")


def _check_path(path: str, files: dict[str, object]) -> None:
    """Refuse a path that is not in its plain form, or leads through something else than directories."""
    if not f"{path}/".startswith(_ROOTS) or posixpath.normpath(path) != path or "\0" in path:
        raise BadRecordingError(f"{path!r:.100} is no path below /proc, /sys or /dev/shm")
    above = posixpath.dirname(path)
    while above != "/":
        if above in files and files[above] != {"directory": True}:
            raise BadRecordingError(f"{path!r:.100} leads through {above!r:.100}, which is no directory")
        above = posixpath.dirname(above)


def _check_entry(path: str, entry: object) -> None:
    if isinstance(entry, str) or entry == {"directory": True}:
        return
    if isinstance(entry, dict) and set(entry) == {"link"} and isinstance(entry["link"], str) and entry["link"]:
        return
    if not isinstance(entry, dict) or not isinstance(entry.get("size"), int) or not 0 <= entry["size"] <= _LARGEST_FILE:
        raise BadRecordingError(f"the entry of {path} is of no known form")
    try:
        _content(entry)
    except (ValueError, TypeError, AttributeError) as error:
        raise BadRecordingError(f"the bytes of {path} are of no known form: {error}") from error


def _content(entry: dict[str, Any]) -> bytes:
    """The content of a file that is given by its size and some bytes."""
    content = bytearray(entry["size"])
    for offset, text in entry.get("bytes", {}).items():
        part = bytes.fromhex(text)
        if not 0 <= int(offset) <= len(content) - len(part):
            raise ValueError(f"bytes at {offset} lie outside")
        content[int(offset) : int(offset) + len(part)] = part
    return bytes(content)


def _write_entry(path: Path, entry: Any) -> None:
    if entry == {"directory": True}:
        path.mkdir(parents=True, exist_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(entry, str):
        path.write_text(entry, encoding="utf-8")
    elif "link" in entry:
        os.symlink(entry["link"], path)
    else:
        path.write_bytes(_content(entry))


def _write_program(directory: Path, commands: list[dict[str, Any]]) -> None:
    """The stand-in for nvidia-smi. It runs with the python3 that is found where it is called."""
    directory.mkdir()
    (directory / "answers.json").write_text(json.dumps(commands, indent=1), encoding="utf-8")
    shutil.copy(Path(__file__).with_name("nvidia_smi.py"), directory / "nvidia_smi.py")
    program = directory / "nvidia-smi"
    program.write_text('#!/bin/sh\nexec python3 -I -S "$(dirname "$0")/nvidia_smi.py" "$@"\n')
    program.chmod(0o755)


def main(arguments: list[str]) -> int:
    """Unpack a recording. Returns the exit status."""
    if len(arguments) != 3 or arguments[0] != "unpack":
        print("usage: python tests/replay/recording.py unpack FILE DIRECTORY", file=sys.stderr)
        return 2
    file, directory = arguments[1:]
    try:
        unpack(json.loads(sys.stdin.read() if file == "-" else Path(file).read_text("utf-8")), Path(directory))
    except (OSError, ValueError) as error:
        print(f"{file}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
