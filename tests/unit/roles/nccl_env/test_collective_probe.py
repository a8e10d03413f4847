# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The probe: what it reads without torch, and real ranks over gloo where an interpreter with torch is named.

SPECDECODE_TORCH_PYTHON names it, for example that of the lab's environment.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

PROGRAM = Path(__file__).parents[4] / "roles/nccl_env/files/collective_probe.py"
STEPS = [{"group": "decode", "collective": "all_reduce", "bytes": 16384}] * 2
NCCL_LOG = """\
node1:100:100 [0] NCCL INFO cudaDriverVersion 13000
node1:100:140 [0] NCCL INFO comm 0x55 rank 0 nranks 2 cudaDev 0 busId 3000 commId 0xd0 localSize 192 - Init COMPLETE
node1:101:141 [1] NCCL INFO ncclCommInitRankConfig comm 0x55 rank 1 nranks 2 cudaDev 1 nvmlDev 1 - Init COMPLETE
node1:100:150 [0] NCCL INFO Channel 00/08 :    0   1
node1:100:150 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read
node1:100:150 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM/read
node1:101:151 [1] NCCL INFO Channel 00 : 1[c3000] -> 0[3000] via SHM/direct/direct
node1:101:151 [1] NCCL INFO Channel 00/0 : 1[1] -> 2[0] [send] via NET/Socket/0
node1:101:151 [1] transport.cc:27 NCCL WARN Cuda failure 'peer access is not supported'
node1:101:151 [1] transport.cc:27 NCCL WARN Cuda failure 'peer access is not supported'
"""
REPORT = """\
Failures:
[1]:
  time      : 2026-11-30_11:57:45
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 27930)  (SIGTERM)
Root Cause (first observed failure):
[0]:
  time      : 2026-11-30_11:57:45
  host      : localhost
  rank      : 1 (local_rank: 1)
  exitcode  : 7 (pid: 27931)
============================================================
"""


def seen(probe: ModuleType, notes: Sequence[Sequence[dict[str, Any]]], **more: Any) -> Any:
    parts = {"measured": [], "endings": {}, "hung": False, "timeout": 8, **more}
    return probe.status_of(probe.Evidence(steps=STEPS, notes=notes, **parts))


class TestWhatIsMeasured:
    def test_every_size_with_every_collective(self, probe: ModuleType) -> None:
        steps = probe.steps_of({"decode": [16384], "prefill": [1 << 24]}, 8)
        assert [(step["group"], step["collective"]) for step in steps] == [
            ("decode", "all_reduce"),
            ("decode", "all_gather"),
            ("decode", "all_to_all"),
            ("prefill", "all_reduce"),
            ("prefill", "all_gather"),
            ("prefill", "all_to_all"),
        ]

    def test_every_rank_gets_an_equal_share_of_whole_values(self, probe: ModuleType) -> None:
        assert {step["bytes"] for step in probe.steps_of({"decode": [1, 10000]}, 6)} == {24, 10008}

    @pytest.mark.parametrize(
        ("collective", "factor"), [("all_reduce", 1.75), ("all_gather", 0.875), ("all_to_all", 0.875)]
    )
    def test_bus_bandwidth_is_that_of_nccl_tests(self, probe: ModuleType, collective: str, factor: float) -> None:
        assert probe.bus_bandwidth(collective, 10**9, 0.1, 8) == pytest.approx(10 * factor)

    def test_patterns_of_ranks_and_rounds_differ(self, probe: ModuleType) -> None:
        """What stands for a rank's share must not be mistaken for that of another rank, round or place."""
        shifts = {probe.shift_of(rank, round_) for rank in range(50) for round_ in range(probe.ROUNDS)}
        assert len(shifts) == 50 * probe.ROUNDS


class TestNcclLog:
    def test_pairs_are_counted_by_transport_and_once(self, probe: ModuleType) -> None:
        assert probe.read_nccl_log(NCCL_LOG)["transports"] == {"NET": 1, "P2P": 1, "SHM": 1}

    def test_ranks_that_are_initialised(self, probe: ModuleType) -> None:
        assert probe.read_nccl_log(NCCL_LOG)["initialised"] == [0, 1]

    def test_a_warning_is_kept_once(self, probe: ModuleType) -> None:
        assert probe.read_nccl_log(NCCL_LOG)["warnings"] == ["Cuda failure 'peer access is not supported'"]

    def test_an_empty_log_says_nothing(self, probe: ModuleType) -> None:
        assert probe.read_nccl_log("") == {"initialised": [], "transports": {}, "warnings": []}


class TestStatus:
    END: Sequence[dict[str, Any]] = ({"at": "joined"}, {"at": "end"})

    def test_who_was_ended_by_the_starter_did_not_die(self, probe: ModuleType) -> None:
        assert probe.read_endings(REPORT) == {1: 7}

    def test_a_rank_that_ended_without_a_word(self, probe: ModuleType) -> None:
        notes: list[list[dict[str, Any]]]
        notes = [[{"at": "error", "text": "RuntimeError: Connection closed by peer"}], [{"at": "call", "number": 1}]]
        assert seen(probe, notes, endings={0: 1, 1: 7}) == (
            "died",
            "rank 1 ended with exit status 7 in all_reduce of 16 KiB",
        )

    def test_a_signal_has_its_name(self, probe: ModuleType) -> None:
        assert "signal 9 (SIGKILL) before its first line" in seen(probe, [self.END, []], endings={1: -9})[1]

    def test_a_rank_that_said_why(self, probe: ModuleType) -> None:
        notes = [self.END, [{"at": "error", "text": "ValueError: no"}]]
        assert seen(probe, notes, endings={1: 1}) == ("failed", "rank 1: ValueError: no")

    def test_ranks_that_never_ended_are_no_success(self, probe: ModuleType) -> None:
        assert seen(probe, [self.END, []])[0] == "failed"
        assert seen(probe, [self.END, self.END]) == ("ok", "")

    def test_a_hang_says_where_every_rank_is(self, probe: ModuleType) -> None:
        status, reason = seen(probe, [[{"at": "call", "number": 0}], [{"at": "import"}]], hung=True)
        assert status == "hung"
        assert reason == "no rank got on for 8 s: rank 0 in all_reduce of 16 KiB; rank 1 in the import of torch"

    def test_progress_can_be_compared(self, probe: ModuleType) -> None:
        marks = [None, "import", "join", "joined", ("step", 0), ("call", 0), ("done", 0), ("step", 1), "end"]
        places = []
        for mark in marks:
            note = {"at": mark[0], "number": mark[1]} if isinstance(mark, tuple) else {"at": mark}
            places.append(probe.progress_of([] if mark is None else [note]))
        assert places == sorted(set(places))

    def test_a_line_that_was_cut_off_is_no_note(self, probe: ModuleType) -> None:
        assert probe.notes_in('{"at": "join"}\n{"at": "jo') == [{"at": "join"}]

    def test_the_last_words_are_no_rule(self, probe: ModuleType) -> None:
        assert probe.last_words("No module named torch\n=====\n\n") == "No module named torch"
        assert probe.last_words("") == "it said nothing"


class TestJoinedSteps:
    def done(self, seconds: list[float], wrong: int = 0, **more: Any) -> dict[str, Any]:
        return {"at": "done", "number": 0, "seconds": seconds, "wrong": wrong, **more}

    def test_the_slowest_rank_counts_and_the_median_round(self, probe: ModuleType) -> None:
        notes = [[self.done([1e-5, 4e-5, 3e-5])], [self.done([2e-5, 1e-5, 9e-5])]]
        (step,) = probe.join_steps(STEPS[:1], notes)
        assert step["microseconds"] == 40.0
        assert step["spread"] == [20.0, 90.0]
        assert step["status"] == "ok"

    def test_wrong_values_name_their_ranks(self, probe: ModuleType) -> None:
        first = {"place": 5, "expected": -3.0, "got": "nan"}
        notes = [[self.done([1e-5])], [self.done([1e-5], wrong=4, first=first)]]
        (step,) = probe.join_steps(STEPS[:1], notes)
        assert (step["status"], step["wrong"], step["wrong_ranks"]) == ("wrong", 4, [1])
        assert probe.wrong_in_words(step) == "4 wrong values on rank 1, the first at place 5: nan instead of -3"

    def test_a_step_that_one_rank_has_not_done_is_left_out(self, probe: ModuleType) -> None:
        assert probe.join_steps(STEPS[:1], [[self.done([1e-5])], []]) == []

    def test_what_the_backend_lacks_is_not_applicable(self, probe: ModuleType) -> None:
        lacks = {"at": "done", "number": 0, "not_applicable": "gloo: does not support alltoall"}
        (step,) = probe.join_steps(STEPS[:1], [[lacks], [lacks]])
        assert (step["status"], step["reason"]) == ("not_applicable", "gloo: does not support alltoall")

    @pytest.mark.parametrize(
        ("message", "lacks"),
        [
            ("ProcessGroup gloo does not support alltoall", True),
            ("Backend gloo doesn't support all_to_all", True),
            ("alltoall is not implemented", True),
            ("Connection closed by peer [127.0.0.1]:41210", False),
        ],
    )
    def test_a_lack_is_no_failure_and_a_failure_no_lack(self, probe: ModuleType, message: str, lacks: bool) -> None:
        assert bool(probe.CAN_NOT.search(message)) is lacks


class TestBaseline:
    def question(self, **more: Any) -> dict[str, Any]:
        return {"backend": "nccl", "variables": {"NCCL_P2P_LEVEL": "SYS"}, "conf_files": [], **more}

    def test_it_is_measured(self, probe: ModuleType) -> None:
        assert probe.no_baseline(self.question()) == ""

    def test_not_where_the_role_says_why(self, probe: ModuleType) -> None:
        assert probe.no_baseline(self.question(baseline="it would hang")) == "it would hang"

    def test_not_where_the_profile_sets_nothing(self, probe: ModuleType) -> None:
        assert "no variable that nccl would read" in probe.no_baseline(
            self.question(variables={"CUDA_DEVICE_ORDER": "x"})
        )
        assert "no variable that gloo would read" in probe.no_baseline(self.question(backend="gloo"))

    def test_not_where_a_file_of_nccl_sets_the_same(self, probe: ModuleType, tmp_path: Path) -> None:
        (tmp_path / "nccl.conf").write_text("# NCCL_P2P_LEVEL=SYS\nNCCL_P2P_LEVEL=PHB\n")
        reason = probe.no_baseline(self.question(conf_files=[str(tmp_path / "nccl.conf")]))
        assert "nccl.conf sets NCCL_P2P_LEVEL too" in reason

    def test_names_are_read_as_nccl_reads_them(self, probe: ModuleType) -> None:
        assert probe.names_in_conf("#A=1\nB=2\n #C=3\nexport D=4\nE\n") == {"B", " #C", "export D"}


class TestFault:
    @pytest.mark.parametrize(
        ("text", "strikes"),
        [
            ("", []),
            ("die:1", [("die", 1)]),
            ("die:0", []),
            ("hang:1:2", [("hang", 2)]),
            ("wrong:1", [("wrong", 0), ("wrong", 1), ("wrong", 2)]),
            ("wrong:1:0", [("wrong", 0)]),
        ],
    )
    def test_it_strikes_one_rank_at_its_steps(self, probe: ModuleType, text: str, strikes: list[Any]) -> None:
        fault = probe.Fault(text, 1)
        kinds = ("die", "hang", "wrong")
        assert [(kind, step) for kind in kinds for step in range(3) if fault.strikes(kind, step)] == strikes


class TestEnvironment:
    def test_inherited_variables_of_nccl_do_not_count(self, probe: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("NCCL_ALGO", "Tree")
        environment = probe.environment_of("nccl", {"NCCL_P2P_LEVEL": "SYS", "NCCL_DEBUG": "WARN"}, "/scratch")
        assert "NCCL_ALGO" not in environment
        assert environment["NCCL_P2P_LEVEL"] == "SYS"
        assert environment["NCCL_DEBUG"] == "INFO"
        assert environment["NCCL_DEBUG_FILE"] == "/scratch/nccl.%p"


class TestProgram:
    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, str(PROGRAM), *arguments]
        return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)

    def test_without_a_question_it_says_how_it_is_used(self) -> None:
        done = self.run("no question")
        assert done.returncode == 2
        assert "give one question as JSON" in done.stderr

    def test_one_gpu_is_not_applicable(self) -> None:
        question = {"backend": "nccl", "processes": 1, "sizes": {"decode": [1]}, "variables": {}, "timeout": 1}
        done = self.run(json.dumps(question))
        assert json.loads(done.stdout)["after"]["status"] == "not_applicable"

    @pytest.mark.skipif(
        subprocess.run([sys.executable, "-c", "import torch"], check=False, stderr=subprocess.DEVNULL).returncode == 0,
        reason="the interpreter of the tests has torch",
    )
    def test_an_interpreter_without_torch_is_said_so(self) -> None:
        question = {"backend": "gloo", "processes": 2, "sizes": {"decode": [64]}, "variables": {}, "timeout": 1}
        after = json.loads(self.run(json.dumps(question)).stdout)["after"]
        assert after["status"] == "failed"
        assert "No module named" in after["reason"]


def torch_python() -> str:
    """The interpreter that is named, if it has torch; else the test is skipped."""
    python = os.environ.get("SPECDECODE_TORCH_PYTHON", "")
    if not python:
        pytest.skip("SPECDECODE_TORCH_PYTHON names no interpreter with torch")
    if subprocess.run([python, "-c", "import torch.distributed"], check=False, capture_output=True).returncode:
        pytest.skip(f"SPECDECODE_TORCH_PYTHON={python} can't import torch.distributed")
    return python


class TestRealRanks:
    """Two processes over gloo. A hang is told after 8 s in which nothing goes on; that is no measure of speed."""

    def measure(self, fault: str = "", **more: Any) -> dict[str, Any]:
        python = torch_python()
        question = {"backend": "gloo", "processes": 2, "sizes": {"decode": [16384]}, "variables": {}, "timeout": 8}
        done = subprocess.run(
            [sys.executable, str(PROGRAM), json.dumps({**question, "python": python, **more})],
            env={**os.environ, "SPECDECODE_PROBE_FAULT": fault},
            stdout=subprocess.PIPE,
            check=True,
        )
        (line,) = done.stdout.splitlines()
        found: dict[str, Any] = json.loads(line)
        return found

    def test_values_are_right_before_and_after(self) -> None:
        found = self.measure(variables={"GLOO_SOCKET_IFNAME": "lo"})
        for part in ("before", "after"):
            assert (found[part]["status"], found[part]["reason"]) == ("ok", "")
            assert [step["collective"] for step in found[part]["steps"]] == ["all_reduce", "all_gather", "all_to_all"]
            assert all(step["status"] in ("ok", "not_applicable") for step in found[part]["steps"])
            assert found[part]["steps"][0]["microseconds"] > 0

    def test_a_rank_that_sends_a_wrong_value_is_found_by_every_collective(self) -> None:
        after = self.measure("wrong:1")["after"]
        assert after["status"] == "wrong"
        assert [step["status"] for step in after["steps"]] == ["wrong"] * 3
        # of an all-to-all only the receiver of the first share can see it
        assert [step["wrong_ranks"] for step in after["steps"]] == [[0, 1], [0, 1], [0]]
        assert [step["wrong"] for step in after["steps"]] == [10, 10, 5]

    def test_a_rank_that_dies_is_named(self) -> None:
        after = self.measure("die:1")["after"]
        assert after["status"] == "died"
        assert "rank 1 ended with exit status 7 before all_gather of 16 KiB" in after["reason"]

    def test_a_rank_that_hangs_is_named_and_ended(self, judgement: ModuleType) -> None:
        began = time.time()
        after = self.measure("hang:1")["after"]
        assert after["status"] == "hung"
        assert "rank 0 in all_gather of 16 KiB; rank 1 before all_gather of 16 KiB" in after["reason"]
        assert judgement.likely_cause(after, {}).startswith("rank 1 is behind")
        assert after["can_not_be_ended"] == []
        assert ranks_since(began) == []


def ranks_since(began: float) -> list[str]:
    """Processes of a probe that were started since then and are still there."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            arguments = entry.read_bytes().decode(errors="replace").split("\0")
            if "rank" in arguments and any("specdecode-probe-" in word for word in arguments):
                found += [" ".join(arguments)] if entry.stat().st_mtime >= began - 1 else []
        except OSError:
            continue
    return found
