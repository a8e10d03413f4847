# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sets kernel settings, CPU governor and persistence of GPUs, and puts back what it found. Python 3.8 and later.

    node_settings.py check [SETTINGS]   exit status 0: all is as wanted; 1: something differs; 2: it can't be set
    node_settings.py apply              set what differs; what was there before is written down first
    node_settings.py restore            put back everything that is written down

Settings are JSON: `sysctl` (name to value), `governor` (a name, or empty), `persistence`. They are read from
settings.json beside this file unless given as an argument.
"""

from __future__ import annotations

import glob
import json
import os
import subprocess
import sys
from typing import Any

BEFORE = "/run/specdecode-node/before.json"
GOVERNORS = "/sys/devices/system/cpu/cpufreq/policy*/scaling_governor"
GPU = "gpu "  # a setting's name is a path, or this and the GPU's number


class SettingError(Exception):
    """A setting that this node does not have, or refuses; the text names it."""


class Node:
    """Reads and writes single settings; `root` is another directory than / in tests."""

    def __init__(self, root: str = "/") -> None:
        """A node whose files lie below `root`."""
        self.root = root.rstrip("/")

    def wanted(self, settings: dict[str, Any]) -> dict[str, str]:
        """Every single setting and its value; SettingError where the node has nothing of the kind."""
        wanted = {self._sysctl(name): str(value) for name, value in settings["sysctl"].items()}
        if settings["governor"]:
            policies = sorted(glob.glob(self.root + GOVERNORS))
            if not policies:
                raise SettingError("the kernel does not scale the CPU frequency here: there is no governor to set")
            wanted.update({path[len(self.root) :]: settings["governor"] for path in policies})
        if settings["persistence"]:
            wanted.update({GPU + index: "Enabled" for index in self._gpus()})
        return wanted

    def _sysctl(self, name: str) -> str:
        path = "/proc/sys/" + name.replace(".", "/")
        real = os.path.realpath(self.root + path)
        if not real.startswith(os.path.realpath(self.root + "/proc/sys") + os.sep) or not os.path.isfile(real):
            raise SettingError(f"the kernel has no setting {name}")
        return path

    def _gpus(self) -> dict[str, str]:
        lines = nvidia_smi("--query-gpu=index,persistence_mode", "--format=csv,noheader").splitlines()
        return dict(line.replace(" ", "").split(",", 1) for line in lines if "," in line)

    def read(self, name: str) -> str:
        """The value of a setting now, with single blanks between its words."""
        if name.startswith(GPU):
            return self._gpus().get(name[len(GPU) :], "")
        try:
            with open(self.root + name, encoding="ascii") as file:
                return " ".join(file.read().split())
        except OSError as error:
            raise SettingError(f"{name} can't be read: {error.strerror}") from error

    def write(self, name: str, value: str) -> None:
        """Set a value; SettingError when the kernel or the driver refuses it."""
        if name.startswith(GPU):
            nvidia_smi("-i", name[len(GPU) :], "-pm", "1" if value == "Enabled" else "0")
            return
        try:
            with open(self.root + name, "w", encoding="ascii") as file:
                file.write(value)
        except OSError as error:
            raise SettingError(f"{name} can't be set to {value}: {error.strerror}") from error


def nvidia_smi(*arguments: str) -> str:
    """What nvidia-smi printed; SettingError with its words when it fails."""
    argv = ["nvidia-smi", *arguments]
    try:
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SettingError(f"{' '.join(argv)}: {error}") from error
    output = done.stdout.decode(errors="replace").strip()
    if done.returncode != 0:
        raise SettingError(f"{' '.join(argv)}: {output}")
    return output


def differing(node: Node, wanted: dict[str, str]) -> dict[str, str]:
    """The settings that are not as wanted, with their present values."""
    present = {name: node.read(name) for name in wanted}
    return {name: value for name, value in present.items() if value != " ".join(wanted[name].split())}


def apply(node: Node, wanted: dict[str, str], before_file: str) -> None:
    """Set what differs, and put back what is no longer wanted. What was found is on disk before it is overwritten.

    Where one setting is refused, all are put back: the unit fails, and a failed unit is never stopped.
    """
    try:
        set_all(node, wanted, before_file)
    except SettingError as error:
        try:
            restore(node, before_file)
        except SettingError as another:
            raise SettingError(f"{error}; and {another}, as it was") from error
        raise


def set_all(node: Node, wanted: dict[str, str], before_file: str) -> None:
    """Set what differs, one after the other."""
    before = read_before(before_file)
    for name in [name for name in before if name not in wanted]:
        node.write(name, before[name])
        del before[name]
    found = differing(node, wanted)
    write_before(before_file, {**found, **before})
    for name in found:
        node.write(name, wanted[name])


def restore(node: Node, before_file: str) -> None:
    """Put back everything that is written down, and forget it."""
    for name, value in read_before(before_file).items():
        node.write(name, value)
    if os.path.exists(before_file):
        os.remove(before_file)


def read_before(path: str) -> dict[str, str]:
    """What was found before it was set; nothing after a boot, which puts everything back itself."""
    try:
        with open(path, encoding="ascii") as file:
            before: dict[str, str] = json.load(file)
            return before
    except FileNotFoundError:
        return {}


def write_before(path: str, before: dict[str, str]) -> None:
    """Write down what was found, whole or not at all."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".new", "w", encoding="ascii") as file:
        json.dump(before, file, indent=1, sort_keys=True)
    os.replace(path + ".new", path)


def main(argv: list[str], root: str = "/") -> int:
    """The command; its exit status."""
    command = argv[1]
    before_file = root.rstrip("/") + BEFORE
    node = Node(root)
    try:
        if command == "restore":
            restore(node, before_file)
            return 0
        wanted = node.wanted(json.loads(argv[2]) if len(argv) > 2 else own_settings())
        if command == "apply":
            apply(node, wanted, before_file)
            return 0
        found = differing(node, wanted)
        left = {name: value for name, value in read_before(before_file).items() if name not in wanted}
    except SettingError as error:
        print(error)
        return 2
    for name, value in found.items():
        print(f"{name} is {value}, wanted is {wanted[name]}")
    for name, value in left.items():
        print(f"{name} is to be put back to {value}")
    return 1 if found or left else 0


def own_settings() -> dict[str, Any]:
    """The settings beside this file."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "settings.json"), encoding="utf-8") as file:
        settings: dict[str, Any] = json.load(file)
        return settings


if __name__ == "__main__":
    sys.exit(main(sys.argv))
