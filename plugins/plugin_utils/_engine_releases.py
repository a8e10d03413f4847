# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The engines' releases: which are known, and what each of them takes. Read in the engines' sources, 2026-11."""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.blackwell.inference.plugins.module_utils import _patch_release as releases
from ansible_collections.blackwell.inference.plugins.plugin_utils._engine_server import EngineArgumentError

# The releases whose sources the rules were read from. An older one is refused, a newer one is used with a warning.
KNOWN_RELEASES = {"sglang": ("0.5.5", "0.5.23"), "vllm": ("0.11.0", "0.33.0")}

# Which algorithm an engine's release knows, by the name that this collection uses for both engines.
ALGORITHMS: dict[str, dict[str, str]] = {
    "sglang": {
        "EAGLE": "",
        "EAGLE3": "",
        "NEXTN": "",
        "STANDALONE": "",
        "NGRAM": "",
        "DFLASH": ">=0.5.11",
        "DSPARK": ">=0.5.16",
        "UNO": ">=0.5.20",
    },
    "vllm": {"EAGLE": "", "EAGLE3": "", "NGRAM": "", "NEXTN": "", "STANDALONE": ">=0.15.0"},
}
VLLM_METHODS = {"EAGLE": "eagle", "EAGLE3": "eagle3", "NGRAM": "ngram", "NEXTN": "mtp", "STANDALONE": "draft_model"}
CHAIN_ALGORITHMS = ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE")

# Options that a variable of the server stands for: a second one in extra_arguments would win silently.
OWNED_OPTIONS: dict[str, dict[str, str]] = {
    "sglang": {
        "model-path": "model",
        "model": "model",
        "served-model-name": "served_name",
        "revision": "revision",
        "host": "host",
        "port": "port",
        "tensor-parallel-size": "tensor_parallel",
        "tp-size": "tensor_parallel",
        "context-length": "max_model_len",
        "max-running-requests": "max_running",
        "mem-fraction-static": "memory_fraction",
        "dtype": "dtype",
        "trust-remote-code": "trust_remote_code",
        "speculative-algorithm": "speculative.algorithm",
        "speculative-draft-model-path": "speculative.draft_model",
        "speculative-draft-model": "speculative.draft_model",
        "speculative-draft-model-revision": "speculative.draft_revision",
        "speculative-num-steps": "speculative.num_steps",
        "speculative-eagle-topk": "speculative.topk",
        "speculative-num-draft-tokens": "speculative.num_draft_tokens",
        "config": "config_file",
        "enable-metrics": "",
    },
    "vllm": {
        "model": "model",
        "served-model-name": "served_name",
        "revision": "revision",
        "host": "host",
        "port": "port",
        "tensor-parallel-size": "tensor_parallel",
        "tp": "tensor_parallel",
        "max-model-len": "max_model_len",
        "max-num-seqs": "max_running",
        "gpu-memory-utilization": "memory_fraction",
        "dtype": "dtype",
        "trust-remote-code": "trust_remote_code",
        "speculative-config": "speculative",
        "sc": "speculative",
        "spec-method": "speculative.algorithm",
        "spec-model": "speculative.draft_model",
        "spec-tokens": "speculative.num_steps",
        "config": "config_file",
    },
}
# The engines' own all-reduce works over P2P and asks the driver, not NCCL. Without NVLink it is on by itself for
# exactly two ranks (custom_all_reduce.py of both; vllm-project/vllm issue 51513, 2026-09: it hangs two RTX PRO 6000
# behind a translating IOMMU with ACS redirect). The switches turn on another one, over PCIe, for more ranks.
NO_OWN_ALL_REDUCE = "--disable-custom-all-reduce"
PCIE_ALL_REDUCE = {
    "sglang": "SGLANG_ENABLE_PCIE_IPC_ALLREDUCE",
    "vllm": "VLLM_ALLREDUCE_USE_FLASHINFER_PCIE_IPC",
}
SECRET_OPTIONS = ("api-key", "admin-api-key", "ssl-keyfile-password", "hf-token")

# Keys of vLLM's speculative configuration that the variables already set.
VLLM_OWNED_SETTINGS = {
    "method": "algorithm",
    "model": "draft_model",
    "revision": "draft_revision",
    "num_speculative_tokens": "num_steps",
}
# The further keys of vLLM's speculative configuration and the releases that take them, read in 0.11.0 to 0.32.0 (35
# releases). An unexpected key makes the engine refuse the whole configuration.
VLLM_SETTINGS = {
    **dict.fromkeys(
        ("enforce_eager", "draft_tensor_parallel_size", "quantization", "max_model_len", "code_revision"), ""
    ),
    **dict.fromkeys(("disable_padded_drafter_batch", "prompt_lookup_max", "prompt_lookup_min"), ""),
    **dict.fromkeys(("disable_logprobs", "enable_chunked_prefill", "disable_log_stats"), "<0.11.1"),
    "disable_by_batch_size": "<0.17.0",
    "speculative_token_tree": "<0.21.0",
    **dict.fromkeys(("suffix_decoding_max_tree_depth", "suffix_decoding_max_cached_requests"), ">=0.11.1"),
    **dict.fromkeys(("suffix_decoding_max_spec_factor", "suffix_decoding_min_token_prob"), ">=0.11.1"),
    "parallel_drafting": ">=0.16.0",
    "use_local_argmax_reduction": ">=0.17.0",
    "draft_load_config": ">=0.17.0",
    "rejection_sample_method": ">=0.18.0",
    "moe_backend": ">=0.19.0",
    "synthetic_acceptance_rate": ">=0.19.0,<0.20.0",
    **dict.fromkeys(("synthetic_acceptance_rates", "synthetic_acceptance_length"), ">=0.20.0"),
    **dict.fromkeys(("attention_backend", "draft_sample_method"), ">=0.21.0"),
    "num_speculative_tokens_per_batch_size": ">=0.24.0",
    "use_heterogeneous_vocab": ">=0.25.0",
    "kv_cache_dtype": ">=0.26.0",
    **dict.fromkeys(("enable_adaptive_verification", "dspark_draft_topk"), ">=0.28.0"),
    "index_share_for_mtp_iteration": ">=0.29.0",
    "disable_eagle_block_drop": ">=0.30.0",
}


@dataclass(frozen=True)
class EngineRelease:
    """A release of an engine as its distribution names it, with its place in the order of releases (PEP 440)."""

    text: str
    place: releases.Key

    def __str__(self) -> str:
        return self.text

    @property
    def is_cpu_build(self) -> bool:
        """Whether the local part (0.32.0+cpu) says that it was built for a CPU."""
        return "cpu" in self.text.partition("+")[2]


def parse_release(engine: str, release: object) -> EngineRelease:
    """The installed release of an engine; raises EngineArgumentError when the rules cannot speak of it."""
    if engine not in KNOWN_RELEASES:
        raise EngineArgumentError(f"engine is {engine!r}. Known are {', '.join(KNOWN_RELEASES)}. Correct it.")
    oldest, newest = KNOWN_RELEASES[engine]
    try:
        parsed = _read(release if isinstance(release, str) else "")
    except ValueError:
        raise EngineArgumentError(
            f"release is {release!r}, not a release of {engine}. Give the installed one, such as {newest!r}."
        ) from None
    if parsed.place < _read(oldest).place:
        raise EngineArgumentError(
            f"{engine} {parsed} is older than {oldest}, the first release whose arguments are known. "
            f"Install {oldest} or later."
        )
    return parsed


def _read(text: str) -> EngineRelease:
    return EngineRelease(text.strip(), releases.parse_release(text).key)


def newer_release(engine: str, release: EngineRelease) -> list[str]:
    """A warning for a release that is newer than those whose sources the rules were read from."""
    newest = KNOWN_RELEASES[engine][1]
    if release.place <= _read(newest).place:
        return []
    return [
        f"{engine} {release} is newer than {newest}, the last release whose arguments were checked. Known rules are "
        "applied; give help_text to check the arguments against the installed engine as well."
    ]


def within(release: EngineRelease, bounds: str) -> bool:
    """Whether a release lies in bounds such as `>=0.5.13` or `>=0.19.0,<0.20.0` ('' for all).

    A local part (0.32.0+cpu) does not count. A pre-release does, at its place before the release: rules hold for it.
    """
    for bound in filter(None, bounds.split(",")):
        if bound.startswith(">="):
            if release.place < _read(bound[2:]).place:
                return False
        elif release.place >= _read(bound.removeprefix("<")).place:
            return False
    return True
