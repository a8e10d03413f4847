# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The description of a server, read from an inventory's dictionary into typed values, or refused."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

DTYPES = ("auto", "half", "float16", "bfloat16", "float", "float32")
HARDWARE = ("gpu", "cpu")


class EngineArgumentError(ValueError):
    """The server cannot be described to the engine; the message holds fact, rule and remedy."""


@dataclass(frozen=True)
class Speculation:
    """How tokens are drafted. The counts are the chain's: `num_steps` draft steps, `topk` branches a step."""

    algorithm: str
    draft_model: str = ""
    draft_revision: str = ""
    draft_architecture: str = ""
    num_steps: int | None = None
    topk: int | None = None
    num_draft_tokens: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Server:
    """One server: what it serves, where it listens, and its limits. None means: the engine's own choice."""

    model: str
    port: int
    host: str = "127.0.0.1"
    served_name: str = ""
    revision: str = ""
    tensor_parallel: int = 1
    speculative: Speculation | None = None
    max_model_len: int | None = None
    max_running: int | None = None
    memory_fraction: float | None = None
    dtype: str = ""
    trust_remote_code: bool = False
    hardware: str = "gpu"
    config_file: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    extra_arguments: tuple[str, ...] = ()


SERVER_KEYS = frozenset(Server.__dataclass_fields__)
SPECULATION_KEYS = frozenset(Speculation.__dataclass_fields__)


def parse_server(described: object) -> Server:
    """Read a server from an inventory's dictionary.

    Numbers may be given as text, as Jinja hands them on. Raises EngineArgumentError for a key that nothing
    would read, a missing one, and a value that no engine could use.
    """
    given = _mapping(described, "the server", SERVER_KEYS)
    return Server(
        model=_text(given, "model", required=True),
        port=_required(_integer(given, "port", 1, 65535), "port", "Set it to the TCP port that the server listens on."),
        host=_text(given, "host") or "127.0.0.1",
        served_name=_text(given, "served_name"),
        revision=_text(given, "revision"),
        tensor_parallel=_integer(given, "tensor_parallel", 1) or 1,
        speculative=_speculation(given.get("speculative")),
        max_model_len=_integer(given, "max_model_len", 1),
        max_running=_integer(given, "max_running", 1),
        memory_fraction=_fraction(given, "memory_fraction"),
        dtype=_choice(given, "dtype", DTYPES, ""),
        trust_remote_code=_boolean(given, "trust_remote_code"),
        hardware=_choice(given, "hardware", HARDWARE, "gpu"),
        config_file=_text(given, "config_file"),
        environment=_environment(given.get("environment")),
        extra_arguments=_arguments(given.get("extra_arguments")),
    )


def _speculation(described: object) -> Speculation | None:
    if described is None or (isinstance(described, (str, Mapping)) and described in ("", "none", {})):
        return None
    given = _mapping(described, "speculative", SPECULATION_KEYS)
    if not any(value not in (None, "", {}) for value in given.values()):
        return None
    return Speculation(
        algorithm=_text(given, "algorithm", required=True).upper(),
        draft_model=_text(given, "draft_model"),
        draft_revision=_text(given, "draft_revision"),
        draft_architecture=_text(given, "draft_architecture"),
        num_steps=_integer(given, "num_steps", 1),
        topk=_integer(given, "topk", 1),
        num_draft_tokens=_integer(given, "num_draft_tokens", 1),
        settings=_settings(given.get("settings")),
    )


def _mapping(described: object, what: str, known: frozenset[str]) -> Mapping[str, Any]:
    if not isinstance(described, Mapping):
        raise EngineArgumentError(f"{what} is {described!r}, not a dictionary. Give it as a dictionary of settings.")
    unknown = sorted(str(key) for key in described if key not in known)
    if unknown:
        raise EngineArgumentError(
            f"{what} has the unknown key {', '.join(unknown)}. A key that nothing reads would be ignored silently. "
            f"Known keys: {', '.join(sorted(known))}."
        )
    return described


def _text(given: Mapping[str, Any], key: str, required: bool = False) -> str:
    value = given.get(key)
    if value is None or value == "":
        if required:
            raise EngineArgumentError(f"{key} is not set. The engine cannot start without it. Set {key}.")
        return ""
    if not isinstance(value, str):
        raise EngineArgumentError(f"{key} is {value!r}, not text. Put it in quotes in the inventory.")
    if value.strip() != value or value.startswith("-") or not value.isprintable():
        raise EngineArgumentError(
            f"{key} is {value!r}. Blanks around it, a leading '-' or control characters would be read as something "
            f"else on a command line. Correct {key}."
        )
    return value


def _integer(given: Mapping[str, Any], key: str, low: int, high: int | None = None) -> int | None:
    value = given.get(key)
    if value is None or value == "":
        return None
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 18:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < low or (high is not None and value > high):
        limits = f"from {low} to {high}" if high is not None else f"of at least {low}"
        raise EngineArgumentError(f"{key} is {value!r}, not a whole number {limits}. Correct {key}.")
    return value


def _required(value: int | None, key: str, remedy: str) -> int:
    if value is None:
        raise EngineArgumentError(f"{key} is not set. The engines' defaults differ. {remedy}")
    return value


def _fraction(given: Mapping[str, Any], key: str) -> float | None:
    value = given.get(key)
    if value is None or value == "":
        return None
    try:
        number = float(value) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else 0.0
    except (ValueError, OverflowError):
        number = 0.0
    if not 0.0 < number < 1.0:
        raise EngineArgumentError(
            f"{key} is {value!r}, not a number between 0 and 1. It is the share of a GPU's memory. Correct {key}."
        )
    return number


def _boolean(given: Mapping[str, Any], key: str) -> bool:
    value = given.get(key)
    if value is None or value == "":
        return False
    if isinstance(value, bool):
        return value
    named = {"true": True, "yes": True, "false": False, "no": False}.get(str(value).lower())
    if named is None:
        raise EngineArgumentError(f"{key} is {value!r}, neither true nor false. Correct {key}.")
    return named


def _choice(given: Mapping[str, Any], key: str, known: tuple[str, ...], default: str) -> str:
    value = _text(given, key)
    if value and value not in known:
        raise EngineArgumentError(f"{key} is {value!r}. Known are {', '.join(known)}. Correct {key}.")
    return value or default


def _settings(described: object) -> Mapping[str, Any]:
    if described is None or described == "":
        return {}
    if not isinstance(described, Mapping) or not all(isinstance(key, str) and key for key in described):
        raise EngineArgumentError(
            f"speculative.settings is {described!r}. It takes a dictionary of the engine's own names. Correct it."
        )
    for key, value in described.items():
        if value is not None and not _is_plain(value):
            raise EngineArgumentError(
                f"speculative.settings.{key} is {value!r}, which no command line can carry. Give text, a number, "
                "true, false, or a list of these."
            )
    return {key: value for key, value in described.items() if value is not None}


def _environment(described: object) -> Mapping[str, str]:
    if described is None or described == "":
        return {}
    if not isinstance(described, Mapping):
        raise EngineArgumentError(f"environment is {described!r}, not a dictionary of names and values. Correct it.")
    return {str(name): str(value) for name, value in described.items() if value is not None}


def _is_plain(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return all(_is_plain(item) for item in value)
    return isinstance(value, (str, bool, int)) or (isinstance(value, float) and math.isfinite(value))


def _arguments(described: object) -> tuple[str, ...]:
    if described is None or described == "":
        return ()
    if not isinstance(described, (list, tuple)):
        raise EngineArgumentError(
            f"extra_arguments is {described!r}, not a list. Write one argument an item, as it stands on a command line."
        )
    return tuple(_argument(item) for item in described)


def _argument(item: object) -> str:
    if isinstance(item, (int, float)) and not isinstance(item, bool):
        item = str(item)
    if not isinstance(item, str) or not item or not item.isprintable():
        raise EngineArgumentError(
            f"extra_arguments holds {item!r}. Every item is one non-empty argument without control characters. "
            "Correct it."
        )
    return item
