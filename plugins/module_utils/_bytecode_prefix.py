# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds bytecode that lives apart from its sources, in the trees that PYTHONPYCACHEPREFIX names, and has it judged."""

from __future__ import annotations

import contextlib
import functools
import glob
import os
import re
from typing import Iterator, NamedTuple, Sequence

from ansible_collections.blackwell.inference.plugins.module_utils._bytecode_files import FOLDER, Base, open_base
from ansible_collections.blackwell.inference.plugins.module_utils._bytecode_judge import (
    GONE,
    Findings,
    Judge,
    Place,
    Sources,
)
from ansible_collections.blackwell.inference.plugins.module_utils._bytecode_scan import NO_FOLDER_NOW, descend

VARIABLE = "PYTHONPYCACHEPREFIX"
UNIT_FOLDERS = ("/etc/systemd/system", "/run/systemd/system")
# As text in a unit or its environment file. Values with specifiers (%) are known only to systemd.
_SETTING = re.compile(r"(?:PYTHONPYCACHEPREFIX|-X\s*pycache_prefix)=[\"']?(/[^\s\"'%]+)(?=[\s\"']|$)")
_OPTION = re.compile(r"(?:^|\0)-X\0?pycache_prefix=([^\0]+)")
_ENVIRONMENT_FILE = re.compile(r"^EnvironmentFile=-?[\"']?(/[^\s\"']+)", re.M)


class Wanted(NamedTuple):
    """The sources whose bytecode is searched in `pycache_prefix` trees: real folders, and files in real folders."""

    folders: Sequence[str]
    files: dict[str, set[str]]


def scan_prefix(prefix: str, wanted: Wanted, found: Findings) -> None:
    """Judge the pycs below a `pycache_prefix` that belong to wanted sources.

    The interpreter builds the path of such a pyc from the path through which it found the source. The same source may
    thus appear under several names, and a link may lead to another source now; so each folder is resolved here.
    """
    descriptor, base = open_base(prefix)
    try:
        descend(base.path.rstrip("/"), descriptor, functools.partial(_visit, base, wanted, found), found)
    finally:
        os.close(descriptor)


def _visit(base: Base, wanted: Wanted, found: Findings, folder: str, descriptor: int) -> list[str]:
    try:
        _judge_folder(Place(base, folder, descriptor, _sources_of(base, folder), False), wanted, found)
        with os.scandir(descriptor) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError as error:
        found.failed(folder, error)
        return []


def _sources_of(base: Base, folder: str) -> Sources:
    return Sources(None, folder[len(base.path.rstrip("/")) :] or "/", -1)


def _judge_folder(place: Place, wanted: Wanted, found: Findings) -> None:
    sources = place.sources
    real = os.path.realpath(sources.folder)
    inside = any((real + "/").startswith(top + "/") for top in wanted.folders)
    if not inside and real not in wanted.files:
        return
    with _existing_folder(sources.folder) as sources.descriptor:
        names = set(os.listdir(sources.descriptor)) if sources.descriptor >= 0 else set()
        sources.names = names if inside else names & wanted.files[real]
        Judge(place, found).cache(only_these=not inside)


@contextlib.contextmanager
def _existing_folder(path: str) -> Iterator[int]:
    """A descriptor of a folder, reached through links as an interpreter reaches it; -1 if it is gone."""
    try:
        descriptor = os.open(path, FOLDER)
    except OSError as error:
        if error.errno not in (*GONE, *NO_FOLDER_NOW):
            raise
        yield -1
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def prefixes_in_use(proc: str = "/proc", unit_folders: Sequence[str] = UNIT_FOLDERS) -> list[str]:
    """The `pycache_prefix` trees that running processes and systemd units name, as far as the caller may see them.

    Any account can start a process with any environment. A tree therefore counts only if it belongs to root, to the
    caller, or to the account of the process; units are written by root. Which of them hold bytecode of the wanted
    sources shows in the trees themselves.
    """
    named = {(prefix, 0) for prefix in _named_by_units(unit_folders)} | set(_named_by_processes(proc))
    return sorted({prefix for prefix, owner in named if _belongs_to(prefix, {0, os.geteuid(), owner})})


def _belongs_to(prefix: str, owners: set[int]) -> bool:
    try:
        return os.path.isdir(prefix) and os.path.realpath(prefix) != "/" and os.stat(prefix).st_uid in owners
    except OSError:
        return False


def _named_by_processes(proc: str) -> Iterator[tuple[str, int]]:
    for process in glob.glob(proc + "/[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or belongs to somebody else
            command = _content(process + "/cmdline")
            if command:  # else it is a thread of the kernel, of which large machines have thousands
                yield from _named_by_process(proc, process, command)


def _named_by_process(proc: str, process: str, command: str) -> Iterator[tuple[str, int]]:
    settings = _content(process + "/environ").split("\0")
    values = [setting[len(VARIABLE) + 1 :] for setting in settings if setting.startswith(VARIABLE + "=")]
    values += [match[1] for match in _OPTION.finditer(command)]
    if any(values) and os.readlink(process + "/ns/mnt") == os.readlink(proc + "/self/ns/mnt"):
        folder = os.readlink(process + "/cwd")
        owner = os.stat(process).st_uid
        yield from ((os.path.normpath(os.path.join(folder, value)), owner) for value in values if value)


def _named_by_units(folders: Sequence[str]) -> Iterator[str]:
    for folder in folders:
        for path in [*glob.glob(folder + "/*.service"), *glob.glob(folder + "/*.service.d/*.conf")]:
            unit = _readable_content(path)
            yield from _SETTING.findall(unit)
            for pattern in _ENVIRONMENT_FILE.findall(unit):
                for file in glob.glob(re.sub("%[a-zA-Z]", "*", pattern)):
                    yield from _SETTING.findall(_readable_content(file))


def _readable_content(path: str) -> str:
    try:
        return _content(path)
    except OSError:
        return ""


def _content(path: str) -> str:
    with open(path, "rb") as file:
        return os.fsdecode(file.read())
