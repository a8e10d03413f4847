# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waiting for a server: when it serves, when it died, and what its log says."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.blackwell.inference.plugins.module_utils import _serving_ready
from ansible_collections.blackwell.inference.plugins.module_utils._serving_http import EndpointError, parse_url
from ansible_collections.blackwell.inference.plugins.module_utils._serving_log import (
    meaningful_lines,
    phase_of,
    split_log,
)
from ansible_collections.blackwell.inference.plugins.module_utils._serving_ready import Wait, wait_until_ready
from ansible_collections.blackwell.inference.plugins.module_utils._serving_unit import (
    PROPERTIES,
    UnitError,
    UnitState,
    death,
    invocation_log,
    parse_state,
    unit_state,
)
from ansible_collections.blackwell.inference.tests.unit.plugins.module_utils.serving_case import StandIn, serve

RUNNING = UnitState("active", "running", "a" * 32, 0, "success", 0, 100)
DIED = RUNNING._replace(active="failed", sub="failed", result="exit-code", status=1, pid=0)


@pytest.fixture
def engine() -> Iterator[StandIn]:
    with serve(StandIn()) as stand_in:
        yield stand_in


class FakeUnit:
    """What systemd would say, look after look; the last state stays."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *states: UnitState, log: str = "") -> None:
        self.states = list(states) or [RUNNING]
        self.log = log
        self.asked: list[str] = []
        monkeypatch.setattr(_serving_ready, "unit_state", self.state)
        monkeypatch.setattr(_serving_ready, "invocation_log", self.read)
        monkeypatch.setattr(_serving_ready, "PAUSE", 0.01)
        monkeypatch.setattr(_serving_ready, "LOG_EVERY", 0.0)

    def state(self, _run: Any, _unit: str) -> UnitState:
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]

    def read(self, _run: Any, _unit: str, invocation: str, _lines: int) -> str:
        self.asked.append(invocation)
        return self.log


def nothing_runs(_command: list[str]) -> tuple[int, str, str]:
    raise AssertionError("no command is needed")


def wait(case: StandIn, **more: Any) -> Wait:
    given = {
        "endpoint": parse_url(case.url, case.key),
        "model": "",
        "unit": "specdecode@main.service",
        "prompt": "Say something",
        "timeout": 5.0,
        "request_timeout": 2.0,
    }
    return Wait(**{**given, **more})


def test_ready_is_a_completion(engine: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    FakeUnit(monkeypatch)
    engine.not_ready = 3
    result = wait_until_ready(wait(engine), nothing_runs)
    assert result["ready"] and result["cause"] == "" and result["phase"] == "serving"
    assert [stage["stage"] for stage in result["stages"]] == ["completion"]
    assert len(engine.seen) == 4 and engine.seen[0]["model"] == "target"


def test_ready_needs_no_unit(engine: StandIn) -> None:
    assert wait_until_ready(wait(engine, unit=""), nothing_runs)["ready"]


def test_then_a_long_prompt_and_several_at_once(engine: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    FakeUnit(monkeypatch)
    engine.max_model_len = 50000
    result = wait_until_ready(wait(engine, long_bytes=9000, parallel=5), nothing_runs)
    assert [(stage["stage"], stage["status"]) for stage in result["stages"]] == [
        ("completion", "passed"),
        ("long prompt", "passed"),
        ("parallel", "passed"),
    ]
    assert sorted(len(body["prompt"]) // 1000 for body in engine.seen) == [0] * 6 + [9]


def test_a_model_too_small_for_the_long_prompt_is_ready(engine: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    FakeUnit(monkeypatch)
    result = wait_until_ready(wait(engine, long_bytes=9000, parallel=2), nothing_runs)
    assert result["ready"]
    assert [stage["status"] for stage in result["stages"]] == ["passed", "not_applicable", "passed"]


def test_the_wait_ends_as_soon_as_the_process_died(engine: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = FakeUnit(monkeypatch, RUNNING, RUNNING, RUNNING, DIED, log="INFO x\nValueError: no such layer\n")
    engine.not_ready = 1000
    started = time.monotonic()
    result = wait_until_ready(wait(engine, timeout=60.0), nothing_runs)
    assert time.monotonic() - started < 5
    assert (result["ready"], result["cause"]) == (False, "died")
    assert "exit status 1" in result["message"] and result["log"] == ["ValueError: no such layer"]
    assert set(unit.asked) == {"a" * 32}


def test_a_death_during_the_long_prompt_is_one(engine: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    FakeUnit(monkeypatch, RUNNING, RUNNING, DIED)
    engine.max_model_len = 50000

    def dies(_wait: Wait, prompts: list[str], _timeout: float) -> list[Any]:
        return [EndpointError("connection", "reset") for dummy in prompts]

    monkeypatch.setattr(_serving_ready, "_together", dies)
    result = wait_until_ready(wait(engine, long_bytes=9000), nothing_runs)
    assert result["cause"] == "died" and result["message"].startswith("long prompt: the unit is failed")


def test_a_long_prompt_that_does_not_come_back_is_a_failure(engine: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    FakeUnit(monkeypatch)
    engine.max_model_len = 50000
    first = _serving_ready._first_completion

    def then_hang(*args: Any) -> Any:
        answer = first(*args)
        engine.behaviour = "hang"
        return answer

    monkeypatch.setattr(_serving_ready, "_first_completion", then_hang)
    result = wait_until_ready(wait(engine, long_bytes=9000, request_timeout=0.3), nothing_runs)
    assert result["cause"] == "failed" and "timeout" in result["message"]


def test_a_server_that_never_serves_runs_into_the_timeout(engine: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    FakeUnit(monkeypatch, log="INFO x [y.py:1] Loading weights took 3 s")
    engine.not_ready = 10**6
    result = wait_until_ready(wait(engine, timeout=0.3), nothing_runs)
    assert (result["cause"], result["phase"]) == ("timeout", "weights loaded")
    assert "http 503: " in result["message"]


def test_a_server_that_hangs_runs_into_the_timeout(engine: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    FakeUnit(monkeypatch)
    engine.behaviour = "hang"
    assert wait_until_ready(wait(engine, timeout=0.5, request_timeout=0.2), nothing_runs)["cause"] == "timeout"


@pytest.mark.parametrize(("behaviour", "part"), [("garbage", "not JSON"), ("empty", "empty")])
def test_a_server_that_talks_nonsense_is_not_waited_for(
    engine: StandIn, monkeypatch: pytest.MonkeyPatch, behaviour: str, part: str
) -> None:
    FakeUnit(monkeypatch)
    engine.behaviour = behaviour
    result = wait_until_ready(wait(engine, timeout=60.0), nothing_runs)
    assert result["cause"] == "refused" and part in result["message"]
    assert len(engine.seen) == _serving_ready.MAX_GARBAGE


def test_a_wrong_key_is_not_waited_for(engine: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    FakeUnit(monkeypatch)
    engine.key = "right"
    result = wait_until_ready(wait(engine, endpoint=parse_url(engine.url, "wrong"), timeout=60.0), nothing_runs)
    assert result["cause"] == "refused" and "401" in result["message"]


def test_phases_are_noted_once_each(engine: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = FakeUnit(monkeypatch, log="Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:01<00:01]")
    engine.not_ready = 3
    asked = unit.read

    def grow(*args: Any) -> str:
        if len(unit.asked) == 2:
            unit.log += "\rLoading safetensors checkpoint shards: 100% Completed | 2/2 [00:02<00:00]"
        return asked(*args)

    monkeypatch.setattr(_serving_ready, "invocation_log", grow)
    result = wait_until_ready(wait(engine), nothing_runs)
    assert [phase["phase"] for phase in result["phases"]] == ["loading weights 1 of 2", "loading weights 2 of 2"]


@pytest.mark.parametrize(
    ("now", "says"),
    [
        (RUNNING, ""),
        (RUNNING._replace(active="activating", sub="start"), ""),
        (DIED, "the unit is failed (result exit-code, exit status 1)"),
        (RUNNING._replace(active="inactive"), "the unit is inactive"),
        (RUNNING._replace(active="deactivating"), "the unit is deactivating"),
        (RUNNING._replace(active="activating", sub="auto-restart", result="signal"), "about to start it again"),
        (RUNNING._replace(invocation="b" * 32), "systemd started it again"),
        (RUNNING._replace(restarts=1), "1 restarts"),
    ],
)
def test_death_is_told_from_life(now: UnitState, says: str) -> None:
    assert says in death(RUNNING, now)
    assert bool(death(RUNNING, now)) is bool(says)


def test_an_invocation_that_was_not_known_at_first_is_no_restart() -> None:
    assert death(RUNNING._replace(invocation=""), RUNNING) == ""


SHOW = (
    "LoadState=loaded\nActiveState=active\nSubState=running\nInvocationID=abc\nNRestarts=2\nResult=success\nMainPID=7\n"
)


def test_the_state_of_a_unit_is_read() -> None:
    assert parse_state("x", SHOW) == UnitState("active", "running", "abc", 2, "success", 0, 7)


@pytest.mark.parametrize("load", ["not-found", "bad-setting", "masked", "error"])
def test_a_unit_that_cannot_run_is_an_error(load: str) -> None:
    with pytest.raises(UnitError, match=f"LoadState {load}.*systemctl status x.service"):
        parse_state("x.service", SHOW.replace("loaded", load))
    with pytest.raises(UnitError):
        parse_state("x.service", "")


def test_systemd_is_asked_for_the_unit_and_its_invocation() -> None:
    asked: list[str] = []

    def run(command: list[str]) -> tuple[int, str, str]:
        asked.append(" ".join(command))
        return 0, SHOW if "systemctl" in command else "one\ntwo\n", ""

    assert unit_state(run, "x.service").invocation == "abc"
    assert invocation_log(run, "x.service", "abc", 7) == "one\ntwo\n"
    assert invocation_log(run, "x.service", "", 7)
    assert asked[0] == f"timeout 20 systemctl show x.service --property={PROPERTIES}"
    assert asked[1].endswith("--output=cat --lines=7 _SYSTEMD_INVOCATION_ID=abc")
    assert asked[2].endswith("_SYSTEMD_UNIT=x.service")


@pytest.mark.parametrize(
    ("status", "errors", "says"),
    [(1, "no\nbus\n", "systemctl show x.service failed with 1: no bus"), (124, "", "failed with 124: no answer")],
)
def test_a_systemd_that_fails_or_hangs_is_an_error(status: int, errors: str, says: str) -> None:
    def run(_command: list[str]) -> tuple[int, str, str]:
        return status, "", errors

    with pytest.raises(UnitError, match=says):
        unit_state(run, "x.service")
    assert invocation_log(run, "x.service", "abc", 7) == ""  # a log that cannot be read is no reason to fail


def test_a_node_without_systemd_is_an_error() -> None:
    def run(_command: list[str]) -> tuple[int, str, str]:
        raise FileNotFoundError("systemctl")

    with pytest.raises(UnitError, match="Is systemd running on this node"):
        unit_state(run, "x.service")


@pytest.mark.parametrize(
    ("line", "phase"),
    [
        ("(Core pid=7) Loading safetensors checkpoint shards:  25% Completed | 1/4 [0:00]", "loading weights 1 of 4"),
        ("Multi-thread loading shards:  62% Completed | 38/61 [01:10<00:40,  1.7s/it]", "loading weights 38 of 61"),
        ("(Core pid=7) INFO 11-30 10:42:01 [gpu_model_runner.py:4098] Starting to load model /m...", "loading weights"),
        ("[2026-11-30 10:42:01 TP0] Load weight begin. avail mem=94.10 GB", "loading weights"),
        ("[2026-11-30 10:42:01 TP0] Load weight end. type=KimiK25, avail mem=20.10 GB", "weights loaded"),
        ("INFO 11-30 10:42:01 [gpu_model_runner.py:41] Loading drafter model...", "loading the draft"),
        ("Capturing CUDA graphs (decode, FULL):  40%|####      | 14/35 [00:03<00:04]", "capturing graphs 14 of 35"),
        ("Capturing batches (bs=128 avail_mem=9.3 GB):  11%|#1       | 4/36 [00:02<00:21]", "capturing graphs 4 of 36"),
        ("[2026-11-30 10:42:01 TP0] Capture draft cuda graph begin. This can take long.", "capturing graphs"),
        ("[2026-11-30 10:42:01 TP0] Capture draft extend CUDA graph begin. backend=triton", "capturing graphs"),
        ("[2026-11-30 10:42:01 TP0] Capture cuda graph end. Time elapsed: 9.13 s", "graphs captured"),
        ("Capturing prefill shape (num_tokens=64 avail_mem=9.3 GB):  50%|#  | 1/2 [0:02]", "capturing graphs 1 of 2"),
        ("INFO 11-30 10:42:01 [backends.py:643] Dynamo bytecode transform time: 7.02 s", "compiling"),
        ("[2026-11-30 10:42:01 TP0] KV Cache is allocated. #tokens: 200000, KV size: 20 GB", "cache allocated"),
        ("INFO 11-30 10:42:01 [kv_cache_utils.py:1307] GPU KV cache size: 199,584 tokens", "cache allocated"),
        ("INFO:     Application startup complete.", "answering"),
        ("[2026-11-30 10:42:01] The server is fired up and ready to roll!", "answering"),
        ("INFO:     Waiting for application startup.", "starting"),
        ("something else", ""),
    ],
)  # fmt: skip
def test_phases_are_known_by_the_engines_own_lines(line: str, phase: str) -> None:
    assert phase_of(["noise", line, "more noise"]) == phase


def test_the_latest_phase_counts() -> None:
    assert phase_of(["Load weight begin", "Load weight end", "Capture cuda graph begin"]) == "capturing graphs"


VLLM_LOG = """\x1b[1;36m(EngineCore pid=71)\x1b[0;0m ERROR 11-30 10:42:01 [core.py:842] EngineCore failed to start.
(EngineCore pid=71) ERROR 11-30 10:42:01 [core.py:842] Traceback (most recent call last):
(EngineCore pid=71) ERROR 11-30 10:42:01 [core.py:842]   File "/opt/v/core.py", line 833, in run_engine_core
(EngineCore pid=71) ERROR 11-30 10:42:01 [core.py:842]     raise RuntimeError(
(EngineCore pid=71) ERROR 11-30 10:42:01 [core.py:842] RuntimeError: Model does not support EAGLE3 interface
(EngineCore pid=71) Process EngineCore:
(EngineCore pid=71) Traceback (most recent call last):
(EngineCore pid=71)   File "/usr/lib/python3.11/multiprocessing/process.py", line 314, in _bootstrap
(EngineCore pid=71)     self.run()
(EngineCore pid=71)     ^^^^^^^^^^
(EngineCore pid=71) RuntimeError: Model does not support EAGLE3 interface
(APIServer pid=60) Traceback (most recent call last):
(APIServer pid=60)   File "/opt/v/vllm", line 8, in <module>
(APIServer pid=60) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""


def test_the_root_cause_is_shown_and_what_follows_from_it_is_not() -> None:
    assert meaningful_lines(split_log(VLLM_LOG)) == [
        "EngineCore failed to start.",
        "RuntimeError: Model does not support EAGLE3 interface",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "launch_server.py: error: unrecognized arguments: --speculative-num-stepz 3",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "RuntimeError: CUDA error: no kernel image is available for execution on the device",
        "AssertionError",
        "node1:812:812 [0] transport/shm.cc:590 NCCL WARN Error: failed to extend /dev/shm/nccl-A1b2C3",
        "OSError: [Errno 28] No space left on device",
        "ImportError: flash_attn_2_cuda.so: undefined symbol: _ZN3c105ErrorC2E",
        "[Errno 98] error while attempting to bind on address ('127.0.0.1', 8000): address already in use",
        "Segmentation fault (core dumped)",
    ],
)
def test_fatal_lines_are_found_among_others(line: str) -> None:
    log = [f"INFO 11-30 10:42:0{i} [x.py:{i}] fine" for i in range(5)]
    for written in (
        line,
        f"[2026-11-30 10:42:01 TP0] {line}",
        f"(Worker_TP0 pid=9) ERROR 11-30 10:42:01 [w.py:3] {line}",
    ):
        assert meaningful_lines([*log, written, *log]) == [line]


def test_without_a_reason_the_last_lines_stand() -> None:
    assert meaningful_lines([f"line {i}" for i in range(20)], 3) == ["line 17", "line 18", "line 19"]
    assert meaningful_lines([]) == []


def test_the_first_exception_is_kept_among_many() -> None:
    log = ["KeyError: 'root'", *(f"ValueError: {i}" for i in range(20))]
    shown = meaningful_lines(log, 4)
    assert len(shown) == 4 and shown[0] == "KeyError: 'root'" and shown[-1] == "ValueError: 19"
