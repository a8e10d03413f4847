# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The modules spec_decode_probe, serving_ready and stale_process_info: options, results, failures, check mode."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.testing import patch_module_args
from ansible_collections.blackwell.inference.plugins.module_utils._serving_unit import UnitError
from ansible_collections.blackwell.inference.plugins.modules import (
    serving_ready,
    spec_decode_probe,
    stale_process_info,
)

NOBODY = "http://127.0.0.1:9"


Capture = pytest.CaptureFixture[str]


def run(module: ModuleType, capsys: Capture, **options: Any) -> dict[str, Any]:
    """Run a module in this process as Ansible would, and return its answer."""
    with patch_module_args(options), pytest.raises(SystemExit) as end:
        module.main()
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert bool(end.value.code) is bool(answer.get("failed"))
    return answer


def documented(module: ModuleType) -> tuple[dict[str, Any], dict[str, Any]]:
    return yaml.safe_load(module.DOCUMENTATION)["options"], yaml.safe_load(module.RETURN)


@pytest.mark.parametrize("module", [spec_decode_probe, serving_ready])
def test_the_documented_options_are_those_of_the_module(module: ModuleType) -> None:
    options, _returns = documented(module)
    spec = module.argument_spec()
    assert set(options) == set(spec)
    for name, option in options.items():
        assert option["type"] == spec[name]["type"], name
        assert option.get("default") == spec[name].get("default"), name
        assert option.get("choices") == spec[name].get("choices"), name
        assert option.get("required", False) == spec[name].get("required", False), name


def test_a_server_that_is_not_there_is_a_result_with_every_documented_key(capsys: Capture) -> None:
    answer = run(spec_decode_probe, capsys, url=NOBODY, engine="vllm", reference=[])
    _options, returns = documented(spec_decode_probe)
    assert set(returns) == set(answer) - {"changed", "invocation", "warnings", "deprecations"}
    assert answer["changed"] is False and answer["errors"][0]["kind"] == "connection"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"url": "nowhere"}, "no address of a server"),
        ({"max_tokens": 1}, "from 2 to 4096"),
        ({"repetitions": 0}, "from 1 to 20"),
        ({"streams": []}, "different numbers"),
        ({"streams": [1, 1]}, "different numbers"),
        ({"streams": [0]}, "from 1 to 128"),
        ({"prompts": []}, "nothing would be measured"),
        ({"api_key_file": "/does/not/exist"}, "No such file"),
        ({"engine": "tgi"}, "vllm, sglang"),
    ],
)
def test_options_that_make_no_sense_fail(capsys: Capture, options: dict[str, Any], says: str) -> None:
    answer = run(spec_decode_probe, capsys, **{"url": NOBODY, "engine": "vllm", **options})
    assert answer["failed"] and says in answer["msg"]


def test_the_key_reaches_the_server_and_not_the_answer(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "main.env").write_text("VLLM_API_KEY=s3cret-key\n")
    options = {"url": NOBODY, "engine": "vllm", "api_key_file": str(tmp_path / "main.env")}
    with patch_module_args(options):
        parsed = AnsibleModule(argument_spec=spec_decode_probe.argument_spec()).params
    assert spec_decode_probe.plan_of(parsed).endpoint.key == "s3cret-key"
    assert "s3cret-key" not in json.dumps(run(spec_decode_probe, capsys, **options))


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
    answer = run(serving_ready, capsys, url=NOBODY, unit="x.service")
    for part in ("x.service does not serve", "loading weights", "ValueError: no such layer", "journalctl -u x.service"):
        assert part in answer["msg"]
    assert answer["failed"] and answer["cause"] == "died" and answer["log"]


def test_a_timeout_fails_unless_it_is_waited_in_slices(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving_ready, "wait_until_ready", lambda _wait, _run: not_ready("timeout"))
    assert run(serving_ready, capsys, url=NOBODY)["failed"]
    answer = run(serving_ready, capsys, url=NOBODY, fail_on_timeout=False)
    assert "failed" not in answer and answer["ready"] is False and answer["phase"] == "loading weights"
    monkeypatch.setattr(serving_ready, "wait_until_ready", lambda _wait, _run: not_ready("died"))
    assert run(serving_ready, capsys, url=NOBODY, fail_on_timeout=False)["failed"]


def test_ready_returns_every_documented_key(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving_ready, "wait_until_ready", lambda _wait, _run: not_ready(""))
    answer = run(serving_ready, capsys, url=NOBODY)
    assert answer["ready"] and answer["changed"] is False
    assert set(documented(serving_ready)[1]) == set(answer) - {"changed", "invocation"}


def test_check_mode_waits_for_nothing(capsys: Capture) -> None:
    answer = run(serving_ready, capsys, url=NOBODY, unit="x.service", timeout=86400, _ansible_check_mode=True)
    assert answer["skipped"] and answer["ready"] is None
    assert set(documented(serving_ready)[1]) <= set(answer)


def test_a_unit_that_does_not_exist_fails(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(_wait: Any, _run: Any) -> None:
        raise UnitError("systemd has no usable unit x.service")

    monkeypatch.setattr(serving_ready, "wait_until_ready", raises)
    assert "no usable unit" in run(serving_ready, capsys, url=NOBODY, unit="x.service")["msg"]


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
    assert says in run(serving_ready, capsys, **{"url": NOBODY, **options})["msg"]


def test_stale_processes_are_returned_with_every_documented_key(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("")
    answer = run(stale_process_info, capsys, path=[str(tmp_path)])
    assert set(documented(stale_process_info)[1]) <= set(answer)
    assert answer["changed"] is False and answer["stale"] == [] and answer["files"] == 1


def test_an_environment_that_does_not_exist_fails(capsys: Capture) -> None:
    assert "does not exist" in run(stale_process_info, capsys, path=["/does/not/exist"])["msg"]


def test_what_could_not_be_read_is_warned_of(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"hidden": 3, "unreadable": ["/x: Permission denied"], "stale": []}
    warnings: list[str] = []
    monkeypatch.setattr(stale_process_info, "find_stale", lambda _roots: found)
    monkeypatch.setattr(AnsibleModule, "warn", lambda _module, text: warnings.append(text))
    run(stale_process_info, capsys, path=["/"])
    assert "3 processes" in warnings[0] and "Permission denied" in warnings[1]
