# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the rules about NCCL look at: a node's facts, read once and only where they can be trusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

REFUSED_CELLS = {
    "CNS": "the chipset does not support it",
    "GNS": "the GPU does not support it",
    "TNS": "the topology does not support it",
    "NS": "it is not supported",
}
NEAR, FAR = ("X", "PIX", "PXB"), ("SYS", "SOC")
LINK_LABELS = (*NEAR, "PHB", "NODE", *FAR)


class NcclError(ValueError):
    """The variables cannot be decided; the message holds fact, rule and remedy."""


@dataclass(frozen=True)
class Node:
    """What the rules look at, read from gpu_node_facts. None means: unknown, with the reason in `why`."""

    gpus: int | None
    links: str | None  # switch (PIX, PXB), socket (PHB, NODE), sockets (SYS), nvlink
    p2p: str | None  # ok, refused
    p2p_cell: str
    translated: bool | None
    redirect: bool | None
    amd: bool
    mig: bool
    virtual: bool  # a guest, which does not see the IOMMU and the bridges of its host
    why: Mapping[str, str]


def read_node(facts: object) -> Node:
    """The facts that count, from gpu_node_facts. Raises NcclError when they are no facts of a node."""
    if not isinstance(facts, Mapping) or "gpus" not in facts:
        raise NcclError(
            "gpu_node is not what gpu_node_facts returns (it has no gpus). Run blackwell.inference.gpu_node_facts "
            "first."
        )
    gpus = facts["gpus"]
    if gpus is not None and (not _is_list(gpus) or not all(isinstance(gpu, Mapping) for gpu in gpus)):
        raise NcclError("gpu_node.gpus is no list of GPUs. Run blackwell.inference.gpu_node_facts again.")
    count = None if gpus is None else len(gpus)
    why = facts.get("reasons")
    p2p, cell = _read_p2p(facts.get("p2p"), count)
    iommu, acs, cpu = (_mapping(facts.get(key)) for key in ("iommu", "acs", "cpu"))
    mode, redirect = iommu.get("mode"), acs.get("redirect")
    return Node(
        gpus=count,
        links=_read_links(facts.get("links"), count),
        p2p=p2p,
        p2p_cell=cell,
        translated=mode == "translated" if isinstance(mode, str) else None,
        redirect=redirect if isinstance(redirect, bool) else None,
        amd=cpu.get("vendor") == "AuthenticAMD",
        mig=any(_is_enabled(gpu.get("mig")) for gpu in gpus or []),
        virtual=facts.get("virtual_machine") is True,
        why={str(key): str(value) for key, value in _mapping(why).items()},
    )


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _is_enabled(mig: object) -> bool:
    return mig is True or str(mig).lower() == "enabled"


def _cells(matrix: object, count: int | None) -> list[str] | None:
    """The cells beside the diagonal of a square matrix over the GPUs, or None when it is none."""
    if not isinstance(matrix, Sequence) or isinstance(matrix, (str, bytes)) or count is None or len(matrix) != count:
        return None
    cells = []
    for row_number, row in enumerate(matrix):
        if not isinstance(row, Sequence) or isinstance(row, (str, bytes)) or len(row) != count:
            return None
        cells += [cell for column, cell in enumerate(row) if column != row_number]
    return cells if all(isinstance(cell, str) for cell in cells) else None


def _read_links(matrix: object, count: int | None) -> str | None:
    cells = _cells(matrix, count)
    if cells is None or not cells:
        return None
    pcie = [cell for cell in cells if not (cell.startswith("NV") and cell[2:].isdigit())]
    if not all(cell in LINK_LABELS for cell in pcie):
        return None
    if not pcie:
        return "nvlink"
    if any(cell in FAR for cell in pcie):
        return "sockets"
    return "switch" if all(cell in NEAR for cell in pcie) else "socket"


def _read_p2p(matrix: object, count: int | None) -> tuple[str | None, str]:
    cells = _cells(matrix, count)
    if not cells:
        return None, ""
    refused = next((cell for cell in cells if cell in REFUSED_CELLS), "")
    if refused:
        return "refused", refused
    return ("ok", "") if all(cell == "OK" for cell in cells) else (None, "")
