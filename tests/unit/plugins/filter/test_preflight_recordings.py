# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the checks say about every recorded host: from its files and its nvidia-smi to the findings."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.blackwell.inference.plugins.filter.nccl_environment import nccl_environment
from ansible_collections.blackwell.inference.plugins.module_utils._gpu_node import read_node
from ansible_collections.blackwell.inference.tests.replay import hosts
from ansible_collections.blackwell.inference.tests.unit.fixtures.gpu.trees import answers_of, tree_of
from ansible_collections.blackwell.inference.tests.unit.plugins.filter.preflight_case import find

# Host, and for each finding words that it must name. Findings that are not listed must not be there.
EXPECTED: dict[str, dict[str, str]] = {
    "server-8x-two-sockets": {
        "iommu_redirect": "0000:00:01.1, 0000:20:01.1",
        "persistence": "GPUs 0, 1, 2, 3, 4, 5, 6, 7",
        "uvm_hmm": "HMM is on",
        "cpu_governor": "schedutil",
    },
    "server-8x-switches": {},
    "max-q-4x": {"link_generation": "the slot allows generation 4, the GPU 5", "uvm_hmm": "HMM is on"},
    "workstation-2x": {"uvm_hmm": "HMM is on", "p2p_forced": "ForceP2P=0x11"},
    "mixed": {"gpu_mixed": "H100", "p2p_refused": "5 of 6 pairs", "uvm_hmm": "HMM is on"},
    "mig-on": {"gpu_mig": "GPUs 0, 1", "uvm_hmm": "HMM is on"},
    "driver-dead": {"gpu_driver": "couldn't communicate", "cpu_governor": "schedutil"},
    "driver-mismatch": {"gpu_driver": "version mismatch", "cpu_governor": "schedutil"},
    "proprietary-driver": {"gpu_driver": "proprietary kernel modules know no GPU"},
    "gpu-lost": {"gpu_driver": "0000:44:00.0"},
    "driver-hung": {"gpu_driver": "did not end"},
    "wedged": {"gpu_wedged": "GPUs 2, 3"},
    "serving": {},
    "orphans": {"gpu_orphans": "41001", "shm_leftovers": "/dev/shm/nccl-"},
    "virtual-machine": {
        "iommu_redirect": "can't be known: this is a virtual machine",
        "persistence": "GPUs 0",
        "uvm_hmm": "HMM is on",
        "cpu_governor": "schedutil",
    },
}


@pytest.mark.parametrize("name", hosts.HOSTS)
def test_a_recorded_host_is_judged(name: str, tmp_path: Path) -> None:
    recording = hosts.recording(name)
    gpu_node = read_node(tree_of(recording["files"], tmp_path / "host"), answers_of(recording["commands"]))
    ranks = len(gpu_node["gpus"] or []) or 8
    found = {one["id"]: one["found"] for one in find({"gpu_node": gpu_node}, {"tensor_parallel": ranks})}
    assert set(found) == set(EXPECTED[name])
    assert [id_ for id_, words in EXPECTED[name].items() if words not in found[id_]] == []


def test_the_remedy_for_refused_p2p_says_what_nccl_env_does(tmp_path: Path) -> None:
    recording = hosts.recording("mixed")
    gpu_node = read_node(tree_of(recording["files"], tmp_path / "host"), answers_of(recording["commands"]))
    (finding,) = [one for one in find({"gpu_node": gpu_node}, {"tensor_parallel": 4}) if one["id"] == "p2p_refused"]
    assert "nccl_env sets no NCCL_P2P_LEVEL" in finding["remedy"]
    set_ = [variable["name"] for variable in nccl_environment(gpu_node, "latency")["variables"]]
    assert not [name for name in set_ if name.startswith("NCCL_")]
