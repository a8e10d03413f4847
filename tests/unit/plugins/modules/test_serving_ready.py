# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module: options, results, failures, check mode. The waiting is tested with the rooms below it."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.blackwell.inference.plugins.module_utils._serving_unit import UnitError
from ansible_collections.blackwell.inference.plugins.modules import serving_ready
from ansible_collections.blackwell.inference.tests.unit.plugins.modules.module_case import (
    NOBODY,
    Capture,
    assert_documented,
    keys_of,
    run_module,
)


def test_the_documented_options_are_those_of_the_module() -> None:
    assert_documented(serving_ready, serving_ready.argument_spec())


def not_ready(cause: str) -> dict[str, Any]:
    return {
        "ready": not cause,
        "cause": cause,
        "message": "the unit is failed (result exit-code, exit status 1)",
        "seconds": 1.0,
        "phase": "loading weights",
        "phases": [],
        "stages": [],
        "log": ["ValueError: no such layer"] if cause else [],
    }


def test_a_server_that_died_fails_with_its_own_words_and_the_next_command(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving_ready, "wait_until_ready", lambda _wait, _run: not_ready("died"))
    answer = run_module(serving_ready, capsys, url=NOBODY, unit="x.service")
    for part in ("x.service does not serve", "loading weights", "ValueError: no such layer", "journalctl -u x.service"):
        assert part in answer["msg"]
    assert answer["failed"] and answer["cause"] == "died" and answer["log"]


def test_a_timeout_fails_unless_it_is_waited_in_slices(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving_ready, "wait_until_ready", lambda _wait, _run: not_ready("timeout"))
    assert run_module(serving_ready, capsys, url=NOBODY)["failed"]
    answer = run_module(serving_ready, capsys, url=NOBODY, fail_on_timeout=False)
    assert "failed" not in answer and answer["ready"] is False and answer["phase"] == "loading weights"
    monkeypatch.setattr(serving_ready, "wait_until_ready", lambda _wait, _run: not_ready("died"))
    assert run_module(serving_ready, capsys, url=NOBODY, fail_on_timeout=False)["failed"]


def test_ready_returns_every_documented_key(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving_ready, "wait_until_ready", lambda _wait, _run: not_ready(""))
    answer = run_module(serving_ready, capsys, url=NOBODY)
    assert answer["ready"] and answer["changed"] is False
    assert keys_of(serving_ready) == set(answer) - {"changed", "invocation"}


def test_check_mode_waits_for_nothing(capsys: Capture) -> None:
    answer = run_module(serving_ready, capsys, url=NOBODY, unit="x.service", timeout=86400, _ansible_check_mode=True)
    assert answer["skipped"] and answer["ready"] is None
    assert keys_of(serving_ready) <= set(answer)


def test_a_unit_that_does_not_exist_fails(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(_wait: Any, _run: Any) -> None:
        raise UnitError("systemd has no usable unit x.service")

    monkeypatch.setattr(serving_ready, "wait_until_ready", raises)
    assert "no usable unit" in run_module(serving_ready, capsys, url=NOBODY, unit="x.service")["msg"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"url": "nowhere"}, "no address"),
        ({"timeout": 0}, "from 1 to 86400"),
        ({"parallel": -1}, "from 0 to 128"),
        ({"unit": "--all"}, "no name of a unit"),
    ],
)
def test_waits_that_make_no_sense_fail(capsys: Capture, options: dict[str, Any], says: str) -> None:
    assert says in run_module(serving_ready, capsys, **{"url": NOBODY, **options})["msg"]
