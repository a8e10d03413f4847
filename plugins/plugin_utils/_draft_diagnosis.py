# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a draft that loads, and answers, is not accepted: the layers that it is fed, and the head that it lacks.

Neither is an error to an engine. A draft that is fed other layers than it was trained on, or that borrows the head of
its target, drafts tokens that are refused, and the answers stay right (seen with vLLM 0.32.0, 2026-11: accept length
1.00 in both cases).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.blackwell.inference.plugins.plugin_utils._draft_layers import (
    KEY,
    captured_boundaries,
    default_boundaries,
    draft_layers,
)

FAR_BELOW = 0.75  # of the declared accept length; what a prompt does to acceptance is less (0.88 to 1.18 of the mean)
NOTHING_ACCEPTED = 1.05  # an accept length that counts as that: the first tokens of an answer may be accepted by chance


class Served(NamedTuple):
    """What serves the draft, and what is known of the draft."""

    engine: str
    release: str
    boundaries: Sequence[int]  # the layers that the draft was trained on; empty when not declared


def diagnose(look: Mapping[str, Any], served: Served, accept_length: float | None, declared: float = 0.0) -> list[str]:
    """What speaks for a wrong draft: sentences with the ids in force, those expected, and the rule. Empty for none.

    look: what look_at_draft.py saw; accept_length: as measured; declared: as published, 0 when not known.
    """
    if accept_length is None:
        return []
    if accept_length > NOTHING_ACCEPTED and not (declared and accept_length < FAR_BELOW * declared):
        return []
    return [*_head(look, served), *_layers(look, served)]


def _head(look: Mapping[str, Any], served: Served) -> list[str]:
    if look.get("has_head") is not False:
        return []
    return [
        f"the draft {look.get('draft_path')} has no lm_head.weight, so that {served.engine} lends it the target's, "
        "which it was perhaps not trained with; get the whole draft from its publisher"
    ]


def _layers(look: Mapping[str, Any], served: Served) -> list[str]:
    architecture, layers = _target(look.get("target"))
    ids, source = _ids_in_force(look.get("draft"), served.engine)
    try:
        if ids is None:
            if layers is None:
                return []
            fed, rule = default_boundaries(layers), f"its default for {layers} layers, since config.json names none"
        else:
            fed, rule = captured_boundaries(ids, served.engine, served.release, architecture)
        force = f"ids {list(ids)} ({source})" if ids is not None else "no ids"
        sentence = f"the draft is fed the boundaries {fed} of {architecture or 'the target'}: {force}; {rule}"
        return [f"{sentence}. {_expected(look, served, architecture, layers, fed)}"]
    except ValueError as error:
        return [f"which layers the draft is fed is not known: {error}"]


def _target(config: Any) -> tuple[str, int | None]:
    """The target's architecture, and how many layers it has. What a stranger wrote as anything else is not known."""
    known = config if isinstance(config, Mapping) else {}
    names, layers = known.get("architectures"), known.get("num_hidden_layers")
    name = names[0] if isinstance(names, list) and names else ""
    is_number = isinstance(layers, int) and not isinstance(layers, bool)
    return (name if isinstance(name, str) and name.isidentifier() else ""), (layers if is_number else None)


def _ids_in_force(draft: Any, engine: str) -> tuple[list[int] | None, str]:
    """The ids that the engine reads, and where. vLLM reads the top level, SGLang eagle_config."""
    place, where = draft, KEY
    if engine == "sglang":
        place, where = (draft.get("eagle_config") if isinstance(draft, Mapping) else None), f"eagle_config.{KEY}"
    ids = place.get(KEY) if isinstance(place, Mapping) else None
    is_known = isinstance(ids, list) and all(isinstance(item, int) for item in ids)
    return (ids if is_known else None), f"{where} in its config.json"


def _expected(
    look: Mapping[str, Any], served: Served, architecture: str, layers: int | None, fed: Sequence[int]
) -> str:
    settings = (
        f"registry_patches_draft: {look.get('draft_path')}, registry_patches_draft_boundaries: [...], and as "
        "draft_model in inference_server_speculative the value of registry_patches_draft_directory, where the role "
        "writes a copy with the right ids"
    )
    if not served.boundaries:
        return f"If it was trained on others (its publisher knows), set {settings}"
    if list(served.boundaries) == list(fed):
        return (
            "That is what registry_patches_draft_boundaries says it was trained on: if that is true, the layers are "
            "not the cause, and the draft may be for another target"
        )
    wanted = draft_layers(served.boundaries, served.engine, served.release, architecture, layers)
    settings = settings.replace("[...]", str(list(served.boundaries)))
    return (
        f"It was trained on {list(served.boundaries)} (registry_patches_draft_boundaries), for which "
        f"{served.engine} {served.release} needs ids {wanted.ids}: set {settings}"
    )
