# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PCI addresses, bridges, and Access Control Services (ACS), from what sysfs shows. Nothing is read here.

ACS redirect makes a bridge send a peer's request up to the root complex, for the IOMMU to look at, where it could have
turned around in a switch. Together with a translating IOMMU it stops the traffic between GPUs: NCCL says "Init
COMPLETE" on every rank, and the first all-reduce never ends, while C(nvidia-smi topo -p2p) says OK. What counts are the
bits ReqRedir and CmpltRedir. SrcValid says nothing about it: it is set on healthy hosts, and redirect exists without.
"""

from __future__ import annotations

import re
import struct
from typing import NamedTuple

_ADDRESS = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])", re.IGNORECASE)

_ROOT_COMPLEX = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")

# PCI Express Base Specification, "Extended Capability structures": a chain of headers that starts at 0x100.
_EXTENDED_START = 0x100
_EXTENDED_SIZE = 0x1000
_ACS_CAPABILITY_ID = 0x000D
_ACS_CONTROL_OFFSET = 6
_SOURCE_VALIDATION = 1 << 0
_REQUEST_REDIRECT = 1 << 2
_COMPLETION_REDIRECT = 1 << 3


class UnreadableConfigError(ValueError):
    """The configuration space does not answer the question; the message says why."""


class AcsControl(NamedTuple):
    """The control bits of a bridge's ACS capability that decide about traffic between its devices."""

    source_validation: bool
    request_redirect: bool
    completion_redirect: bool


def normal_address(text: str) -> str | None:
    """An address as sysfs writes it: C(00000000:C1:00.0), as nvidia-smi says, becomes C(0000:c1:00.0).

    Returns None for anything that is no complete address.
    """
    match = _ADDRESS.fullmatch(text.strip())
    if match is None:
        return None
    domain, bus, device, function = match.groups()
    return f"{int(domain, 16):04x}:{bus}:{device}.{function}".lower()


def bridges_above(device_path: str) -> list[str] | None:
    """The addresses of the bridges between the root complex and a device, the root port first.

    C(device_path) is the device's resolved path in sysfs: C(/sys/devices/pci0000:00/0000:00:01.1/.../0000:06:00.0).
    Returns None if the path does not lead through a root complex.
    """
    parts = device_path.split("/")
    roots = [i for i, part in enumerate(parts) if _ROOT_COMPLEX.fullmatch(part)]
    if not roots or not _ADDRESS.fullmatch(parts[-1]):
        return None
    return [part for part in parts[roots[0] + 1 : -1] if _ADDRESS.fullmatch(part)]


def acs_control(config: bytes) -> AcsControl | None:
    """The ACS control bits in a device's configuration space (sysfs file C(config)); None: it has no such capability.

    Raises UnreadableConfigError where the answer is not in the bytes: without root the kernel gives the first 64 only.
    """
    offset = _extended_capability(config, _ACS_CAPABILITY_ID)
    if offset is None:
        return None
    if offset + _ACS_CONTROL_OFFSET + 2 > len(config):
        raise UnreadableConfigError("the ACS capability is cut off")
    (control,) = struct.unpack_from("<H", config, offset + _ACS_CONTROL_OFFSET)
    return AcsControl(
        source_validation=bool(control & _SOURCE_VALIDATION),
        request_redirect=bool(control & _REQUEST_REDIRECT),
        completion_redirect=bool(control & _COMPLETION_REDIRECT),
    )


def _extended_capability(config: bytes, wanted: int) -> int | None:
    """Where the extended capability with this id starts; None: the chain ends without it."""
    _require_extended_space(config)
    offset = _EXTENDED_START
    seen = set()
    while offset:
        if offset in seen or not _EXTENDED_START <= offset <= len(config) - 4:
            raise UnreadableConfigError(f"the chain of capabilities is damaged at {offset:#x}")
        seen.add(offset)
        (header,) = struct.unpack_from("<I", config, offset)
        if header == 0xFFFFFFFF:
            raise UnreadableConfigError("the device does not answer (all bits are 1)")
        if header & 0xFFFF == wanted:
            return offset
        offset = (header >> 20) & 0xFFC
    return None


def _require_extended_space(config: bytes) -> None:
    """Refuse a configuration space that stops before the extended capabilities."""
    if config[:4] == b"\xff\xff\xff\xff":
        raise UnreadableConfigError("the device does not answer (all bits are 1)")
    if len(config) <= 64:
        raise UnreadableConfigError(f"{len(config)} bytes of the configuration space are readable; the rest needs root")
    if len(config) < _EXTENDED_SIZE:
        raise UnreadableConfigError(f"the configuration space has {len(config)} bytes, no extended capabilities")
