# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preflight: GPUs and their driver. Each function states the fact that breaks its rule, or nothing.

Where no GPU answers, `gpu_driver` says so, and the checks of single GPUs have nothing to judge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible_collections.blackwell.inference.plugins.plugin_utils._preflight_model import (
    Answer,
    Broken,
    Facts,
    Unknown,
    Wants,
    release_of,
)

Gpu = Mapping[str, Any]

BLACKWELL = (10, 0)  # the first compute capability of the generation
FULL_WIDTH = 16
BUSY_PERCENT = 95

DRIVER_INSTALL = (
    "install an NVIDIA driver with open kernel modules (Ubuntu: apt-get install nvidia-driver-580-server-open), reboot "
    "and try nvidia-smi; a node without GPUs is declared by node_preflight_hardware: cpu"
)
OPEN_MODULES = (
    "Blackwell works with the open kernel modules only: install them (Ubuntu: apt-get install "
    "nvidia-driver-580-server-open), then reboot"
)
# By whether a GPU is Blackwell: the first CUDA, and the driver from which on it works.
CUDA_DRIVERS = {False: (((13,), 580), ((0,), 525)), True: (((13,), 580), ((0,), 570))}
# What mends a driver that does not work, by the state that gpu_node_facts tells.
DRIVER_REMEDIES = {
    "no-program": "install the driver's utilities of the same release (Ubuntu: nvidia-utils-580-server)",
    "not-running": "load the module (modprobe nvidia), read dmesg; after a kernel update rebuild it (dkms autoinstall)",
    "mismatch": "the driver was updated under a loaded kernel module: reboot the node",
    "no-devices": "look for Xid and RmInit in dmesg, then power-cycle the node",
    "gpu-lost": "a GPU fell off the bus: look for Xid 79 in dmesg, then power-cycle the node",
    "hung": "a GPU is wedged: read dmesg, then reboot the node; a restart of the server can't help",
    "failed": "run nvidia-smi on the node and read dmesg",
}


def gpus_of(facts: Facts) -> list[Gpu]:
    """The GPUs that the driver describes; none where it describes none."""
    gpus = facts.get("gpu_node.gpus")
    return [] if isinstance(gpus, Unknown) else list(gpus)


def named(gpus: Iterable[Gpu]) -> str:
    """`GPU 0`, or `GPUs 0, 1, 5`."""
    numbers = [str(gpu["index"]) for gpu in gpus]
    return ("GPU " if len(numbers) == 1 else "GPUs ") + ", ".join(numbers)


def judge_each(facts: Facts, key: str, judge: Callable[[Gpu], str]) -> Answer:
    """Judge every GPU that tells `key`; GPUs with the same fault are named together.

    `judge` returns what is wrong with a GPU, or an empty text. Where no fault is found and a GPU does not tell `key`,
    the answer is Unknown.
    """
    faults: dict[str, list[Gpu]] = {}
    silent: Answer = None
    for gpu in gpus_of(facts):
        if gpu.get(key) is None:
            reason = facts.reason("gpu_node", f"gpus.{gpu['index']}.{key}") or f"it does not tell its {key}"
            silent = silent or Unknown(f"{named([gpu])}: {reason}")
        elif fault := judge(gpu):
            faults.setdefault(fault, []).append(gpu)
    if faults:
        return Broken("; ".join(f"{named(gpus)}: {fault}" for fault, gpus in faults.items()))
    return silent


def capability(gpu: Gpu) -> tuple[int, ...]:
    """The compute capability as numbers; empty where it is not known."""
    return release_of(gpu.get("compute_capability") or "")


def is_blackwell(gpu: Gpu) -> bool:
    """Whether a GPU is of the Blackwell generation, or later."""
    return capability(gpu) >= BLACKWELL


def may_be_blackwell(facts: Facts) -> bool:
    """Whether a GPU is Blackwell; one that does not tell its capability is held for what these roles are made for."""
    return any(is_blackwell(gpu) or not capability(gpu) for gpu in gpus_of(facts))


def gpu_driver(facts: Facts, _wants: Wants) -> Answer:
    """A driver that answers and has GPUs. Not knowing the GPUs is the failure itself, so it is never milder."""
    if gpus_of(facts):
        return None
    gpus, state = facts.get("gpu_node.gpus"), facts.get("gpu_node.driver.state")
    reasons = [facts.reason("gpu_node", "driver"), facts.reason("gpu_node", "gpus")]
    why = "; ".join(dict.fromkeys(filter(None, reasons))) or (
        gpus.reason if isinstance(gpus, Unknown) else "it names no GPU"
    )
    if state == "no-devices" and facts.get("gpu_node.driver.flavour") == "proprietary":
        return Broken(f"the node is declared gpu, and its proprietary kernel modules know no GPU: {why}", OPEN_MODULES)
    remedy = DRIVER_REMEDIES.get(state, "") if isinstance(state, str) else ""
    return Broken(f"the node is declared gpu, and no GPU can be used: {why}", remedy or DRIVER_INSTALL)


def gpu_missing(facts: Facts, _wants: Wants) -> Answer:
    """GPUs that the bus or the driver counts, and the driver does not describe."""
    gpus, on_bus = gpus_of(facts), facts.get("gpu_node.pci_gpus")
    if not gpus:
        return None
    why = facts.reason("gpu_node", "gpus")
    if why:
        return Broken(why)
    if isinstance(on_bus, Unknown):
        return on_bus
    described = {gpu["bus_id"] for gpu in gpus}
    missing = [gpu for gpu in on_bus if gpu["bus_id"] not in described]
    return Broken("; ".join(_unseen(gpu) for gpu in missing)) if missing else None


def _unseen(gpu: Gpu) -> str:
    bound = f"the kernel driver {gpu['driver']} has it" if gpu["driver"] else "no kernel driver has it"
    return f"the GPU at {gpu['bus_id']} is on the bus, and nvidia-smi does not know it ({bound})"


def driver_flavour(facts: Facts, _wants: Wants) -> Answer:
    """Blackwell works with open kernel modules only."""
    flavour = facts.get("gpu_node.driver.flavour")
    if flavour == "open" or not may_be_blackwell(facts):
        return None
    if isinstance(flavour, Unknown):
        return flavour
    return judge_each(
        facts,
        "compute_capability",
        lambda gpu: f"Blackwell, and the {flavour} kernel modules are loaded" if is_blackwell(gpu) else "",
    )


def driver_version(facts: Facts, wants: Wants) -> Answer:
    """The driver that the CUDA of the lock needs on these GPUs."""
    gpus, version = gpus_of(facts), facts.get("gpu_node.driver.version")
    if not gpus or not wants.cuda:
        return None
    if isinstance(version, Unknown):
        return version
    needed = next(driver for first, driver in CUDA_DRIVERS[may_be_blackwell(facts)] if release_of(wants.cuda) >= first)
    if release_of(version) >= (needed,):
        return None
    return Broken(f"the driver is {version}, and CUDA {wants.cuda} of the lock needs {needed} or later on these GPUs")


def lock_cuda(facts: Facts, wants: Wants) -> Answer:
    """The first CUDA with code for sm_120 is 12.8."""
    if not wants.cuda or release_of(wants.cuda) >= (12, 8):
        return None
    return judge_each(
        facts,
        "compute_capability",
        lambda gpu: f"Blackwell, and the lock's CUDA is {wants.cuda}" if is_blackwell(gpu) else "",
    )


def nccl_release(facts: Facts, wants: Wants) -> Answer:
    """Releases of NCCL that fail or crash on Blackwell."""
    if not wants.nccl or wants.tensor_parallel < 2 or release_of(wants.nccl) >= (2, 27):
        return None
    return judge_each(
        facts,
        "compute_capability",
        lambda gpu: f"Blackwell, and the lock's NCCL is {wants.nccl}" if is_blackwell(gpu) else "",
    )


def torch_arch(facts: Facts, _wants: Wants) -> Answer:
    """Code in the installed torch for every GPU. Before there is an environment there is nothing to judge."""
    torch = facts.get("node.torch")
    if isinstance(torch, Unknown):
        return torch
    if not torch["installed"] or not gpus_of(facts):
        return None
    if not torch["cuda"]:
        return Broken(f"torch {torch['release']} of the environment is built without CUDA")
    if not torch["arch_list"]:
        return Unknown(f"torch {torch['release']} names no architectures: it sees no GPU")
    built = ", ".join(torch["arch_list"])
    return judge_each(
        facts,
        "compute_capability",
        lambda gpu: (
            ""
            if runs_on(capability(gpu), torch["arch_list"])
            else f"compute capability {gpu['compute_capability']}, and torch {torch['release']} is built for {built}"
        ),
    )


def runs_on(wanted: tuple[int, ...], architectures: Iterable[str]) -> bool:
    """Whether code for one of the architectures (`sm_90a`, `sm_120`, `compute_90`) runs on a compute capability.

    Machine code runs on the same major number with an equal or higher minor one, with the suffix `a` on exactly its
    own; PTX (`compute_`) is compiled for any later one. CUDA C++ Programming Guide, "Compute Capability".
    """
    for name in architectures:
        kind, dummy, number = name.partition("_")
        digits = number.rstrip("af")
        if not digits.isdigit():
            continue
        built = (int(digits[:-1] or 0), int(digits[-1]))
        exact = number.endswith("a")
        if kind == "compute" and not exact and built <= wanted:
            return True
        if kind == "sm" and built[0] == wanted[0] and (built == wanted or (built <= wanted and not exact)):
            return True
    return False


def gpu_count(facts: Facts, wants: Wants) -> Answer:
    """A GPU for every rank."""
    count = len(gpus_of(facts))
    if not count or count >= wants.tensor_parallel:
        return None
    return Broken(f"the node has {count} GPUs, and tensor parallelism wants {wants.tensor_parallel}")


def gpu_mixed(facts: Facts, wants: Wants) -> Answer:
    """Ranks of one kind."""
    if wants.tensor_parallel < 2:
        return None
    kinds: dict[str, list[Gpu]] = {}
    for gpu in gpus_of(facts):
        if gpu.get("name") is None or gpu.get("memory_mib") is None:
            return Unknown(f"{named([gpu])} does not tell its name or its memory")
        kinds.setdefault(f"{gpu['name']} with {gpu['memory_mib']} MiB", []).append(gpu)
    if len(kinds) < 2:
        return None
    return Broken("; ".join(f"{named(gpus)}: {kind}" for kind, gpus in kinds.items()))


def gpu_mig(facts: Facts, _wants: Wants) -> Answer:
    """GPUs that are not cut up. A GPU that says nothing about MIG has none."""
    found = judge_each(facts, "mig", lambda gpu: "MIG is on" if gpu["mig"] else "")
    return found if isinstance(found, Broken) else None


def link_width(facts: Facts, _wants: Wants) -> Answer:
    """All lanes, in the slot and in use: the width does not change when a GPU idles, as the generation does."""

    def judge(gpu: Gpu) -> str:
        widest, current = gpu["pcie_width_max"], gpu.get("pcie_width_current")
        if widest < FULL_WIDTH:
            return f"the slot has {widest} of {FULL_WIDTH} lanes"
        return f"{current} of {widest} lanes are in use" if current is not None and current < widest else ""

    return judge_each(facts, "pcie_width_max", judge)


def link_generation(facts: Facts, _wants: Wants) -> Answer:
    """A slot as fast as the GPU, by the maximum of both: idle links run at generation 1."""

    def judge(gpu: Gpu) -> str:
        common, own = gpu["pcie_generation_max"], gpu.get("pcie_generation_max_device")
        return f"the slot allows generation {common}, the GPU {own}" if own is not None and common < own else ""

    return judge_each(facts, "pcie_generation_max", judge)


def bar1(facts: Facts, _wants: Wants) -> Answer:
    """A window onto the whole memory, for peers."""

    def judge(gpu: Gpu) -> str:
        memory = gpu.get("memory_mib")
        small = memory is not None and gpu["bar1_mib"] < memory
        return f"BAR1 has {gpu['bar1_mib']} MiB for {memory} MiB of memory" if small else ""

    return judge_each(facts, "bar1_mib", judge)


def persistence(facts: Facts, _wants: Wants) -> Answer:
    """A driver that stays initialised between processes."""
    return judge_each(facts, "persistence", lambda gpu: "" if gpu["persistence"] else "persistence mode is off")


def gpu_wedged(facts: Facts, _wants: Wants) -> Answer:
    """GPUs that are busy without a process, or that the driver wants to be reset."""

    def judge(gpu: Gpu) -> str:
        action = gpu.get("recovery_action")
        if action not in (None, "none"):
            return f"the driver asks for recovery: {action}"
        if gpu["utilization_percent"] < BUSY_PERCENT or _may_be_held(facts, gpu):
            return ""
        power = gpu.get("power_draw_w")
        return (
            f"{gpu['utilization_percent']} % busy"
            + (f" at {power:.0f} W" if power else "")
            + " and no process holds it"
        )

    return judge_each(facts, "utilization_percent", judge)


def _may_be_held(facts: Facts, gpu: Gpu) -> bool:
    """Whether a process holds a GPU, or may: where processes can't all be seen, nobody is called absent."""
    processes = facts.get("gpu_node.processes")
    if isinstance(processes, Unknown) or facts.reason("gpu_node", "processes.unlisted"):
        return True
    return any(process["gpus"] is None or gpu["index"] in process["gpus"] for process in processes)


def gpu_orphans(facts: Facts, _wants: Wants) -> Answer:
    """Processes on GPUs that nobody looks after any more."""
    processes = facts.get("gpu_node.processes")
    if isinstance(processes, Unknown):
        return processes if gpus_of(facts) else None
    orphans = [process for process in processes if process["orphan"]]
    if not orphans:
        return None
    pids = " ".join(str(process["pid"]) for process in orphans)
    return Broken(
        "; ".join(_holder(process) for process in orphans),
        f"look what they are (ps -fp {pids.replace(' ', ',')}), then end them (kill {pids})",
    )


def gpu_busy(facts: Facts, wants: Wants) -> Answer:
    """Other processes on the GPUs, that someone does look after. Our own server is no finding."""
    processes = facts.get("gpu_node.processes")
    if isinstance(processes, Unknown):
        return None
    others = [process for process in processes if not process["orphan"] and process["unit"] != wants.unit]
    return Broken("; ".join(_holder(process) for process in others)) if others else None


def _holder(process: Mapping[str, Any]) -> str:
    name = f"{process['name'] or 'a process'} ({process['pid']}{', ' + process['unit'] if process['unit'] else ''})"
    where = "a GPU" if process["gpus"] is None else named([{"index": index} for index in process["gpus"]])
    amount = "" if process["memory_mib"] is None else f" with {process['memory_mib']} MiB"
    return f"{name} holds {where}{amount}"
