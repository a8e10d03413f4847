# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ACS bits are found by the chain of capabilities, and "unknown" is never taken for "off"."""

from __future__ import annotations

import struct

import pytest
from ansible_collections.blackwell.inference.plugins.module_utils._pci import (
    UnreadableConfigError,
    acs_control,
    bridges_above,
    normal_address,
)
from hypothesis import given
from hypothesis import strategies as st

# ACSCtl as lspci prints it, bit by bit.
SRC_VALID, TRANS_BLK, REQ_REDIR, CMPLT_REDIR, UPSTREAM_FWD, EGRESS, DIRECT = (1 << bit for bit in range(7))

AER, ACS, SECONDARY_PCIE = 0x0001, 0x000D, 0x0019


def config_space(*capabilities: tuple[int, int, int], size: int = 4096, last: int = 0) -> bytes:
    """A configuration space with a chain of (offset, id, ACS control bits); the last one is linked to `last`."""
    space = bytearray(4100)
    struct.pack_into("<HH", space, 0, 0x1022, 0x153E)
    following = [capability[0] for capability in capabilities[1:]] + [last]
    for (offset, identity, control), next_offset in zip(capabilities, following, strict=False):
        struct.pack_into("<I", space, offset, identity | 1 << 16 | next_offset << 20)
        struct.pack_into("<HH", space, offset + 4, 0x5F, control)
    return bytes(space[:size])


class TestAcsControl:
    @pytest.mark.parametrize(
        ("control", "expected"),
        [
            (0, (False, False, False)),
            (SRC_VALID | UPSTREAM_FWD, (True, False, False)),
            (SRC_VALID | REQ_REDIR | CMPLT_REDIR | UPSTREAM_FWD, (True, True, True)),
            (REQ_REDIR, (False, True, False)),
            (CMPLT_REDIR, (False, False, True)),
            (TRANS_BLK | EGRESS | DIRECT, (False, False, False)),
        ],
        ids=[
            "off",
            "SrcValid alone is harmless",
            "redirect",
            "redirect without SrcValid",
            "completions only",
            "others",
        ],
    )
    def test_bits(self, control: int, expected: tuple[bool, bool, bool]) -> None:
        assert acs_control(config_space((0x100, ACS, control))) == expected

    def test_the_chain_is_walked_in_any_direction(self) -> None:
        space = config_space((0x100, AER, 0), (0x2A0, SECONDARY_PCIE, 0), (0x170, ACS, REQ_REDIR))
        control = acs_control(space)
        assert control is not None
        assert control.request_redirect

    def test_another_capability_with_the_same_bits_is_not_taken_for_it(self) -> None:
        assert acs_control(config_space((0x100, AER, REQ_REDIR), (0x200, SECONDARY_PCIE, REQ_REDIR))) is None

    def test_no_capability_at_all(self) -> None:
        assert acs_control(config_space()) is None

    def test_last_place_of_the_space(self) -> None:
        control = acs_control(config_space((0x100, AER, 0), (0xFF8, ACS, CMPLT_REDIR)))
        assert control == (False, False, True)


class TestUnknownIsNotOff:
    @pytest.mark.parametrize(
        ("space", "reason"),
        [
            (config_space((0x100, ACS, 0), size=64), "64 bytes .* needs root"),
            (config_space((0x100, ACS, 0), size=256), "256 bytes, no extended"),
            (b"", "0 bytes"),
            (b"\xff" * 4096, "does not answer"),
            (b"\x22\x10\x3e\x15" + b"\xff" * 4092, "does not answer"),
            (config_space((0x100, AER, 0), (0xFFC, ACS, 0)), "cut off"),
            (config_space((0x100, AER, 0), (0x0C0, ACS, 0)), "damaged at 0xc0"),
            (config_space((0x100, AER, 0), (0x200, AER, 0), last=0x100), "damaged at 0x100"),
        ],
        ids=[
            "without root",
            "no extended space",
            "empty",
            "fallen off the bus",
            "half answered",
            "cut off",
            "leaves the extended space",
            "runs in a circle",
        ],
    )
    def test_refused_with_the_reason(self, space: bytes, reason: str) -> None:
        with pytest.raises(UnreadableConfigError, match=reason):
            acs_control(space)

    @given(st.binary(max_size=128), st.lists(st.tuples(st.integers(0x100, 0xFFC), st.binary(min_size=4, max_size=8))))
    def test_any_bytes_end(self, start: bytes, patches: list[tuple[int, bytes]]) -> None:
        space = bytearray(config_space((0x100, ACS, REQ_REDIR)))
        space[: len(start)] = start
        for offset, content in patches:
            space[offset : offset + len(content)] = content
        try:
            control = acs_control(bytes(space[:4096]))
        except UnreadableConfigError as refusal:
            assert str(refusal)
        else:
            assert control is None or {*control} <= {True, False}


class TestAddresses:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("00000000:06:00.0", "0000:06:00.0"),
            ("00000000:C1:00.0", "0000:c1:00.0"),
            ("0000:c1:00.0", "0000:c1:00.0"),
            ("00010000:E1:00.0", "10000:e1:00.0"),
            (" 0000:06:00.0\n", "0000:06:00.0"),
            ("06:00.0", None),
            ("0000:06:00.8", None),
            ("0000:06:00", None),
            ("N/A", None),
            ("", None),
        ],
    )
    def test_as_sysfs_writes_it(self, text: str, expected: str | None) -> None:
        assert normal_address(text) == expected


class TestBridges:
    def test_behind_a_switch(self) -> None:
        path = "/sys/devices/pci0000:00/0000:00:01.1/0000:01:00.0/0000:02:00.0/0000:06:00.0"
        assert bridges_above(path) == ["0000:00:01.1", "0000:01:00.0", "0000:02:00.0"]

    def test_on_a_root_port(self) -> None:
        assert bridges_above("/sys/devices/pci0000:c0/0000:c0:01.1/0000:c1:00.0") == ["0000:c0:01.1"]

    def test_on_the_root_complex_itself(self) -> None:
        assert bridges_above("/sys/devices/pci0000:00/0000:00:05.0") == []

    def test_behind_a_platform_device(self) -> None:
        path = "/sys/devices/platform/soc/4000000.pcie/pci0004:00/0004:00:00.0/0004:01:00.0"
        assert bridges_above(path) == ["0004:00:00.0"]

    def test_domain_of_five_digits(self) -> None:
        assert bridges_above("/sys/devices/pci10000:e0/10000:e0:02.0/10000:e1:00.0") == ["10000:e0:02.0"]

    @pytest.mark.parametrize("path", ["/sys/bus/pci/devices/0000:06:00.0", "/sys/devices/pci0000:00", "/", ""])
    def test_a_path_that_shows_no_place(self, path: str) -> None:
        assert bridges_above(path) is None
