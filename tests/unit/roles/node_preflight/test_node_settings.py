# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program that sets what was asked for, and puts back what it found."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

PROGRAM = Path(__file__).parents[4] / "roles/node_preflight/files/node_settings.py"
NOTHING: dict[str, Any] = {"sysctl": {}, "governor": "", "persistence": False}
BALANCING_OFF = {**NOTHING, "sysctl": {"kernel.numa_balancing": 0}}


@pytest.fixture(scope="module")
def program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("node_settings", PROGRAM)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class FakeNode:
    """The files of a node below a directory, and the command run against them."""

    def __init__(self, program: ModuleType, root: Path) -> None:
        self.program, self.root = program, root
        self.write("proc/sys/kernel/numa_balancing", "1")
        self.write("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456")
        for policy, governor in (("policy0", "schedutil"), ("policy1", "powersave")):
            self.write(f"sys/devices/system/cpu/cpufreq/{policy}/scaling_governor", governor)

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text + "\n")

    def read(self, path: str) -> str:
        return (self.root / path).read_text().strip()

    def balancing(self) -> str:
        return self.read("proc/sys/kernel/numa_balancing")

    def governors(self) -> list[str]:
        return [self.read(f"sys/devices/system/cpu/cpufreq/policy{number}/scaling_governor") for number in (0, 1)]

    def run(self, command: str, settings: dict[str, Any] | None = None) -> int:
        argv = ["node_settings.py", command, *([] if settings is None else [json.dumps(settings)])]
        status: int = self.program.main(argv, str(self.root))
        return status


@pytest.fixture
def node(program: ModuleType, tmp_path: Path) -> FakeNode:
    return FakeNode(program, tmp_path)


def test_what_was_found_is_put_back_exactly(node: FakeNode) -> None:
    settings = {**BALANCING_OFF, "governor": "performance"}
    assert node.run("check", settings) == 1
    assert (node.balancing(), node.governors()) == ("1", ["schedutil", "powersave"])
    assert node.run("apply", settings) == 0
    assert (node.balancing(), node.governors()) == ("0", ["performance", "performance"])
    assert node.run("check", settings) == 0
    assert node.run("restore") == 0
    assert (node.balancing(), node.governors()) == ("1", ["schedutil", "powersave"])
    assert not (node.root / "run/specdecode-node/before.json").exists()


def test_setting_twice_remembers_what_was_found_first(node: FakeNode) -> None:
    node.run("apply", BALANCING_OFF)
    node.write("proc/sys/kernel/numa_balancing", "2")  # somebody else, meanwhile
    assert node.run("check", BALANCING_OFF) == 1
    node.run("apply", BALANCING_OFF)
    node.run("apply", BALANCING_OFF)
    node.run("restore")
    assert node.balancing() == "1"


def test_what_is_no_longer_wanted_is_put_back_at_once(node: FakeNode) -> None:
    node.run("apply", {**BALANCING_OFF, "governor": "performance"})
    node.run("apply", BALANCING_OFF)
    assert (node.balancing(), node.governors()) == ("0", ["schedutil", "powersave"])


def test_what_is_still_to_be_put_back_differs(node: FakeNode) -> None:
    node.run("apply", {**BALANCING_OFF, "governor": "performance"})
    assert node.run("check", BALANCING_OFF) == 1
    node.run("apply", BALANCING_OFF)
    assert node.run("check", BALANCING_OFF) == 0


def test_what_was_right_already_is_not_touched_by_a_restore(node: FakeNode) -> None:
    node.write("proc/sys/kernel/numa_balancing", "0")
    node.run("apply", BALANCING_OFF)
    node.write("proc/sys/kernel/numa_balancing", "1")
    node.run("restore")
    assert node.balancing() == "1"


def test_a_restore_without_anything_set_does_nothing(node: FakeNode) -> None:
    assert node.run("restore") == 0
    assert node.run("restore") == 0
    assert node.balancing() == "1"


def test_it_is_written_down_before_it_is_set(
    node: FakeNode, program: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_node: object, _name: str, _value: str) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(program.Node, "write", interrupted)
        node.run("apply", BALANCING_OFF)
    assert json.loads(node.read("run/specdecode-node/before.json")) == {"/proc/sys/kernel/numa_balancing": "1"}


def test_words_are_compared_without_the_blanks_between_them(node: FakeNode) -> None:
    assert node.run("check", {**NOTHING, "sysctl": {"net.ipv4.tcp_rmem": "4096 131072 6291456"}}) == 0


@pytest.mark.parametrize("name", ["kernel.no_such", "kernel", "", "...run.x", "kernel.numa_balancing/../../../etc"])
def test_a_setting_that_the_kernel_does_not_have_is_refused_before_anything_is_set(
    node: FakeNode, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {**NOTHING, "sysctl": {"kernel.numa_balancing": 0, name: 1}}
    assert node.run("apply", settings) == 2
    assert "the kernel has no setting" in capsys.readouterr().out
    assert node.balancing() == "1"


def test_a_name_cannot_lead_out_of_the_kernels_settings(node: FakeNode) -> None:
    node.write("etc/passwd", "root")
    (node.root / "proc/sys/kernel/link").symlink_to(node.root / "etc/passwd")
    assert node.run("apply", {**NOTHING, "sysctl": {"kernel.link": "x"}}) == 2
    assert node.read("etc/passwd") == "root"


def test_a_node_that_does_not_scale_the_frequency_says_so(
    program: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "proc/sys").mkdir(parents=True)
    assert program.main(["", "check", json.dumps({**NOTHING, "governor": "performance"})], str(tmp_path)) == 2
    assert "does not scale the CPU frequency" in capsys.readouterr().out


def test_a_value_that_the_kernel_refuses_is_named(
    node: FakeNode, program: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = node.root / "proc/sys/kernel/numa_balancing"
    path.unlink()
    path.symlink_to("/dev/full")
    monkeypatch.setattr(program.Node, "_sysctl", lambda _node, _name: "/proc/sys/kernel/numa_balancing")
    monkeypatch.setattr(program.Node, "read", lambda _node, _name: "1")
    assert node.run("apply", BALANCING_OFF) == 2
    assert "numa_balancing can't be set to 0: No space left" in capsys.readouterr().out


def test_where_one_setting_is_refused_all_are_put_back(
    node: FakeNode, program: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = program.Node.write

    def refuse_the_second(self: Any, name: str, value: str) -> None:
        if value == "performance" and "policy1" in name:
            raise program.SettingError("Invalid argument")
        write(self, name, value)

    monkeypatch.setattr(program.Node, "write", refuse_the_second)
    assert node.run("apply", {**BALANCING_OFF, "governor": "performance"}) == 2
    assert (node.balancing(), node.governors()) == ("1", ["schedutil", "powersave"])
    assert not (node.root / "run/specdecode-node/before.json").exists()


@pytest.fixture
def gpus(program: ModuleType, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The persistence mode of two GPUs, as nvidia-smi reads and sets it."""
    modes = {"0": "Disabled", "1": "Enabled"}

    def nvidia_smi(*arguments: str) -> str:
        if arguments[0] == "-i":
            modes[arguments[1]] = {"1": "Enabled", "0": "Disabled"}[arguments[3]]
            return ""
        return "\n".join(f"{index}, {mode}" for index, mode in modes.items())

    monkeypatch.setattr(program, "nvidia_smi", nvidia_smi)
    return modes


def test_persistence_is_set_and_put_back_gpu_by_gpu(node: FakeNode, gpus: dict[str, str]) -> None:
    settings = {**NOTHING, "persistence": True}
    assert node.run("check", settings) == 1
    node.run("apply", settings)
    assert gpus == {"0": "Enabled", "1": "Enabled"}
    assert node.run("check", settings) == 0
    node.run("restore")
    assert gpus == {"0": "Disabled", "1": "Enabled"}


def test_persistence_without_nvidia_smi_is_refused_with_the_reason(
    node: FakeNode, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert node.run("check", {**NOTHING, "persistence": True}) == 2
    assert "nvidia-smi" in capsys.readouterr().out
