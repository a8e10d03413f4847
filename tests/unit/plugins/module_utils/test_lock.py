# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lock of a directory with state."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.blackwell.inference.plugins.module_utils._lock import LockError, lock_of, locked


@pytest.fixture
def state(tmp_path: Path) -> str:
    return str(tmp_path / "state")


def test_one_at_a_time(state: str) -> None:
    refused = pytest.raises(LockError, match=r"another run has held .*/state/lock for 0 s; see which one: fuser -v /")
    with locked(state, create=True) as held:
        assert held
        with refused, locked(state, create=True, wait=0.2):
            pytest.fail("two at once")
    with locked(state, create=True, wait=0.2) as held:
        assert held


def test_who_only_looks_waits_as_well(state: str) -> None:
    with locked(state, create=True), pytest.raises(LockError), locked(state, create=False, wait=0.2):
        pytest.fail("two at once")


def test_looking_creates_nothing(state: str) -> None:
    with locked(state, create=False) as held:
        assert not held
    assert not Path(state).exists()
    Path(state).mkdir()
    with locked(state, create=False) as held:
        assert not held
    assert not Path(lock_of(state)).exists()


def test_what_is_private_stays_private(state: str) -> None:
    with locked(state, create=True, mode=0o700):
        assert [Path(path).stat().st_mode & 0o777 for path in (state, lock_of(state))] == [0o700, 0o600]


def test_a_place_that_is_no_directory_is_named(state: str) -> None:
    Path(state).write_text("a file")
    with pytest.raises(LockError, match=r"state.*name a directory that can be written"), locked(state, create=True):
        pytest.fail("locked a file")
