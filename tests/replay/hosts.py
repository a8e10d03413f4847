# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Invented hosts, as recordings: what tests see where there is no host with GPUs.

Usage: python tests/replay/hosts.py           lists the hosts
       python tests/replay/hosts.py NAME      prints the recording of one

The forms are those of real tools and kernels; all addresses, UUIDs, serial numbers and amounts are made up.
"""

from __future__ import annotations

import json
import struct
import sys
from dataclasses import dataclass, field, replace
from typing import Any, Callable

PairOfGpus = Callable[[int, int], str]


# -- what hosts are made of ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Edition:
    """A kind of GPU."""

    name: str
    device_id: str
    pci_class: str
    mig: str
    ecc: str
    watts: tuple[int, int, int]  # the least, the default and the greatest power limit
    memory_mib: int = 97887
    capability: str = "12.0"


SERVER = Edition(
    "NVIDIA RTX PRO 6000 Blackwell Server Edition", "2BB5", "0x030200", "Disabled", "Enabled", (300, 600, 600)
)
MAX_Q = Edition(
    "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "2BB4", "0x030000", "N/A", "Disabled", (250, 300, 325)
)
WORKSTATION = Edition(
    "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "2BB1", "0x030000", "Disabled", "Disabled", (150, 600, 600)
)
H100 = Edition("NVIDIA H100 PCIe", "2331", "0x030200", "Disabled", "Enabled", (200, 350, 350), 81559, "9.0")


@dataclass(frozen=True)
class Board:
    """A GPU in its slot."""

    address: str
    bridges: tuple[str, ...]  # above it, the root port first
    edition: Edition = SERVER
    node: int = 0
    used_mib: int = 0
    utilization: int = 0
    draw_w: float = 31.5
    recovery: str = "None"
    mig_devices: int = 0
    host_generation: int = 5
    driver: str = "nvidia"


@dataclass(frozen=True)
class Process:
    """A process that holds GPUs or shared memory."""

    pid: int
    name: str
    parent: int
    session: int
    gpus: tuple[int, ...] = ()
    memory_mib: int = 0
    listed: bool = True
    unit: str = ""
    segments: tuple[str, ...] = ()  # mapped names in /dev/shm


@dataclass(frozen=True)
class Host:
    """A whole host."""

    title: str
    boards: tuple[Board, ...]
    links: PairOfGpus
    p2p: PairOfGpus = lambda i, j: "OK"
    node_cpus: tuple[str, ...] = ("0-63",)
    processor: tuple[str, str] = ("AuthenticAMD", "AMD EPYC 9575F 64-Core Processor")
    command_line: str = "BOOT_IMAGE=/vmlinuz-6.12.0 root=/dev/md0 ro iommu=pt"
    group_type: str = "identity"  # of the GPUs' IOMMU groups; empty: they are in none
    acs_control: int = 0x11  # SrcValid and UpstreamFwd, as firmware leaves it where redirect is off
    driver: str = "590.48.01"
    flavour: str = "open"
    persistence: str = "Enabled"
    registry_words: str = ""
    disable_hmm: str = "N"
    processes: tuple[Process, ...] = ()
    segments: dict[str, int] = field(default_factory=dict)  # name in /dev/shm: size
    virtual: bool = False
    governor: str = "performance"
    failure: tuple[int, str] | None = None  # status and output of every nvidia-smi
    hangs: bool = False


ACS_REDIRECT = 0x1D  # SrcValid, ReqRedir, CmpltRedir, UpstreamFwd


# -- what nvidia-smi says --------------------------------------------------------------------------------------------


def uuid(index: int) -> str:
    """The invented UUID of a GPU."""
    return f"GPU-5ee50000-0000-4000-8000-{index:012d}"


def minor(host: Host, index: int) -> int:
    """The number of the device file. The kernel counts in another order than nvidia-smi."""
    return (index + len(host.boards) // 2) % len(host.boards)


def elements(indent: int, content: dict[str, Any]) -> str:
    """XML elements as nvidia-smi indents them. Lists repeat an element."""
    tabs = "\t" * indent
    text = ""
    for name, value in content.items():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, dict):
                text += f"{tabs}<{name}>\n{elements(indent + 1, item)}{tabs}</{name}>\n"
            else:
                text += f"{tabs}<{name}>{item}</{name}>\n"
    return text


def gpu_element(host: Host, index: int) -> str:
    """The <gpu> element of one GPU, with the parts that anybody reads."""
    board = host.boards[index]
    edition = board.edition
    content = {
        "product_name": edition.name,
        "product_architecture": "Blackwell" if edition.capability == "12.0" else "Hopper",
        "persistence_mode": host.persistence,
        "addressing_mode": "HMM" if host.disable_hmm == "N" else "None",
        "mig_mode": {"current_mig": "Enabled" if board.mig_devices else edition.mig, "pending_mig": edition.mig},
        "mig_devices": {"mig_device": [{"index": i, "gpu_instance_id": 3 + i} for i in range(board.mig_devices)]},
        "serial": f"17900000000{index:02d}",
        "uuid": uuid(index),
        "minor_number": minor(host, index),
        "gpu_recovery_action": board.recovery,
        "pci": pci_element(board),
        **gpu_amounts(board),
        "processes": {"process_info": listed_processes(host, index)},
    }
    return f'\t<gpu id="0000{board.address.upper()}">\n{elements(2, content)}\t</gpu>\n\n'


def pci_element(board: Board) -> dict[str, Any]:
    """Address and link of a GPU. An idle link runs at generation 1."""
    generation = min(5, board.host_generation)
    return {
        "pci_device_id": f"{board.edition.device_id}10DE",
        "pci_bus_id": f"0000{board.address.upper()}",
        "pci_gpu_link_info": {
            "pcie_gen": {
                "max_link_gen": generation,
                "current_link_gen": generation if board.utilization else 1,
                "max_device_link_gen": 5,
                "max_host_link_gen": board.host_generation,
            },
            "link_widths": {"max_link_width": "16x", "current_link_width": "16x"},
        },
    }


def gpu_amounts(board: Board) -> dict[str, Any]:
    """Memory, load and power of a GPU."""
    least, default, greatest = board.edition.watts
    return {
        "fb_memory_usage": {"total": f"{board.edition.memory_mib} MiB", "used": f"{board.used_mib} MiB"},
        "bar1_memory_usage": {"total": "131072 MiB", "used": f"{board.used_mib} MiB"},
        "utilization": {"gpu_util": f"{board.utilization} %", "memory_util": "0 %"},
        "ecc_mode": {"current_ecc": board.edition.ecc, "pending_ecc": board.edition.ecc},
        "gpu_power_readings": {
            "average_power_draw": f"{board.draw_w:.2f} W",
            "instant_power_draw": f"{board.draw_w:.2f} W",
            "current_power_limit": f"{default}.00 W",
            "min_power_limit": f"{least}.00 W",
            "max_power_limit": f"{greatest}.00 W",
        },
    }


def listed_processes(host: Host, index: int) -> list[dict[str, Any]]:
    """The <process_info> elements of one GPU."""
    return [
        {
            "gpu_instance_id": "N/A",
            "pid": process.pid,
            "type": "C",
            "process_name": process.name,
            "used_memory": f"{process.memory_mib} MiB",
        }
        for process in host.processes
        if process.listed and index in process.gpus
    ]


def query_xml(host: Host) -> str:
    """The output of `nvidia-smi -q -x`."""
    return (
        '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">\n<nvidia_smi_log>\n'
        f"\t<driver_version>{host.driver}</driver_version>\n\t<cuda_version>13.1</cuda_version>\n"
        f"\t<attached_gpus>{len(host.boards)}</attached_gpus>\n"
        + "".join(gpu_element(host, index) for index in range(len(host.boards)))
        + "</nvidia_smi_log>\n"
    )


def capabilities(host: Host) -> str:
    """The output of the query for the compute capabilities."""
    rows = enumerate(host.boards)
    return "".join(f"{i}, 0000{board.address.upper()}, {board.edition.capability}\n" for i, board in rows)


def topology(host: Host) -> str:
    """The output of `nvidia-smi topo -m`, with underline escapes and two tabs before the last column."""
    names = [f"GPU{i}" for i in range(len(host.boards))]
    header = "\t\x1b[4m" + "\t".join([*names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID\x1b[0m"])
    lines = [header]
    for i, board in enumerate(host.boards):
        cells = [" X " if i == j else host.links(i, j) for j in range(len(names))]
        lines.append("\t".join([names[i], *cells, host.node_cpus[board.node], str(board.node), "", "N/A"]))
    return "\n".join([*lines, "", "Legend:", "", "  X    = Self", "  SYS  = Connection traversing PCIe", ""])


def peer_to_peer(host: Host) -> str:
    """The output of `nvidia-smi topo -p2p r`."""
    names = [f"GPU{i}" for i in range(len(host.boards))]
    rows = [["X" if i == j else host.p2p(i, j) for j in range(len(names))] for i in range(len(names))]
    lines = [" \t" + "\t".join(names) + "\t"]
    lines += [" " + "\t".join([name, *row]) + "\t" for name, row in zip(names, rows)]
    return "\n".join([*lines, "", "Legend:", "", "  X    = Self", "  OK   = Status Ok", ""])


def commands(host: Host) -> list[dict[str, Any]]:
    """The answers of nvidia-smi."""
    answers: list[tuple[list[str], Callable[[Host], str]]] = [
        (["-q", "-x"], query_xml),
        (["--query-gpu=index,pci.bus_id,compute_cap", "--format=csv,noheader"], capabilities),
        (["topo", "-m"], topology),
        (["topo", "-p2p", "r"], peer_to_peer),
    ]
    if host.hangs:
        return [{"arguments": arguments, "hangs": True} for arguments, answer in answers]
    return [
        {
            "arguments": arguments,
            "status": host.failure[0] if host.failure else 0,
            "output": host.failure[1] if host.failure else answer(host),
            "errors": "",
        }
        for arguments, answer in answers
    ]


# -- what the kernel shows -------------------------------------------------------------------------------------------


def config_space(device_id: int, acs_control: int | None) -> dict[str, Any]:
    """A bridge's configuration space: an error reporting capability, and after it ACS, if the bridge has it."""
    following = 0x2A0 if acs_control is not None else 0
    content = {
        "0": struct.pack("<HH", 0x1022, device_id).hex(),
        str(0x100): struct.pack("<I", 0x0001 | 2 << 16 | following << 20).hex(),
    }
    if acs_control is not None:
        content[str(0x2A0)] = struct.pack("<IHH", 0x000D | 1 << 16, 0x5F, acs_control).hex()
    return {"size": 4096, "bytes": content}


def pci_files(host: Host) -> dict[str, Any]:
    """The GPUs and the bridges above them, as sysfs shows them."""
    files: dict[str, Any] = {"/sys/bus/pci/devices": {"directory": True}}
    for index, board in enumerate(host.boards):
        place = f"pci{board.bridges[0][:7]}" if board.bridges else "pci0000:00"
        for depth, bridge in enumerate(board.bridges):
            place += f"/{bridge}"
            has_acs = depth == 0 or depth % 2 == 0  # root port and downstream ports; upstream ports have none
            files[f"/sys/bus/pci/devices/{bridge}"] = {"link": f"../../../devices/{place}"}
            files[f"/sys/devices/{place}/vendor"] = "0x1022\n"
            files[f"/sys/devices/{place}/class"] = "0x060400\n"
            files[f"/sys/devices/{place}/config"] = config_space(0x153E, host.acs_control if has_acs else None)
        place += f"/{board.address}"
        files[f"/sys/bus/pci/devices/{board.address}"] = {"link": f"../../../devices/{place}"}
        files.update({f"/sys/devices/{place}/{name}": entry for name, entry in gpu_attributes(host, index).items()})
    return files


def gpu_attributes(host: Host, index: int) -> dict[str, Any]:
    """The files in a GPU's directory in sysfs."""
    board = host.boards[index]
    several = len(host.node_cpus) > 1
    attributes: dict[str, Any] = {
        "vendor": "0x10de\n",
        "device": f"0x{board.edition.device_id.lower()}\n",
        "class": f"{board.edition.pci_class}\n",
        "numa_node": f"{board.node if several or not host.virtual else -1}\n",
        "local_cpulist": f"{host.node_cpus[board.node]}\n",
    }
    if board.driver:
        attributes["driver"] = {"link": f"../../../../bus/pci/drivers/{board.driver}"}
    if host.group_type:
        attributes["iommu_group"] = {"link": f"../../../../kernel/iommu_groups/{20 + index}"}
    return attributes


def kernel_files(host: Host) -> dict[str, Any]:
    """Processor, memory, NUMA nodes, IOMMU groups and module parameters."""
    vendor, model = host.processor
    flags = "fpu vme sse2 ht" + (" hypervisor" if host.virtual else "")
    files: dict[str, Any] = {
        "/proc/cpuinfo": f"processor\t: 0\nvendor_id\t: {vendor}\nmodel name\t: {model}\nflags\t\t: {flags}\n",
        "/proc/cmdline": f"{host.command_line}\n",
        "/proc/meminfo": "MemTotal:       1056763060 kB\nMemFree:        903000000 kB\n",
        "/proc/mounts": "tmpfs /dev/shm tmpfs rw,nosuid,nodev,inode64 0 0\n",
        "/proc/sys/kernel/numa_balancing": "0\n",
        "/sys/devices/system/cpu/cpufreq/policy0/scaling_governor": f"{host.governor}\n",
    }
    for number, cpus in enumerate(host.node_cpus):
        files[f"/sys/devices/system/node/node{number}/cpulist"] = f"{cpus}\n"
    for index in range(len(host.boards) if host.group_type else 0):
        files[f"/sys/kernel/iommu_groups/{20 + index}/type"] = f"{host.group_type}\n"
    if any(board.driver == "nvidia" for board in host.boards):
        files.update(driver_files(host))
    return files


def driver_files(host: Host) -> dict[str, Any]:
    """What the loaded driver shows."""
    kind = "Open Kernel Module for x86_64 " if host.flavour == "open" else "x86_64 Kernel Module "
    return {
        "/proc/driver/nvidia/version": f"NVRM version: NVIDIA UNIX {kind} {host.driver}  Release Build\n"
        "GCC version:  gcc version 13.3.0\n",
        "/proc/driver/nvidia/params": "EnableResizableBar: 0\nDmaRemapPeerMmio: 1\nGrdmaPciTopoCheckOverride: 0\n"
        f'RegistryDwords: "{host.registry_words}"\n',
        "/sys/module/nvidia_uvm/parameters/uvm_disable_hmm": f"{host.disable_hmm}\n",
        "/sys/module/nvidia_uvm/parameters/uvm_ats_mode": "1\n",
    }


def process_files(host: Host) -> dict[str, Any]:
    """The processes that hold something, and /dev/shm."""
    files: dict[str, Any] = {"/dev/shm": {"directory": True}}
    for name, size in host.segments.items():
        files[f"/dev/shm/{name}"] = {"size": size, "bytes": {}}
    for process in host.processes:
        base = f"/proc/{process.pid}"
        files[f"{base}/status"] = (
            f"Name:\t{process.name[:15]}\nState:\tS (sleeping)\nPPid:\t{process.parent}\n"
            f"Uid:\t990\t990\t990\t990\nNSsid:\t{process.session}\n"
        )
        slice_ = f"/system.slice/{process.unit}" if process.unit else "/user.slice"
        files[f"{base}/cgroup"] = f"0::{slice_}\n"
        files[f"{base}/maps"] = "55d0c0000000-55d0c0001000 r-xp 00000000 08:01 131 /usr/bin/python3.12\n" + "".join(
            f"7f00{i:08x}-7f00{i + 1:08x} rw-s 00000000 00:1a {77 + i} /dev/shm/{name}\n"
            for i, name in enumerate(process.segments)
        )
        devices = [f"/dev/nvidia{minor(host, index)}" for index in process.gpus]
        opened = ["/dev/null", *(["/dev/nvidiactl", "/dev/nvidia-uvm", *devices] if devices else [])]
        files.update({f"{base}/fd/{number}": {"link": path} for number, path in enumerate(opened)})
    return files


def recording(name: str) -> dict[str, Any]:
    """The recording of a host. Raises KeyError if there is none of this name."""
    host = HOSTS[name]
    return {
        "format": "blackwell.inference recording",
        "version": 1,
        "title": host.title,
        "commands": commands(host),
        "files": {**kernel_files(host), **pci_files(host), **process_files(host)},
    }


# -- the hosts -------------------------------------------------------------------------------------------------------


def two_sockets(i: int, j: int) -> str:
    """Directly attached, four GPUs a socket."""
    return "NODE" if i // 4 == j // 4 else "SYS"


def behind_switches(i: int, j: int) -> str:
    """Two GPUs a switch, two switches a socket."""
    return "PIX" if i // 2 == j // 2 else two_sockets(i, j)


def mixed_links(i: int, j: int) -> str:
    """The first GPU is alone on node 1; of the others, two reach each other over SYS inside one socket."""
    if 0 in (i, j):
        return "SYS"
    return "SYS" if {i, j} == {1, 3} else "PHB"


def mixed_p2p(i: int, j: int) -> str:
    """GPUs of two architectures have no peer access."""
    return "NS" if 3 in (i, j) else "OK" if 0 not in (i, j) else "CNS"


def server_boards(**settings: Any) -> tuple[Board, ...]:
    """Eight Server Edition boards, each on its own root port, four a socket."""
    buses = ("01", "21", "41", "61", "81", "a1", "c1", "e1")
    return tuple(
        Board(f"0000:{bus}:00.0", (f"0000:{bus[0]}0:01.1",), node=i // 4, **settings) for i, bus in enumerate(buses)
    )


def switched_boards() -> tuple[Board, ...]:
    """Eight Server Edition boards behind four switches."""
    boards = []
    for i, root in enumerate(("00", "40", "80", "c0")):
        upstream, inside = f"{root[0]}1", f"{root[0]}2"
        for port in range(2):
            bridges = (f"0000:{root}:01.1", f"0000:{upstream}:00.0", f"0000:{inside}:0{port}.0")
            boards.append(Board(f"0000:{root[0]}{3 + port}:00.0", bridges, node=i // 2))
    return tuple(boards)


def desk_boards(edition: Edition, count: int, generation: int) -> tuple[Board, ...]:
    """Boards of a workstation with one socket."""
    return tuple(
        Board(f"0000:{bus}1:00.0", (f"0000:{bus}0:01.1",), edition, host_generation=generation)
        for bus in "2468"[:count]
    )


TWO_SOCKET_CPUS = ("0-47,96-143", "48-95,144-191")
COMMUNICATE = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running.\n\n"
)

SERVER_8X = Host(
    "8x RTX PRO 6000 Server Edition, two sockets, directly attached; IOMMU translated, ACS redirect on",
    server_boards(),
    two_sockets,
    node_cpus=TWO_SOCKET_CPUS,
    command_line="BOOT_IMAGE=/vmlinuz-6.12.0 root=/dev/md0 ro amd_iommu=on",
    group_type="DMA-FQ",
    acs_control=ACS_REDIRECT,
    persistence="Disabled",
    governor="schedutil",
)
SWITCHES_8X = Host(
    "8x RTX PRO 6000 Server Edition behind four switches, two sockets; IOMMU passed through, ACS redirect off",
    switched_boards(),
    behind_switches,
    node_cpus=TWO_SOCKET_CPUS,
    disable_hmm="Y",
)
SERVED = tuple(replace(board, used_mib=92160, utilization=97, draw_w=412.0) for board in switched_boards())
WORKERS = tuple(
    Process(
        41001 + i,
        f"VLLM::Worker_TP{i}",
        41000,
        40990,
        (i,),
        92150,
        unit="specdecode@main.service",
        segments=("psm_live01",),
    )
    for i in range(8)
)

HOSTS: dict[str, Host] = {
    "server-8x-two-sockets": SERVER_8X,
    "server-8x-switches": SWITCHES_8X,
    "max-q-4x": Host(
        "4x RTX PRO 6000 Max-Q, one socket limited to PCIe generation 4; IOMMU off",
        desk_boards(MAX_Q, 4, 4),
        lambda i, j: "PHB",
        node_cpus=("0-63",),
        processor=("AuthenticAMD", "AMD Ryzen Threadripper PRO 7975WX 32-Cores"),
        command_line="BOOT_IMAGE=/vmlinuz-6.12.0 ro amd_iommu=off iommu=off",
        group_type="",
    ),
    "workstation-2x": Host(
        "2x RTX PRO 6000 Workstation Edition, one socket",
        desk_boards(WORKSTATION, 2, 5),
        lambda i, j: "NODE",
        node_cpus=("0-55",),
        processor=("GenuineIntel", "Intel(R) Xeon(R) w7-3565X"),
        command_line="BOOT_IMAGE=/vmlinuz-6.12.0 ro intel_iommu=on iommu=pt",
        registry_words="ForceP2P=0x11;RMForceP2PType=1",
    ),
    "mixed": Host(
        "4 GPUs of three kinds, the first on node 1; SYS inside a socket; peer access only between some",
        (
            Board("0000:81:00.0", ("0000:80:01.1",), SERVER, node=1),
            Board("0000:01:00.0", ("0000:00:01.1",), SERVER),
            Board("0000:21:00.0", ("0000:20:01.1",), MAX_Q),
            Board("0000:41:00.0", ("0000:40:01.1",), H100),
        ),
        mixed_links,
        mixed_p2p,
        node_cpus=TWO_SOCKET_CPUS,
    ),
    "mig-on": Host(
        "2x RTX PRO 6000 Server Edition, MIG on with four devices each",
        tuple(replace(board, mig_devices=4) for board in server_boards()[:2]),
        two_sockets,
        node_cpus=("0-47",),
    ),
    "driver-dead": replace(
        SERVER_8X,
        title="8x RTX PRO 6000 Server Edition, nvidia-smi cannot talk to the driver, no module is bound",
        boards=server_boards(driver=""),
        failure=(9, COMMUNICATE),
    ),
    "driver-mismatch": replace(
        SERVER_8X,
        title="8x RTX PRO 6000 Server Edition, driver upgraded without a reboot",
        failure=(
            18,
            "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 595.58\n",
        ),
    ),
    "proprietary-driver": replace(
        SWITCHES_8X,
        title="8x RTX PRO 6000 Server Edition with the proprietary modules, which find no Blackwell GPU",
        flavour="proprietary",
        failure=(6, "No devices were found\n"),
    ),
    "gpu-lost": replace(
        SWITCHES_8X,
        title="8x RTX PRO 6000 Server Edition, one fell off the bus",
        failure=(255, "Unable to determine the device handle for GPU3: 0000:44:00.0: Unknown Error\n"),
    ),
    "driver-hung": replace(SWITCHES_8X, title="8x RTX PRO 6000 Server Edition, nvidia-smi never ends", hangs=True),
    "wedged": replace(
        SWITCHES_8X,
        title="8x RTX PRO 6000 Server Edition, two busy at 100 % with no process after a hang",
        boards=tuple(
            replace(board, utilization=100, draw_w=118.5, recovery="Reset") if i in (2, 3) else board
            for i, board in enumerate(switched_boards())
        ),
    ),
    "serving": replace(
        SWITCHES_8X,
        title="8x RTX PRO 6000 Server Edition serving, everything in order",
        boards=SERVED,
        processes=(
            Process(41000, "vllm", 1, 41000, unit="specdecode@main.service"),
            *(replace(worker, session=41000) for worker in WORKERS),
        ),
        segments={"psm_live01": 65536},
    ),
    "orphans": replace(
        SWITCHES_8X,
        title="8x RTX PRO 6000 Server Edition, workers and shared memory left by a killed server",
        boards=SERVED,
        processes=(
            *(replace(worker, parent=1, segments=()) for worker in WORKERS[:7]),
            replace(WORKERS[7], parent=1, listed=False, segments=("psm_live01",)),
        ),
        segments={"psm_live01": 65536, "nccl-Ab12Cd": 131072, "vllm_offload_41000": 4096, "sem.mp-x": 32},
    ),
    "virtual-machine": replace(
        SERVER_8X,
        title="8x RTX PRO 6000 Server Edition passed through to a virtual machine",
        boards=tuple(
            replace(board, bridges=(), address=f"0000:00:{i:02x}.0") for i, board in enumerate(server_boards(), 5)
        ),
        links=lambda i, j: "PHB",
        group_type="",
        virtual=True,
    ),
}


def main(arguments: list[str]) -> int:
    """List the hosts, or print the recording of one. Returns the exit status."""
    if not arguments:
        print("\n".join(f"{name:24}{host.title}" for name, host in HOSTS.items()))
        return 0
    if len(arguments) > 1 or arguments[0] not in HOSTS:
        print("usage: python tests/replay/hosts.py [NAME]; without a name it lists them", file=sys.stderr)
        return 2
    print(json.dumps(recording(arguments[0]), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
