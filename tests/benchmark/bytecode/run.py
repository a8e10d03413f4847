# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How fast pyc_invalidate is, as ratios measured in one run.

    python tests/benchmark/bytecode/run.py [--rounds 5] [--cold] [--tree FOLDER] [--strict]

It makes two trees of 27,000 installed sources with their bytecode (once, below .cache), as pip installs, and as uv does
with links whose cache is removed (the role ml_env). It compares the search with a C program that does nothing but ask
for the status of the same files, with the tools that people use instead, and with the cost of Ansible's smallest
module. All contenders of a table take turns, and each ratio is the median of the ratios
of the rounds. `--cold` drops the caches of the whole machine before each turn and needs root. `--strict` fails if a
limit is exceeded; on a machine that does other things at the same time that says little.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Callable, NamedTuple

TOP = Path(__file__).parents[3]
sys.path.insert(0, str(TOP / ".collections"))

from ansible_collections.blackwell.inference.tests.benchmark.bytecode import tree as real_tree

HERE = Path(__file__).parent
PROOFS = 2000  # sources in the tree on which proofs are measured
SEARCH = """
import json, resource, sys, time
sys.path.insert(0, sys.argv[1])
from ansible_collections.blackwell.inference.plugins.module_utils._bytecode import Request, invalidate
def processor_seconds():
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
start, used = time.perf_counter(), processor_seconds()
outcome = invalidate(Request([sys.argv[2]], [sys.executable], "", dry_run=sys.argv[3] == "check"))
seconds, used = time.perf_counter() - start, processor_seconds() - used
memory = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 1024
print(json.dumps([seconds, used, memory, outcome.examined, outcome.kept, outcome.proved, len(outcome.removed)]))
"""


class Limit(NamedTuple):
    """A promise: the figure is at most, or with `least` at least, this."""

    name: str
    figure: float
    limit: float
    least: bool = False

    @property
    def kept(self) -> bool:
        """Whether the promise holds in this run."""
        return self.figure >= self.limit if self.least else self.figure <= self.limit


class Search(NamedTuple):
    """One run of the search in a process of its own. Times in seconds, memory of its largest process in MiB."""

    seconds: float
    processor_seconds: float
    memory: float
    examined: int
    kept: int
    proved: int
    removed: int


def search(tree: Path, mode: str) -> Search:
    """Run the code of the module."""
    command = [sys.executable, "-B", "-c", SEARCH, str(TOP / ".collections"), str(tree), mode]
    done = subprocess.run(command, env=real_tree.ENVIRONMENT, capture_output=True, text=True, check=True)
    return Search(*json.loads(done.stdout))


def seconds_of(command: list[str]) -> float:
    """How long a command takes."""
    start = time.perf_counter()
    subprocess.run(command, cwd=TOP, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return time.perf_counter() - start


def processor_seconds_of(command: list[str]) -> float:
    """How much processor time a command takes, which other work on the machine hardly changes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=TOP, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def take_turns(
    contenders: dict[str, Callable[[], float]], rounds: int, before: Callable[[], None] = lambda: None
) -> dict[str, list[float]]:
    """Run all contenders in every round."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _round in range(rounds):
        for name, run in contenders.items():
            before()
            times[name].append(run())
    return times


def ratio(times: dict[str, list[float]], name: str, base: str) -> float:
    """The median of the ratios of the rounds."""
    return statistics.median(ours / theirs for ours, theirs in zip(times[name], times[base]))


def show(title: str, times: dict[str, list[float]], base: str) -> None:
    """Print a table."""
    print(f"\n{title}\n  {'':34}{'median s':>10}{'fastest s':>11}{'ratio':>8}")
    for name, values in times.items():
        print(f"  {name:34}{statistics.median(values):10.3f}{min(values):11.3f}{ratio(times, name, base):8.2f}")


def compile_floor(root: Path) -> str:
    """Compile the C program."""
    subprocess.run(["cc", "-O2", "-o", str(root / "floor"), str(HERE / "floor.c")], check=True)
    return str(root / "floor")


def drop_caches() -> None:
    """Make the next access to any file go to the disk."""
    subprocess.run(["sync"], check=True)
    Path("/proc/sys/vm/drop_caches").write_text("3\n")


def measure_first_search(tree: Path, floor: str, rounds: int, cold: bool) -> None:
    """The first search ever of what pip leaves: it opens every pyc for its header, and would seal what is fresh.

    It promises nothing: cold, the header of a file costs the disk more than its status.
    """
    base = "C, status of every .py and .pyc"
    contenders = {base: lambda: seconds_of([floor, str(tree)]), "search": lambda: search(tree, "check").seconds}
    take_turns(contenders, 1)
    show("The first search ever, warm", take_turns(contenders, rounds), base)
    if cold:
        show("The first search ever, cold", take_turns(contenders, max(2, rounds // 2), drop_caches), base)


def measure_search(tree: Path, how: str, floor: str, rounds: int, cold: bool) -> list[Limit]:
    """The search against the floor, with warm and, if wanted, with cold caches. `how` the tree was installed."""
    base, ours = "C, status of every .py and .pyc", "search"
    contenders = {base: lambda: seconds_of([floor, str(tree)]), ours: lambda: search(tree, "check").seconds}
    processor = {
        base: lambda: processor_seconds_of([floor, str(tree)]),
        ours: lambda: search(tree, "check").processor_seconds,
    }
    first = search(tree, "run")  # what only a proof can clear is proved once, and all that is fresh is sealed
    then = search(tree, "check")
    print(f"\nInstalled {how}: {then.examined} pycs, {then.kept} kept, {then.removed} removed, ", end="")
    print(f"{first.proved} proved in {first.seconds:.1f} s, and {then.proved} in the run after that")
    take_turns(contenders, 1)
    warm = take_turns(contenders, rounds)
    show(f"Warm, {how}", warm, base)
    show(f"Warm, {how}, processor time (the search uses several processes)", take_turns(processor, rounds), base)
    limits = [
        Limit(f"warm search : C, {how}", ratio(warm, ours, base), 2.5),
        Limit(f"memory, MiB, {how}", max(first.memory, then.memory), 64),
    ]
    if cold:
        times = take_turns(contenders, max(2, rounds // 2), drop_caches)
        show(f"Cold, {how}", times, base)
        limits.append(Limit(f"cold search : C, {how}", ratio(times, ours, base), 2.0))
    return limits


def measure_proofs(tree: Path, root: Path) -> list[Limit]:
    """Proofs of a copy whose times prove nothing, and the run after that."""
    copy = root / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir()
    copied = 0
    for package in sorted(path for path in (tree / "0").iterdir() if path.is_dir()):
        if copied < PROOFS:
            subprocess.run(["cp", "-a", str(package), str(copy)], check=True)
            copied += sum(1 for _source in (copy / package.name).rglob("*.py"))
    time.sleep(1.5)  # a source that was changed within the last second is proved again
    first, second = search(copy, "run"), search(copy, "run")
    force = [sys.executable, "-m", "compileall", "-q", "-f", str(copy)]
    compiled = seconds_of(["env", "-u", "PYTHONDONTWRITEBYTECODE", *force])
    print(f"\nProofs after cp -a: {first.examined} pycs, {first.proved} proved in {first.seconds:.1f} s", end="")
    print(f" (compileall -f: {compiled:.1f} s); again: {second.proved} proved in {second.seconds:.3f} s")
    shutil.rmtree(copy)
    return [Limit("proofs of the second run", second.proved, 0), Limit("wrongly removed", first.removed, 0)]


def ansible(module: str, arguments: str = "") -> list[str]:
    """The command that runs a module on this machine."""
    program = str(Path(sys.executable).with_name("ansible"))
    host = ["localhost", "-i", "localhost,", "-c", "local", "-e", f"ansible_python_interpreter={sys.executable}"]
    return [program, *host, "-m", module, "-a", arguments]


def seconds_on_copy(command: str, tree: Path, root: Path) -> float:
    """How long a tool takes that removes bytecode, on a fresh copy of the tree."""
    copy = root / "peer"
    shutil.rmtree(copy, ignore_errors=True)
    subprocess.run(["cp", "-a", str(tree), str(copy)], check=True)
    return seconds_of([command, str(copy)])


def measure_peers(tree: Path, root: Path, rounds: int) -> list[Limit]:
    """What people use instead, on the same tree."""
    peers = {name: path for name in ("pyclean", "py3clean") for path in [shutil.which(name)] if path}
    ours, module, find = "search", "ansible -m pyc_invalidate", "ansible -m find"
    contenders: dict[str, Callable[[], float]] = {ours: lambda: search(tree, "check").seconds}
    for name, path in peers.items():
        contenders[name] = functools.partial(seconds_on_copy, path, tree, root)
    contenders[module] = lambda: seconds_of(ansible("pyc_invalidate", f"path={tree}"))
    contenders[find] = lambda: seconds_of(ansible("ansible.builtin.find", f"paths={tree} recurse=true patterns=*.pyc"))
    times = take_turns(contenders, max(2, rounds // 2))
    show("Others", times, ours)
    shutil.rmtree(root / "peer", ignore_errors=True)
    for name in {"pyclean", "py3clean"} - set(peers):
        print(f"  {name} is missing on this machine")
    against = {**dict.fromkeys(peers, ours), find: module}
    return [Limit(f"{name} : {base}", ratio(times, name, base), 5, least=True) for name, base in against.items()]


def payload(module: str, arguments: str, root: Path) -> list[str]:
    """The command that a node runs for a module: Ansible sends everything in one file, which is kept here."""
    sent = root / "sent" / module
    shutil.rmtree(sent, ignore_errors=True)
    keep = {"ANSIBLE_KEEP_REMOTE_FILES": "1", "ANSIBLE_REMOTE_TMP": str(sent)}
    subprocess.run(ansible(module, arguments), cwd=TOP, env={**os.environ, **keep}, capture_output=True, check=True)
    (file,) = sent.glob("*/AnsiballZ_*.py")
    return [sys.executable, str(file)]


def measure_share(tree: Path, root: Path, rounds: int) -> list[Limit]:
    """What a run on three files costs on the node, compared with ansible.builtin.stat."""
    files = [str(path) for path in sorted((tree / "0").rglob("*.py"))[:3]]
    stat, ours = "stat", "pyc_invalidate, 3 files"
    commands = {
        stat: payload("ansible.builtin.stat", f"path={files[0]}", root),
        ours: payload("pyc_invalidate", f"path={','.join(files)}", root),
    }
    times = take_turns({name: functools.partial(seconds_of, command) for name, command in commands.items()}, 4 * rounds)
    show("A run on three files, on the node", times, stat)
    return [Limit("share of 3 files : stat", ratio(times, ours, stat), 1.2)]


def main() -> int:
    """Measure everything and compare it with the promises."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--tree", type=Path, default=TOP / ".cache/benchmark/bytecode")
    options = parser.parse_args()
    tree, linked = real_tree.make(options.tree), real_tree.make_linked(options.tree)
    floor = compile_floor(options.tree)
    load = os.getloadavg()[0]
    print(f"Python {sys.version.split()[0]}, {len(os.sched_getaffinity(0))} processors, load {load:.1f}")
    measure_first_search(tree, floor, options.rounds, options.cold)
    limits = measure_search(tree, "by pip", floor, options.rounds, options.cold)
    limits += measure_search(linked, "by uv's links", floor, options.rounds, options.cold)
    limits += measure_proofs(tree, options.tree)
    limits += measure_share(tree, options.tree, options.rounds)
    limits += measure_peers(tree, options.tree, options.rounds)
    print("\nPromises")
    for limit in limits:
        bound = "at least" if limit.least else "at most"
        print(f"  {limit.name:44}{limit.figure:9.2f}  {bound} {limit.limit:g}{'' if limit.kept else '   NOT KEPT'}")
    return int(options.strict and not all(limit.kept for limit in limits))


if __name__ == "__main__":
    sys.exit(main())
