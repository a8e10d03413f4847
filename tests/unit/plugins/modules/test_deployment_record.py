# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What deployment_record writes down, and that going back gives exactly that back."""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.testing import patch_module_args
from ansible_collections.blackwell.inference.plugins.module_utils import _deployment_files
from ansible_collections.blackwell.inference.plugins.module_utils._lock import locked
from ansible_collections.blackwell.inference.plugins.module_utils._patch_store import (
    AppliedPatch,
    FileRecord,
    digest_of,
    dump_manifest,
    load_manifest,
)
from ansible_collections.blackwell.inference.plugins.modules import deployment_record

Capture = pytest.CaptureFixture[str]
from ansible_collections.blackwell.inference.tests.unit.plugins.modules.module_case import run_module


class Node:
    """Settings, a tree of drop-ins, and one patched source, below a directory."""

    def __init__(self, root: Path, capsys: Capture) -> None:
        self.root, self.capsys = root, capsys
        self.env = self.write("etc/main.env", "KEY=1\n", 0o640)
        self.nccl = root / "etc/nccl.env"
        self.dropins = root / "units/server.d"
        self.write("units/server.d/server.conf", "ExecStart=a\n")
        self.source = self.write("site/model.py", "pristine\n")

    def write(self, path: str, text: str, mode: int = 0o644) -> Path:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        target.chmod(mode)
        return target

    def patch(self, text: str) -> None:
        """What engine_patch does: the source, its original, and the manifest."""
        pristine = b"pristine\n"
        self.source.write_text(text)
        self.write(f"patches/originals/{digest_of(pristine)}", pristine.decode())
        record = FileRecord(
            str(self.source), "model.py", "/p", "vllm", "0.32.0", digest_of(pristine), digest_of(text.encode()), [],
            None, [AppliedPatch("some-patch", [], [], "2026-11-30", "me")],
        )  # fmt: skip
        self.write("patches/manifest.json", dump_manifest({str(self.source): record}).decode())

    def run(self, check: bool = False, diff: bool = False, **options: Any) -> dict[str, Any]:
        paths = {
            "directory": str(self.root / "deployments"),
            "patches_directory": str(self.root / "patches"),
            "facts_file": str(self.root / "facts.d/specdecode.fact"),
        }
        arguments = {**paths, "_ansible_check_mode": check, "_ansible_diff": diff, **options}
        return run_module(deployment_record, self.capsys, **arguments)

    def record(self, **options: Any) -> dict[str, Any]:
        files = [str(self.env), str(self.nccl)]
        return self.run(**{"files": files, "trees": [str(self.dropins)], "about": {"decision": "keep"}, **options})

    def go_back(self, **options: Any) -> dict[str, Any]:
        return self.run(state="restored", **options)

    def look(self) -> dict[str, tuple[str, int, float]]:
        """Everything but the records: content or target, mode, time."""
        return {
            str(path.relative_to(self.root)): (
                os.readlink(path) if path.is_symlink() else path.read_text(),
                path.lstat().st_mode,
                path.lstat().st_mtime,
            )
            for path in sorted(self.root.rglob("*"))
            if (path.is_file() or path.is_symlink())
            and path.relative_to(self.root).parts[0] not in ("deployments", "facts.d")
        }

    def contents(self) -> dict[str, tuple[str, int]]:
        return {path: (text, mode) for path, (text, mode, _time) in self.look().items() if "originals" not in path}


@pytest.fixture
def node(tmp_path: Path, capsys: Capture) -> Node:
    return Node(tmp_path, capsys)


def test_what_is_the_same_is_recorded_once(node: Node) -> None:
    first, second = node.record(), node.record()
    assert (first["changed"], second["changed"]) == (True, False)
    assert first["id"] == second["id"]
    assert [item["id"] for item in second["history"]] == [first["id"]]


@pytest.mark.parametrize("change", ["content", "mode", "new file", "gone file", "about", "patch", "link"])
def test_whatever_changes_makes_another_record(node: Node, change: str) -> None:
    first = node.record()
    about = {"decision": "keep"}
    if change == "content":
        node.env.write_text("KEY=2\n")
    elif change == "mode":
        node.env.chmod(0o600)
    elif change == "new file":
        node.write("units/server.d/own.conf", "Nice=1\n")
    elif change == "gone file":
        (node.dropins / "server.conf").unlink()
    elif change == "about":
        about = {"decision": "fallback"}
    elif change == "patch":
        node.patch("patched\n")
    else:
        (node.dropins / "link").symlink_to("server.conf")
    second = node.record(about=about)
    assert second["changed"] and second["deployment"]["before"] == first["id"]


def test_patches_are_recorded_with_their_digests(node: Node) -> None:
    node.patch("patched\n")
    assert node.record()["deployment"]["about"]["patches"] == [
        {
            "id": "some-patch",
            "path": str(node.source),
            "release": "0.32.0",
            "before": digest_of(b"pristine\n"),
            "after": digest_of(b"patched\n"),
        }
    ]


def test_going_back_gives_back_every_file(node: Node) -> None:
    node.patch("patched once\n")
    (node.dropins / "link").symlink_to("/weights")
    before = node.contents()
    first = node.record()
    node.env.write_text("KEY=2\n")
    node.env.chmod(0o600)
    node.write("etc/nccl.env", "NCCL_DEBUG=WARN\n")
    node.write("units/server.d/server.fallback.conf", "ExecStart=b\n")
    (node.dropins / "link").unlink()
    (node.dropins / "link").symlink_to("/others")
    node.patch("patched twice\n")
    node.record()
    back = node.go_back()
    assert back["changed"] and back["id"] == first["id"]
    assert node.contents() == before
    assert not node.go_back()["changed"]


def test_going_back_to_before_the_first_deployment_unpatches_the_sources(node: Node) -> None:
    before = node.contents()
    assert node.record(first=True, about={"decision": "none"})["changed"]
    node.patch("patched\n")
    node.write("etc/nccl.env", "A=1\n")
    node.record()
    assert node.go_back()["sources"] == [str(node.source)]
    assert node.contents() == before


def test_the_first_record_is_made_once(node: Node) -> None:
    first = node.record(first=True, about={"decision": "none"})
    node.env.write_text("KEY=2\n")
    again = node.record(first=True, about={"decision": "none"})
    assert not again["changed"] and again["id"] == first["id"]


def test_going_back_twice_goes_back_two_deployments(node: Node) -> None:
    ids = []
    for number in range(3):
        node.env.write_text(f"KEY={number}\n")
        ids.append(node.record()["id"])
    back = node.go_back()
    assert back["id"] == ids[1]
    restoring = node.run(restores=back["id"])
    assert restoring["deployment"]["restores"] == ids[1] and restoring["deployment"]["before"] == ids[0]
    assert not node.run(restores=back["id"])["changed"]
    assert node.go_back()["id"] == ids[0]
    assert node.env.read_text() == "KEY=0\n"


def test_going_back_can_be_broken_off_and_repeated(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    first = node.record()
    before = node.contents()
    node.env.write_text("KEY=2\n")
    (node.dropins / "server.conf").write_text("ExecStart=b\n")
    node.record()
    replaced: list[str] = []

    def replace_once(source: str, target: str) -> None:
        if replaced:
            raise OSError(28, "No space left on device", target)
        replaced.append(target)
        os.rename(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", replace_once)
        assert "No space left" in node.go_back()["msg"]
    assert node.go_back()["id"] == first["id"]
    assert node.contents() == before


def test_what_was_taken_back_is_not_the_one_before(node: Node) -> None:
    kept = node.record()
    node.env.write_text("KEY=2\n")
    failed = node.record(about={"decision": "fail"})
    assert failed["in_force"] == kept["id"]
    node.env.write_text("KEY=3\n")
    assert node.record()["deployment"]["before"] == kept["id"]


def test_check_mode_writes_nothing(node: Node) -> None:
    assert node.record(check=True)["changed"]
    assert not (node.root / "deployments").exists() and not (node.root / "facts.d").exists()
    node.record()
    node.env.write_text("KEY=2\n")
    node.record()
    before = node.look()
    back = node.go_back(check=True, diff=True)
    assert back["changed"] and back["files"] == [str(node.env)]
    assert node.look() == before


def test_no_content_shows(node: Node) -> None:
    node.env.write_text("VLLM_API_KEY=secret\n")
    node.record()
    node.env.write_text("VLLM_API_KEY=other-secret\n")
    node.record()
    assert "secret" not in json.dumps(node.go_back(check=True, diff=True))
    modes = {path.stat().st_mode & 0o777 for path in (node.root / "deployments").rglob("*") if path.is_file()}
    assert modes == {0o600}
    assert (node.root / "deployments").stat().st_mode & 0o777 == 0o700


def test_facts_tell_of_each_instance(node: Node) -> None:
    node.record(about={"decision": "keep", "engine": "vllm", "accept_length": 2.0, "started_from": ["secret things"]})
    node.record(instance="other", about={"decision": "fallback"})
    facts = json.loads((node.root / "facts.d/specdecode.fact").read_text())["instances"]
    assert sorted(facts) == ["main", "other"]
    assert facts["main"]["accept_length"] == 2.0 and "started_from" not in facts["main"]
    (node.root / "facts.d/specdecode.fact").unlink()
    assert node.record(instance="other", about={"decision": "fallback"})["changed"], "facts are state as well"


def damage_record(node: Node) -> None:
    path = next((node.root / "deployments").glob("main-0001-*.json"))
    path.write_text(path.read_text()[:100])


def damage_content(node: Node) -> None:
    for path in (node.root / "deployments/objects").iterdir():
        path.write_text("other")


@pytest.mark.parametrize(
    ("damage", "says"),
    [(damage_record, "no deployment main-0001-"), (damage_content, "is damaged")],
)
def test_what_is_damaged_is_never_given_back(node: Node, damage: Any, says: str) -> None:
    node.record()
    node.env.write_text("KEY=2\n")
    node.record()
    before = node.look()
    damage(node)
    answer = node.go_back()
    assert answer["failed"] and says in answer["msg"]
    assert node.look() == before


def test_a_damaged_record_is_passed_over_and_told(node: Node) -> None:
    node.record()
    damage_record(node)
    node.env.write_text("KEY=2\n")
    answer = node.record()
    assert answer["changed"] and "passed over" in str(answer["warnings"])
    assert answer["id"].startswith("main-0002-"), "its number is not given again"


@pytest.mark.parametrize("path", ["etc/passwd", "/etc/../etc/passwd"])
def test_a_record_that_names_strange_paths_is_not_followed(node: Node, path: str) -> None:
    node.record()
    record = next((node.root / "deployments").glob("main-*.json"))
    fields = json.loads(record.read_text())
    fields["files"][0]["path"] = path
    record.write_text(json.dumps(fields))
    node.env.write_text("KEY=2\n")
    node.record()
    assert node.go_back()["failed"]


def test_an_edited_source_is_not_thrown_away(node: Node) -> None:
    node.record(first=True)
    node.patch("patched\n")
    node.record()
    node.source.write_text("edited by hand\n")
    answer = node.go_back()
    assert answer["failed"] and "edited after it was patched" in answer["msg"]
    assert node.source.read_text() == "edited by hand\n"


@pytest.mark.parametrize("wanted", ["", "main-0009-000000000000"])
def test_going_back_to_nothing_names_what_there_is(node: Node, wanted: str) -> None:
    assert "no deployment" in node.go_back(deployment=wanted)["msg"]
    node.record()
    answer = node.go_back(deployment=wanted)
    assert answer["failed"] and "no deployment" in answer["msg"]


def test_what_cannot_be_kept_is_refused(node: Node) -> None:
    os.mkfifo(node.dropins / "pipe")
    assert "neither a file nor a link" in node.record()["msg"]
    (node.dropins / "pipe").unlink()
    with (node.dropins / "weights").open("wb") as file:
        file.truncate(_deployment_files.LARGEST_FILE + 1)
    assert "link to it instead" in node.record()["msg"]


def test_the_documented_options_are_those_of_the_module() -> None:
    options = yaml.safe_load(deployment_record.DOCUMENTATION)["options"]
    assert {name for name, option in options.items() if "default" not in option} == set()


# --- attacked: nonsense, links that lead elsewhere, and runs that were killed -----------------------------------------


@pytest.mark.parametrize(
    "nonsense",
    [
        {"files": ["etc/main.env"]},
        {"trees": ["units"]},
        {"trees": [""]},
        {"instance": "../main"},
        {"instance": ""},
    ],
)
def test_what_could_not_be_read_again_is_not_recorded(node: Node, nonsense: dict[str, Any]) -> None:
    answer = node.record(**nonsense)
    assert answer.get("failed"), answer
    assert not list(node.root.rglob("*-0001-*.json"))


@pytest.mark.parametrize("path", ["/", "//", "/..", "", ".", "etc", 5, None])
def test_some_paths_are_never_deployed(path: Any) -> None:
    assert not _deployment_files.is_plain(path)
    if isinstance(path, str):
        with pytest.raises(_deployment_files.FilesError):
            _deployment_files.place_of(path)


def test_paths_are_recorded_in_one_spelling(node: Node) -> None:
    spelt = {"files": [f"{node.root}//etc/../etc/main.env"], "trees": [f"{node.dropins}//"]}
    assert node.record(**spelt)["changed"]
    again = node.record(**spelt)
    assert not again["changed"] and not again.get("warnings")
    before = node.contents()
    node.env.write_text("KEY=2\n")
    node.write("units/server.d/own.conf", "Nice=1\n")
    node.record(**spelt)
    node.go_back()
    assert node.contents() == before


def change_record(node: Node, change: Any) -> None:
    path = sorted((node.root / "deployments").glob("main-0001-*.json"))[0]
    fields = json.loads(path.read_text())
    path.write_text(json.dumps(change(fields)))


@pytest.mark.parametrize(
    "change",
    [
        lambda fields: "text",
        lambda fields: [],
        lambda fields: {**fields, "about": None},
        lambda fields: {**fields, "trees": [fields["trees"][0] + "/../server.d"]},
        lambda fields: {**fields, "trees": [""]},
        lambda fields: {**fields, "trees": ["etc"]},
        lambda fields: {**fields, "trees": fields["trees"][0]},
        lambda fields: {**fields, "instance": "other"},
        lambda fields: {**fields, "id": "main-0007-0123456789ab"},
        lambda fields: {**fields, "files": [{**fields["files"][0], "mode": "rw"}]},
        lambda fields: {**fields, "files": [{**fields["files"][0], "uid": "root"}]},
        lambda fields: {**fields, "files": [{**fields["files"][0], "what": "../../etc/main.env"}]},
        lambda fields: {**fields, "files": [{**fields["files"][0], "path": 5}]},
        lambda fields: {**fields, "files": {"path": "x"}},
    ],
)
def test_a_record_that_makes_no_sense_is_not_followed(node: Node, change: Any) -> None:
    first = node.record()["id"]
    change_record(node, change)
    node.env.write_text("KEY=2\n")
    before = node.look()
    answer = node.go_back(deployment=first)
    assert answer["failed"] and f"no deployment {first}" in answer["msg"]
    assert node.look() == before


def test_an_unreadable_present_deployment_is_not_stepped_over(node: Node) -> None:
    ids = []
    for number in range(3):
        node.env.write_text(f"KEY={number}\n")
        ids.append(node.record()["id"])
    (node.root / f"deployments/{ids[2]}.json").write_text("{")
    answer = node.go_back()
    assert answer["failed"] and ids[2] in answer["msg"]
    assert node.env.read_text() == "KEY=2\n"
    assert node.go_back(deployment=ids[1])["changed"]


def test_a_damaged_first_record_is_not_replaced_by_a_later_state(node: Node) -> None:
    node.record(first=True, about={"decision": "none"})
    damage_record(node)
    node.env.write_text("KEY=2\n")
    answer = node.record(first=True, about={"decision": "none"})
    assert answer["failed"] and "main-0001-" in answer["msg"]


def test_a_tree_that_became_a_link_leads_nowhere(node: Node) -> None:
    node.record()
    node.env.write_text("KEY=2\n")
    node.record()
    foreign = node.write("srv/models/weights", "precious\n")
    (node.dropins / "server.conf").unlink()
    node.dropins.rmdir()
    node.dropins.symlink_to(foreign.parent)
    before = node.look()
    answer = node.go_back()
    assert answer["failed"] and str(node.dropins) in answer["msg"] and "link" in answer["msg"]
    assert node.look() == before


def test_a_directory_below_a_tree_that_became_a_link_leads_nowhere(node: Node) -> None:
    draft = node.write("units/server.d/draft/config.json", "ours\n")
    node.record()
    node.env.write_text("KEY=2\n")
    node.record()
    foreign = node.write("srv/models/config.json", "precious\n")
    draft.unlink()
    draft.parent.rmdir()
    draft.parent.symlink_to(foreign.parent)
    before = node.look()
    answer = node.go_back()
    assert answer["failed"] and str(draft.parent) in answer["msg"]
    assert node.look() == before


def test_a_directory_above_a_file_that_became_a_link_leads_nowhere(node: Node) -> None:
    node.record()
    node.env.write_text("KEY=2\n")
    node.record()
    (node.root / "etc").rename(node.root / "elsewhere")
    (node.root / "etc").symlink_to("elsewhere")
    before = node.look()
    answer = node.go_back()
    assert answer["failed"] and str(node.root / "etc") in answer["msg"]
    assert node.look() == before


def test_directories_that_always_were_links_are_no_hindrance(node: Node) -> None:
    (node.root / "etc").rename(node.root / "elsewhere")
    (node.root / "etc").symlink_to("elsewhere")
    (node.root / "units").rename(node.root / "other-units")
    (node.root / "units").symlink_to("other-units")
    before = node.contents()
    node.record()
    assert not node.record()["changed"]
    node.env.write_text("KEY=2\n")
    (node.dropins / "server.conf").write_text("ExecStart=b\n")
    node.record()
    assert len(node.go_back()["files"]) == 2
    assert node.contents() == before and (node.root / "etc").is_symlink()


class Killed(BaseException):
    """Stands for SIGKILL: nothing of the run goes on."""


def steps(node: Node, monkeypatch: pytest.MonkeyPatch, allowed: int) -> bool:
    """Go back, and die before the step after `allowed`; False when there are no more steps."""
    done: list[str] = []

    def counted(step: Any) -> Any:
        def run(*arguments: Any, **options: Any) -> Any:
            if len(done) == allowed:
                raise Killed
            done.append(step.__name__)
            return step(*arguments, **options)

        return run

    with monkeypatch.context() as patched:
        for name in ("replace", "unlink", "rmdir", "symlink", "fchmod"):
            patched.setattr(os, name, counted(getattr(os, name)))
        paths = {"directory": str(node.root / "deployments"), "patches_directory": str(node.root / "patches")}
        with patch_module_args({"state": "restored", **paths}), pytest.raises((Killed, SystemExit)) as end:
            deployment_record.main()
    node.capsys.readouterr()
    return end.type is Killed


def changed_node(node: Node) -> dict[str, tuple[str, int]]:
    """A node with two deployments that differ in everything; what it was in the first."""
    node.write("patches/nothing", "")
    node.write("units/server.d/old.conf", "Nice=1\n")
    before = node.contents()
    node.record(first=True, about={"decision": "none"})
    node.env.write_text("KEY=2\n")
    node.write("etc/nccl.env", "A=1\n")
    node.write("units/server.d/server.conf", "ExecStart=b\n")
    node.write("units/server.d/own.conf", "Nice=1\n")
    (node.dropins / "old.conf").unlink()
    (node.dropins / "old.conf").symlink_to("own.conf")
    node.patch("patched\n")
    node.record()
    return before


@pytest.mark.parametrize("allowed", range(18))
def test_a_killed_run_is_finished_by_the_next(node: Node, monkeypatch: pytest.MonkeyPatch, allowed: int) -> None:
    before = changed_node(node)
    assert steps(node, monkeypatch, allowed)
    assert node.go_back()["sources"] == [str(node.source)], "its bytecode still has to be judged"
    assert node.contents() == before
    assert not node.go_back()["changed"]


@pytest.mark.parametrize("allowed", range(12))
def test_the_manifest_knows_every_source_whenever_a_run_is_killed(
    node: Node, monkeypatch: pytest.MonkeyPatch, allowed: int
) -> None:
    node.patch("patched once\n")
    node.record()
    before = node.contents()
    node.patch("patched twice\n")
    node.write("units/server.d/server.conf", "ExecStart=b\n")
    node.record()
    assert steps(node, monkeypatch, allowed)
    known = load_manifest(str(node.root / "patches"))[str(node.source)]
    assert digest_of(node.source.read_bytes()) in (known.result, *known.earlier, known.pristine)
    node.go_back()
    assert node.contents() == before


@pytest.mark.parametrize("allowed", range(0, 18, 3))
def test_what_a_killed_run_left_is_no_part_of_a_deployment(
    node: Node, monkeypatch: pytest.MonkeyPatch, allowed: int
) -> None:
    changed_node(node)
    assert steps(node, monkeypatch, allowed)
    recorded = json.loads((node.root / f"deployments/{node.record(about={'decision': 'new'})['id']}.json").read_text())
    assert not [item["path"] for item in recorded["files"] if item["path"].endswith(".deployment_record")]


def test_directories_are_readable_whatever_the_umask_is(node: Node) -> None:
    draft = node.write("units/server.d/draft/config.json", "ours\n")
    node.record()
    draft.unlink()
    draft.parent.rmdir()
    node.record()
    before = os.umask(0o077)
    try:
        node.go_back()
    finally:
        os.umask(before)
    assert draft.read_text() == "ours\n" and draft.parent.stat().st_mode & 0o777 == 0o755


def test_a_damaged_content_is_kept_anew(node: Node) -> None:
    node.record()
    damage_content(node)
    node.record(about={"decision": "fallback"})
    node.env.write_text("KEY=2\n")
    node.record()
    assert node.go_back()["changed"] and node.env.read_text() == "KEY=1\n"


def test_a_full_disk_is_named(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.record()
    node.env.write_text("KEY=2\n")
    node.record()

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        assert f"{node.env.parent}/" in node.go_back()["msg"]
    assert node.env.read_text() == "KEY=2\n"
    assert not list(node.env.parent.glob(".*"))


def test_a_refused_run_makes_nothing(node: Node) -> None:
    assert node.go_back()["failed"] and not (node.root / "deployments").exists()


def test_nothing_is_given_back_while_sources_are_patched(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.record(first=True)
    node.patch("patched\n")
    node.record()
    monkeypatch.setattr(deployment_record, "locked", functools.partial(locked, wait=0.2))
    with locked(str(node.root / "patches"), create=True):
        assert "another run has held" in node.go_back()["msg"]
    assert node.source.read_text() == "patched\n"
    assert node.go_back()["changed"]
