# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measures collectives between the GPUs of a node (NCCL) or between processes (gloo), and checks what they deliver.

    collective_probe.py QUESTION     prints one line of JSON; exit status 0 whatever was found, 2: no question

The role runs it with the interpreter of the engine's environment; every rank is this file once more, started by
torch.distributed.run. QUESTION is JSON:

* `backend`: `nccl` or `gloo`; `processes`: number of ranks; `sizes`: bytes by group, as {"decode": [16384]}
* `variables`: what the profile sets; it is measured without them (`before`), then with them (`after`)
* `baseline`: why it must not be measured without them; empty: measure it
* `timeout`: seconds after which ranks that do not get on are taken for hung
* `python`: the interpreter of the ranks, by default this one

Each of the two has a `status`: `ok`, `wrong` (values), `hung`, `died` (a rank ended without a word), `failed` (it said
why), `not_applicable`, `not_measured`. What to think of it is said by collective_judgement.py.

A bandwidth alone proves nothing: a driver that was made to offer peer access delivered 12.6 GiB/s of wrong values
(operators' report, 2026). So every size is sent with values that name sender, place and round, and all are compared.

For tests, SPECDECODE_PROBE_FAULT=KIND:RANK[:STEP] lets one rank send a wrong value (`wrong`), end (`die`) or stop
(`hang`) at a step, counted from 0. Without a step, `wrong` is every one, and the others are 1.
"""

from __future__ import annotations

import contextlib
import datetime
import importlib
import json
import math
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any, Dict, Iterable, Mapping, NamedTuple, Sequence

Result = Dict[str, Any]  # what one measurement gave: status, reason, steps, ...
Note = Dict[str, Any]  # one line that a rank wrote about how far it is

COLLECTIVES = ("all_reduce", "all_gather", "all_to_all")
ROUNDS = 5
# Messages of a kind that is sent often are sent often here as well; the bytes of one round are bounded.
MOST_REPEATS, ROUND_BYTES = 50, 64 << 20
# Whole numbers up to 256 are exact in bfloat16, so that the sum over 42 ranks is exact in every order.
MODULUS = 13
PERIOD = 251  # a prime: a share that is displaced by a power of two shows
CAN_NOT = re.compile(r"does(?: not|n't) support|not (?:yet )?(?:implemented|supported)", re.IGNORECASE)
CONF_FILES = ("/etc/nccl.conf", "~/.nccl.conf")  # NCCL's user guide, "Environment Variables" (2.30)
PREFIXES = {"nccl": "NCCL_", "gloo": "GLOO_"}  # the variables that each reads
START_SECONDS = 120  # at least so long may a rank import torch and meet the others, whatever the timeout of a step
KILLED_BY_LAUNCHER = -int(signal.SIGTERM)


# ---- what is measured


def steps_of(sizes: Mapping[str, Sequence[int]], processes: int) -> list[dict[str, Any]]:
    """The steps of a measurement in their order; `bytes` is rounded up so that every rank has an equal share."""
    share = 4 * processes
    return [
        {"group": group, "collective": collective, "bytes": math.ceil(size / share) * share}
        for group, group_sizes in sizes.items()
        for size in group_sizes
        for collective in COLLECTIVES
    ]


def shift_of(rank: int, round_: int) -> int:
    """Where the pattern of a rank and round begins: for up to 50 ranks nowhere that another one's does."""
    return 7 * (ROUNDS * rank + round_) % PERIOD


def bus_bandwidth(collective: str, size: int, seconds: float, processes: int) -> float:
    """GB/s over the slowest link. `size` is the whole buffer in bytes, as in the performance notes of nccl-tests."""
    factor = 2.0 if collective == "all_reduce" else 1.0
    return size / seconds * factor * (processes - 1) / processes / 1e9


def spoken(step: Mapping[str, Any]) -> str:
    """A step in words."""
    size = int(step["bytes"])
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor:
            return f"{step['collective']} of {size / factor:.4g} {unit}"
    return f"{step['collective']} of {size} B"


# ---- one rank. Only this part needs torch.


class Fault:
    """What SPECDECODE_PROBE_FAULT asks of this rank."""

    def __init__(self, text: str, rank: int) -> None:
        """KIND:RANK[:STEP]; empty: nothing."""
        self.kind, place, step = [*text.split(":"), "", ""][:3]
        self.here = bool(text) and int(place) == rank
        self.step = int(step) if step else None if self.kind == "wrong" else 1

    def strikes(self, kind: str, step: int) -> bool:
        """Whether this kind of fault is due at a step."""
        return self.here and self.kind == kind and self.step in (None, step)


class Rank:
    """One of the processes. What it is about to do it writes down first, so that a hang tells where it is."""

    def __init__(self, work: str) -> None:
        """`work` is the directory that the ranks and their starter share."""
        self.number, self.processes = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.file = os.path.join(work, f"rank.{self.number}")
        with open(os.path.join(work, "plan.json"), encoding="utf-8") as file:
            self.plan = json.load(file)
        self.fault = Fault(os.environ.get("SPECDECODE_PROBE_FAULT", ""), self.number)
        self.torch: Any = None
        self.device: Any = None

    def note(self, at: str, **more: Any) -> None:
        """Write down how far this rank is."""
        with open(self.file, "a", encoding="utf-8") as file:
            file.write(json.dumps({"at": at, **more}) + "\n")

    def main(self) -> int:
        """All steps; an exception is written down and ends the rank."""
        # should the starter be killed: a signal that ends the process even where it hangs in a library
        signal.alarm(int(START_SECONDS + self.plan["timeout"] * (1 + len(self.plan["steps"]))))
        try:
            self.note("import", pid=os.getpid())
            self.torch = importlib.import_module("torch")
            self.note("join")
            self.join()
            self.note("joined", **self.releases())
            for number, step in enumerate(self.plan["steps"]):
                self.note("step", number=number)
                self.note("done", number=number, **self.step(number, step))
            self.note("end")
            self.torch.distributed.destroy_process_group()
        except Exception as error:
            self.note("error", text=f"{type(error).__name__}: {error}".strip()[:2000])
            return 1
        return 0

    def join(self) -> None:
        """Meet the other ranks. Its own timeout comes long after that of the starter, which can say more."""
        late = datetime.timedelta(seconds=self.plan["timeout"] * 4 + 60)
        options: dict[str, Any] = {"backend": self.plan["backend"], "timeout": late}
        if self.plan["backend"] == "nccl":
            self.device = self.torch.device("cuda", int(os.environ["LOCAL_RANK"]))
            self.torch.cuda.set_device(self.device)
            options["device_id"] = self.device  # connects now, and not in the first collective
        else:
            self.device = self.torch.device("cpu")
        self.torch.distributed.init_process_group(**options)

    def releases(self) -> dict[str, str]:
        """What is measured with."""
        seen = {"torch": str(self.torch.__version__), "device": "cpu"}
        if self.plan["backend"] == "nccl":
            seen["nccl"] = ".".join(map(str, self.torch.cuda.nccl.version()))
            seen["device"] = self.torch.cuda.get_device_name(self.device)
        return seen

    def step(self, number: int, step: Mapping[str, Any]) -> dict[str, Any]:
        """Seconds of one call in each round, and how many values were wrong; or why it can't be done here."""
        if self.fault.strikes("die", number):
            os._exit(7)
        while self.fault.strikes("hang", number):
            signal.pause()
        values = Values(self.torch, self.device, step, self.number, self.processes)
        buffers = values.empty()
        self.wait()
        self.note("call", number=number)
        try:
            values.call(buffers)  # connections are made in the first call
        except (RuntimeError, NotImplementedError) as error:
            if CAN_NOT.search(str(error)):
                return {"not_applicable": f"{self.plan['backend']}: {error}"[:500]}
            raise
        repeats = min(MOST_REPEATS, max(4, ROUND_BYTES // int(step["bytes"])))
        seconds, wrong = [], []
        for round_ in range(ROUNDS):
            seconds.append(self.timed(values, repeats))
            wrong.append(values.check(round_, self.fault.strikes("wrong", number)))
        worst = max(wrong, key=lambda found: found["wrong"])
        return {**worst, "wrong": sum(found["wrong"] for found in wrong), "seconds": seconds}

    def timed(self, values: Values, repeats: int) -> float:
        """Seconds of one call, over several without a pause."""
        buffers = values.empty()
        self.wait()
        begin = time.perf_counter()
        for _dummy in range(repeats):
            values.call(buffers)
        self.wait()
        return (time.perf_counter() - begin) / repeats

    def wait(self) -> None:
        """Until the GPU is done."""
        if self.device.type == "cuda":
            self.torch.cuda.synchronize(self.device)


class Values:
    """The values of one step: what this rank gives, what it must get, and the call that makes one of the other."""

    def __init__(self, torch: Any, device: Any, step: Mapping[str, Any], rank: int, processes: int) -> None:
        """On a GPU bfloat16, in which engines send; on a CPU float32, which every release of gloo takes."""
        self.torch, self.device, self.rank, self.processes = torch, device, rank, processes
        self.collective = step["collective"]
        self.dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
        self.length = int(step["bytes"]) // self.dtype.itemsize
        self.share = self.length // processes

    def pattern(self, first: int, length: int, rank: int, round_: int) -> Any:
        """Small whole numbers that differ by rank, place and round: a share of another rank or round shows."""
        places = self.torch.arange(first, first + length, dtype=self.torch.int32, device=self.device)
        return (places + shift_of(rank, round_)) % PERIOD % MODULUS - MODULUS // 2

    def given(self, rank: int, round_: int) -> Any:
        """What a rank puts in."""
        return self.pattern(0, self.share if self.collective == "all_gather" else self.length, rank, round_)

    def expected(self, round_: int) -> Any:
        """What this rank must get."""
        ranks = range(self.processes)
        if self.collective == "all_reduce":
            return sum(self.given(rank, round_) for rank in ranks)
        first = self.rank * self.share if self.collective == "all_to_all" else 0
        return self.torch.cat([self.pattern(first, self.share, rank, round_) for rank in ranks])

    def empty(self) -> tuple[Any, Any]:
        """Buffers to give from and to get into. All zero, which a sum of sums leaves as it is."""
        length = self.share if self.collective == "all_gather" else self.length
        given = self.torch.zeros(length, dtype=self.dtype, device=self.device)
        if self.collective == "all_reduce":
            return given, given
        return given, self.torch.zeros(self.length, dtype=self.dtype, device=self.device)

    def call(self, buffers: tuple[Any, Any]) -> None:
        """The collective."""
        distributed, (given, received) = self.torch.distributed, buffers
        if self.collective == "all_reduce":
            distributed.all_reduce(given)
        elif self.collective == "all_to_all":
            distributed.all_to_all_single(received, given)
        elif hasattr(distributed, "all_gather_single"):  # its name since torch 2.13
            distributed.all_gather_single(received, given)
        else:
            distributed.all_gather_into_tensor(received, given)

    def check(self, round_: int, spoil: bool) -> dict[str, Any]:
        """Send the pattern, and count what came back wrong; with the first such value."""
        buffers = self.empty()
        buffers[0].copy_(self.given(self.rank, round_))
        if spoil:
            buffers[0][0] += 1
        expected = self.expected(round_).to(self.dtype)
        self.call(buffers)
        differs = buffers[1] != expected
        wrong = int(differs.sum().item())
        if not wrong:
            return {"wrong": 0}
        place = int(differs.nonzero()[0].item())
        first = {"place": place, "expected": float(expected[place]), "got": str(float(buffers[1][place]))}
        return {"wrong": wrong, "first": first}


# ---- the ranks are started, watched and ended


def measure(question: Mapping[str, Any], variables: Mapping[str, str]) -> Result:
    """One measurement with these variables: all steps on all ranks, or why there are none."""
    if question["processes"] < 2:
        return {"status": "not_applicable", "reason": "there is one process, and nobody that it could talk to"}
    steps = steps_of(question["sizes"], question["processes"])
    with tempfile.TemporaryDirectory(prefix="specdecode-probe-") as work:
        plan = {"backend": question["backend"], "timeout": question["timeout"], "steps": steps}
        with open(os.path.join(work, "plan.json"), "w", encoding="utf-8") as file:
            json.dump(plan, file)
        began = time.monotonic()
        hung, left = run_ranks(question, variables, work)
        result = read_result(question, steps, work, hung)
        result["seconds"] = round(time.monotonic() - began, 1)
    return {**result, "can_not_be_ended": left}


def run_ranks(question: Mapping[str, Any], variables: Mapping[str, str], work: str) -> tuple[bool, list[int]]:
    """Run the ranks to their end. Returns whether they hung, and the processes that could not be ended."""
    argv = [question.get("python") or sys.executable, "-m", "torch.distributed.run", "--standalone"]
    argv += ["--local-addr", "127.0.0.1", "--max-restarts", "0", "--nproc-per-node", str(question["processes"])]
    with open(os.path.join(work, "log"), "wb") as log:
        starter = subprocess.Popen(
            [*argv, os.path.abspath(__file__), "rank", work],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment_of(question["backend"], variables, work),
            start_new_session=True,
        )
        hung, left = False, []
        try:
            hung = wait_or_stall(starter, work, question["processes"], question["timeout"])
        finally:
            left = end(starter, work, question["processes"])
    return hung, left


def environment_of(backend: str, variables: Mapping[str, str], work: str) -> dict[str, str]:
    """What the ranks see: of NCCL's variables exactly these, and NCCL's own log in files of its own."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NCCL_")}
    environment.update(variables)
    environment.pop("NCCL_DEBUG_SUBSYS", None)
    environment.setdefault("OMP_NUM_THREADS", "1")
    environment["PYTHONDONTWRITEBYTECODE"] = "1"  # a probe leaves the environment as it is
    if backend == "nccl":
        environment.update(NCCL_DEBUG="INFO", NCCL_DEBUG_FILE=os.path.join(work, "nccl.%p"))
    else:
        environment.setdefault("GLOO_SOCKET_IFNAME", "lo")
    return environment


def wait_or_stall(starter: subprocess.Popen[bytes], work: str, processes: int, timeout: float) -> bool:
    """Wait for the end; true when no rank got on for so many seconds, or for more while they have not met yet."""
    seen: list[list[Note]] = []
    since = time.monotonic()
    while starter.poll() is None:
        now = read_notes(work, processes)
        met = all(has(notes, "joined") for notes in now)
        if now != seen:
            seen, since = now, time.monotonic()
        elif time.monotonic() - since > (timeout if met else max(timeout, START_SECONDS)):
            return True
        time.sleep(0.2)
    return False


def end(starter: subprocess.Popen[bytes], work: str, processes: int) -> list[int]:
    """End the starter and every rank, which may sit in sessions of their own. Returns those that would not go."""
    if starter.poll() is None:
        starter.terminate()
    try:
        starter.wait(5)
    except subprocess.TimeoutExpired:
        starter.kill()
        starter.wait()
    pids = [note["pid"] for notes in read_notes(work, processes) for note in notes if "pid" in note]
    deadline = time.monotonic() + 10
    left = [pid for pid in pids if is_ours(pid, work)]
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    while left and time.monotonic() < deadline:
        time.sleep(0.1)
        left = [pid for pid in left if is_ours(pid, work)]
    return left


def is_ours(pid: int, work: str) -> bool:
    """Whether a process is one of our ranks, and no other that got its number. One that has ended has no arguments."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return work.encode() in file.read().split(b"\0")
    except OSError:
        return False


# ---- what they wrote is read


def read_notes(work: str, processes: int) -> list[list[Note]]:
    """The notes of every rank; a last line that was cut off is left out."""
    return [notes_in(read_text(os.path.join(work, f"rank.{rank}"))) for rank in range(processes)]


def notes_in(text: str) -> list[Note]:
    """The notes of one rank."""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("}\n")]


def read_text(path: str) -> str:
    """The text of a file; empty when it is not there."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def read_nccl_log(text: str) -> dict[str, Any]:
    """What NCCL's log says: ranks that are initialised, pairs of ranks by transport (P2P, SHM, NET), and warnings."""
    pairs: dict[str, set[tuple[str, str]]] = {}
    # "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read", or "[send] via NET/Socket/0" between two nodes
    for pair in re.finditer(r"Channel \S+ : (\d+)\[\w+\] -> (\d+)\[\w+\](?: \[\w+\])? via (\w+)", text):
        pairs.setdefault(pair[3], set()).add((pair[1], pair[2]))
    return {
        "initialised": sorted({int(rank) for rank in re.findall(r"rank (\d+) nranks \d+.*Init COMPLETE", text)}),
        "transports": {name: len(found) for name, found in sorted(pairs.items())},
        "warnings": list(dict.fromkeys(re.findall(r"NCCL WARN (.*)", text)))[:5],
    }


def read_endings(log: str) -> dict[int, int]:
    """Exit statuses by rank, from the report of torch.distributed.run; negative: a signal."""
    found = re.findall(r"rank\s*: (\d+)[^\n]*\n\s*exitcode\s*: (-?\d+)", log)
    return {int(rank): int(status) for rank, status in found if int(status) != KILLED_BY_LAUNCHER}


def read_result(question: Mapping[str, Any], steps: Sequence[dict[str, Any]], work: str, hung: bool) -> Result:
    """What the ranks, NCCL and the starter wrote, as one result."""
    notes = read_notes(work, question["processes"])
    logs = sorted(name for name in os.listdir(work) if name.startswith("nccl."))
    log = read_text(os.path.join(work, "log"))
    seen = Evidence(steps, notes, join_steps(steps, notes), read_endings(log), hung, question["timeout"])
    status, reason = status_of(seen)
    joined = next((note for own in notes for note in own if note["at"] == "joined"), {})
    return {
        "status": status,
        "reason": reason if reason or status == "ok" else last_words(log),
        "backend": question["backend"],
        "processes": question["processes"],
        "torch": joined.get("torch"),
        "device": joined.get("device"),
        "nccl": {
            **read_nccl_log("\n".join(read_text(os.path.join(work, name)) for name in logs)),
            "version": joined.get("nccl"),
        },
        "progress": [progress_of(own) for own in notes],
        "log": log.splitlines()[-20:] if status in ("died", "failed") else [],
        "steps": seen.measured,
    }


def last_words(log: str) -> str:
    """The last line of a log that is no rule."""
    lines = [line.strip() for line in log.splitlines() if line.strip(" =-")]
    return lines[-1] if lines else "it said nothing"


def join_steps(steps: Sequence[dict[str, Any]], notes: Sequence[Sequence[Note]]) -> list[dict[str, Any]]:
    """The steps that every rank has done. A collective is done when its slowest rank is: the median over the rounds."""
    joined = []
    for number, step in enumerate(steps):
        done = [note for rank in notes for note in rank if note["at"] == "done" and note["number"] == number]
        if len(done) < len(notes):
            break
        joined.append({**step, **join_step(step, done)})
    return joined


def join_step(step: Mapping[str, Any], done: Sequence[Note]) -> dict[str, Any]:
    """One step over all ranks; times are in microseconds."""
    reason = next((note["not_applicable"] for note in done if "not_applicable" in note), None)
    if reason:
        return {"status": "not_applicable", "reason": reason}
    rounds = [max(times) for times in zip(*(note["seconds"] for note in done))]
    seconds = statistics.median(rounds)
    wrong = {rank: note for rank, note in enumerate(done) if note["wrong"]}
    joined: dict[str, Any] = {
        "status": "wrong" if wrong else "ok",
        "microseconds": round(seconds * 1e6, 1),
        "spread": [round(min(rounds) * 1e6, 1), round(max(rounds) * 1e6, 1)],
        "busbw_gbps": round(bus_bandwidth(step["collective"], step["bytes"], seconds, len(done)), 3),
        "wrong": sum(note["wrong"] for note in wrong.values()),
    }
    if wrong:
        joined["wrong_ranks"] = list(wrong)
        joined["first_wrong"] = next(iter(wrong.values()))["first"]
    return joined


class Evidence(NamedTuple):
    """What is known of ranks that have ended, or were ended."""

    steps: Sequence[dict[str, Any]]
    notes: Sequence[Sequence[Note]]
    measured: list[dict[str, Any]]
    endings: Mapping[int, int]
    hung: bool
    timeout: float


def status_of(seen: Evidence) -> tuple[str, str]:
    """The status of a measurement, and the reason."""
    if seen.hung:
        places = "; ".join(f"rank {rank} {place_of(seen.steps, own)}" for rank, own in enumerate(seen.notes))
        return "hung", f"no rank got on for {seen.timeout:g} s: {places}"
    dead = [rank for rank in seen.endings if rank < len(seen.notes) and not has(seen.notes[rank], "error")]
    if dead:
        ends = (
            f"rank {rank} ended with {ending(seen.endings[rank])} {place_of(seen.steps, seen.notes[rank])}"
            for rank in dead
        )
        return "died", "; ".join(ends)
    errors = [
        f"rank {rank}: {note['text']}" for rank, own in enumerate(seen.notes) for note in own if note["at"] == "error"
    ]
    if errors or not all(has(own, "end") for own in seen.notes):
        return "failed", "; ".join(errors)
    wrong = [f"{spoken(step)}: {wrong_in_words(step)}" for step in seen.measured if step["status"] == "wrong"]
    more = [f"and {len(wrong) - 3} more"] if len(wrong) > 3 else []
    return ("wrong", "; ".join(wrong[:3] + more)) if wrong else ("ok", "")


def has(notes: Iterable[Note], at: str) -> bool:
    """Whether a rank came to this."""
    return any(note["at"] == at for note in notes)


def ending(status: int) -> str:
    """An exit status in words."""
    return f"signal {-status} ({signal.Signals(-status).name})" if status < 0 else f"exit status {status}"


def place_of(steps: Sequence[dict[str, Any]], notes: Sequence[Note]) -> str:
    """Where a rank is, in words."""
    if not notes:
        return "before its first line"
    words = {
        "import": "in the import of torch",
        "join": "while the ranks meet",
        "joined": "before the first collective",
        "end": "at its end",
        "error": "after an error",
    }
    if notes[-1]["at"] in words:
        return words[notes[-1]["at"]]
    where = {"step": "before", "call": "in", "done": "after"}[notes[-1]["at"]]
    return f"{where} {spoken(steps[notes[-1]['number']])}"


def progress_of(notes: Sequence[Note]) -> float:
    """How far a rank came: 0 import, 1 meeting, 2 met; then 3 + n before the call of step n, 3.25 + n in it."""
    if not notes:
        return -1
    last = notes[-1]
    if "number" in last:
        return float(last["number"]) + {"step": 3, "call": 3.25, "done": 3.5}[last["at"]]
    return {"import": 0.0, "join": 1.0, "joined": 2.0}.get(last["at"], 1e6)


def wrong_in_words(step: Mapping[str, Any]) -> str:
    """What was wrong."""
    first, ranks = step["first_wrong"], ", ".join(map(str, step["wrong_ranks"]))
    return (
        f"{step['wrong']} wrong values on rank {ranks}, the first at place {first['place']}: {first['got']} instead of "
        f"{first['expected']:g}"
    )


def names_in_conf(text: str) -> set[str]:
    """The names that NCCL reads from a file of its own: KEY=VALUE from the first column, without any trimming."""
    return {line.split("=", 1)[0] for line in text.splitlines() if "=" in line and not line.startswith("#")}


def no_baseline(question: Mapping[str, Any]) -> str:
    """Why it can't be measured without the variables; empty: it can."""
    if question.get("baseline"):
        return str(question["baseline"])
    names = [name for name in question["variables"] if name.startswith(PREFIXES[question["backend"]])]
    if not names:
        return f"there is no variable that {question['backend']} would read"
    for path in map(os.path.expanduser, question.get("conf_files", CONF_FILES)):
        both = sorted(names_in_conf(read_text(path)).intersection(names))
        if both:
            return f"{path} sets {', '.join(both)} too, and NCCL can't be kept from reading that file: move it away"
    return ""


def main(argv: Sequence[str]) -> int:
    """Answer the question, or be one of the ranks."""
    if len(argv) == 3 and argv[1] == "rank":
        return Rank(argv[2]).main()
    try:
        question = json.loads(argv[1])
    except (IndexError, ValueError) as error:
        print(f"collective_probe.py: give one question as JSON ({error})", file=sys.stderr)
        return 2
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _frame: sys.exit(128 + number))  # ends the ranks on the way out
    variables = {name: str(value) for name, value in question["variables"].items()}
    why_not = no_baseline(question)
    # which card has which number must not differ between the two
    order = {name: value for name, value in variables.items() if name == "CUDA_DEVICE_ORDER"}
    before = {"status": "not_measured", "reason": why_not} if why_not else measure(question, order)
    print(json.dumps({"before": before, "after": measure(question, variables)}, sort_keys=True))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
