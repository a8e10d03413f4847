# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A model from a hub: resumed to the byte, proven by the hub's own digests, and offline once it is there."""

from __future__ import annotations

import importlib.util
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

HUB = Path(__file__).parents[4] / "tests/standin_engine/hub.py"
WEIGHTS = "model-00001-of-00001.safetensors"


class Case:
    """A hub with a repository, and the program that brings it into a directory."""

    def __init__(self, program: ModuleType, hub: Any, directory: Path) -> None:
        self.program, self.hub, self.directory = program, hub, directory
        directory.mkdir()

    def fetch(self, *ignored: str) -> int:
        endpoint = f"http://127.0.0.1:{self.hub.server_port}"
        call = [
            "fetch",
            str(self.directory),
            "some/model",
            "0123456789abcdef0123456789abcdef01234567",
            endpoint,
            *ignored,
        ]
        status: int = self.program.main(call)
        return status

    def check(self) -> int:
        status: int = self.program.main(["check", str(self.directory)])
        return status

    def names(self) -> set[str]:
        return {path.name for path in self.directory.iterdir() if path.name[0] != "."}


@pytest.fixture
def case(load: Callable[[str], ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Case]:
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    repository = tmp_path / "repository"
    (repository / "original").mkdir(parents=True)
    (repository / "config.json").write_text("{}")
    (repository / WEIGHTS).write_bytes(bytes(range(256)) * 4000)
    (repository / "original/params.json").write_text("{}")
    spec = importlib.util.spec_from_file_location("hub", HUB)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    hub = module.Hub(repository)
    threading.Thread(target=hub.serve_forever, daemon=True).start()
    yield Case(load("fetch_model"), hub, tmp_path / "model")
    hub.shutdown()
    hub.server_close()


def test_a_revision_comes_whole_and_is_offline_from_then_on(case: Case) -> None:
    assert case.check() == 1
    assert case.fetch("original/*") == 0
    assert case.names() == {"config.json", WEIGHTS}
    case.hub.shutdown()
    assert case.check() == 0
    assert json.loads((case.directory / ".specdecode-model.json").read_text())["commit"].startswith("0123")
    assert (case.directory / ".specdecode-progress").read_text() == "complete\n"


def test_files_that_were_whole_before_count_and_parts_are_removed(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.file_download.time.sleep", lambda seconds: None)
    case.hub.break_after = 300000
    case.hub.break_always = True
    assert case.fetch() == 1
    part = case.directory / ".cache/huggingface/download/x.etag.0123abcd.incomplete"
    part.write_text("of a process that was killed")
    case.hub.asked.clear()
    case.hub.break_after, case.hub.break_always = 0, False
    assert case.fetch() == 0
    got = {line.rsplit("/", 1)[-1] for line in case.hub.asked if line.startswith("GET") and "/resolve/" in line}
    assert got == {WEIGHTS}
    assert not part.exists()


def test_content_that_the_hub_does_not_vouch_for_is_removed(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    case.hub.lies_about = {WEIGHTS, "config.json"}
    assert case.fetch() == 1
    assert f"config.json, {WEIGHTS}: the content is not what" in capsys.readouterr().err
    assert not case.names() & {"config.json", WEIGHTS}
    assert case.check() == 1
    case.hub.lies_about = set()
    assert case.fetch() == 0


def test_a_disk_without_the_room_is_told_before_anything_is_downloaded(
    case: Case, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(case.program, "RESERVE", 1 << 60)
    assert case.fetch() == 1
    assert "are free. Make room" in capsys.readouterr().err
    assert not any("/resolve/" in line for line in case.hub.asked)


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "a/../../b"])
def test_a_name_that_leads_out_is_refused(case: Case, name: str) -> None:
    entry = type("Sibling", (), {"rfilename": name, "size": 1, "lfs": None, "blob_id": "x"})
    with pytest.raises(case.program.FetchError, match="outside"):
        case.program.wanted_files([entry], [])


def test_a_file_that_is_cut_later_is_seen(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    assert case.fetch() == 0
    (case.directory / WEIGHTS).write_bytes(b"short")
    assert case.check() == 1
    assert "has 5 bytes, not 1024000" in capsys.readouterr().out
    (case.directory / WEIGHTS).unlink()
    assert case.check() == 1
    assert "is missing" in capsys.readouterr().out


def test_a_hub_that_is_not_there_is_an_error_even_where_files_lie(case: Case) -> None:
    (case.directory / WEIGHTS).write_bytes(b"old")
    case.hub.shutdown()
    case.hub.server_close()
    assert case.fetch() == 1
    assert case.check() == 1
