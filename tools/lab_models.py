# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the lab's models: a tiny GLM-4 target and its EAGLE-3 drafts, in closed form.

Usage: python tools/lab_models.py DIRECTORY

No training, no download, no torch: every weight follows from a rule, so that what a server must answer, and how many
draft tokens it must accept, is known beforehand. The models are not clever, but the engine cannot tell.

DIRECTORY/glm4
    The target (Glm4ForCausalLM, 8 layers). It counts: the byte "a" is continued with "b", "b" with "c", and after "~"
    comes "!". Bytes outside "!" to "~" are continued with "!".
DIRECTORY/eagle3
    The right draft for layers 2, 4 and 5, vLLM's choice for 8 layers: (2, n // 2, n - 3).
    The first token of every draft is accepted, no other: accept length 2.0.
DIRECTORY/eagle3-wrong-layers
    Was built for layers 0, 2 and 4, but its configuration asks for 2, 4 and 5. Nothing is accepted.
DIRECTORY/eagle3-headless
    The right draft without its lm_head. vLLM then lends it the target's, which is one token late. Nothing is accepted.

In all three cases the text at temperature 0 is the same, and only the engine's metrics tell them apart.

How the target works
    The state of a token (128 dimensions) has three parts:
      0-95    the token: 96 signs, +1 or -1. Two tokens agree in about half of them, so their product is near 0,
              that of a token with itself 96.
      96      always 1.
      97-104  one dimension a layer, at first 0. Layer i sets its own to 1; nothing else is ever written. So a state
              tells which layers it has been through.
    Attention contributes nothing (o_proj is 0). The MLP of layer i reads the constant and writes to dimension 97 + i;
    GLM-4 normalises what an MLP returns, so the written value is 1 whatever its size was.
    The row of the output head for a token is the state of the token that comes before it.

How a draft works
    An EAGLE-3 draft is fed the states that enter three layers of the target, side by side. State k has been through
    the layers 0 to k - 1, so exactly k of its layer dimensions are 1. Its `fc` copies the token, and compares every
    layer dimension with what the layer that it was built for would show: the difference is 0, or the draft was wired
    wrongly. Its head looks two tokens ahead, because the target has already chosen the next one. Two rows for each
    fed state answer to any difference with an unassigned token that drowns all others.
    From the second token on a draft only has its own first state to look at, so it repeats itself, and is refused.

Every number is exact in bfloat16 but those of the layer that the normalisation mends, so the result does not depend on
the order of sums. Random signs are bits of SHAKE-256, and the files are written here byte by byte: the same on every
machine, with every release of Python and numpy.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

GENERATOR = "lab_models"
VERSION = 1  # raise it with every change that changes a written byte
SEED = "blackwell.inference lab"
MANIFEST = "lab_models.json"

VOCABULARY = 512
DRAFT_VOCABULARY = 448  # smaller than the target's, or vLLM refuses the mapping d2t
HIDDEN = 128
INTERMEDIATE = 256
HEADS, KEY_VALUE_HEADS, HEAD_SIZE = 4, 2, 32
LAYERS = 8

TOKEN = slice(0, 96)
CONSTANT = 96
FIRST_LAYER_MARK = 97
TOKEN_SIZE = 96

SPECIAL_TOKENS = ("<s>", "</s>", "<pad>")
FIRST_COUNTED = len(SPECIAL_TOKENS)  # the id of "!"
LAST_COUNTED = FIRST_COUNTED + ord("~") - ord("!")
UNASSIGNED = 300  # ids from here to 305 stand for no text: the drafts' alarms

DEFAULT_LAYERS = (2, LAYERS // 2, LAYERS - 3)
WRONG_LAYERS = (0, 2, 4)
ALARM = 16.0  # squared, a difference of one layer outweighs the 96 of the right token

Floats = npt.NDArray[np.float32]
Tensors = dict[str, npt.NDArray[Any]]


# -- numbers ---------------------------------------------------------------------------------------------------------


def random_signs(name: str, rows: int, columns: int) -> Floats:
    """+1 and -1 in a matrix, from bits of SHAKE-256 over the seed and the name: independent for every name."""
    stream = hashlib.shake_256(f"{SEED}/{name}".encode()).digest(math.ceil(rows * columns / 8))
    bits = np.unpackbits(np.frombuffer(stream, np.uint8))[: rows * columns]
    return np.where(bits, 1.0, -1.0).astype(np.float32).reshape(rows, columns)


def zeros(*shape: int) -> Floats:
    """A tensor of zeros."""
    return np.zeros(shape, np.float32)


def ones(size: int) -> Floats:
    """A vector of ones: a normalisation that leaves the scale alone."""
    return np.ones(size, np.float32)


def to_bfloat16(values: Floats) -> npt.NDArray[np.uint16]:
    """The upper 16 bits of each float32, rounded to nearest, ties to even. Values are finite."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


# -- the target ------------------------------------------------------------------------------------------------------


def counted_neighbour(token: int, steps: int) -> int:
    """The token so many steps ahead of (negative: behind) a counted token, around the circle from "!" to "~"."""
    size = LAST_COUNTED - FIRST_COUNTED + 1
    return FIRST_COUNTED + (token - FIRST_COUNTED + steps) % size


def embeddings() -> Floats:
    """The first state of each token. What is not counted looks like "~", so that "!" follows it."""
    table = zeros(VOCABULARY, HIDDEN)
    table[:, TOKEN] = random_signs("embeddings", VOCABULARY, TOKEN_SIZE)
    counted = slice(FIRST_COUNTED, LAST_COUNTED + 1)
    everything_else = np.ones(VOCABULARY, bool)
    everything_else[counted] = False
    table[everything_else] = table[LAST_COUNTED]
    table[:, CONSTANT] = 1.0
    return table


def output_head(rows: int, steps: int) -> Floats:
    """A head that answers the state of token t with the token `steps` ahead of t."""
    table = embeddings()
    head = zeros(rows, HIDDEN)
    for token in range(FIRST_COUNTED, LAST_COUNTED + 1):
        head[token, TOKEN] = table[counted_neighbour(token, -steps), TOKEN]
    return head


def attention_without_effect(prefix: str, input_size: int) -> Tensors:
    """Attention that computes something, and adds nothing (`o_proj` is 0)."""
    key_value_size = KEY_VALUE_HEADS * HEAD_SIZE
    scale = np.float32(1 / 16)
    return {
        f"{prefix}.q_proj.weight": scale * random_signs(f"{prefix}.q", HEADS * HEAD_SIZE, input_size),
        f"{prefix}.k_proj.weight": scale * random_signs(f"{prefix}.k", key_value_size, input_size),
        f"{prefix}.v_proj.weight": scale * random_signs(f"{prefix}.v", key_value_size, input_size),
        f"{prefix}.o_proj.weight": zeros(HIDDEN, HEADS * HEAD_SIZE),
    }


def marking_mlp(layer: int) -> tuple[Floats, Floats]:
    """`gate_up_proj` and `down_proj` of an MLP that writes to its layer's dimension.

    The constant reaches it divided by the state's root mean square (at most 1): it gates with 16 and more, where SiLU
    is the identity, and multiplies by 1 and more. The size does not matter: GLM-4 normalises the result, and
    `post_mlp_layernorm` makes it 1.
    """
    gate, up, down = zeros(INTERMEDIATE, HIDDEN), zeros(INTERMEDIATE, HIDDEN), zeros(HIDDEN, INTERMEDIATE)
    gate[0, CONSTANT] = 16.0
    up[0, CONSTANT] = 1.0
    down[FIRST_LAYER_MARK + layer, 0] = 1.0
    return np.concatenate([gate, up]), down


def target_layer(layer: int) -> Tensors:
    """One layer of the target."""
    prefix = f"model.layers.{layer}"
    gate_up, down = marking_mlp(layer)
    return {
        **attention_without_effect(f"{prefix}.self_attn", HIDDEN),
        f"{prefix}.mlp.gate_up_proj.weight": gate_up,
        f"{prefix}.mlp.down_proj.weight": down,
        f"{prefix}.input_layernorm.weight": ones(HIDDEN),
        f"{prefix}.post_attention_layernorm.weight": ones(HIDDEN),
        f"{prefix}.post_self_attn_layernorm.weight": ones(HIDDEN),
        # The MLP's result has one entry, which the normalisation makes sqrt(HIDDEN); this makes it 1.
        f"{prefix}.post_mlp_layernorm.weight": ones(HIDDEN) / np.float32(math.sqrt(HIDDEN)),
    }


def target_tensors() -> Tensors:
    """All weights of the target."""
    tensors: Tensors = {
        "model.embed_tokens.weight": embeddings(),
        "model.norm.weight": ones(HIDDEN),
        "lm_head.weight": output_head(VOCABULARY, steps=1),
    }
    for layer in range(LAYERS):
        tensors.update(target_layer(layer))
    return tensors


# -- the drafts ------------------------------------------------------------------------------------------------------


def differences(state: int) -> slice:
    """Where a draft's own state keeps the differences of the fed state number 0, 1 or 2."""
    start = TOKEN_SIZE + state * LAYERS
    return slice(start, start + LAYERS)


def wiring_check(built_for: tuple[int, int, int]) -> Floats:
    """`fc`: copies the token from the first fed state, and compares the layer dimensions of all three."""
    fc = zeros(HIDDEN, 3 * HIDDEN)
    fc[TOKEN, TOKEN] = np.eye(TOKEN_SIZE)
    marks = np.arange(LAYERS)
    for state, layer in enumerate(built_for):
        fed = state * HIDDEN
        rows = fc[differences(state)]
        rows[marks, fed + FIRST_LAYER_MARK + marks] = ALARM
        rows[:layer, fed + CONSTANT] = -ALARM  # these marks are expected to be 1, the others 0
    return fc


def draft_head() -> Floats:
    """Two tokens ahead, and for each fed state one alarm for too many layers and one for too few."""
    head = output_head(DRAFT_VOCABULARY, steps=2)
    for state in range(3):
        head[UNASSIGNED + 2 * state, differences(state)] = ALARM
        head[UNASSIGNED + 2 * state + 1, differences(state)] = -ALARM
    return head


def draft_tensors(built_for: tuple[int, int, int], headless: bool = False) -> Tensors:
    """All weights of a draft. Its embeddings are the target's; the engine shares them."""
    scale = np.float32(1 / 16)
    tensors: Tensors = {
        "fc.weight": wiring_check(built_for),
        "norm.weight": ones(HIDDEN),
        "d2t": np.zeros(DRAFT_VOCABULARY, "<i8"),  # draft token n is token n of the target
        "t2d": np.arange(VOCABULARY) < DRAFT_VOCABULARY,
        **attention_without_effect("midlayer.self_attn", 2 * HIDDEN),
        "midlayer.mlp.gate_proj.weight": scale * random_signs("midlayer.gate", INTERMEDIATE, HIDDEN),
        "midlayer.mlp.up_proj.weight": scale * random_signs("midlayer.up", INTERMEDIATE, HIDDEN),
        "midlayer.mlp.down_proj.weight": zeros(HIDDEN, INTERMEDIATE),
        "midlayer.input_layernorm.weight": ones(HIDDEN),
        "midlayer.post_attention_layernorm.weight": ones(HIDDEN),
        "midlayer.hidden_norm.weight": ones(HIDDEN),
    }
    if not headless:
        tensors["lm_head.weight"] = draft_head()
    return tensors


# -- files -----------------------------------------------------------------------------------------------------------


def configuration(architecture: str, model_type: str, layers: int, **more: object) -> dict[str, object]:
    """The content of a config.json."""
    return {
        "architectures": [architecture],
        "model_type": model_type,
        "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KEY_VALUE_HEADS,
        "head_dim": HEAD_SIZE,
        "num_hidden_layers": layers,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": 512,
        "rms_norm_eps": 1e-5,
        "hidden_act": "silu",
        "bos_token_id": 0,
        "eos_token_id": 1,
        "pad_token_id": 2,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "attention_bias": False,
        "mlp_bias": False,
        **more,
    }


def byte_characters() -> list[str]:
    """The character for each byte that a byte-level tokenizer uses, in the order of the ids.

    Printable bytes stand for themselves, the others for the characters from U+0100 on (the table of GPT-2's
    `bytes_to_unicode`, which all byte-level tokenizers share). Sorted, "!" to "~" come first.
    """
    printable = {*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    return sorted([chr(byte) for byte in printable] + [chr(0x100 + n) for n in range(256 - len(printable))])


def tokenizer_model() -> dict[str, object]:
    """A byte-pair encoding with one token a byte, and no merges."""
    characters = [*SPECIAL_TOKENS, *byte_characters()]
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
        "vocab": {text: number for number, text in enumerate(characters)},
        "merges": [],
    }


def tokenizer() -> dict[str, object]:
    """The content of a tokenizer.json."""
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": number, "content": text, **flags} for number, text in enumerate(SPECIAL_TOKENS)],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": tokenizer_model(),
    }


def tokenizer_configuration() -> dict[str, object]:
    """The content of a tokenizer_config.json, with the simplest chat template."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "pad_token": "<pad>",
        "model_max_length": 512,
        "chat_template": "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:",
    }


def safetensors(tensors: Tensors) -> bytes:
    """The bytes of a .safetensors file: the header's length, the header (JSON), the tensors. Floats become bfloat16."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    chunks: list[bytes] = []
    offset = 0
    for name, tensor in sorted(tensors.items()):
        if tensor.dtype == np.float32:
            label, content = "BF16", to_bfloat16(tensor).astype("<u2").tobytes()
        else:
            label, content = {"i": "I64", "b": "BOOL"}[tensor.dtype.kind], tensor.tobytes()
        end = offset + len(content)
        header[name] = {"dtype": label, "shape": list(tensor.shape), "data_offsets": [offset, end]}
        chunks.append(content)
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the tensors are aligned
    return len(text).to_bytes(8, "little") + text + b"".join(chunks)


def json_bytes(content: dict[str, object]) -> bytes:
    """Readable JSON, the same each time."""
    return (json.dumps(content, indent=1, sort_keys=True) + "\n").encode()


def target_files() -> dict[str, bytes]:
    """The files of the target."""
    return {
        "config.json": json_bytes(configuration("Glm4ForCausalLM", "glm4", LAYERS, partial_rotary_factor=0.5)),
        "generation_config.json": json_bytes({"bos_token_id": 0, "eos_token_id": 1}),
        "tokenizer.json": json_bytes(tokenizer()),
        "tokenizer_config.json": json_bytes(tokenizer_configuration()),
        "model.safetensors": safetensors(target_tensors()),
    }


def draft_files(built_for: tuple[int, int, int], headless: bool = False, **more: object) -> dict[str, bytes]:
    """The files of a draft; `more` goes into its config.json."""
    settings = configuration("LlamaForCausalLMEagle3", "llama", 1, draft_vocab_size=DRAFT_VOCABULARY, **more)
    return {
        "config.json": json_bytes(settings),
        "model.safetensors": safetensors(draft_tensors(built_for, headless)),
    }


def all_files() -> dict[str, bytes]:
    """Path below DIRECTORY and content of each file, the manifest apart."""
    models = {
        "glm4": target_files(),
        "eagle3": draft_files(DEFAULT_LAYERS),
        "eagle3-wrong-layers": draft_files(WRONG_LAYERS, eagle_aux_hidden_state_layer_ids=list(DEFAULT_LAYERS)),
        "eagle3-headless": draft_files(DEFAULT_LAYERS, headless=True),
    }
    return {f"{model}/{name}": content for model, files in models.items() for name, content in files.items()}


# -- the directory ---------------------------------------------------------------------------------------------------


def manifest_of(files: dict[str, bytes]) -> dict[str, object]:
    """Who made the directory, and what is in it."""
    digests = {path: hashlib.sha256(content).hexdigest() for path, content in files.items()}
    return {"generator": GENERATOR, "version": VERSION, "seed": SEED, "files": digests}


def read_manifest(directory: Path) -> dict[str, Any] | None:
    """The manifest of a directory made by this program in any version; None: it is somebody else's."""
    try:
        manifest = json.loads((directory / MANIFEST).read_bytes())
    except (OSError, ValueError):
        return None
    return manifest if isinstance(manifest, dict) and manifest.get("generator") == GENERATOR else None


def is_current(directory: Path) -> bool:
    """Whether this version made the directory and every file still has the bytes it was given."""
    manifest = read_manifest(directory)
    if manifest is None or (manifest.get("version"), manifest.get("seed")) != (VERSION, SEED):
        return False
    try:
        return all(
            hashlib.sha256((directory / path).read_bytes()).hexdigest() == digest
            for path, digest in manifest["files"].items()
        )
    except OSError:
        return False


def write_tree(directory: Path, files: dict[str, bytes]) -> None:
    """Write the files with modes that let another user's server read them."""
    directory.chmod(0o755)
    for path, content in files.items():
        target = directory / path
        target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        target.write_bytes(content)
        target.chmod(0o644)


def replace_directory(directory: Path, files: dict[str, bytes]) -> None:
    """Put the files in the place of the directory. They are complete before they get its name."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    workshop = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.parent))
    try:
        (workshop / "new").mkdir()
        write_tree(workshop / "new", files)
        if directory.exists():
            os.rename(directory, workshop / "old")
        os.rename(workshop / "new", directory)
    finally:
        shutil.rmtree(workshop)


def main(arguments: list[str]) -> int:
    """Make the models where they are missing, old or damaged; say what was done. Returns the exit status."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print("usage: python tools/lab_models.py DIRECTORY", file=sys.stderr)
        return 2
    directory = Path(os.path.abspath(arguments[0]))
    if is_current(directory):
        print(f"{directory}: already has the lab's models, version {VERSION}; nothing to do")
        return 0
    if directory.is_symlink() or (directory.exists() and not directory.is_dir()):
        print(f"{directory}: is not a directory; name another, or remove it", file=sys.stderr)
        return 1
    if directory.is_dir() and any(directory.iterdir()) and read_manifest(directory) is None:
        print(f"{directory}: holds something else (no {MANIFEST}); name another directory", file=sys.stderr)
        return 1
    files = all_files()
    files[MANIFEST] = json_bytes(manifest_of(files))
    replace_directory(directory, files)
    size = sum(len(content) for content in files.values()) / 1e6
    print(f"{directory}: wrote the lab's models, version {VERSION}: {len(files)} files, {size:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
