# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When a profile is kept, when it is refused, and the likely cause of what went wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

PROGRAM = Path(__file__).parents[4] / "roles/nccl_env/files/collective_judgement.py"
BOTH = ["decode", "prefill"]
IOMMU = {"iommu_translated": True, "acs_redirect": True, "hmm_disabled": None}
CLEAN = {"iommu_translated": False, "acs_redirect": False, "hmm_disabled": None}
IN_FIRST, MET, IMPORT = 3.25, 2.0, 0.0


def step(group: str, collective: str, size: int, microseconds: float) -> dict[str, Any]:
    spread = [microseconds * 0.98, microseconds * 1.05]
    found = {"status": "ok", "microseconds": microseconds, "spread": spread, "busbw_gbps": 10.0, "wrong": 0}
    return {"group": group, "collective": collective, "bytes": size, **found}


def measurement(decode: float = 30.0, prefill: float = 3000.0, **more: Any) -> dict[str, Any]:
    """A good one over two GPUs; `more` replaces parts of it."""
    steps = [
        step(group, collective, size, microseconds)
        for group, size, microseconds in (("decode", 16384, decode), ("prefill", 16777216, prefill))
        for collective in ("all_reduce", "all_gather", "all_to_all")
    ]
    nccl = {"initialised": [0, 1], "transports": {"P2P": 2}, "warnings": [], "version": "2.27.5"}
    good = {"status": "ok", "reason": "", "backend": "nccl", "processes": 2, "nccl": nccl, "steps": steps}
    return {**good, "progress": [1e6, 1e6], "log": [], "can_not_be_ended": [], **more}


def broken(status: str, reason: str = "so", **more: Any) -> dict[str, Any]:
    return measurement(status=status, reason=reason, **{"steps": [], **more})


def question(before: dict[str, Any], after: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"measurement": {"before": before, "after": after}, "decides": BOTH, "tolerance": 0.05, "node": {}, **more}


class TestVerdict:
    def test_a_faster_profile_is_kept(self, judgement: ModuleType) -> None:
        found = judgement.judge(question(measurement(decode=48.0), measurement(decode=26.0)))
        assert found["verdict"] == "keep"
        assert found["reasons"] == []
        assert found["speed"]["decode"] == pytest.approx(48 / 26, abs=0.001)
        assert found["speed"]["prefill"] == pytest.approx(1)

    def test_a_slower_one_is_refused_with_its_figures(self, judgement: ModuleType) -> None:
        found = judgement.judge(question(measurement(decode=26.0), measurement(decode=48.0)))
        assert found["verdict"] == "veto"
        assert found["reasons"] == [
            "decode takes 1.85 times as long as without the variables (at most 1.05 times is tolerated)"
        ]
        assert "decode: all_reduce of 16384 bytes, 26.0 -> 48.0 us, 10 GB/s" in found["figures"]

    @pytest.mark.parametrize(("after", "verdict"), [(31.4, "keep"), (31.6, "veto")])
    def test_the_tolerance_is_the_limit(self, judgement: ModuleType, after: float, verdict: str) -> None:
        assert judgement.judge(question(measurement(decode=30.0), measurement(decode=after)))["verdict"] == verdict

    def test_a_group_that_does_not_decide_is_told_and_no_reason(self, judgement: ModuleType) -> None:
        slow_prefill = question(measurement(), measurement(decode=20.0, prefill=6000.0), decides=["decode"])
        found = judgement.judge(slow_prefill)
        assert found["verdict"] == "keep"
        assert (
            "prefill takes 2.00 times as long as without the variables (this group does not decide)" in found["notes"]
        )

    def test_rounds_that_something_else_slowed_down_refuse_nothing(self, judgement: ModuleType) -> None:
        after = measurement()
        for step in after["steps"]:
            step["microseconds"] *= 1.5  # the best rounds are as good as before
        assert judgement.judge(question(measurement(), after))["verdict"] == "keep"

    def test_good_medians_over_bad_best_rounds_refuse_nothing(self, judgement: ModuleType) -> None:
        after = measurement()
        for step in after["steps"]:
            step["spread"][0] *= 1.5
        assert judgement.judge(question(measurement(), after))["verdict"] == "keep"

    @pytest.mark.parametrize("status", ["wrong", "hung", "died", "failed"])
    def test_what_broke_with_the_variables_is_refused(self, judgement: ModuleType, status: str) -> None:
        found = judgement.judge(question(measurement(), broken(status, "rank 1 did")))
        assert found["verdict"] == "veto"
        assert found["reasons"][0].startswith(f"with the variables: {status}, rank 1 did. Likely cause: ")
        assert found["speed"] == {}

    def test_wrong_values_are_refused_however_fast(self, judgement: ModuleType) -> None:
        fast = measurement(decode=1.0, prefill=1.0, status="wrong", reason="all_reduce of 16 KiB: 3 wrong values")
        assert judgement.judge(question(measurement(), fast))["verdict"] == "veto"

    def test_a_profile_that_cures_is_kept(self, judgement: ModuleType) -> None:
        found = judgement.judge(question(broken("hung", progress=[IN_FIRST] * 2), measurement()))
        assert found["verdict"] == "keep"
        assert found["notes"][0].startswith("without the variables: hung")

    def test_without_a_baseline_the_values_decide_alone(self, judgement: ModuleType) -> None:
        baseline = {"status": "not_measured", "reason": "there is no variable that nccl would read"}
        assert judgement.judge(question(baseline, broken("wrong")))["verdict"] == "veto"
        kept = judgement.judge(question(baseline, measurement()))
        assert kept["verdict"] == "keep"
        assert kept["notes"][0] == "not compared: there is no variable that nccl would read"
        assert "decode: all_reduce of 16384 bytes, 30.0 us, 10 GB/s" in kept["figures"]

    def test_one_gpu_is_not_applicable_and_kept(self, judgement: ModuleType) -> None:
        alone = {"status": "not_applicable", "reason": "there is one process"}
        found = judgement.judge(question(alone, alone))
        assert found["verdict"] == "keep"
        assert "not measured: there is one process" in found["notes"]

    def test_a_collective_that_the_backend_lacks_is_told(self, judgement: ModuleType) -> None:
        after = measurement()
        del after["steps"][2]
        lacks = {"status": "not_applicable", "reason": "gloo: does not support alltoall"}
        after["steps"].append({"group": "decode", "collective": "all_to_all", "bytes": 16384, **lacks})
        found = judgement.judge(question(measurement(), after))
        assert "all_to_all is not applicable: gloo: does not support alltoall" in found["notes"]

    def test_how_the_pairs_talk_is_told(self, judgement: ModuleType) -> None:
        assert "pairs of ranks by transport: P2P 2" in judgement.judge(question(measurement(), measurement()))["notes"]


class TestCause:
    def hung(self, judgement: ModuleType, node: dict[str, Any], **more: Any) -> str:
        text: str = judgement.likely_cause(broken("hung", **more), node)
        return text

    def test_first_collective_on_a_node_that_redirects(self, judgement: ModuleType) -> None:
        cause = self.hung(judgement, IOMMU, progress=[IN_FIRST, IN_FIRST])
        assert "the IOMMU of this node translates, and ACS redirects" in cause
        assert "iommu=pt" in cause
        assert "NCCL_P2P_DISABLE: 1" in cause

    def test_first_collective_on_a_node_of_which_nothing_is_known(self, judgement: ModuleType) -> None:
        cause = self.hung(judgement, {}, progress=[IN_FIRST, IN_FIRST])
        assert "IOMMU that translates together with ACS redirect" in cause

    def test_first_collective_where_iommu_and_acs_are_innocent(self, judgement: ModuleType) -> None:
        assert "uvm_disable_hmm=1" in self.hung(judgement, CLEAN, progress=[IN_FIRST, IN_FIRST])

    def test_and_where_hmm_is_innocent_as_well(self, judgement: ModuleType) -> None:
        cause = self.hung(judgement, {**CLEAN, "hmm_disabled": True}, progress=[IN_FIRST, IN_FIRST])
        assert "Xid" in cause
        assert "uvm_disable_hmm" not in cause

    def test_a_later_collective(self, judgement: ModuleType) -> None:
        assert "uvm_disable_hmm=1" in self.hung(judgement, {}, progress=[9.25, 9.25], steps=measurement()["steps"])

    def test_a_rank_that_is_behind(self, judgement: ModuleType) -> None:
        cause = self.hung(judgement, IOMMU, progress=[IN_FIRST, 3.0])
        assert cause.startswith("rank 1 is behind and the others wait for it")

    def test_shared_memory_is_not_peer_access(self, judgement: ModuleType) -> None:
        nccl = {**measurement()["nccl"], "transports": {"SHM": 2}}
        assert self.hung(judgement, IOMMU, progress=[IN_FIRST] * 2, nccl=nccl).startswith("not peer access")

    def test_the_ranks_never_met(self, judgement: ModuleType) -> None:
        nccl = {**measurement()["nccl"], "initialised": [], "transports": {}}
        cause = self.hung(judgement, {}, progress=[1.0, 1.0], nccl=nccl)
        assert "NCCL's initialisation" in cause
        assert cause.endswith("Initialised ranks: none")

    def test_the_import_never_ended(self, judgement: ModuleType) -> None:
        assert "slow disk" in self.hung(judgement, {}, progress=[IMPORT, IMPORT])

    def test_processes_without_gpus_want_cpu(self, judgement: ModuleType) -> None:
        assert "too little CPU" in self.hung(judgement, {}, backend="gloo", progress=[MET, MET])

    @pytest.mark.parametrize(
        ("reason", "words"),
        [
            ("rank 0: OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", "nvidia-smi who holds it"),
            ("rank 0: CUDA error: no kernel image is available for execution on the device", "ml_env_torch_arch"),
            ("rank 1 ended with signal 7 (SIGBUS) in all_reduce of 16 MiB", "/dev/shm"),
            ("rank 1 ended with signal 9 (SIGKILL) in all_reduce of 16 MiB", "want of memory"),
            ("rank 1 ended with signal 11 (SIGSEGV) in all_reduce of 512 KiB", "2.26.2"),
            ("No module named 'torch'", "nccl_env_probe_python"),
            ("rank 7: CUDA error: invalid device ordinal", "nccl_env_probe_processes"),
            ("rank 1 ended with exit status 3", "none that is known"),
        ],
    )
    def test_errors_that_operators_know(self, judgement: ModuleType, reason: str, words: str) -> None:
        assert words in judgement.likely_cause(broken("died", reason), {})

    def test_a_warning_of_nccl_counts_as_well(self, judgement: ModuleType) -> None:
        nccl = {**measurement()["nccl"], "warnings": ["Error while creating shared memory segment /dev/shm/nccl-x"]}
        assert "/dev/shm is full" in judgement.likely_cause(
            broken("failed", "rank 0: unhandled system error", nccl=nccl), {}
        )

    def test_wrong_values_by_peer_access_and_without(self, judgement: ModuleType) -> None:
        assert "ForceP2P" in judgement.likely_cause(broken("wrong"), {})
        nccl = {**measurement()["nccl"], "transports": {"SHM": 2}}
        assert "LL128" in judgement.likely_cause(broken("wrong", nccl=nccl), {})

    def test_a_process_that_would_not_end_is_told(self, judgement: ModuleType) -> None:
        stuck = broken("hung", progress=[IN_FIRST, 3.0], can_not_be_ended=[4711])
        assert "Processes [4711] can't be ended: their GPU is wedged" in judgement.in_words(stuck, {})


def test_the_program_reads_its_text_from_standard_input(judgement: ModuleType) -> None:
    asked = question(measurement(), measurement())
    done = subprocess.run(
        [sys.executable, "-I", "-", json.dumps(asked)],
        input=PROGRAM.read_bytes(),
        stdout=subprocess.PIPE,
        check=True,
    )
    assert json.loads(done.stdout) == judgement.judge(asked)
