# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Removes what servers left behind, just before one starts; Python 3.8 and later, standard library, as root.

    clear_leftovers.py USER

A server that was killed may leave workers that hold GPU memory while its port is free, and segments in /dev/shm that
fill it or are in the way; then one crash becomes a loop of them. What is removed, by what the kernel says now:

* processes that have a GPU open, run as USER (who has no other business than servers), belong to no unit specdecode@*,
  and that nobody looks after: their parent is gone, and so is the leader of their session;
* segments with the names of NCCL, vLLM, SGLang and Python's shared memory that no process has open or mapped. Python's
  are removed only if they are USER's: another program may keep data in one for a while without holding it.

Each removal is a line "Cleared: ..." in the log; what looks alike but is somebody else's is a line "Left: ...".
"""

from __future__ import annotations

import os
import pwd
import re
import signal
import stat
import sys
import time
from typing import NamedTuple

SHM = "/dev/shm"
# Names that only engines and NCCL use, and one that every Python program uses.
ENGINE_PREFIXES = ("nccl-", "vllm_offload_", "sgl_shm_mm_")
COMMON_PREFIX = "psm_"
# CUDA opens /dev/nvidia-uvm and the GPUs; a service such as nvidia-persistenced opens GPUs only.
GPU = re.compile(r"/dev/nvidia[0-9]+$")
CUDA = "/dev/nvidia-uvm"
OWN_UNIT = re.compile(r"/specdecode@[^/]*\.service")
PATIENCE = 10.0  # seconds for a process to end by itself, and then for the kernel to take it away


class Process(NamedTuple):
    """What matters of a process. `start` (clock ticks since boot) tells it from a later one with its number."""

    pid: int
    name: str
    parent: int
    session: int
    uid: int
    start: int
    files: frozenset[str]
    cgroup: str


def read_processes(proc: str = "/proc") -> tuple[list[Process], int]:
    """All processes, and the number of those that may not be looked into."""
    found, unseen = [], 0
    for name in os.listdir(proc):
        if name.isdigit() and name != str(os.getpid()):
            try:
                found.append(read_process(f"{proc}/{name}"))
            except PermissionError:
                unseen += 1
            except (FileNotFoundError, ProcessLookupError, NotADirectoryError):
                continue  # it ended meanwhile
    return found, unseen


def read_process(directory: str) -> Process:
    """One process; OSError when it is gone or may not be looked into."""
    text = _text(f"{directory}/stat")
    name, fields = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()
    files = {_target(f"{directory}/fd/{number}") for number in os.listdir(f"{directory}/fd")}
    for line in _text(f"{directory}/maps").splitlines():
        words = line.split(None, 5)
        if len(words) == 6:
            files.add(words[5])
    return Process(
        pid=int(os.path.basename(directory)),
        name=name,
        parent=int(fields[1]),
        session=int(fields[3]),
        uid=os.stat(directory).st_uid,
        start=int(fields[19]),
        files=frozenset(files),
        cgroup=_text(f"{directory}/cgroup"),
    )


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def _target(path: str) -> str:
    try:
        return os.readlink(path)
    except FileNotFoundError:
        return ""  # closed meanwhile


def gpu_holders(processes: list[Process]) -> list[Process]:
    """Processes that have CUDA open on a GPU, are in no unit of ours, and that nobody looks after."""
    alive = {process.pid for process in processes}
    return [
        process
        for process in processes
        if CUDA in process.files
        and any(GPU.match(path) for path in process.files)
        and not OWN_UNIT.search(process.cgroup)
        and process.parent == 1
        and process.session not in alive
    ]


def unheld_segments(names: list[str], processes: list[Process]) -> list[str]:
    """The names among those of segments that no process has open or mapped.

    By name alone: a container may see /dev/shm at another place. A removed file is marked by a word after its name.
    """
    held = {path.rsplit("/", 1)[-1].split(" ", 1)[0] for process in processes for path in process.files}
    wanted = [name for name in names if name.startswith((*ENGINE_PREFIXES, COMMON_PREFIX))]
    return sorted(name for name in wanted if name not in held)


def end(process: Process, patience: float = PATIENCE) -> bool:
    """End a process, by force if need be; whether it is gone."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if not _is_there(process):
            return True
        os.kill(process.pid, number)
        deadline = time.monotonic() + patience
        while _is_there(process) and time.monotonic() < deadline:
            time.sleep(0.1)
    return not _is_there(process)


def _is_there(process: Process) -> bool:
    try:
        now = read_process(f"/proc/{process.pid}")
    except OSError:
        return False
    return now.start == process.start


def clear_holders(uid: int) -> list[str]:
    """End the orphans of the user; a line about each."""
    lines = []
    for process in gpu_holders(read_processes()[0]):
        gpus = ", ".join(sorted(filter(GPU.match, process.files)))
        about = f"process {process.pid} ({process.name}), which held {gpus} without a parent"
        if process.uid != uid:
            lines.append(f"Left: {about}; it belongs to user {process.uid}. If it is a leftover: kill {process.pid}")
        elif end(process):
            lines.append(f"Cleared: ended {about}")
        else:
            lines.append(f"Left: {about}; it does not end, the GPU may need a reset")
    return lines


def clear_segments(uid: int, directory: str = SHM) -> list[str]:
    """Remove unheld segments; a line about each."""
    # The names first: whoever makes a segment later holds it, and does not count.
    names = os.listdir(directory)
    processes, unseen = read_processes()
    if unseen:
        return [f"Left: all of {directory}; {unseen} processes can't be looked into, one of them may hold a segment"]
    lines = []
    for name in unheld_segments(names, processes):
        path = os.path.join(directory, name)
        try:
            status = os.lstat(path)
            if not stat.S_ISREG(status.st_mode):
                continue
            if name.startswith(COMMON_PREFIX) and status.st_uid != uid:
                lines.append(f"Left: {path}, held by nobody; it belongs to user {status.st_uid}")
                continue
            os.unlink(path)
            lines.append(f"Cleared: removed {path}, {status.st_size} bytes, held by nobody")
        except FileNotFoundError:
            continue
    return lines


def main(arguments: list[str]) -> int:
    """Clear what is there, and say so."""
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    uid = pwd.getpwnam(arguments[0]).pw_uid
    # Processes first: a segment that an orphan holds is unheld after its end.
    for line in clear_holders(uid) + clear_segments(uid):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
