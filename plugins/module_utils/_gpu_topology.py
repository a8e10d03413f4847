# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The matrices of C(nvidia-smi topo): how each pair of GPUs is connected, and whether the driver offers it P2P.

The tool writes for people, and its tables differ from release to release: underline escapes in the header even when
written to a file, a header with and without a leading tab, columns added (NICs, "NUMA Affinity", "GPU NUMA ID") or
missing, a legend before or after. What stays is: a header with the devices' names, and a row a GPU that starts with its
name and has one label a device. That is read here, and checked hard, because a matrix that is off by one column looks
as good as a right one. A matrix is refused as a whole, never read in part.
"""

from __future__ import annotations

import re
from typing import List, Sequence

# `nvidia-smi topo -m`, by its own legend. NV# (bonded NVLinks) comes on top.
LINK_LABELS = frozenset({"X", "PIX", "PXB", "PHB", "NODE", "SYS", "SOC"})
# `nvidia-smi topo -p2p r`, by its own legend.
P2P_LABELS = frozenset({"X", "OK", "CNS", "GNS", "TNS", "NS", "DR", "U"})

_ESCAPE = re.compile(r"\x1b?\[[0-9;]*m")
_COLUMN_TITLES = re.compile(r"CPU Affinity|NUMA Affinity|GPU NUMA ID")
_GPU = re.compile(r"GPU[0-9]+")
_OTHER_DEVICE = re.compile(r"(?!GPU)[A-Za-z][A-Za-z0-9._-]*")  # NIC0, mlx5_0, bnxt_re0, ...
_NVLINK = re.compile(r"NV[0-9]+")

Matrix = List[List[str]]


class UntrustedMatrixError(ValueError):
    """The text is no matrix that can be trusted; the message says why."""


def parse_links(text: str) -> Matrix:
    """Read the output of C(nvidia-smi topo -m).

    Returns one label for each pair of GPUs, V(X) on the diagonal; C(SOC), as old releases call it, becomes C(SYS).
    Raises UntrustedMatrixError: also when the two directions of a pair differ, which no link can.
    """
    matrix = _read_matrix(text, LINK_LABELS)
    matrix = [["SYS" if label == "SOC" else label for label in row] for row in matrix]
    for i, row in enumerate(matrix):
        for j, label in enumerate(row):
            if label != matrix[j][i]:
                raise UntrustedMatrixError(f"GPU{i} to GPU{j} is {label}, but GPU{j} to GPU{i} is {matrix[j][i]}")
    return matrix


def parse_p2p(text: str) -> Matrix:
    """Read the output of C(nvidia-smi topo -p2p r).

    Returns one status for each pair of GPUs, V(X) on the diagonal. Raises UntrustedMatrixError.
    """
    return _read_matrix(text, P2P_LABELS)


def _read_matrix(text: str, labels: frozenset[str]) -> Matrix:
    """The square of labels between the GPUs of a table."""
    table = [line for line in _ESCAPE.sub("", text).splitlines() if line.strip().startswith("GPU")]
    if not table:
        raise UntrustedMatrixError("there is no line that names the GPUs")
    devices = _read_header(table[0])
    rows = _read_rows(table[1:], devices, labels)
    gpus = [device for device in devices if _GPU.fullmatch(device)]
    missing = [gpu for gpu in gpus if gpu not in rows]
    if missing:
        raise UntrustedMatrixError(f"there is no row for {', '.join(missing)}")
    columns = [i for i, device in enumerate(devices) if _GPU.fullmatch(device)]
    matrix = [[rows[gpu][column] for column in columns] for gpu in gpus]
    _require_diagonal(matrix)
    return matrix


def _is_label(word: str, labels: frozenset[str]) -> bool:
    return word in labels or (labels is LINK_LABELS and _NVLINK.fullmatch(word) is not None)


def _read_header(line: str) -> list[str]:
    """The names of the devices, GPUs and others, in the order of the columns."""
    titles = _COLUMN_TITLES.search(line)
    devices = (line[: titles.start()] if titles else line).split()
    for device in devices:
        if not _GPU.fullmatch(device) and not _OTHER_DEVICE.fullmatch(device):
            raise UntrustedMatrixError(f"the header has a column that is no device: {device!r:.80}")
    gpus = [device for device in devices if _GPU.fullmatch(device)]
    if gpus != [f"GPU{i}" for i in range(len(gpus))]:
        raise UntrustedMatrixError(f"the header does not count the GPUs from 0: {' '.join(gpus):.80}")
    if len(set(devices)) != len(devices):
        raise UntrustedMatrixError("the header names a device twice")
    return devices


def _read_rows(lines: Sequence[str], devices: Sequence[str], labels: frozenset[str]) -> dict[str, list[str]]:
    """The labels of each GPU's row."""
    rows: dict[str, list[str]] = {}
    for words in map(str.split, lines):
        name, cells = words[0], words[1 : 1 + len(devices)]
        if name not in devices:
            raise UntrustedMatrixError(f"there is a row for {name!r:.80}, which the header does not name")
        if name in rows:
            raise UntrustedMatrixError(f"there are two rows for {name}")
        bad = [cell for cell in cells if not _is_label(cell, labels)]
        if bad or len(cells) < len(devices):
            found = f"{bad[0]!r:.80} is no label" if bad else "it ends early"
            raise UntrustedMatrixError(f"the row of {name} does not have {len(devices)} labels: {found}")
        rest = words[1 + len(devices) :]
        if rest and _is_label(rest[0], labels):
            raise UntrustedMatrixError(f"the row of {name} has more than {len(devices)} labels")
        rows[name] = cells
    return rows


def _require_diagonal(matrix: Matrix) -> None:
    """Refuse a matrix whose X are not exactly on the diagonal: its rows or columns are shifted."""
    for i, row in enumerate(matrix):
        for j, label in enumerate(row):
            if (label == "X") != (i == j):
                raise UntrustedMatrixError(f"GPU{i} to GPU{j} is {label}: X must stand on the diagonal, and only there")
