# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The processes of a Linux node, read from /proc: when they started, what they were started with, what they mapped.

Everything is read once a process and defensively: a process may end at any moment, its number may be given to another
one, and another user's process shows little.
"""

from __future__ import annotations

import os
import re
import time
from typing import NamedTuple

KERNEL_THREAD = 0x00200000
MAX_MAPS = 1 << 26
SECOND = 10**9
UNIT = re.compile(r"([^/]+\.(?:service|scope))(?=/|$)")


class Process(NamedTuple):
    """A process. Times are nanoseconds of the wall clock; `None` means that it could not be read."""

    pid: int
    ppid: int
    start: int
    layout: tuple[str, ...]
    command: list[str]
    exe: str | None
    cwd: str | None
    environ: dict[str, str] | None
    mapped: dict[str, tuple[str, str]] | None  # path to (device, inode)
    unit: str | None


class Stat(NamedTuple):
    """What matters of /proc/<pid>/stat. `layout` names the image in memory: equal after fork, other after exec."""

    ppid: int
    flags: int
    ticks: int
    layout: tuple[str, ...]


def parse_stat(text: str) -> Stat:
    """Read /proc/<pid>/stat, whose second field may hold blanks and parentheses; raises ValueError.

    Fields as in proc(5): 4 ppid, 9 flags, 22 start, 26 to 28 addresses of code and stack, 48 and 49 of the arguments.
    """
    fields = text[text.rindex(")") + 2 :].split()
    if len(fields) < 47:
        raise ValueError("too few fields")
    return Stat(int(fields[1]), int(fields[6]), int(fields[19]), (*fields[23:26], *fields[45:47]))


def parse_unit(cgroup: str) -> str | None:
    """The systemd unit in /proc/<pid>/cgroup, of the hierarchy that systemd keeps (v1 and v2)."""
    paths = []
    for line in cgroup.splitlines():
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        if (number == "0" and not controllers) or controllers == "name=systemd":
            paths.append(path)
    units: list[str] = UNIT.findall(max(paths, key=len, default=""))
    own = [unit for unit in units if not unit.startswith(("user@", "session-", "init.scope"))]
    return own[-1] if own else units[-1] if units else None


def parse_maps(text: str) -> dict[str, tuple[str, str]]:
    """The files that a process has mapped, with device (hexadecimal major:minor) and inode."""
    found: dict[str, tuple[str, str]] = {}
    for line in text.splitlines():
        words = line.split(None, 5)
        if len(words) == 6 and words[5].startswith("/"):
            path = words[5][: -len(" (deleted)")] if words[5].endswith(" (deleted)") else words[5]
            found[path] = (words[3], words[4])
    return found


def boot_offset() -> int:
    """What to add to a time since boot to get the wall clock's, in nanoseconds.

    Not `btime` of /proc/stat: it is whole seconds, up to 0.9 s early. Of several tries the tightest counts.
    """
    tries = []
    for _try in range(5):
        before = _wall()
        boot = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        after = _wall()
        tries.append((after - before, (before + after) // 2 - boot))
    return min(tries)[1]


def _wall() -> int:
    return time.clock_gettime_ns(time.CLOCK_REALTIME)


def read_processes(proc: str = "/proc") -> list[Process]:
    """All processes but kernel threads and those that ended while they were read."""
    offset = boot_offset()
    ticks = os.sysconf("SC_CLK_TCK")
    found = (_read_process(proc, name, offset, ticks) for name in os.listdir(proc) if name.isdigit())
    return [process for process in found if process is not None]


def _read_process(proc: str, name: str, offset: int, ticks: int) -> Process | None:
    base = f"{proc}/{name}/"
    stat = _stat(base)
    command = _read(base + "cmdline")
    if stat is None or command is None or (not command and stat.flags & KERNEL_THREAD):
        return None
    environ, maps = _read(base + "environ"), _read(base + "maps")
    process = Process(
        pid=int(name),
        ppid=stat.ppid,
        start=offset + stat.ticks * SECOND // ticks,
        layout=stat.layout,
        command=[os.fsdecode(word) for word in command.split(b"\0")[:-1]],
        exe=_link(base + "exe"),
        cwd=_link(base + "cwd"),
        environ=None if environ is None else _environment(environ),
        mapped=None if maps is None else parse_maps(os.fsdecode(maps)),
        unit=parse_unit(os.fsdecode(_read(base + "cgroup") or b"")),
    )
    again = _stat(base)  # the number may belong to another process by now
    return process if again is not None and again.ticks == stat.ticks else None


def _stat(base: str) -> Stat | None:
    text = _read(base + "stat")
    try:
        return parse_stat(os.fsdecode(text)) if text else None
    except ValueError:
        return None


def _environment(block: bytes) -> dict[str, str]:
    pairs = (os.fsdecode(item).partition("=") for item in block.split(b"\0") if b"=" in item)
    return {name: value for name, _equals, value in pairs}


def _read(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read(MAX_MAPS)
    except OSError:
        return None


def _link(path: str) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None
