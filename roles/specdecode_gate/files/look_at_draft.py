# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prints what a target and its draft are, as JSON; Python 3.8 and later, standard library.

    look_at_draft.py TARGET DRAFT

Only headers of the weights are read: names, no numbers. What can't be known is null. An empty text is no model.
"""

from __future__ import annotations

import glob
import json
import os
import sys
from typing import Any

LARGEST_HEADER = 100 * 1024 * 1024  # the format's own limit, in bytes
CONFIG_KEYS = ("architectures", "num_hidden_layers", "eagle_config", "eagle_aux_hidden_state_layer_ids")


def read_config(directory: str) -> dict[str, Any] | None:
    """What of a model's config.json matters here; a model with several parts describes its language model within."""
    try:
        with open(os.path.join(directory, "config.json"), encoding="utf-8") as file:
            config = json.load(file)
        found = {key: config[key] for key in CONFIG_KEYS if key in config}
        inner = config.get("text_config")
        if isinstance(inner, dict):
            found = {**{key: inner[key] for key in CONFIG_KEYS if key in inner}, **found}
        return found
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def tensor_names(directory: str) -> list[str] | None:
    """The names of all tensors in a model's safetensors files; None when there are none, or one can't be read."""
    names: list[str] = []
    paths = sorted(glob.glob(os.path.join(glob.escape(directory), "*.safetensors")))
    try:
        for path in paths:
            names += header_names(path)
    except (OSError, ValueError):
        return None
    return names if paths else None


def header_names(path: str) -> list[str]:
    """The names in the header of one file: 8 bytes of its length, little-endian, then JSON. ValueError for others."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > LARGEST_HEADER:
            raise ValueError(f"a header of {length} bytes")
        header = json.loads(file.read(length))
    if not isinstance(header, dict):
        raise ValueError("no table of tensors")
    return [name for name in header if name != "__metadata__"]


def look(target: str, draft: str) -> dict[str, Any]:
    """Both configurations, and whether the draft has an output head of its own."""
    names = tensor_names(draft) if draft else None
    has_head = None if names is None else any(name.split(".")[-2:] == ["lm_head", "weight"] for name in names)
    return {
        "target": read_config(target) if target else None,
        "draft": read_config(draft) if draft else None,
        "draft_path": draft,
        "has_head": has_head,
    }


def main(arguments: list[str]) -> int:
    """Print what was seen."""
    print(json.dumps(look(*arguments)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
