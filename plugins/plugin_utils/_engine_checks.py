# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What breaks a rule about an engine's arguments: each check states the fact, or nothing ('')."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ansible_collections.blackwell.inference.plugins.plugin_utils._engine_releases import (
    ALGORITHMS,
    CHAIN_ALGORITHMS,
    NO_OWN_ALL_REDUCE,
    OWNED_OPTIONS,
    PCIE_ALL_REDUCE,
    SECRET_OPTIONS,
    VLLM_OWNED_SETTINGS,
    VLLM_SETTINGS,
    EngineRelease,
    within,
)
from ansible_collections.blackwell.inference.plugins.plugin_utils._engine_server import Server, Speculation


def extra_options(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Name (without dashes, underscores as dashes) and first value of each option among the extra arguments."""
    for index, argument in enumerate(arguments):
        if argument.startswith("-") and not is_number(argument):
            name, _equals, value = argument.lstrip("-").partition("=")
            following = arguments[index + 1] if index + 1 < len(arguments) else ""
            if not value and (not following.startswith("-") or is_number(following)):
                value = following
            yield name.replace("_", "-"), value


def is_number(text: str) -> bool:
    """Whether a word is a number, such as a negative one that is no option."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _extra(server: Server, *names: str) -> str | None:
    """The last value given for an option in extra_arguments ('' for a bare flag), or None."""
    found = None
    for name, value in extra_options(server.extra_arguments):
        if name in names:
            found = value
    return found


def _speculates(*algorithms: str) -> Callable[[Server], Speculation | None]:
    def chosen(server: Server) -> Speculation | None:
        spec = server.speculative
        return spec if spec and spec.algorithm in algorithms else None

    return chosen


_chain = _speculates(*CHAIN_ALGORITHMS)


def _is_directory(model: str) -> bool:
    return model.startswith(("/", "./", "../", "~"))


# --- both engines -----------------------------------------------------------------------------------------------


def unknown_algorithm(engine: str) -> Callable[[Server, EngineRelease], str]:
    def finds(server: Server, release: EngineRelease) -> str:
        spec = server.speculative
        known = [name for name, since in ALGORITHMS[engine].items() if within(release, since)]
        if spec is None or spec.algorithm in known:
            return ""
        return f"speculative.algorithm is {spec.algorithm}, this release has {', '.join(known)}"

    return finds


def owned_option(engine: str) -> Callable[[Server, EngineRelease], str]:
    def finds(server: Server, _release: EngineRelease) -> str:
        owned = OWNED_OPTIONS[engine]
        facts = []
        for name, _value in extra_options(server.extra_arguments):
            bare = name[3:] if name.startswith("no-") else name
            # An abbreviation counts: argparse completes it to the option.
            full = bare if bare in owned else next((o for o in owned if len(bare) > 1 and o.startswith(bare)), "")
            if full:
                variable = owned[full] or "nothing (it is always set)"
                facts.append(f"extra_arguments sets {name}, which belongs to {variable}")
        return "; ".join(facts)

    return finds


def secret_option(server: Server, _release: EngineRelease) -> str:
    named = [name for name, _value in extra_options(server.extra_arguments) if name in SECRET_OPTIONS]
    return f"extra_arguments holds the secret {', '.join(named)}" if named else ""


def config_file_name(server: Server, _release: EngineRelease) -> str:
    name = server.config_file
    return f"config_file is {name}" if name and not name.endswith((".yaml", ".yml")) else ""


def repeated_option(server: Server, _release: EngineRelease) -> str:
    names = [name for name, _value in extra_options(server.extra_arguments)]
    repeated = sorted({name for name in names if names.count(name) > 1 and name != "middleware"})
    return f"extra_arguments sets {', '.join(repeated)} more than once" if repeated else ""


def stray_value(server: Server, _release: EngineRelease) -> str:
    first = server.extra_arguments[0] if server.extra_arguments else "-"
    return "" if first.startswith("-") else f"extra_arguments begins with {first!r}, which belongs to no option"


def directory_with_revision(server: Server, _release: EngineRelease) -> str:
    facts = []
    spec = server.speculative
    if server.revision and _is_directory(server.model):
        facts.append(f"revision is {server.revision} and model is the directory {server.model}")
    if spec and spec.draft_revision and _is_directory(spec.draft_model):
        facts.append(f"draft_revision is {spec.draft_revision} and draft_model is the directory {spec.draft_model}")
    return "; ".join(facts)


def pinned_alone(server: Server, _release: EngineRelease) -> str:
    spec = server.speculative
    if not spec or not spec.draft_model or _is_directory(spec.draft_model) or _is_directory(server.model):
        return ""
    if bool(server.revision) == bool(spec.draft_revision):
        return ""
    pinned, loose = ("model", "draft_model") if server.revision else ("draft_model", "model")
    return f"{pinned} is pinned to a revision and {loose} is not"


def revision_without_draft(server: Server, _release: EngineRelease) -> str:
    spec = server.speculative
    return (
        "draft_revision is set and draft_model is not" if spec and spec.draft_revision and not spec.draft_model else ""
    )


def draft_missing(server: Server, _release: EngineRelease) -> str:
    spec = server.speculative
    if spec and spec.algorithm in ("EAGLE", "EAGLE3", "STANDALONE", "DFLASH") and not spec.draft_model:
        return f"speculative.algorithm is {spec.algorithm} and draft_model is not set"
    return ""


def draft_without_use(server: Server, _release: EngineRelease) -> str:
    spec = server.speculative
    if spec and spec.algorithm in ("NGRAM", "UNO") and spec.draft_model:
        return f"speculative.algorithm is {spec.algorithm} and draft_model is {spec.draft_model}"
    return ""


def counts_without_steps(server: Server, _release: EngineRelease) -> str:
    spec = _chain(server)
    if spec and spec.num_steps is None and (spec.topk is not None or spec.num_draft_tokens is not None):
        return f"topk is {spec.topk}, num_draft_tokens is {spec.num_draft_tokens}, and num_steps is not set"
    return ""


def chain_draft_tokens(server: Server, _release: EngineRelease) -> str:
    spec = _chain(server)
    if not spec or spec.num_steps is None or spec.num_draft_tokens is None or spec.topk not in (None, 1):
        return ""
    if spec.num_draft_tokens == spec.num_steps + 1:
        return ""
    return f"num_steps is {spec.num_steps} with topk 1, and num_draft_tokens is {spec.num_draft_tokens}"


def own_all_reduce(server: Server, _release: EngineRelease) -> str:
    if server.environment.get("NCCL_P2P_DISABLE") != "1" or server.tensor_parallel < 2:
        return ""
    on = [name for name in PCIE_ALL_REDUCE.values() if server.environment.get(name, "").lower() in ("1", "true")]
    if server.tensor_parallel == 2 and _extra(server, NO_OWN_ALL_REDUCE.lstrip("-")) is None:
        on.append(f"tensor_parallel 2 without {NO_OWN_ALL_REDUCE}")
    return f"the environment sets NCCL_P2P_DISABLE=1, with {' and '.join(on)}" if on else ""


# --- SGLang -----------------------------------------------------------------------------------------------------


def tree_without_draft_tokens(server: Server, _release: EngineRelease) -> str:
    spec = _chain(server)
    if spec and spec.num_steps is not None and (spec.topk or 1) > 1 and spec.num_draft_tokens is None:
        return f"topk is {spec.topk} and num_draft_tokens is not set"
    return ""


def tree_on_pages(*backends: str) -> Callable[[Server, EngineRelease], str]:
    def finds(server: Server, _release: EngineRelease) -> str:
        spec = _chain(server)
        pages, backend = _extra(server, "page-size"), _extra(server, "attention-backend")
        if not spec or spec.topk in (None, 1) or pages in (None, "", "1") or backend in backends:
            return ""
        return f"topk is {spec.topk}, page-size is {pages}, attention-backend is {backend or 'not set'}"

    return finds


def ngram_on_pages(server: Server, _release: EngineRelease) -> str:
    pages, backend = _extra(server, "page-size"), _extra(server, "attention-backend")
    if not _speculates("NGRAM")(server) or pages in (None, "", "1") or backend == "flashinfer":
        return ""
    return f"NGRAM with page-size {pages} and attention-backend {backend or 'not set'}"


def trtllm_mha_tree(server: Server, _release: EngineRelease) -> str:
    spec = _chain(server)
    names = ("attention-backend", "decode-attention-backend", "prefill-attention-backend")
    if spec and (spec.topk or 1) > 1 and any(_extra(server, name) == "trtllm_mha" for name in names):
        return f"topk is {spec.topk} and an attention backend is trtllm_mha"
    return ""


def trtllm_mla_on_blackwell(server: Server, _release: EngineRelease) -> str:
    names = ("attention-backend", "decode-attention-backend", "prefill-attention-backend")
    return "an attention backend is trtllm_mla" if any(_extra(server, n) == "trtllm_mla" for n in names) else ""


def mla_drafter(server: Server, _release: EngineRelease) -> str:
    spec = server.speculative
    if spec and spec.draft_architecture == "Eagle3DeepseekV2ForCausalLM":
        return f"the draft {spec.draft_model} is an {spec.draft_architecture}"
    return ""


def ngram_counts(server: Server, _release: EngineRelease) -> str:
    spec = _speculates("NGRAM")(server)
    named = [n for n in ("num_steps", "topk") if spec and getattr(spec, n) is not None]
    return f"speculative.algorithm is NGRAM and {' and '.join(named)} is set" if named else ""


def block_counts(server: Server, _release: EngineRelease) -> str:
    spec = _speculates("DFLASH", "DSPARK")(server)
    named = [f"{n} is {getattr(spec, n)}" for n in ("num_steps", "topk") if spec and getattr(spec, n) not in (None, 1)]
    return f"speculative.algorithm is {spec.algorithm} and {' and '.join(named)}" if spec and named else ""


def uno_needs(server: Server, _release: EngineRelease) -> str:
    spec = _speculates("UNO")(server)
    if not spec:
        return ""
    missing = [
        text
        for text, absent in (
            ("num_draft_tokens is not set", spec.num_draft_tokens is None),
            ("extra_arguments has no --uno-lora-path", _extra(server, "uno-lora-path") is None),
            (f"tensor_parallel is {server.tensor_parallel}, not 1", server.tensor_parallel != 1),
        )
        if absent
    ]
    return f"speculative.algorithm is UNO and {', '.join(missing)}" if missing else ""


def mixed_chunk(server: Server, _release: EngineRelease) -> str:
    if server.speculative and _extra(server, "enable-mixed-chunk") is not None:
        return f"extra_arguments sets enable-mixed-chunk with speculative.algorithm {server.speculative.algorithm}"
    return ""


def dp_attention(server: Server, _release: EngineRelease) -> str:
    spec = _speculates("STANDALONE", "NGRAM", "UNO")(server)
    if spec and _extra(server, "enable-dp-attention") is not None:
        return f"extra_arguments sets enable-dp-attention with speculative.algorithm {spec.algorithm}"
    return ""


def pipeline_parallel(server: Server, _release: EngineRelease) -> str:
    size = _extra(server, "pp-size", "pipeline-parallel-size", "pp")
    if _speculates("EAGLE3")(server) and size not in (None, "", "1"):
        return f"pipeline parallelism is {size} with EAGLE3"
    return ""


def name_with_colon(server: Server, _release: EngineRelease) -> str:
    name = server.served_name or server.model
    return f"the served name is {name!r}" if ":" in name and "://" not in name else ""


def spec_v2_tree(server: Server, _release: EngineRelease) -> str:
    spec = _chain(server)
    if spec and (spec.topk or 1) > 1 and server.environment.get("SGLANG_ENABLE_SPEC_V2", "").lower() in ("1", "true"):
        return f"topk is {spec.topk} and the environment sets SGLANG_ENABLE_SPEC_V2"
    return ""


def spec_v2_gone(server: Server, _release: EngineRelease) -> str:
    return "the environment sets SGLANG_ENABLE_SPEC_V2" if "SGLANG_ENABLE_SPEC_V2" in server.environment else ""


def nextn_twice(server: Server, _release: EngineRelease) -> str:
    enabled = server.environment.get("SGLANG_ENABLE_SPEC_V2", "").lower() in ("1", "true")
    return (
        "speculative.algorithm is NEXTN without SGLANG_ENABLE_SPEC_V2"
        if _speculates("NEXTN")(server) and not enabled
        else ""
    )


def simulated_acceptance(server: Server, _release: EngineRelease) -> str:
    length = server.environment.get("SGLANG_SIMULATE_ACC_LEN", "")
    return f"the environment sets SGLANG_SIMULATE_ACC_LEN={length}" if length not in ("", "-1") else ""


def lossy_acceptance(server: Server, _release: EngineRelease) -> str:
    spec = server.speculative
    names = ("accept_threshold_single", "accept_threshold_acc")
    named = [
        f"{name} {spec.settings[name]}"
        for name in names
        if spec and str(spec.settings.get(name, 1)) not in ("1", "1.0")
    ]
    return f"speculative.settings holds {' and '.join(named)}" if named else ""


def underscore_option(server: Server, _release: EngineRelease) -> str:
    wrong = [item for item in server.extra_arguments if item.startswith("--") and "_" in item.partition("=")[0]]
    return f"extra_arguments has {', '.join(wrong)}" if wrong else ""


# --- vLLM -------------------------------------------------------------------------------------------------------


def vllm_steps_missing(server: Server, _release: EngineRelease) -> str:
    spec = server.speculative
    return f"{spec.algorithm} without num_steps" if spec and spec.num_steps is None else ""


def vllm_tree(server: Server, _release: EngineRelease) -> str:
    spec = server.speculative
    return f"topk is {spec.topk}" if spec and spec.topk not in (None, 1) else ""


def vllm_ngram_draft_tokens(server: Server, _release: EngineRelease) -> str:
    spec = _speculates("NGRAM")(server)
    if spec and spec.num_draft_tokens is not None and spec.num_draft_tokens != (spec.num_steps or 0) + 1:
        return f"NGRAM with num_steps {spec.num_steps} and num_draft_tokens {spec.num_draft_tokens}"
    return ""


def vllm_owned_setting(server: Server, _release: EngineRelease) -> str:
    settings = server.speculative.settings if server.speculative else {}
    named = [f"{key} (use {VLLM_OWNED_SETTINGS[key]})" for key in settings if key in VLLM_OWNED_SETTINGS]
    return f"speculative.settings holds {', '.join(named)}" if named else ""


def vllm_setting_release(server: Server, release: EngineRelease) -> str:
    settings = server.speculative.settings if server.speculative else {}
    wrong = [key for key in settings if key in VLLM_SETTINGS and not within(release, VLLM_SETTINGS[key])]
    return f"speculative.settings holds {', '.join(wrong)}" if wrong else ""


def vllm_setting_unknown(server: Server, _release: EngineRelease) -> str:
    settings = server.speculative.settings if server.speculative else {}
    judged_elsewhere = {*VLLM_SETTINGS, *VLLM_OWNED_SETTINGS, "tensor_parallel_size"}
    wrong = [key for key in settings if key not in judged_elsewhere]
    return f"speculative.settings holds {', '.join(wrong)}" if wrong else ""


def vllm_synthetic(server: Server, _release: EngineRelease) -> str:
    settings = server.speculative.settings if server.speculative else {}
    wrong = [key for key in settings if key.startswith("synthetic_")]
    if settings.get("rejection_sample_method") == "synthetic":
        wrong.append("rejection_sample_method: synthetic")
    return f"speculative.settings holds {', '.join(wrong)}" if wrong else ""


def vllm_draft_parallel(server: Server, _release: EngineRelease) -> str:
    settings = server.speculative.settings if server.speculative else {}
    size = settings.get("draft_tensor_parallel_size")
    if size is None or str(size) in ("1", str(server.tensor_parallel)):
        return ""
    return f"draft_tensor_parallel_size is {size} and tensor_parallel is {server.tensor_parallel}"


def vllm_wrong_parallel(server: Server, _release: EngineRelease) -> str:
    settings = server.speculative.settings if server.speculative else {}
    return "speculative.settings holds tensor_parallel_size" if "tensor_parallel_size" in settings else ""


def vllm_lookup_order(server: Server, _release: EngineRelease) -> str:
    settings = server.speculative.settings if server.speculative else {}
    low, high = settings.get("prompt_lookup_min"), settings.get("prompt_lookup_max")
    if isinstance(low, int) and isinstance(high, int) and low > high:
        return f"prompt_lookup_min is {low} and prompt_lookup_max is {high}"
    return ""


def vllm_cpu_speculation(server: Server, release: EngineRelease) -> str:
    on_cpu = server.hardware == "cpu" or release.is_cpu_build
    return "speculation on a CPU" if server.speculative and on_cpu else ""
