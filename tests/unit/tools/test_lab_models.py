# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's models count as promised, are the same everywhere, and nothing of somebody else's is overwritten.

The arithmetic is repeated here in numpy, the way the engine does it, so that a wrong weight is found without a server.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from safetensors.numpy import load as load_safetensors
from tokenizers import Tokenizer

PROGRAM = Path(__file__).parents[3] / "tools" / "lab_models.py"

Floats = npt.NDArray[np.float64]


def import_program() -> ModuleType:
    specification = importlib.util.spec_from_file_location("lab_models", PROGRAM)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


lab_models = import_program()


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    content: dict[str, bytes] = lab_models.all_files()
    return content


@pytest.fixture
def models(tmp_path: Path) -> Path:
    assert lab_models.main([str(tmp_path / "models")]) == 0
    return tmp_path / "models"


def tree(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def weights(content: bytes) -> dict[str, npt.NDArray[Any]]:
    """What an independent reader finds in the file; bfloat16 becomes float64."""
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    as_integers = content.replace(b'"BF16"', b'"U16" ')
    return {
        name: (tensor.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        if header[name]["dtype"] == "BF16"
        else tensor
        for name, tensor in load_safetensors(as_integers).items()
    }


def normalise(state: Floats) -> Floats:
    return state / np.sqrt((state**2).mean(-1, keepdims=True) + 1e-5)


def target_states(target: dict[str, npt.NDArray[Any]]) -> list[Floats]:
    """For all tokens at once, the state that enters each layer, and the last one. Attention adds nothing."""
    states = [target["model.embed_tokens.weight"]]
    for layer in range(8):
        prefix = f"model.layers.{layer}"
        assert not target[f"{prefix}.self_attn.o_proj.weight"].any()
        gate, up = np.split(normalise(states[-1]) @ target[f"{prefix}.mlp.gate_up_proj.weight"].T, 2, axis=-1)
        written = (gate / (1 + np.exp(-gate)) * up) @ target[f"{prefix}.mlp.down_proj.weight"].T
        written = normalise(written) * target[f"{prefix}.post_mlp_layernorm.weight"]
        states.append(states[-1] + written)
    return states


def draft_tokens(draft: dict[str, npt.NDArray[Any]], head: Floats, fed: list[Floats]) -> npt.NDArray[np.intp]:
    """What a draft proposes first, for all tokens at once."""
    state = np.concatenate(fed, axis=-1) @ draft["fc.weight"].T
    return (normalise(state) @ head.T).argmax(-1)


COUNTED = range(3, 97)
ALARMS = set(range(300, 306))  # tokens without text, which the target never answers
DIGEST_OF_VERSION_1 = "5ac2614e7d1f945f3a99608cc6c8d3f892301bb2e63b6897d2516746df4b0d58"


def two_ahead(token: int) -> int:
    return 3 + (token - 3 + 2) % 94


class TestArithmetic:
    def test_target_counts(self, files: dict[str, bytes]) -> None:
        target = weights(files["glm4/model.safetensors"])
        answers = (normalise(target_states(target)[-1]) @ target["lm_head.weight"].T).argmax(-1)
        assert answers[3:97].tolist() == [*range(4, 97), 3]
        assert set(answers[97:]) | set(answers[:3]) == {3}

    def test_right_answer_stands_out(self, files: dict[str, bytes]) -> None:
        target = weights(files["glm4/model.safetensors"])
        scores = np.sort(normalise(target_states(target)[-1]) @ target["lm_head.weight"].T)
        assert (scores[:, -1] - scores[:, -2]).min() > 40

    def test_layers_mark_the_state_with_exact_ones(self, files: dict[str, bytes]) -> None:
        for layer, state in enumerate(target_states(weights(files["glm4/model.safetensors"]))):
            expected = np.zeros((512, 8))
            expected[:, :layer] = 1.0
            np.testing.assert_allclose(state[:, 97:105], expected, atol=2e-3)  # half a step of bfloat16 at 1

    def test_right_draft_looks_two_tokens_ahead(self, files: dict[str, bytes]) -> None:
        states = target_states(weights(files["glm4/model.safetensors"]))
        draft = weights(files["eagle3/model.safetensors"])
        proposed = draft_tokens(draft, draft["lm_head.weight"], [states[layer] for layer in (2, 4, 5)])
        assert [proposed[token] for token in COUNTED] == [two_ahead(token) for token in COUNTED]

    @pytest.mark.parametrize("layers", [(0, 2, 4), (4, 2, 5), (2, 4, 6), (5, 5, 5), (1, 4, 5), (2, 3, 6)])
    def test_right_draft_fed_other_layers_raises_an_alarm(
        self, files: dict[str, bytes], layers: tuple[int, int, int]
    ) -> None:
        states = target_states(weights(files["glm4/model.safetensors"]))
        draft = weights(files["eagle3/model.safetensors"])
        proposed = draft_tokens(draft, draft["lm_head.weight"], [states[layer] for layer in layers])
        assert set(proposed.tolist()) <= ALARMS

    def test_wrong_draft_is_right_on_its_own_layers_only(self, files: dict[str, bytes]) -> None:
        states = target_states(weights(files["glm4/model.safetensors"]))
        draft = weights(files["eagle3-wrong-layers/model.safetensors"])
        built_for = draft_tokens(draft, draft["lm_head.weight"], [states[layer] for layer in (0, 2, 4)])
        configured = draft_tokens(draft, draft["lm_head.weight"], [states[layer] for layer in (2, 4, 5)])
        assert [built_for[token] for token in COUNTED] == [two_ahead(token) for token in COUNTED]
        assert set(configured.tolist()) <= ALARMS

    def test_headless_draft_with_the_target_head_is_one_token_late(self, files: dict[str, bytes]) -> None:
        target = weights(files["glm4/model.safetensors"])
        states = target_states(target)
        draft = weights(files["eagle3-headless/model.safetensors"])
        assert "lm_head.weight" not in draft
        proposed = draft_tokens(draft, target["lm_head.weight"][:448], [states[layer] for layer in (2, 4, 5)])
        assert all(proposed[token] != two_ahead(token) for token in COUNTED)

    def test_weights_are_exact_in_bfloat16(self) -> None:
        mended_by_normalisation = "post_mlp_layernorm"
        tensors = {**lab_models.target_tensors(), **lab_models.draft_tensors((2, 4, 5))}
        for name, tensor in tensors.items():
            if tensor.dtype == np.float32 and mended_by_normalisation not in name:
                exact = (lab_models.to_bfloat16(tensor).astype(np.uint32) << 16).view(np.float32)
                np.testing.assert_array_equal(exact, tensor, err_msg=name)


@pytest.mark.parametrize(
    ("value", "upper_bits"),
    [(1.0, 0x3F80), (-2.0, 0xC000), (1.00390625, 0x3F80), (1.01171875, 0x3F82), (1.004, 0x3F81), (0.0, 0)],
    ids=["exact", "negative", "tie to even, down", "tie to even, up", "above the tie", "zero"],
)
def test_rounding_to_bfloat16(value: float, upper_bits: int) -> None:
    assert lab_models.to_bfloat16(np.array([value], np.float32)).tolist() == [upper_bits]


class TestShapes:
    def test_target(self, files: dict[str, bytes]) -> None:
        tensors = weights(files["glm4/model.safetensors"])
        assert len(tensors) == 3 + 8 * 10
        assert tensors["model.embed_tokens.weight"].shape == (512, 128)
        assert tensors["model.layers.7.mlp.gate_up_proj.weight"].shape == (512, 128)
        assert tensors["model.layers.7.mlp.down_proj.weight"].shape == (128, 256)
        assert tensors["model.layers.0.self_attn.k_proj.weight"].shape == (64, 128)

    @pytest.mark.parametrize("model", ["eagle3", "eagle3-wrong-layers"])
    def test_drafts(self, files: dict[str, bytes], model: str) -> None:
        tensors = weights(files[f"{model}/model.safetensors"])
        assert tensors["fc.weight"].shape == (128, 384)
        assert tensors["lm_head.weight"].shape == (448, 128)
        assert tensors["midlayer.self_attn.q_proj.weight"].shape == (128, 256)
        assert (str(tensors["d2t"].dtype), tensors["d2t"].tolist()) == ("int64", [0] * 448)
        assert (str(tensors["t2d"].dtype), tensors["t2d"].tolist()) == ("bool", [True] * 448 + [False] * 64)

    def test_configuration_names_the_layers_only_where_they_are_wrong(self, files: dict[str, bytes]) -> None:
        wrong = json.loads(files["eagle3-wrong-layers/config.json"])
        right = json.loads(files["eagle3/config.json"])
        assert wrong.pop("eagle_aux_hidden_state_layer_ids") == [2, 4, 5]
        assert wrong == right


class TestTokenizer:
    @pytest.fixture
    def tokenizer(self, models: Path) -> Tokenizer:
        return Tokenizer.from_file(str(models / "glm4" / "tokenizer.json"))

    def test_text_survives(self, tokenizer: Tokenizer) -> None:
        text = "Hello, 世界!\n\ttab \x7f"
        assert tokenizer.decode(tokenizer.encode(text).ids) == text

    def test_counted_tokens_are_the_printable_bytes_in_order(self, tokenizer: Tokenizer) -> None:
        text = "".join(map(chr, range(ord("!"), ord("~") + 1)))
        assert tokenizer.encode(text).ids == list(COUNTED)

    def test_special_tokens(self, tokenizer: Tokenizer) -> None:
        assert tokenizer.encode("<s>a</s><pad>").ids == [0, 67, 1, 2]
        assert tokenizer.get_vocab_size() == 259


class TestDirectory:
    def test_bytes_are_these(self, files: dict[str, bytes]) -> None:
        """A change of this digest changes what all labs serve: raise VERSION with it."""
        digest = hashlib.sha256(b"".join(name.encode() + content for name, content in sorted(files.items())))
        assert (lab_models.VERSION, digest.hexdigest()) == (1, DIGEST_OF_VERSION_1)

    def test_manifest_lists_every_file_with_its_digest(self, models: Path) -> None:
        written = tree(models)
        manifest = json.loads(written.pop("lab_models.json"))
        assert manifest["files"] == {name: hashlib.sha256(content).hexdigest() for name, content in written.items()}
        assert (manifest["generator"], manifest["version"]) == ("lab_models", 1)
        assert manifest["seed"] == "blackwell.inference lab"

    def test_readable_by_a_server_of_another_user(self, models: Path) -> None:
        assert {path.stat().st_mode & 0o777 for path in models.rglob("*") if path.is_file()} == {0o644}
        assert {path.stat().st_mode & 0o777 for path in [models, *models.iterdir()] if path.is_dir()} == {0o755}

    def test_second_run_touches_nothing(self, models: Path, capsys: pytest.CaptureFixture[str]) -> None:
        before = {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in models.rglob("*")}
        assert lab_models.main([str(models)]) == 0
        assert {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in models.rglob("*")} == before
        assert "nothing to do" in capsys.readouterr().out

    @pytest.mark.parametrize("damage", ["changed", "missing", "older version"])
    def test_damage_is_repaired(self, models: Path, damage: str) -> None:
        before = tree(models)
        config = models / "eagle3" / "config.json"
        if damage == "changed":
            config.write_text("{}")
        elif damage == "missing":
            config.unlink()
        else:
            manifest = json.loads((models / "lab_models.json").read_text())
            (models / "lab_models.json").write_text(json.dumps({**manifest, "version": 0}))
        assert lab_models.main([str(models)]) == 0
        assert tree(models) == before

    def test_nothing_is_left_beside_the_directory(self, models: Path) -> None:
        assert [path.name for path in models.parent.iterdir()] == ["models"]

    def test_interrupted_run_leaves_the_old_models_whole(self, models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        before = tree(models)

        def no_space_left(*arguments: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(lab_models, "write_tree", no_space_left)
        with pytest.raises(OSError, match="No space left"):
            lab_models.replace_directory(models, {})
        assert tree(models) == before
        assert [path.name for path in models.parent.iterdir()] == ["models"]

    def test_directory_of_somebody_else_is_refused(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "thesis.tex").write_text("three years")
        assert lab_models.main([str(tmp_path)]) == 1
        assert tree(tmp_path) == {"thesis.tex": b"three years"}
        assert "holds something else" in capsys.readouterr().err

    def test_file_and_link_are_refused(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        (tmp_path / "link").symlink_to(tmp_path)
        assert lab_models.main([str(tmp_path / "file")]) == 1
        assert lab_models.main([str(tmp_path / "link")]) == 1
        assert (tmp_path / "link").is_symlink()

    @pytest.mark.parametrize("arguments", [[], ["a", "b"], ["--help"]])
    def test_usage(self, arguments: list[str]) -> None:
        assert lab_models.main(arguments) == 2


def test_torch_is_not_needed() -> None:
    assert "torch" not in sys.modules
