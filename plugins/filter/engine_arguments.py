# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter: one description of a server, as the arguments of the installed engine's release."""

from __future__ import annotations

DOCUMENTATION = r"""
name: engine_arguments
short_description: Turn a server's description into the arguments of SGLang or vLLM
version_added: 0.1.0
author:
  - the blackwell.inference authors (@blackwell-inference)
description:
  - Gives the list of arguments that starts the described server on the installed release of an engine.
  - Refuses what that release would silently override, ignore or die on, with the fact, the rule and the remedy. All
    that is wrong is said at once. The rules were read in the sources of SGLang 0.5.5 to 0.5.23 and vLLM 0.11.0 to
    0.33.0.
  - The same description means the same on both engines. O(_input.speculative.num_steps) is the depth of the draft;
    with one branch the engine verifies one token more than that.
  - The result is a pure function of its input.
positional: engine, release, help_text
options:
  _input:
    description: The server. An unknown key is refused.
    type: dict
    required: true
    suboptions:
      model:
        description: Directory, or repository of a model hub.
        type: str
        required: true
      served_name:
        description: Name under which clients ask for the model. Default is the model's own.
        type: str
      revision:
        description: Revision of a hub's repository. Not for a directory, where the engines ignore it.
        type: str
      tensor_parallel:
        description: Number of GPUs over which each layer is split.
        type: int
        default: 1
      speculative:
        description:
          - How tokens are drafted. Empty or without a value for no speculation.
        type: dict
        suboptions:
          algorithm:
            description:
              - V(EAGLE3), V(EAGLE), V(NEXTN) (heads inside the target, vLLM calls this mtp), V(STANDALONE) (a small
                model), V(NGRAM); SGLang also has V(DFLASH) from 0.5.11, V(DSPARK) from 0.5.16, V(UNO) from 0.5.20.
            type: str
            required: true
          draft_model:
            description: Directory or hub repository of the draft.
            type: str
          draft_revision:
            description: Revision of the draft's repository. Pinned together with the target's.
            type: str
          draft_architecture:
            description: The architecture in the draft's config.json. Given, it is checked against the release.
            type: str
          num_steps:
            description: Draft steps in a chain. vLLM calls this num_speculative_tokens and cannot do without.
            type: int
          topk:
            description: Branches a step. With O(_input.speculative.num_steps) set, 1 is filled in.
            type: int
          num_draft_tokens:
            description: Tokens verified in a step. For a chain it follows from the steps and is filled in.
            type: int
          settings:
            description:
              - Further settings of the engine's speculation, in the engine's own names. For vLLM they are keys of
                its speculative configuration; for SGLang they become C(--speculative-<name>).
            type: dict
      host:
        description: Address to listen at.
        type: str
        default: 127.0.0.1
      port:
        description: Port to listen at.
        type: int
        required: true
      max_model_len:
        description: Longest sequence in tokens, prompt and answer together. Default is the model's own.
        type: int
      max_running:
        description: Most sequences served at the same time. Default is the engine's own.
        type: int
      memory_fraction:
        description: Share of a GPU's memory for weights and cache, between 0 and 1. Default is the engine's own.
        type: float
      dtype:
        description: Data type of the weights. Default is the engine's own.
        type: str
        choices: [auto, half, float16, bfloat16, float, float32]
      trust_remote_code:
        description: Whether code from the model's repository may run.
        type: bool
        default: false
      hardware:
        description: What the engine runs on. Some releases cannot speculate on a CPU.
        type: str
        choices: [gpu, cpu]
        default: gpu
      config_file:
        description:
          - YAML file on the node with further options. It is the way for an API key of SGLang, which reads none from
            its environment. What stands in the file is not checked here.
        type: str
      environment:
        description: Environment of the server, as far as rules look at it. It is not part of the result.
        type: dict
      extra_arguments:
        description: Further arguments, one an item. Options that a variable stands for are refused here.
        type: list
        elements: str
  engine:
    description: The engine.
    type: str
    choices: [sglang, vllm]
    required: true
  release:
    description: The installed release, as its distribution says (V(0.5.9), V(0.32.0+cpu)).
    type: str
    required: true
  help_text:
    description:
      - The installed engine's own help, from C(vllm serve --help=all) or C(python -m sglang.launch_server --help).
        Given, every argument of the result must be in it, so that also what is misspelt in
        O(_input.extra_arguments) is found before a start.
    type: str
    default: ''
"""

EXAMPLES = r"""
- name: Show the arguments for SGLang
  ansible.builtin.debug:
    msg: "{{ server | blackwell.inference.engine_arguments('sglang', '0.5.14') }}"
  vars:
    server:
      model: moonshotai/Kimi-K2.5
      revision: 0123456789abcdef0123456789abcdef01234567
      port: 8000
      tensor_parallel: 8
      trust_remote_code: true
      speculative:
        algorithm: EAGLE3
        draft_model: example/kimi-k2.5-eagle3
        draft_revision: 89abcdef0123456789abcdef0123456789abcdef
        num_steps: 3

# Gives: --model-path moonshotai/Kimi-K2.5 --revision 0123... --host 127.0.0.1 --port 8000
#        --tensor-parallel-size 8 --trust-remote-code --speculative-algorithm EAGLE3 ...
#        --speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4 --enable-metrics
"""

RETURN = r"""
_value:
  description:
    - The arguments after the executable. For vLLM they begin with V(serve) and the model; for SGLang they are those of
      C(python -m sglang.launch_server).
  type: list
  elements: str
"""

import json
from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible.utils.display import Display
from ansible_collections.blackwell.inference.plugins.plugin_utils._engine_help import unknown_options
from ansible_collections.blackwell.inference.plugins.plugin_utils._engine_releases import (
    CHAIN_ALGORITHMS,
    VLLM_METHODS,
    newer_release,
    parse_release,
)
from ansible_collections.blackwell.inference.plugins.plugin_utils._engine_rules import broken_rules
from ansible_collections.blackwell.inference.plugins.plugin_utils._engine_server import (
    EngineArgumentError,
    Server,
    Speculation,
    parse_server,
)


def engine_arguments(server: object, engine: object, release: object, help_text: object = "") -> list[str]:
    """The engine's arguments for the described server; AnsibleFilterError when the release would not obey them."""
    try:
        arguments, warnings = _decide(server, engine, release, help_text)
    except EngineArgumentError as error:
        raise AnsibleFilterError(f"engine_arguments: {error}") from error
    for warning in warnings:
        Display().warning(warning)
    return arguments


def _decide(server: object, engine: object, release: object, help_text: object) -> tuple[list[str], list[str]]:
    """Arguments and warnings; raises EngineArgumentError with everything that is wrong."""
    name = engine if isinstance(engine, str) else repr(engine)
    version = parse_release(name, release)
    parsed = parse_server(server)
    broken = broken_rules(name, version, parsed)
    errors = [message for rule, message in broken if rule.severity == "error"]
    if errors:
        raise EngineArgumentError("\n".join(errors))
    arguments = _vllm(parsed) if name == "vllm" else _sglang(parsed)
    if help_text:
        errors = unknown_options(name, str(help_text), arguments)
    if errors:
        raise EngineArgumentError("\n".join(errors))
    return arguments, [*newer_release(name, version), *(message for _rule, message in broken)]


def _option(name: str, value: object) -> list[str]:
    """An option with its value, or nothing where the value is the engine's own choice."""
    return [] if value in (None, "") else [name, str(value)]


def _vllm(server: Server) -> list[str]:
    arguments = [
        "serve",
        server.model,
        *_option("--served-model-name", server.served_name),
        *_option("--revision", server.revision),
        *_option("--host", server.host),
        *_option("--port", server.port),
        *_option("--tensor-parallel-size", server.tensor_parallel),
        *_option("--max-model-len", server.max_model_len),
        *_option("--max-num-seqs", server.max_running),
        *_option("--gpu-memory-utilization", server.memory_fraction),
        *_option("--dtype", server.dtype),
        *(["--trust-remote-code"] if server.trust_remote_code else []),
        *_option("--config", server.config_file),
    ]
    if server.speculative:
        arguments += ["--speculative-config", _vllm_speculation(server.speculative)]
    return arguments + list(server.extra_arguments)


def _vllm_speculation(spec: Speculation) -> str:
    """The speculative configuration as JSON; sorted, so that equal settings give an equal text."""
    configuration: dict[str, Any] = {
        **spec.settings,
        "method": VLLM_METHODS[spec.algorithm],
        "num_speculative_tokens": spec.num_steps,
    }
    if spec.draft_model:
        configuration["model"] = spec.draft_model
    if spec.draft_revision:
        configuration["revision"] = spec.draft_revision
    return json.dumps(configuration, sort_keys=True, separators=(",", ":"))


def _sglang(server: Server) -> list[str]:
    arguments = [
        *_option("--model-path", server.model),
        *_option("--served-model-name", server.served_name),
        *_option("--revision", server.revision),
        *_option("--host", server.host),
        *_option("--port", server.port),
        *_option("--tensor-parallel-size", server.tensor_parallel),
        *_option("--context-length", server.max_model_len),
        *_option("--max-running-requests", server.max_running),
        *_option("--mem-fraction-static", server.memory_fraction),
        *_option("--dtype", server.dtype),
        *(["--trust-remote-code"] if server.trust_remote_code else []),
        *_option("--config", server.config_file),
    ]
    if server.speculative:
        arguments += _sglang_speculation(server.speculative)
    # Without it the engine has no /metrics, and nobody could tell whether the draft is any good.
    return [*arguments, "--enable-metrics", *server.extra_arguments]


def _sglang_speculation(spec: Speculation) -> list[str]:
    steps, topk, tokens = spec.num_steps, spec.topk, spec.num_draft_tokens
    if steps is not None and spec.algorithm in CHAIN_ALGORITHMS:
        # The engine dies of a missing one of the three, so what follows from the steps is written out.
        topk = topk or 1
        tokens = steps + 1 if topk == 1 else tokens
    arguments = [
        *_option("--speculative-algorithm", spec.algorithm),
        *_option("--speculative-draft-model-path", spec.draft_model),
        *_option("--speculative-draft-model-revision", spec.draft_revision),
        *_option("--speculative-num-steps", steps),
        *_option("--speculative-eagle-topk", topk),
        *_option("--speculative-num-draft-tokens", tokens),
    ]
    for name in sorted(spec.settings):
        arguments += _sglang_setting(name, spec.settings[name])
    return arguments


def _sglang_setting(name: str, value: Any) -> list[str]:
    option = "--speculative-" + name.replace("_", "-")
    if isinstance(value, bool):
        return [option] if value else []
    values = value if isinstance(value, (list, tuple)) else [value]
    return [option, *(str(item) for item in values)]


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, Callable[..., list[str]]]:
        """The filter by its name."""
        return {"engine_arguments": engine_arguments}
