# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module: options, results, failures. What it measures is tested with the rooms below it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.testing import patch_module_args
from ansible_collections.blackwell.inference.plugins.modules import spec_decode_probe
from ansible_collections.blackwell.inference.tests.unit.plugins.modules.module_case import (
    NOBODY,
    Capture,
    assert_documented,
    keys_of,
    run_module,
)


def test_the_documented_options_are_those_of_the_module() -> None:
    assert_documented(spec_decode_probe, spec_decode_probe.argument_spec())


def test_a_server_that_is_not_there_is_a_result_with_every_documented_key(capsys: Capture) -> None:
    answer = run_module(spec_decode_probe, capsys, url=NOBODY, engine="vllm", reference=[])
    assert keys_of(spec_decode_probe) == set(answer) - {"changed", "invocation", "warnings", "deprecations"}
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
    answer = run_module(spec_decode_probe, capsys, **{"url": NOBODY, "engine": "vllm", **options})
    assert answer["failed"] and says in answer["msg"]


def test_the_key_reaches_the_server_and_not_the_answer(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "main.env").write_text("VLLM_API_KEY=s3cret-key\n")
    options = {"url": NOBODY, "engine": "vllm", "api_key_file": str(tmp_path / "main.env")}
    with patch_module_args(options):
        parsed = AnsibleModule(argument_spec=spec_decode_probe.argument_spec()).params
    assert spec_decode_probe.plan_of(parsed).endpoint.key == "s3cret-key"
    assert "s3cret-key" not in json.dumps(run_module(spec_decode_probe, capsys, **options))
