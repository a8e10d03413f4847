# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One look at a node: everything that C(gpu_node_facts) returns, put together from the rooms that read one source each.

Whatever is None in the facts has an entry in C(reasons) under its path (C(links), C(gpus.3.mig)) or that of what it is
part of (C(gpus)). Nothing is derived from what a host like this usually has.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Sequence

from ansible_collections.blackwell.inference.plugins.module_utils._gpu_bus import (
    acs_facts,
    acs_redirects,
    gpus_on_bus,
    iommu_facts,
    locality,
)
from ansible_collections.blackwell.inference.plugins.module_utils._gpu_commands import Outcome
from ansible_collections.blackwell.inference.plugins.module_utils._gpu_files import Tree, UnreadableError
from ansible_collections.blackwell.inference.plugins.module_utils._gpu_holders import (
    SHM,
    describe_process,
    leftover_names,
    scan_processes,
    shm_size_mib,
)
from ansible_collections.blackwell.inference.plugins.module_utils._gpu_kernel import (
    KernelModule,
    parse_module,
    parse_parameters,
    parse_registry_words,
    relevant_arguments,
)
from ansible_collections.blackwell.inference.plugins.module_utils._gpu_smi import (
    CAPABILITY_QUERY,
    Failure,
    Query,
    UnusableOutputError,
    edition,
    explain_failure,
    parse_capabilities,
    parse_query,
)
from ansible_collections.blackwell.inference.plugins.module_utils._gpu_topology import (
    Matrix,
    UntrustedMatrixError,
    parse_links,
    parse_p2p,
)

# What is asked of nvidia-smi, each once.
QUERIES = (("-q", "-x"), CAPABILITY_QUERY, ("topo", "-m"), ("topo", "-p2p", "r"))

# Parameters that decide about peer-to-peer traffic and memory, of /proc/driver/nvidia/params and of sysfs.
_DRIVER_PARAMETERS = ("DmaRemapPeerMmio", "EnableResizableBar", "GrdmaPciTopoCheckOverride", "RegistryDwords")
_UVM_PARAMETERS = ("uvm_ats_mode", "uvm_disable_hmm")

_NO_PROGRAM = "nvidia-smi is not installed, or not on the path"

Ask = Callable[[Sequence[Sequence[str]]], "list[Outcome]"]


class NodeFacts:
    """The facts as they come together, and the reasons for those that stay None."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.facts: dict[str, Any] = {}
        self.reasons: dict[str, str] = {}

    def unknown(self, path: str, reason: str) -> None:
        """Record why the fact at this path is None."""
        self.reasons[path] = reason

    def text(self, key: str, path: str, limit: int = -1) -> str:
        """The content of a file; empty, with the reason for the fact `key`, if it cannot be read."""
        try:
            return self.tree.text(path, limit)
        except UnreadableError as error:
            self.unknown(key, str(error))
            return ""


def read_node(tree: Tree, ask: Ask | None) -> dict[str, Any]:
    """All facts of a node.

    O(tree) holds its files. O(ask) runs nvidia-smi with each of the given lists of arguments, and returns the outcomes;
    None: there is no such program. Never raises for what a node says, only for errors of this program.
    """
    node = NodeFacts(tree)
    _read_host(node)
    _read_bus(node)
    outcomes = ask(QUERIES) if ask is not None else None
    query = _read_driver(node, outcomes)
    _read_gpus(node, query, outcomes)
    _read_matrices(node, outcomes)
    _read_isolation(node)
    _read_parameters(node)
    _read_holders(node, query)
    return {**node.facts, "reasons": node.reasons}


def _read_host(node: NodeFacts) -> None:
    """Processor, NUMA nodes, and the relevant part of the kernel command line."""
    processor = node.text("cpu.vendor", "/proc/cpuinfo", limit=4096)  # one processor's entry; there may be hundreds
    vendor, model, flags = (
        re.search(rf"^{key}\s*:\s*(.*)$", processor, re.MULTILINE) for key in ("vendor_id", "model name", "flags")
    )
    for key, found in (("vendor", vendor), ("model", model)):
        if found is None:
            node.reasons.setdefault(f"cpu.{key}", "/proc/cpuinfo does not tell")
    node.facts["cpu"] = {
        "vendor": vendor and vendor.group(1),
        "model": model and model.group(1),
        "governors": _governors(node),
        "numa_balancing": _numa_balancing(node),
    }
    node.facts["virtual_machine"] = None if flags is None else "hypervisor" in flags.group(1).split()
    if flags is None:
        node.unknown("virtual_machine", "/proc/cpuinfo has no flags")
    node.facts["numa_nodes"] = _numa_nodes(node)
    command_line = node.text("kernel_arguments", "/proc/cmdline")
    node.facts["kernel_arguments"] = relevant_arguments(command_line) if command_line else None


def _governors(node: NodeFacts) -> list[str] | None:
    """The frequency governors in use, each once."""
    base = "/sys/devices/system/cpu/cpufreq"
    try:
        policies = [name for name in node.tree.names(base) if name.startswith("policy")]
        return sorted({node.tree.text(f"{base}/{policy}/scaling_governor") for policy in policies})
    except UnreadableError as error:
        node.unknown("cpu.governors", f"the kernel does not scale the frequency here ({error})")
        return None


def _numa_balancing(node: NodeFacts) -> bool | None:
    """Whether the kernel moves memory between NUMA nodes by itself (modes 1 and 2)."""
    value = node.text("cpu.numa_balancing", "/proc/sys/kernel/numa_balancing")
    if value in ("0", "1", "2", "3"):
        return value != "0"
    node.reasons.setdefault("cpu.numa_balancing", f"the kernel says {value[:20]!r}")
    return None


def _numa_nodes(node: NodeFacts) -> dict[str, str] | None:
    """The list of CPUs of each NUMA node, by its number."""
    base = "/sys/devices/system/node"
    try:
        names = [name for name in node.tree.names(base) if re.fullmatch(r"node[0-9]{1,5}", name)]
        return {name[4:]: node.tree.text(f"{base}/{name}/cpulist") for name in names}
    except UnreadableError as error:
        node.unknown("numa_nodes", str(error))
        return None


def _read_bus(node: NodeFacts) -> None:
    """The GPUs that the PCI bus shows."""
    try:
        node.facts["pci_gpus"] = gpus_on_bus(node.tree)
    except UnreadableError as error:
        node.facts["pci_gpus"] = None
        node.unknown("pci_gpus", str(error))
    for i, gpu in enumerate(node.facts["pci_gpus"] or []):
        if gpu["driver"] is None:
            node.unknown(f"pci_gpus.{i}.driver", "no kernel driver is bound to it")


def _read_driver(node: NodeFacts, outcomes: list[Outcome] | None) -> Query | None:
    """State, version and flavour of the driver; returns the answer to the main query if there is one."""
    loaded = node.text("driver.version", "/proc/driver/nvidia/version")
    module = parse_module(loaded)
    query, failure = _main_answer(outcomes, module_is_loaded=bool(loaded))
    version = module.version or (query and query.driver_version)
    node.facts["driver"] = {
        "state": failure.state if failure else "working",
        "version": version,
        "flavour": module.flavour,
        "cuda_version": query and query.cuda_version,
    }
    if failure:
        node.unknown("driver", failure.reason)
    _explain_driver(node, loaded, module)
    if version is not None:
        node.reasons.pop("driver.version", None)
    return query


def _explain_driver(node: NodeFacts, loaded: str, module: KernelModule) -> None:
    """The reasons for the parts of the driver's facts that are None."""
    told = f"/proc/driver/nvidia/version says {loaded[:120]!r}" if loaded else node.reasons.get("driver.version", "")
    if module.flavour is None:
        node.unknown("driver.flavour", told)
    if node.facts["driver"]["version"] is None:
        node.unknown("driver.version", told)
    if node.facts["driver"]["cuda_version"] is None:
        node.unknown("driver.cuda_version", node.reasons.get("driver", "nvidia-smi does not tell it"))


def _main_answer(outcomes: list[Outcome] | None, module_is_loaded: bool) -> tuple[Query | None, Failure | None]:
    """The answer to C(nvidia-smi -q -x), or why there is none. What it printed counts, not its status alone."""
    if outcomes is None:
        return None, Failure("no-program" if module_is_loaded else "absent", _NO_PROGRAM)
    main = outcomes[0]
    if main.status is None:
        return None, Failure("hung" if "did not end" in main.errors else "failed", f"nvidia-smi: {main.errors}")
    try:
        return parse_query(main.output), None
    except UnusableOutputError as error:
        if main.status != 0:
            return None, explain_failure(main.status, f"{main.output} {main.errors}")
        return None, Failure("failed", f"nvidia-smi -q -x: {error}")
