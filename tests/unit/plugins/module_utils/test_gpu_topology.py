# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The matrices of `nvidia-smi topo` are read in every form they come in, and refused when anything is off."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ansible_collections.blackwell.inference.plugins.module_utils._gpu_topology import (
    LINK_LABELS,
    P2P_LABELS,
    UntrustedMatrixError,
    parse_links,
    parse_p2p,
)
from ansible_collections.blackwell.inference.tests.unit.fixtures.gpu.mutations import NOISE, mutated
from hypothesis import given

FIXTURES = Path(__file__).parents[2] / "fixtures" / "gpu"
TWO_SOCKETS = (FIXTURES / "topo-two-sockets.txt").read_text()
SWITCHES = (FIXTURES / "topo-switches-nics.txt").read_text()
P2P = (FIXTURES / "p2p-read.txt").read_text()

NODE_AND_SYS = [["X" if i == j else "NODE" if i // 4 == j // 4 else "SYS" for j in range(8)] for i in range(8)]


def table(*rows: str, header: str = "\tGPU0\tGPU1") -> str:
    return "\n".join([header, *rows]) + "\n"


class TestFormsInTheField:
    def test_escapes_in_a_header_written_to_a_file(self) -> None:
        assert "\x1b[4m" in TWO_SOCKETS
        assert parse_links(TWO_SOCKETS) == NODE_AND_SYS

    @pytest.mark.parametrize("prefix", ["", "\t", "  \t", "    "])
    def test_start_of_the_header(self, prefix: str) -> None:
        assert parse_links(TWO_SOCKETS.replace("\t\x1b[4mGPU0", f"{prefix}GPU0")) == NODE_AND_SYS

    def test_escapes_that_lost_their_first_byte(self) -> None:
        assert parse_links(TWO_SOCKETS.replace("\x1b", "")) == NODE_AND_SYS

    def test_blanks_instead_of_tabs(self) -> None:
        assert parse_links(TWO_SOCKETS.expandtabs(12)) == NODE_AND_SYS

    def test_windows_line_ends(self) -> None:
        assert parse_links(TWO_SOCKETS.replace("\n", "\r\n")) == NODE_AND_SYS

    @pytest.mark.parametrize("title", ["GPU NUMA ID", "NUMA Affinity", "CPU Affinity"])
    def test_last_columns_missing(self, title: str) -> None:
        header, rest = TWO_SOCKETS.split("\n", 1)
        rows = [re.sub(r"(\t[0-9,-]+)\t([01])\t\tN/A$", r"\1", row) for row in rest.splitlines()]
        assert parse_links("\n".join([header.split(title)[0].rstrip("\t"), *rows])) == NODE_AND_SYS

    @pytest.mark.parametrize("affinity", ["0,2,4,6,8,10", "0-47", "N/A", ""])
    def test_affinity_of_any_form_is_not_read(self, affinity: str) -> None:
        assert parse_links(TWO_SOCKETS.replace("0-47,96-143", affinity)) == NODE_AND_SYS

    def test_numa_node_not_available(self) -> None:
        assert parse_links(TWO_SOCKETS.replace("\t0\t\tN/A", "\tN/A\t\tN/A")) == NODE_AND_SYS

    def test_network_devices_are_left_out(self) -> None:
        links = parse_links(SWITCHES)
        assert [len(row) for row in links] == [8] * 8
        assert links[0] == ["X", "PIX", "NODE", "NODE", "SYS", "SYS", "SYS", "SYS"]

    @pytest.mark.parametrize("name", ["mlx5_0", "mlx5_bond_0", "bnxt_re0", "irdma-rocep1s0f0"])
    def test_network_devices_by_name(self, name: str) -> None:
        text = SWITCHES.replace("\tNIC0", f"\t{name}").replace("\nNIC0", f"\n{name}")
        assert parse_links(text) == parse_links(SWITCHES)

    def test_network_rows_missing_or_with_more_columns(self) -> None:
        without = "\n".join(line for line in SWITCHES.splitlines() if not line.startswith("NIC"))
        longer = SWITCHES.replace("\nNIC1", "\nNIC1\t0-31\t0\t")
        assert parse_links(without) == parse_links(longer) == parse_links(SWITCHES)

    def test_old_label_of_another_socket(self) -> None:
        assert parse_links(TWO_SOCKETS.replace("SYS\t", "SOC\t")) == NODE_AND_SYS

    @pytest.mark.parametrize("label", ["PIX", "PXB", "PHB", "NODE", "SYS", "NV4", "NV18"])
    def test_labels(self, label: str) -> None:
        assert parse_links(table(f"GPU0\t X \t{label}", f"GPU1\t{label}\t X ")) == [["X", label], [label, "X"]]

    def test_one_gpu(self) -> None:
        text = "\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \t0-15\t0\t\tN/A\n"
        assert parse_links(text) == [["X"]]

    @pytest.mark.parametrize("count", [2, 4, 5])
    def test_other_counts(self, count: int) -> None:
        header = "\t" + "\t".join(f"GPU{i}" for i in range(count))
        rows = ["\t".join([f"GPU{i}", *("X" if i == j else "PHB" for j in range(count)), "0-7"]) for i in range(count)]
        assert len(parse_links(table(*rows, header=header))) == count

    def test_six_and_two_over_the_sockets(self) -> None:
        def label(i: int, j: int) -> str:
            return "X" if i == j else "NODE" if (i < 6) == (j < 6) else "SYS"

        header = "\t" + "\t".join(f"GPU{i}" for i in range(8))
        rows = ["\t".join([f"GPU{i}", *(label(i, j) for j in range(8)), "0-7", "1"]) for i in range(8)]
        assert parse_links(table(*rows, header=header))[5] == ["NODE"] * 5 + ["X", "SYS", "SYS"]

    def test_rows_in_another_order(self) -> None:
        assert parse_links(table("GPU1\tSYS\tX", "GPU0\tX\tSYS")) == [["X", "SYS"], ["SYS", "X"]]


class TestPeerToPeer:
    def test_statuses(self) -> None:
        assert parse_p2p(P2P)[3] == ["CNS", "CNS", "TNS", "X"]

    @pytest.mark.parametrize("status", ["OK", "CNS", "GNS", "TNS", "NS", "DR", "U"])
    def test_every_status(self, status: str) -> None:
        assert parse_p2p(table(f" GPU0  X   {status}", f" GPU1 {status}   X")) == [["X", status], [status, "X"]]

    def test_legend_before_the_table(self) -> None:
        matrix, legend = P2P.split("\nLegend:")
        assert parse_p2p(f"Legend:{legend}\n{matrix}") == parse_p2p(P2P)

    def test_columns_not_aligned(self) -> None:
        assert parse_p2p(re.sub(r"\t", "   \t ", P2P)) == parse_p2p(P2P)

    def test_one_direction_only_is_possible(self) -> None:
        assert parse_p2p(table("GPU0\tX\tOK", "GPU1\tNS\tX")) == [["X", "OK"], ["NS", "X"]]

    def test_statuses_are_no_links_and_links_no_statuses(self) -> None:
        with pytest.raises(UntrustedMatrixError, match="'OK' is no label"):
            parse_links(table("GPU0\tX\tOK", "GPU1\tOK\tX"))
        with pytest.raises(UntrustedMatrixError, match="'NV4' is no label"):
            parse_p2p(table("GPU0\tX\tNV4", "GPU1\tNV4\tX"))


class TestRefusal:
    @pytest.mark.parametrize(
        ("damage", "reason"),
        [
            (lambda text: text.replace("GPU3\tGPU4", "GPU3GPU4", 1), "no device: 'GPU3GPU4'"),
            (lambda text: re.sub(r"\nGPU5.*", "", text), "no row for GPU5"),
            (lambda text: re.sub(r"(\nGPU2\tNODE)\tNODE", r"\1", text), "the row of GPU2 does not have 8 labels"),
            (lambda text: re.sub(r"\nGPU7\tSYS.*", "\nGPU7\tSYS\tSYS", text), "the row of GPU7 .* it ends early"),
            (lambda text: re.sub(r"(\nGPU2\tNODE)", r"\1\tNODE", text), "row of GPU2 has more than 8 labels"),
            (lambda text: text.replace("\nGPU3\tNODE", "\nGPU3\tPHB"), "GPU0 to GPU3 is NODE, but GPU3 to GPU0 is PHB"),
            (lambda text: text.replace("\nGPU3\tNODE", "\nGPU3\tNODE?"), "'NODE\\?' is no label"),
            (lambda text: text.replace("\nGPU3\tNODE", "\nGPU3\t"), "the row of GPU3"),
            (lambda text: text.replace("\nGPU7", "\nGPU8"), "row for 'GPU8', which the header does not name"),
            (lambda text: text.replace("\nGPU7", "\nGPU6"), "two rows for GPU6"),
            (lambda text: text.replace("GPU3\tGPU4", "GPU4\tGPU3", 1), "does not count the GPUs from 0"),
            (lambda text: text.replace("GPU3\tGPU4", "GPU3\tGPU3", 1), "does not count the GPUs from 0"),
            (lambda text: text + text, "row for 'GPU0GPU0'|two rows for|is no label"),
            (lambda text: text.split("\n", 1)[1], "no device|count the GPUs"),
            (lambda text: text.replace("GPU0", "", 1), "count the GPUs from 0"),
            (lambda text: "", "no line that names the GPUs"),
            (lambda text: "Legend:\n\n  X    = Self\n", "no line that names the GPUs"),
        ],
    )
    def test_damaged_table(self, damage: object, reason: str) -> None:
        assert callable(damage)
        with pytest.raises(UntrustedMatrixError, match=reason):
            parse_links(damage(TWO_SOCKETS))

    def test_network_device_named_twice(self) -> None:
        with pytest.raises(UntrustedMatrixError, match="names a device twice"):
            parse_links(SWITCHES.replace("NIC1", "NIC0", 1))

    def test_shifted_diagonal(self) -> None:
        with pytest.raises(UntrustedMatrixError, match="X must stand on the diagonal"):
            parse_links(table("GPU0\tSYS\tX", "GPU1\tX\tSYS"))


def assert_is_matrix(matrix: list[list[str]], labels: frozenset[str]) -> None:
    assert all(len(row) == len(matrix) for row in matrix)
    for i, row in enumerate(matrix):
        assert [j for j, label in enumerate(row) if label == "X"] == [i]
        assert all(label in labels or re.fullmatch("NV[0-9]+", label) for label in row)


class TestMutatedCaptures:
    @given(mutated(TWO_SOCKETS) | mutated(SWITCHES))
    def test_links_are_whole_or_refused(self, text: str) -> None:
        try:
            matrix = parse_links(text)
        except UntrustedMatrixError as refusal:
            assert str(refusal)
            return
        assert_is_matrix(matrix, LINK_LABELS)
        assert all(matrix[i][j] == matrix[j][i] for i in range(len(matrix)) for j in range(len(matrix)))

    @given(mutated(P2P))
    def test_p2p_is_whole_or_refused(self, text: str) -> None:
        try:
            assert_is_matrix(parse_p2p(text), P2P_LABELS)
        except UntrustedMatrixError as refusal:
            assert str(refusal)

    @given(NOISE)
    def test_any_text(self, text: str) -> None:
        for parse in (parse_links, parse_p2p):
            try:
                assert_is_matrix(parse(text), LINK_LABELS | P2P_LABELS)
            except UntrustedMatrixError as refusal:
                assert str(refusal)
