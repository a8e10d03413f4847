# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What C(nvidia-smi) says about each GPU, and what it says when it fails.

Read from C(nvidia-smi -q -x) (DTD versions 11 to 13: some elements were renamed) and from one CSV query, because the
XML knows no compute capability. A value is either of the form that is expected here, or it is None with a reason;
"N/A", "[Not Supported]", "ERR!" and whatever else the tool may print instead of a value is not interpreted.
"""

from __future__ import annotations

import re
from typing import Any, Callable, NamedTuple, Pattern, Sequence
from xml.etree import ElementTree

from ansible_collections.blackwell.inference.plugins.module_utils._pci import normal_address

CAPABILITY_QUERY = ("--query-gpu=index,pci.bus_id,compute_cap", "--format=csv,noheader")

# PCI device ids of the RTX PRO 6000 Blackwell (pci-ids database), and what its product names say.
_EDITION_OF_DEVICE = {"2BB1": "workstation", "2BB4": "max-q", "2BB5": "server"}
_EDITION_OF_NAME = (("Max-Q", "max-q"), ("Server Edition", "server"), ("Workstation Edition", "workstation"))

_XML_END = "</nvidia_smi_log>"
_VERSION = re.compile(r"[0-9]+\.[0-9]+(?:\.[0-9]+)?")


class UnusableOutputError(ValueError):
    """The output is not what was asked for; the message says why."""


class Failure(NamedTuple):
    """Why nvidia-smi gave no answer."""

    state: str  # one of: not-running, no-devices, mismatch, gpu-lost, failed
    reason: str


class _Field(NamedTuple):
    """One fact of a GPU: its key, the elements that may hold it (the first with a value counts), its form."""

    key: str
    paths: Sequence[str]
    form: Pattern[str]
    convert: Callable[[str], Any]


class Gpu(NamedTuple):
    """One GPU as the XML describes it: its facts, and a reason for each that is None."""

    facts: dict[str, Any]
    reasons: dict[str, str]
    processes: list[dict[str, Any]]


class Query(NamedTuple):
    """The answer to C(nvidia-smi -q -x)."""

    driver_version: str | None
    cuda_version: str | None
    attached: int | None
    gpus: list[Gpu]


def _is_enabled(text: str) -> bool:
    return text == "Enabled"


_MIB = re.compile(r"([0-9]{1,9}) MiB")
_WATT = re.compile(r"([0-9]{1,5}(?:\.[0-9]{1,3})?) W")
_PERCENT = re.compile(r"([0-9]{1,3}) %")
_NUMBER = re.compile(r"([0-9]{1,9})")
_GENERATION = re.compile(r"([1-9])")
_WIDTH = re.compile(r"([0-9]{1,2})x")
_SWITCH = re.compile(r"(Enabled|Disabled)")
_POWER = ("gpu_power_readings", "power_readings")

_FIELDS = (
    _Field("name", ["product_name"], re.compile(r"((?:NVIDIA|Quadro|Tesla|GeForce|GRID|TITAN)\b.*)"), str),
    _Field("uuid", ["uuid"], re.compile(r"(GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"), str),
    _Field("minor", ["minor_number"], _NUMBER, int),
    _Field("device_id", ["pci/pci_device_id"], re.compile(r"(?:0x)?([0-9A-Fa-f]{4})10[dD][eE]"), str.upper),
    _Field("memory_mib", ["fb_memory_usage/total"], _MIB, int),
    _Field("memory_used_mib", ["fb_memory_usage/used"], _MIB, int),
    _Field("bar1_mib", ["bar1_memory_usage/total"], _MIB, int),
    _Field("utilization_percent", ["utilization/gpu_util"], _PERCENT, int),
    _Field(
        "power_draw_w",
        [f"{group}/{name}" for group in _POWER for name in ("instant_power_draw", "average_power_draw", "power_draw")],
        _WATT,
        float,
    ),
    _Field(
        "power_limit_w",
        [f"{group}/{name}" for group in _POWER for name in ("current_power_limit", "enforced_power_limit")],
        _WATT,
        float,
    ),
    _Field("power_limit_max_w", [f"{group}/max_power_limit" for group in _POWER], _WATT, float),
    _Field("persistence", ["persistence_mode"], _SWITCH, _is_enabled),
    _Field("ecc", ["ecc_mode/current_ecc"], _SWITCH, _is_enabled),
    _Field("mig", ["mig_mode/current_mig"], _SWITCH, _is_enabled),
    _Field("addressing_mode", ["addressing_mode"], re.compile(r"(None|HMM|ATS)"), str.lower),
    _Field("recovery_action", ["gpu_recovery_action"], re.compile(r"([A-Z][A-Za-z0-9 ]+)"), str.lower),
    _Field("pcie_generation_current", ["pci/pci_gpu_link_info/pcie_gen/current_link_gen"], _GENERATION, int),
    _Field("pcie_generation_max", ["pci/pci_gpu_link_info/pcie_gen/max_link_gen"], _GENERATION, int),
    _Field("pcie_generation_max_device", ["pci/pci_gpu_link_info/pcie_gen/max_device_link_gen"], _GENERATION, int),
    _Field("pcie_generation_max_host", ["pci/pci_gpu_link_info/pcie_gen/max_host_link_gen"], _GENERATION, int),
    _Field("pcie_width_current", ["pci/pci_gpu_link_info/link_widths/current_link_width"], _WIDTH, int),
    _Field("pcie_width_max", ["pci/pci_gpu_link_info/link_widths/max_link_width"], _WIDTH, int),
)


def parse_query(text: str) -> Query:
    """Read the output of C(nvidia-smi -q -x). GPUs come in the order of the text, which is that of their index.

    Raises UnusableOutputError: it is no XML of this kind, or two GPUs claim one bus address.
    """
    log = _parse_xml(text)
    gpus = [_read_gpu(element) for element in log.findall("gpu")]
    addresses = [gpu.facts["bus_id"] for gpu in gpus]
    if None in addresses:
        raise UnusableOutputError(f"GPU {addresses.index(None)} of the XML has no bus address")
    if len(set(addresses)) != len(addresses):
        raise UnusableOutputError("the XML describes two GPUs at one bus address")
    attached = _stated(log, "attached_gpus")
    return Query(
        driver_version=_matching(_VERSION, _stated(log, "driver_version")),
        cuda_version=_matching(_VERSION, _stated(log, "cuda_version")),
        attached=int(attached) if _NUMBER.fullmatch(attached) else None,
        gpus=gpus,
    )


def parse_capabilities(text: str) -> dict[str, tuple[int, str | None]]:
    """Read the output of CAPABILITY_QUERY: for each bus address the GPU's index and compute capability.

    Raises UnusableOutputError if a line does not have this form, or two lines tell the same GPU or index.
    """
    answer: dict[str, tuple[int, str | None]] = {}
    for line in filter(str.strip, text.splitlines()):
        cells = [cell.strip() for cell in line.split(",")]
        address = normal_address(cells[1]) if len(cells) == 3 else None
        if address is None or not _NUMBER.fullmatch(cells[0]):
            raise UnusableOutputError(f"not an index, a bus address and a compute capability: {line!r:.100}")
        if address in answer or int(cells[0]) in [known[0] for known in answer.values()]:
            raise UnusableOutputError(f"the GPU {cells[0]} at {address} is named twice")
        answer[address] = (int(cells[0]), _matching(re.compile(r"[0-9]{1,2}\.[0-9]"), cells[2]))
    return answer


def explain_failure(status: int, output: str) -> Failure:
    """Tell the known failures of C(nvidia-smi) apart by what it printed (on standard output, mostly) and its status."""
    said = " ".join(output.split())
    quoted = f"nvidia-smi exited with {status}: {said[:200] or 'it printed nothing'}"
    if "couldn't communicate with the NVIDIA driver" in said or "Driver Not Loaded" in said:
        return Failure("not-running", quoted)
    if "ersion mismatch" in said:
        return Failure("mismatch", quoted)
    if "GPU is lost" in said or "Unable to determine the device handle" in said:
        return Failure("gpu-lost", quoted)
    if "No devices were found" in said:
        return Failure("no-devices", quoted)
    return Failure("failed", quoted)


def edition(name: str | None, device_id: str | None) -> str | None:
    """V(server), V(max-q) or V(workstation) of an RTX PRO 6000 Blackwell; None for any other GPU.

    The device id counts first: a driver that is older than a board calls it "NVIDIA Graphics Device".
    """
    if device_id is not None and device_id in _EDITION_OF_DEVICE:
        return _EDITION_OF_DEVICE[device_id]
    if name is None or "RTX PRO 6000 Blackwell" not in name:
        return None
    return next((label for words, label in _EDITION_OF_NAME if words in name), None)


def _parse_xml(text: str) -> ElementTree.Element:
    """The root element. A document that declares entities is not the tool's, and is not expanded."""
    if "<!ENTITY" in text:
        raise UnusableOutputError("the XML declares entities, which nvidia-smi never does")
    end = text.rfind(_XML_END)  # warnings, as about a corrupt infoROM, follow the XML on the same stream
    try:
        log = ElementTree.fromstring(text[: end + len(_XML_END)] if end >= 0 else text)
    except (ElementTree.ParseError, ValueError) as error:  # ValueError: characters that no XML can have
        raise UnusableOutputError(f"it is no XML: {error}") from error
    if log.tag != "nvidia_smi_log":
        raise UnusableOutputError(f"the XML is a {log.tag!r:.60}, not a nvidia_smi_log")
    return log


def _stated(element: ElementTree.Element, path: str) -> str:
    """The text of the element below, without white space around; empty if there is none."""
    return (element.findtext(path) or "").strip()


def _matching(form: Pattern[str], text: str) -> str | None:
    return text if form.fullmatch(text) else None


def _read_gpu(element: ElementTree.Element) -> Gpu:
    """One <gpu> element."""
    facts: dict[str, Any] = {"bus_id": normal_address(element.get("id", ""))}
    reasons: dict[str, str] = {}
    for field in _FIELDS:
        facts[field.key] = None
        texts = [_stated(element, path) for path in field.paths if element.find(path) is not None]
        match = next(filter(None, map(field.form.fullmatch, texts)), None)
        if match is not None:
            facts[field.key] = field.convert(match.group(1))
        elif texts:
            reasons[field.key] = f"nvidia-smi says {texts[0]!r:.80} for {field.paths[0]}"
        else:
            reasons[field.key] = f"this release of nvidia-smi has no {field.paths[0]}"
    facts["mig_devices"] = len(element.findall("mig_devices/mig_device"))
    processes = [_read_process(process) for process in element.findall("processes/process_info")]
    return Gpu(facts, reasons, [process for process in processes if process["pid"] is not None])


def _read_process(element: ElementTree.Element) -> dict[str, Any]:
    """One <process_info> element. The name is cut at the first blank: it may be a command line with secrets."""
    pid = _matching(_NUMBER, _stated(element, "pid"))
    memory = _MIB.fullmatch(_stated(element, "used_memory"))
    return {
        "pid": None if pid is None else int(pid),
        "kind": _stated(element, "type"),
        "name": _stated(element, "process_name").split(" ", 1)[0],
        "memory_mib": None if memory is None else int(memory.group(1)),
    }
