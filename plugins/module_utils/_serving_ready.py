# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wait until a server serves: a completion came back, then a long one, then several at once.

`/health` and `/v1/models` answer long before that, and some kernels die only of the first long prompt. The wait ends
at once when the unit's process ends.
"""

from __future__ import annotations

import threading
import time
from typing import Any, NamedTuple

from ansible_collections.blackwell.inference.plugins.module_utils._serving_http import (
    Endpoint,
    EndpointError,
    get_json,
    post_json,
)
from ansible_collections.blackwell.inference.plugins.module_utils._serving_log import (
    meaningful_lines,
    phase_of,
    split_log,
)
from ansible_collections.blackwell.inference.plugins.module_utils._serving_prompts import long_document
from ansible_collections.blackwell.inference.plugins.module_utils._serving_unit import (
    Run,
    UnitState,
    death,
    invocation_log,
    unit_state,
)

PAUSE = 1.0
LOG_LINES = 400
LOG_EVERY = 3.0
FINAL_STATUSES = (400, 401, 403, 404, 405, 422)  # waiting does not cure these
MAX_GARBAGE = 3


class Wait(NamedTuple):
    """What to wait for. Times are seconds; `unit` '' means that nobody can tell whether the process lives.

    `timeout` bounds the waiting, not the work: no first completion is asked for after it, but one under way, and
    the stages after it, have `request_timeout` each. A first request that compiles kernels would otherwise be cut short
    again and again by a caller that waits in slices.
    """

    endpoint: Endpoint
    model: str
    unit: str
    prompt: str
    timeout: float
    request_timeout: float
    long_bytes: int = 0
    parallel: int = 0


class Watch:
    """The wait's time and stages, and its unit with the log. Without a unit nothing is watched, and nothing dies."""

    def __init__(self, run: Run, unit: str, timeout: float) -> None:
        """Look at the unit for the first time; raises UnitError."""
        self.run = run
        self.unit = unit
        self.started = time.monotonic()
        self.deadline = self.started + timeout
        self.first: UnitState | None = unit_state(run, unit) if unit else None
        self.phases: list[dict[str, Any]] = []
        self.stages: list[dict[str, Any]] = []
        self._read = 0.0

    def left(self) -> float:
        """Seconds that are left."""
        return self.deadline - time.monotonic()

    def passed(self, stage: str) -> None:
        """Note that a stage passed."""
        seconds = round(time.monotonic() - self.started, 1)
        self.stages.append({"stage": stage, "status": "passed", "seconds": seconds})

    def dead(self) -> str:
        """Why the process is gone, or ''."""
        if self.first is None:
            return ""
        now = unit_state(self.run, self.unit)
        if not self.first.invocation:
            self.first = now
        return death(self.first, now)

    def log(self) -> list[str]:
        """The invocation's last lines."""
        if self.first is None:
            return []
        return split_log(invocation_log(self.run, self.unit, self.first.invocation, LOG_LINES))

    def look(self, force: bool = False) -> None:
        """Note the phase that the log shows, from time to time."""
        now = time.monotonic()
        if self.first is None or (not force and now - self._read < LOG_EVERY):
            return
        self._read = now
        phase = phase_of(self.log())
        if phase and (not self.phases or self.phases[-1]["phase"] != phase):
            self.phases.append({"phase": phase, "seconds": round(now - self.started, 1)})


def wait_until_ready(wait: Wait, run: Run) -> dict[str, Any]:
    """Wait, and say how it ended: `ready`, `cause` ('' when ready, else died, timeout, refused, failed) and `message`.

    `run` runs a command, as for systemctl and journalctl. Raises UnitError when systemd does not know the unit.
    """
    watch = Watch(run, wait.unit, wait.timeout)
    cause, message = _first_completion(wait, watch)
    if not cause and wait.long_bytes:
        cause, message = _stage(wait, watch, "long prompt", [long_document(wait.long_bytes).text])
    if not cause and wait.parallel:
        cause, message = _stage(wait, watch, "parallel", [wait.prompt] * wait.parallel)
    if cause:
        time.sleep(PAUSE)  # the journal gets the last words of a process a moment after its death
    watch.look(force=True)
    seen = watch.phases[-1]["phase"] if watch.phases else ""
    return {
        "ready": not cause,
        "cause": cause,
        "message": message,
        "seconds": round(time.monotonic() - watch.started, 1),
        "phase": seen if cause else "serving",
        "phases": watch.phases,
        "stages": watch.stages,
        "log": meaningful_lines(watch.log()) if cause else [],
    }


def _first_completion(wait: Wait, watch: Watch) -> tuple[str, str]:
    """Ask until a completion came back; cause and message when that is hopeless."""
    garbage, last = 0, ""
    while True:
        gone = watch.dead()
        if gone:
            return "died", gone
        if watch.left() <= 0:
            return "timeout", f"no completion after {wait.timeout:g} s; the last try: {last}"
        try:
            _complete(wait, wait.prompt, wait.request_timeout)
            watch.passed("completion")
            return "", ""
        except EndpointError as error:
            last = f"{error.kind}{f' {error.status}' if error.status else ''}: {error.message}"
            garbage = garbage + 1 if error.kind == "garbage" else 0
            if error.kind == "too_long" or error.status in FINAL_STATUSES or garbage >= MAX_GARBAGE:
                return "refused", f"the server answers, but not with a completion: {last}"
        watch.look()
        time.sleep(min(PAUSE, max(0.0, watch.left())))


def _stage(wait: Wait, watch: Watch, name: str, prompts: list[str]) -> tuple[str, str]:
    """Send prompts at the same time, once; all must come back."""
    errors = _together(wait, prompts, wait.request_timeout)
    if any(error.kind == "too_long" for error in errors):
        watch.stages.append({"stage": name, "status": "not_applicable", "reason": errors[0].message})
        return "", ""
    gone = watch.dead()
    if gone:
        return "died", f"{name}: {gone}"
    if errors:
        first = f"{errors[0].kind}: {errors[0].message}"
        return "failed", f"{name}: {len(errors)} of {len(prompts)} failed, the first with {first}"
    watch.passed(name)
    return "", ""


def _together(wait: Wait, prompts: list[str], timeout: float) -> list[EndpointError]:
    errors: list[EndpointError] = []

    def send(prompt: str) -> None:
        try:
            _complete(wait, prompt, timeout)
        except EndpointError as error:
            errors.append(error)

    threads = [threading.Thread(target=send, args=(prompt,), daemon=True) for prompt in prompts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def _complete(wait: Wait, prompt: str, timeout: float) -> None:
    """One completion of a few tokens; raises EndpointError unless text came back."""
    deadline = time.monotonic() + timeout
    model = wait.model or _first_model(wait.endpoint, timeout)
    body = {"model": model, "prompt": prompt, "max_tokens": 8, "temperature": 0}
    answer = post_json(wait.endpoint, "/v1/completions", body, max(0.1, deadline - time.monotonic()))
    try:
        text = answer["choices"][0]["text"]
    except (KeyError, IndexError, TypeError):
        raise EndpointError("garbage", f"the answer is no completion: {str(answer)[:80]}") from None
    if not isinstance(text, str) or not text:
        raise EndpointError("garbage", "the completion is empty")


def _first_model(endpoint: Endpoint, timeout: float) -> str:
    models = get_json(endpoint, "/v1/models", timeout)
    try:
        return str(models["data"][0]["id"])
    except (KeyError, IndexError, TypeError):
        raise EndpointError("garbage", "/v1/models lists no model") from None
