# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One look at a node: everything that C(gpu_node_facts) returns, put together from rooms that read one source each.

Whatever is None has an entry in C(reasons). Nothing is derived from what hosts like this one usually have.
"""

from __future__ import annotations

from typing import Any, Callable, Sequence

from ansible_collections.blackwell.inference.plugins.module_utils._gpu_bus import (
    acs_facts,
    gpus_on_bus,
    iommu_facts,
    locality,
)
from ansible_collections.blackwell.inference.plugins.module_utils._gpu_commands import Outcome
from ansible_collections.blackwell.inference.plugins.module_utils._gpu_files import Tree, UnreadableError
from ansible_collections.blackwell.inference.plugins.module_utils._gpu_findings import Findings
from ansible_collections.blackwell.inference.plugins.module_utils._gpu_holders import read_holders
from ansible_collections.blackwell.inference.plugins.module_utils._gpu_host import read_host
from ansible_collections.blackwell.inference.plugins.module_utils._gpu_kernel import parse_module
from ansible_collections.blackwell.inference.plugins.module_utils._gpu_smi import (
    CAPABILITY_QUERY,
    Failure,
    Gpu,
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

# What nvidia-smi is asked, each once.
QUERIES = (("-q", "-x"), CAPABILITY_QUERY, ("topo", "-m"), ("topo", "-p2p", "r"))

Ask = Callable[[Sequence[Sequence[str]]], Sequence[Outcome]]

_NOT_ASKED = Outcome(None, "", "nvidia-smi is not installed, or not on the path")


def read_node(tree: Tree, ask: Ask | None) -> dict[str, Any]:
    """All facts of a node, as the module documents them.

    C(tree) holds the node's files. C(ask) runs nvidia-smi with each of these lists of arguments and returns the
    outcomes in their order; None: there is no nvidia-smi.
    """
    findings = Findings(tree)
    read_host(findings)
    _read_bus(findings)
    outcomes = [_NOT_ASKED] * len(QUERIES) if ask is None else list(ask(QUERIES))
    query = _read_driver(findings, outcomes[0], installed=ask is not None)
    _read_gpus(findings, query, outcomes[1])
    _read_matrix(findings, "links", parse_links, outcomes[2])
    _read_matrix(findings, "p2p", parse_p2p, outcomes[3])
    _read_isolation(findings)
    read_holders(findings, _listed_processes(findings, query))
    return {**findings.facts, "reasons": findings.reasons}


def _listed_processes(findings: Findings, query: Query | None) -> list[tuple[int, dict[str, Any]]]:
    """The processes that nvidia-smi lists, each with the index of its GPU."""
    processes = {gpu.facts["bus_id"]: gpu.processes for gpu in query.gpus} if query else {}
    return [(gpu["index"], process) for gpu in findings.facts["gpus"] or [] for process in processes[gpu["bus_id"]]]


def _read_bus(findings: Findings) -> None:
    """Add C(pci_gpus): what the bus shows, with or without a driver."""
    try:
        findings.facts["pci_gpus"] = gpus_on_bus(findings.tree)
    except UnreadableError as error:
        findings.facts["pci_gpus"] = None
        findings.unknown("pci_gpus", error)
    for i, gpu in enumerate(findings.facts["pci_gpus"] or []):
        if gpu["driver"] is None:
            findings.unknown(f"pci_gpus.{i}.driver", "no kernel driver is bound to it")


def _read_driver(findings: Findings, main: Outcome, installed: bool) -> Query | None:
    """Add C(driver). Returns what nvidia-smi answered to the main query, if it did."""
    text = findings.text("driver.version", "/proc/driver/nvidia/version")
    module = parse_module(text)
    query, failure = _main_answer(main) if installed else (None, Failure("no-program", main.errors))
    if failure and failure.state == "no-program" and not text:
        failure = Failure("absent", f"no driver is loaded, and {main.errors}")
    version = module.version or (query.driver_version if query else None)
    findings.facts["driver"] = {
        "state": failure.state if failure else "working",
        "version": version,
        "flavour": module.flavour,
        "cuda_version": query.cuda_version if query else None,
    }
    if failure:
        findings.unknown("driver", failure.reason)
    unread = findings.reasons.pop("driver.version", f"/proc/driver/nvidia/version says {text[:120]!r}")
    for key, told in (("version", unread), ("flavour", unread), ("cuda_version", "nvidia-smi -q -x does not tell it")):
        if findings.facts["driver"][key] is None and not failure:
            findings.unknown(f"driver.{key}", told)
    return query


def _main_answer(main: Outcome) -> tuple[Query | None, Failure | None]:
    """The answer to C(nvidia-smi -q -x), or why there is none. What was printed counts before the status."""
    if main.status is None:
        return None, Failure("hung", f"nvidia-smi -q -x: {main.errors}")
    try:
        return parse_query(main.output), None
    except UnusableOutputError as error:
        if main.status == 0:
            return None, Failure("failed", f"nvidia-smi -q -x: {error}")
        return None, explain_failure(main.status, f"{main.output} {main.errors}")


def _read_gpus(findings: Findings, query: Query | None, capabilities: Outcome) -> None:
    """Add C(gpus), in the order of their index."""
    if query is None:
        absent = findings.facts["pci_gpus"] == []
        findings.facts["gpus"] = [] if absent else None
        findings.unknown("gpus", "the PCI bus shows no NVIDIA GPU" if absent else findings.reasons["driver"])
        return
    if query.attached != len(query.gpus):
        findings.unknown("gpus", f"nvidia-smi counts {query.attached} GPUs, and describes {len(query.gpus)}")
    numbers, why = _numbers([gpu.facts["bus_id"] for gpu in query.gpus], capabilities)
    gpus = sorted(query.gpus, key=lambda gpu: numbers[gpu.facts["bus_id"]][0])
    findings.facts["gpus"] = [_gpu(findings, gpu, *numbers[gpu.facts["bus_id"]], why) for gpu in gpus]


def _gpu(findings: Findings, gpu: Gpu, index: int, capability: str | None, why: str) -> dict[str, Any]:
    """The facts of one GPU, from nvidia-smi and sysfs."""
    near, near_reasons = locality(findings.tree, gpu.facts["bus_id"])
    kind = edition(gpu.facts["name"], gpu.facts["device_id"])
    for key, reason in {**gpu.reasons, **near_reasons}.items():
        findings.unknown(f"gpus.{index}.{key}", reason)
    if capability is None:
        findings.unknown(f"gpus.{index}.compute_capability", why or "nvidia-smi does not tell it")
    if kind is None:
        findings.unknown(f"gpus.{index}.edition", "it is no RTX PRO 6000 Blackwell of a known edition")
    return {"index": index, **gpu.facts, "edition": kind, "compute_capability": capability, **near}


def _numbers(addresses: Sequence[str], outcome: Outcome) -> tuple[dict[str, tuple[int, str | None]], str]:
    """Index and compute capability of the GPU at each address, and why the capabilities are missing, if they are.

    Without that answer the index is the place in the XML, which nvidia-smi prints in the order of the index.
    """
    places: dict[str, tuple[int, str | None]] = {address: (i, None) for i, address in enumerate(addresses)}
    if outcome.status is None:
        return places, outcome.errors
    try:
        numbers = parse_capabilities(outcome.output)
    except UnusableOutputError as error:
        failed = explain_failure(outcome.status, f"{outcome.output} {outcome.errors}").reason
        return places, failed if outcome.status else str(error)
    indexes = sorted(number[0] for number in numbers.values())
    if set(numbers) != set(addresses) or indexes != list(range(len(addresses))):
        return places, "nvidia-smi names other GPUs when asked for the compute capability"
    return numbers, ""


def _read_matrix(findings: Findings, key: str, parse: Callable[[str], Matrix], outcome: Outcome) -> None:
    """Add a matrix between the GPUs, or None: as many rows as there are GPUs, or it is not trusted."""
    findings.facts[key] = None
    gpus = findings.facts["gpus"]
    if not gpus:
        findings.unknown(key, findings.reasons.get("gpus", "there is no GPU"))
        return
    if outcome.status is None:
        findings.unknown(key, outcome.errors)
        return
    try:
        matrix = parse(outcome.output)
    except UntrustedMatrixError as error:
        failed = explain_failure(outcome.status, f"{outcome.output} {outcome.errors}").reason
        findings.unknown(key, failed if outcome.status else error)
        return
    if len(matrix) != len(gpus):
        findings.unknown(key, f"the matrix is of {len(matrix)} GPUs, and the node has {len(gpus)}")
        return
    findings.facts[key] = matrix


def _read_isolation(findings: Findings) -> None:
    """Add C(iommu) and C(acs): what stands between GPUs that talk to each other. sysfs tells it without a driver."""
    if not findings.facts["pci_gpus"]:
        reason = findings.reasons.get("pci_gpus", "the PCI bus shows no NVIDIA GPU")
        findings.facts.update(iommu={"mode": None, "types": {}}, acs={"redirect": None, "bridges": []})
        findings.unknown("iommu.mode", reason)
        findings.unknown("acs.redirect", reason)
        return
    addresses = [gpu["bus_id"] for gpu in findings.facts["pci_gpus"]]
    command_line = " ".join(findings.facts["kernel_arguments"] or [])
    iommu, reason = iommu_facts(findings.tree, addresses, command_line)
    acs, reasons = acs_facts(findings.tree, addresses)
    told = {**({"iommu.mode": reason} if reason else {}), **{f"acs.{path}": why for path, why in reasons.items()}}
    if findings.facts["virtual_machine"] is not False:
        told.update(_forget_what_a_guest_cannot_see(iommu, acs))
    findings.facts.update(iommu=iommu, acs=acs)
    for path, why in told.items():
        findings.unknown(path, why)


def _forget_what_a_guest_cannot_see(iommu: dict[str, Any], acs: dict[str, Any]) -> dict[str, str]:
    """Set to None what only the host of a virtual machine could rule out; returns the reason of each, by its path.

    The IOMMU and the bridges that count are the host's. What stands in the way inside the guest counts all the same.
    """
    told = {}
    if iommu["mode"] != "translated":
        iommu["mode"] = None
        told["iommu.mode"] = "this is a virtual machine, or may be one: it does not see the IOMMU of its host"
    if not acs["redirect"]:
        acs["redirect"] = None
        told["acs.redirect"] = "this is a virtual machine, or may be one: it does not see the bridges of its host"
    return told
