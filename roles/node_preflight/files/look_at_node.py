# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looks at a node and prints what it saw as JSON. Reads only; Python 3.8 and later, standard library.

The role hands this text to the node's interpreter on standard input, and the questions as one JSON argument: `port`,
`unit`, `python`, `models` (directories), `disks` (list of `name`, `path`, `needed_gib`), `newest_of` (a file that can't
be newer than now), `torch_python` (interpreter of an environment that may hold torch; empty: don't ask), `ours` (files
that the role may have written earlier). A section that can't be read is null, with the reason in `reasons`.
"""

from __future__ import annotations

import glob
import json
import os
import platform
import re
import shutil
import socket
import stat
import subprocess
import sys
import time
from typing import Any, Callable, Iterator

GIB = 1024**3
UNLIMITED = 2**64 - 1  # as the kernel counts it
MAY_RAISE_LIMITS = 1 << 24  # CAP_SYS_RESOURCE, capability.h
LISTEN = "0A"  # the state of a listening socket in /proc/net/tcp
SEARCH_PATH = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]


class Unknown(Exception):
    """What was asked can't be known here; the text says why."""


def read_text(path: str) -> str:
    """The text of a small file; OSError when it can't be read."""
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def run(argv: list[str], seconds: float = 20) -> tuple[int, str]:
    """Exit status and output (both streams) of a command, in the C locale; Unknown when it can't be run or hangs."""
    environment = {**os.environ, "LC_ALL": "C", "PATH": os.pathsep.join(search_path())}
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Unknown(f"{argv[0]} gave no answer within {seconds:g} s") from error
    except OSError as error:
        raise Unknown(f"{argv[0]} can't be run: {error.strerror}") from error
    return done.returncode, done.stdout.decode(errors="replace").strip()


def search_path() -> list[str]:
    """Directories of PATH, and those that a login shell would have too."""
    own = [entry for entry in os.environ.get("PATH", "").split(os.pathsep) if entry.startswith("/")]
    return own + [entry for entry in SEARCH_PATH if entry not in own]


def system(_wants: dict[str, Any]) -> dict[str, Any]:
    """Distribution, machine, C library, and as whom we look."""
    try:
        lines = read_text("/etc/os-release").splitlines()
    except OSError:
        lines = []
    release = dict(line.split("=", 1) for line in lines if "=" in line)
    library = platform.libc_ver()
    return {
        "distribution": release.get("ID", "").strip('"'),
        "version": release.get("VERSION_ID", "").strip('"'),
        "architecture": platform.machine(),
        "kernel": platform.release(),
        "glibc": library[1] if library[0] == "glibc" else "",
        "uid": os.geteuid(),
        "python": platform.python_version(),
    }


def interpreter(wants: dict[str, Any]) -> dict[str, Any]:
    """The interpreter that the environment is to be made from: its path and release, and what else there is."""
    places = os.pathsep.join(search_path())
    found = shutil.which(wants["python"], path=places)
    seen: dict[str, Any] = {"path": found, "release": None, "error": None, "others": []}
    for directory in search_path():
        for path in sorted(glob.glob(os.path.join(directory, "python3.*"))):
            name = os.path.basename(path)
            if re.fullmatch(r"python3\.\d+", name) and os.access(path, os.X_OK) and name not in seen["others"]:
                seen["others"].append(name)
    if found:
        try:
            status, output = run([found, "-I", "-c", "import platform; print(platform.python_version())"])
        except Unknown as error:
            status, output = 1, str(error)
        seen["release" if status == 0 else "error"] = output
    return seen


def disks(wants: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """For every place: the file system that it lies or would lie on, and its free space in bytes."""
    return {disk["name"]: disk_at(disk["path"], disk["needed_gib"] * GIB) for disk in wants["disks"]}


def disk_at(path: str, needed: float) -> dict[str, Any]:
    """The file system of a path that may not exist yet; `used` is only measured where free space is too little."""
    place = path
    while not os.path.isdir(place) and place != os.path.dirname(place):
        place = os.path.dirname(place)
    status = os.statvfs(place)
    free = status.f_bavail * status.f_frsize
    return {
        "path": path,
        "place": place,
        "exists": os.path.isdir(path),
        "device": os.stat(place).st_dev,
        "free": free,
        "used": used_below(path) if free < needed and os.path.isdir(path) else None,
        "read_only": bool(status.f_flag & os.ST_RDONLY),
        "no_exec": bool(status.f_flag & os.ST_NOEXEC),
    }


def used_below(path: str) -> int:
    """Bytes on disk below a directory, without other file systems; a file with several names counts once."""
    device = os.stat(path).st_dev
    seen: set[int] = set()
    total = 0
    for directory, names, files in os.walk(path):
        names[:] = [name for name in names if os.lstat(os.path.join(directory, name)).st_dev == device]
        for name in files:
            entry = os.lstat(os.path.join(directory, name))
            if entry.st_ino not in seen:
                seen.add(entry.st_ino)
                total += entry.st_blocks * 512
    return total


def models(wants: dict[str, Any]) -> list[dict[str, Any]]:
    """For every model's directory: whether it is there, and which files of its index are not."""
    return [model_at(path) for path in wants["models"]]


def model_at(path: str) -> dict[str, Any]:
    """A model's directory; `missing` names files that the index of its weights lists and the directory lacks."""
    missing = []
    for index in sorted(glob.glob(os.path.join(glob.escape(path), "*.safetensors.index.json"))):
        shards = set(json.loads(read_text(index))["weight_map"].values())
        missing += [shard for shard in sorted(shards) if not os.path.isfile(os.path.join(path, shard))]
    config = os.path.isfile(os.path.join(path, "config.json"))
    return {"path": path, "exists": os.path.isdir(path), "config": config, "missing": missing}


def memory(_wants: dict[str, Any]) -> dict[str, int]:
    """Memory in bytes: what the kernel has, what is free for new processes, and a limit of the control group."""
    lines = read_text("/proc/meminfo").splitlines()
    values = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.endswith("kB")}
    total = values["MemTotal"]
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = read_text(path).strip()
        except OSError:
            continue
        if text.isdigit():  # a group without a limit says "max", or a number beyond all memory
            total = min(total, int(text))
    return {"total": total, "available": min(values["MemAvailable"], total)}


def service_manager(wants: dict[str, Any]) -> dict[str, Any]:
    """Whether systemd is process 1 and how it is, and the state of our unit."""
    first = read_text("/proc/1/comm").strip()
    if not os.path.isdir("/run/systemd/system"):
        return {"running": False, "first_process": first, "state": None, "failed": [], "unit_active": False}
    _status, state = run(["systemctl", "is-system-running"])
    _status, failed = run(["systemctl", "list-units", "--state=failed", "--plain", "--no-legend"])
    status, _output = run(["systemctl", "is-active", "--quiet", wants["unit"]])
    return {
        "running": True,
        "first_process": first,
        "state": state.splitlines()[-1] if state else "",
        "failed": [line.split()[0] for line in failed.splitlines() if line.strip()],
        "unit_active": status == 0,
    }


def listeners(wants: dict[str, Any]) -> list[dict[str, Any]]:
    """Who listens on the port: address, and where it can be known the process and its unit."""
    sockets = list(listening(wants["port"]))
    holders = socket_holders({inode for inode, _address in sockets}) if sockets else {}
    nobody: dict[str, Any] = {"pid": None, "command": None, "unit": None}
    return [{"address": address, **holders.get(inode, nobody)} for inode, address in sockets]


def listening(port: int) -> Iterator[tuple[str, str]]:
    """Inode and address of every listening TCP socket of a port."""
    for table in ("tcp", "tcp6"):
        try:
            lines = read_text("/proc/net/" + table).splitlines()[1:]
        except OSError:  # a kernel without IPv6 has no such table
            continue
        for line in lines:
            fields = line.split()
            address, _colon, number = fields[1].rpartition(":")
            if fields[3] == LISTEN and int(number, 16) == port:
                yield fields[9], address_text(address)


def address_text(words: str) -> str:
    """An address as /proc writes it (hexadecimal, 4-byte words in the machine's order), in the usual notation."""
    raw = b"".join(int(words[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(words), 8))
    return socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw)


def socket_holders(inodes: set[str]) -> dict[str, dict[str, Any]]:
    """The process that holds each socket. Processes that may not be looked into are passed over."""
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    holders: dict[str, dict[str, Any]] = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for target in open_files(pid):
            if target in wanted:
                holders[wanted[target]] = {"pid": int(pid), "command": command(pid), "unit": unit_of(pid)}
    return holders


def open_files(pid: str) -> list[str]:
    """What the descriptors of a process point at; nothing when it is gone or not ours to see."""
    directory = f"/proc/{pid}/fd"
    targets = []
    try:
        for name in os.listdir(directory):
            try:
                targets.append(os.readlink(os.path.join(directory, name)))
            except OSError:
                continue
    except OSError:
        return []
    return targets


def command(pid: str) -> str | None:
    """The name of a process. Not its arguments: they may hold secrets."""
    try:
        return read_text(f"/proc/{pid}/comm").strip()
    except OSError:
        return None


def unit_of(pid: str) -> str | None:
    """The systemd service that a process belongs to, by its control group."""
    try:
        text = read_text(f"/proc/{pid}/cgroup")
    except OSError:
        return None
    return service_in(text)


def service_in(cgroups: str) -> str | None:
    """The service named in the text of /proc/<pid>/cgroup; its path may go deeper than the service."""
    for line in cgroups.splitlines():
        for part in reversed(line.split(":", 2)[-1].split("/")):
            if part.endswith(".service"):
                return part
    return None


def clock(wants: dict[str, Any]) -> dict[str, Any]:
    """The node's time in seconds since 1970, and whether it is synchronised (null where nothing says so)."""
    synchronised = None
    if os.path.isdir("/run/systemd/system"):
        try:
            status, output = run(["timedatectl", "show", "--property=NTPSynchronized", "--value"], 5)
            synchronised = {"yes": True, "no": False}.get(output) if status == 0 else None
        except Unknown:
            pass
    newest = None
    source = wants.get("newest_of")
    if source and os.path.exists(source):
        newest = os.stat(source, follow_symlinks=False)[stat.ST_MTIME]
    return {"time": time.time(), "synchronised": synchronised, "newest": newest}


def limits(_wants: dict[str, Any]) -> dict[str, Any]:
    """What systemd can give a unit: its own hard limits, whether it may raise them, and what it gives unasked.

    An unlimited value is 2**64 - 1.
    """
    hard = {}
    for line in read_text("/proc/1/limits").splitlines()[1:]:
        fields = re.split(r"\s{2,}", line)
        hard[fields[0]] = fields[2]
    effective = re.search(r"^CapEff:\s*([0-9a-f]+)", read_text("/proc/1/status"), re.MULTILINE)
    return {
        "hard": {
            "MEMLOCK": limit(hard["Max locked memory"]),
            "NOFILE": limit(hard["Max open files"]),
            "STACK": limit(hard["Max stack size"]),
        },
        "may_raise": bool(effective and int(effective.group(1), 16) & MAY_RAISE_LIMITS),
        "nr_open": int(read_text("/proc/sys/fs/nr_open")),
        "given": given_limits(),
    }


def given_limits() -> dict[str, int]:
    """The soft limits that systemd gives to units that ask for none; empty without systemd."""
    if not os.path.isdir("/run/systemd/system"):
        return {}
    names = ("MEMLOCK", "NOFILE", "STACK")
    _status, output = run(["systemctl", "show", *(f"--property=DefaultLimit{name}Soft" for name in names)])
    pairs = (line.split("=", 1) for line in output.splitlines() if "=" in line)
    return {name[len("DefaultLimit") : -len("Soft")]: limit(value) for name, value in pairs}


def limit(text: str) -> int:
    """A limit as /proc and systemd write it, in bytes or counts."""
    return UNLIMITED if text in ("unlimited", "infinity") else int(text)


def shared_memory(_wants: dict[str, Any]) -> dict[str, int]:
    """Size of /dev/shm in bytes."""
    status = os.statvfs("/dev/shm")
    return {"total": status.f_blocks * status.f_frsize}


def ours(wants: dict[str, Any]) -> list[str]:
    """Which files and directories of the role are there."""
    return [path for path in wants["ours"] if os.path.lexists(path)]


ASK_TORCH = """
import importlib.util, json
seen = {"installed": importlib.util.find_spec("torch") is not None}
if seen["installed"]:
    import torch
    seen.update(release=torch.__version__, cuda=torch.version.cuda, arch_list=torch.cuda.get_arch_list())
print(json.dumps(seen))
"""


def torch(wants: dict[str, Any]) -> dict[str, Any]:
    """Release, CUDA and compiled architectures of the environment's torch; Unknown where its import fails."""
    python = wants.get("torch_python")
    if not python or not os.path.exists(python):
        return {"installed": False}
    # counting GPUs through NVML makes no CUDA context, which would need memory of a GPU
    argv = ["env", "PYTORCH_NVML_BASED_CUDA_CHECK=1", python, "-I", "-B", "-c", ASK_TORCH]
    status, output = run(argv, 180)
    last = output.splitlines()[-1] if output else ""
    if status != 0:
        raise Unknown(f"{python} can't import torch: {last}")
    seen: dict[str, Any] = json.loads(last)
    return seen


SECTIONS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "clock": clock,
    "system": system,
    "interpreter": interpreter,
    "disks": disks,
    "models": models,
    "memory": memory,
    "service_manager": service_manager,
    "listeners": listeners,
    "limits": limits,
    "shared_memory": shared_memory,
    "torch": torch,
    "ours": ours,
}


def look(wants: dict[str, Any]) -> dict[str, Any]:
    """All sections; what can't be known is null, with the reason."""
    seen: dict[str, Any] = {"reasons": {}}
    for name, section in SECTIONS.items():
        try:
            seen[name] = section(wants)
        except (Unknown, OSError, ValueError, LookupError, AttributeError, TypeError) as error:
            seen[name] = None
            seen["reasons"][name] = str(error) if isinstance(error, Unknown) else f"{type(error).__name__}: {error}"
    return seen


if __name__ == "__main__":
    print(json.dumps(look(json.loads(sys.argv[1]))))
