# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Record a host with GPUs, as a file that tests and dry runs can look at instead of it.

Usage, from anywhere:  ssh root@HOST python3 - < tests/replay/record.py > host.json
or on the host:        python3 record.py > host.json

It needs Python 3.8 and nothing else, changes nothing, and takes as long as nvidia-smi. Without root the ACS bits of the
bridges and other users' processes are missing, as they are for gpu_node_facts without root.

What identifies the host is left out or replaced: UUIDs, serial numbers and fabric ids of the GPUs, serial numbers of
bridges, the arguments of processes, ids of containers, and all of the kernel command line that does not concern PCI,
the IOMMU or the GPU drivers. Look the file through before you publish it all the same: the names of processes, of
shared memory and of systemd units are in it.
"""

from __future__ import annotations

import glob
import json
import os
import re
import struct
import subprocess
import sys
import time
from typing import Any, Callable

FORMAT = "blackwell.inference recording"
VERSION = 1

QUERIES = (
    ["-q", "-x"],
    ["--query-gpu=index,pci.bus_id,compute_cap", "--format=csv,noheader"],
    ["topo", "-m"],
    ["topo", "-p2p", "r"],
)

BUS = "/sys/bus/pci/devices"
BUS_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
ACS = 0x000D
KERNEL_FILES = (
    "/proc/sys/kernel/numa_balancing",
    "/proc/driver/nvidia/version",
    "/proc/driver/nvidia/params",
    "/sys/devices/system/node/node*/cpulist",
    "/sys/module/nvidia_uvm/parameters/uvm_*",
)
RELEVANT_ARGUMENT = re.compile(
    r"(iommu|amd_iommu|intel_iommu|pci|pcie_\w+|nvidia|nomodeset|module_blacklist|modprobe|rd\.driver)\b.*"
)
SEGMENTS = ("nccl-", "vllm_offload_", "sgl_shm_mm_", "psm_")
STATUS_LINES = ("Name:", "State:", "PPid:", "Uid:", "NSsid:")

UUID = re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b")
CONTAINER = re.compile(r"\b[0-9a-f]{32,64}\b")
IDENTIFYING_ELEMENT = re.compile(r"<(serial|pdi|chassis_serial_number|gpu_fabric_guid|clusterUuid)>[^<]*</\1>")
PROCESS_NAME = re.compile(r"(<process_name>[^<\s]*)\s[^<]*(</process_name>)")
NOT_NEEDED = re.compile(r"\s*<(supported_clocks|timestamp|accounted_processes)>.*?</\1>", re.DOTALL)


def main() -> int:
    """Print the recording of this host. Returns the exit status."""
    if os.geteuid() != 0:
        print("record: without root, ACS bits and other users' processes are missing", file=sys.stderr)
    json.dump(record("/", "nvidia-smi"), sys.stdout, indent=1)
    print()
    return 0


def record(root: str, nvidia_smi: str, timeout: float = 120) -> dict[str, Any]:
    """The recording of the host whose files lie below root, and whose GPUs this nvidia-smi describes."""
    mask = Mask()
    commands = [answer for query in QUERIES for answer in ask(nvidia_smi, query, mask, timeout)]
    listed = re.findall(r"<pid>([0-9]+)</pid>", commands[0].get("output", "")) if commands else []
    return {
        "format": FORMAT,
        "version": VERSION,
        "title": f"recorded on {time.strftime('%Y-%m-%d')}",
        "commands": commands,
        "files": {**kernel_files(root), **pci_files(root), **shared_memory(root), **process_files(root, listed)},
    }


# -- nvidia-smi ------------------------------------------------------------------------------------------------------


class Mask:
    """Replaces what identifies a GPU: a UUID by the same other one everywhere, serial numbers and the like by 0."""

    def __init__(self) -> None:
        self.seen: dict[str, str] = {}

    def __call__(self, text: str) -> str:
        """The text without what identifies, and without what nobody reads."""
        text = NOT_NEEDED.sub("", text)
        text = IDENTIFYING_ELEMENT.sub(r"<\1>0</\1>", text)
        text = PROCESS_NAME.sub(r"\1\2", text)
        return UUID.sub(lambda match: self._other(match.group().lower()), text)

    def _other(self, uuid: str) -> str:
        return self.seen.setdefault(uuid, f"00000000-0000-4000-8000-{len(self.seen):012d}")


def ask(nvidia_smi: str, query: list[str], mask: Callable[[str], str], timeout: float) -> list[dict[str, Any]]:
    """What nvidia-smi answers to a query; nothing if there is no such program."""
    try:
        process = subprocess.Popen([nvidia_smi, *query], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError:
        return []
    try:
        output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()  # and no waiting: with a wedged GPU it cannot end
        return [{"arguments": query, "hangs": True}]
    return [
        {
            "arguments": query,
            "status": process.returncode,
            "output": mask(output.decode("utf-8", "replace")),
            "errors": mask(errors.decode("utf-8", "replace")),
        }
    ]


# -- files -----------------------------------------------------------------------------------------------------------


def below(root: str, path: str) -> str:
    """The real place of a path of the host."""
    return os.path.join(root, path.lstrip("/"))


def read(root: str, path: str) -> str | None:
    """The content of a file of the host, None if it cannot be read."""
    try:
        with open(below(root, path), encoding="utf-8", errors="replace") as file:
            return file.read(1 << 20)
    except OSError:
        return None


def names(root: str, path: str) -> list[str]:
    """The names in a directory of the host, none if it cannot be read."""
    try:
        return sorted(os.listdir(below(root, path)))
    except OSError:
        return []


def link(root: str, path: str) -> str | None:
    """What a link of the host says, None if there is none."""
    try:
        return os.readlink(below(root, path))
    except OSError:
        return None


def lines(root: str, path: str, wanted: Callable[[str], object]) -> dict[str, Any]:
    """A file with the wanted lines of the real one; nothing if it cannot be read."""
    text = read(root, path)
    return {} if text is None else {path: "".join(line + "\n" for line in text.splitlines() if wanted(line))}


def kernel_files(root: str) -> dict[str, Any]:
    """Processor, memory, NUMA nodes, driver and parameters."""
    processor = (read(root, "/proc/cpuinfo") or "").split("\n\n")[0].splitlines()
    wanted = [line for line in processor if line.startswith(("vendor_id", "model name", "flags"))]
    arguments = [word for word in (read(root, "/proc/cmdline") or "").split() if RELEVANT_ARGUMENT.fullmatch(word)]
    files: dict[str, Any] = {
        "/proc/cpuinfo": "".join(line + "\n" for line in wanted),
        "/proc/cmdline": " ".join(["recorded", *arguments]) + "\n",
        **lines(root, "/proc/meminfo", lambda line: line.startswith("MemTotal:")),
        **lines(root, "/proc/mounts", lambda line: line.split()[1:2] == ["/dev/shm"]),
        **governors(root),
    }
    for pattern in KERNEL_FILES:
        for place in glob.glob(below(glob.escape(root), pattern)):
            path = "/" + os.path.relpath(place, root)
            text = read(root, path)
            if text is not None:
                files[path] = text
    return files


def governors(root: str) -> dict[str, Any]:
    """One frequency policy for each governor in use; hosts have hundreds of policies."""
    base = "/sys/devices/system/cpu/cpufreq"
    paths = [f"{base}/{name}/scaling_governor" for name in names(root, base) if name.startswith("policy")]
    found = {text: path for path in reversed(paths) for text in [read(root, path)] if text}
    return {path: text for text, path in found.items()}


def pci_files(root: str) -> dict[str, Any]:
    """The NVIDIA GPUs on the bus, and the bridges above them."""
    files: dict[str, Any] = {BUS: {"directory": True}} if os.path.isdir(below(root, BUS)) else {}
    for address in names(root, BUS):
        vendor, kind = (read(root, f"{BUS}/{address}/{name}") or "" for name in ("vendor", "class"))
        place = link(root, f"{BUS}/{address}")
        if vendor.strip() != "0x10de" or not kind.startswith(("0x0300", "0x0302")) or place is None:
            continue
        files.update(gpu_files(root, address, place))
        parts = place.split("/")
        for depth in [i for i, part in enumerate(parts[:-1]) if BUS_ADDRESS.fullmatch(part)]:
            bridge = "/".join(parts[: depth + 1])
            files[f"{BUS}/{parts[depth]}"] = {"link": bridge}
            files[os.path.normpath(f"{BUS}/{bridge}/config")] = config_space(root, parts[depth])
    return files


def gpu_files(root: str, address: str, place: str) -> dict[str, Any]:
    """One GPU in sysfs."""
    directory = os.path.normpath(f"{BUS}/{place}")
    files: dict[str, Any] = {f"{BUS}/{address}": {"link": place}}
    for name in ("vendor", "device", "class", "numa_node", "local_cpulist"):
        text = read(root, f"{BUS}/{address}/{name}")
        if text is not None:
            files[f"{directory}/{name}"] = text
    for name in ("driver", "iommu_group"):
        target = link(root, f"{BUS}/{address}/{name}")
        if target is not None:
            files[f"{directory}/{name}"] = {"link": target}
    group = f"/sys/kernel/iommu_groups/{os.path.basename(link(root, f'{BUS}/{address}/iommu_group') or '-')}/type"
    files.update(lines(root, group, bool))
    return files


def config_space(root: str, address: str) -> dict[str, Any]:
    """A bridge's configuration space with vendor, device, the chain of extended capabilities, and ACS; nothing else."""
    try:
        with open(below(root, f"{BUS}/{address}/config"), "rb") as file:
            content = file.read(4096)
    except OSError:
        content = b""
    kept = {0: content[:4].hex()} if content else {}
    offset = 0x100
    while 0x100 <= offset <= len(content) - 4 and offset not in kept:
        (header,) = struct.unpack_from("<I", content, offset)
        kept[offset] = content[offset : offset + (8 if header & 0xFFFF == ACS else 4)].hex()
        offset = (header >> 20) & 0xFFC
    return {"size": len(content), "bytes": {str(place): text for place, text in kept.items()}}


def shared_memory(root: str) -> dict[str, Any]:
    """The segments of inference servers in /dev/shm, by name and size."""
    files: dict[str, Any] = {}
    for name in names(root, "/dev/shm"):
        if name.startswith(SEGMENTS):
            size = os.lstat(below(root, f"/dev/shm/{name}")).st_size
            files[f"/dev/shm/{name}"] = {"size": min(size, 1 << 20), "bytes": {}}
    return files


def process_files(root: str, listed: list[str]) -> dict[str, Any]:
    """The processes that have a GPU or such a segment, and those that nvidia-smi lists."""
    files: dict[str, Any] = {}
    for pid in filter(str.isdigit, names(root, "/proc")):
        base = f"/proc/{pid}"
        opened = [(name, link(root, f"{base}/fd/{name}") or "") for name in names(root, f"{base}/fd")]
        held = [(name, target) for name, target in opened if is_held(target)]
        maps = "".join(line + "\n" for line in (read(root, f"{base}/maps") or "").splitlines() if is_segment(line))
        if not held and not maps and pid not in listed:
            continue
        files.update({f"{base}/fd/{name}": {"link": target} for name, target in held})
        files.setdefault(f"{base}/fd", {"directory": True})
        files[f"{base}/maps"] = maps
        files.update(lines(root, f"{base}/status", lambda line: line.startswith(STATUS_LINES)))
        files[f"{base}/cgroup"] = CONTAINER.sub("0" * 12, read(root, f"{base}/cgroup") or "")
        leader = re.search(r"^NSsid:\s+([1-9][0-9]*)", read(root, f"{base}/status") or "", re.MULTILINE)
        if leader and os.path.isdir(below(root, f"/proc/{leader.group(1)}")):
            files.setdefault(f"/proc/{leader.group(1)}", {"directory": True})
    return files


def is_held(target: str) -> bool:
    """Whether an open file is a GPU or a segment."""
    return target.startswith("/dev/nvidia") or is_segment(target)


def is_segment(text: str) -> bool:
    """Whether a path, or a line that ends with one, is a segment."""
    return os.path.basename(text).startswith(SEGMENTS)


if __name__ == "__main__":
    sys.exit(main())
