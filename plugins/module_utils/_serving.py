# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure a live OpenAI-compatible server: speed by number of streams, acceptance of the drafts, and the text itself.

The measurement is bounded in requests and in time, and every failure of the server is part of the result.
"""

from __future__ import annotations

import threading
import time
from typing import Any, NamedTuple

from ansible_collections.blackwell.inference.plugins.module_utils._serving_http import (
    Endpoint,
    EndpointError,
    get,
    get_json,
    post_json,
    stream_completion,
)
from ansible_collections.blackwell.inference.plugins.module_utils._serving_metrics import (
    Acceptance,
    generated,
    sglang_acceptance,
    sglang_gauge,
    vllm_acceptance,
)
from ansible_collections.blackwell.inference.plugins.module_utils._serving_prompts import Prompt
from ansible_collections.blackwell.inference.plugins.module_utils._serving_summary import (
    Request,
    Wave,
    describe_acceptance,
    describe_error,
    summarize,
)

QUICK = 15.0  # seconds for a request that generates nothing
MAX_ERRORS = 50
MAX_FAILURES = 3
SETTLE_TRIES, SETTLE_PAUSE = 10, 0.3


class Plan(NamedTuple):
    """What to measure. Times are seconds."""

    endpoint: Endpoint
    engine: str
    model: str
    prompts: list[Prompt]
    max_tokens: int
    streams: list[int]
    repetitions: int
    timeout: float
    max_seconds: float
    seed: int = 1
    ignore_eos: bool = False


class Server(NamedTuple):
    """What the server says about itself."""

    model: str
    max_model_len: int | None
    version: str | None
    settings: dict[str, Any]


def measure(plan: Plan) -> dict[str, Any]:
    """Warm up, measure, and sum up; the keys of the result are those that spec_decode_probe documents."""
    started = time.monotonic()
    try:
        server = _ask(plan)
    except EndpointError as error:
        nobody = Server(plan.model, None, None, {})
        result = _result(nobody, [], Acceptance("unknown", reason="the server does not answer"))
        return {**result, **_failures([describe_error("ask", error)]), "not_applicable": [], "disturbed": None}
    result = _drive(plan._replace(model=server.model), server, started + plan.max_seconds)
    return {**result, "seconds": round(time.monotonic() - started, 3)}


def _drive(plan: Plan, server: Server, deadline: float) -> dict[str, Any]:
    fitting, unfit = _fitting(plan, server)
    first = _metrics(plan)
    warm = _wave(plan, fitting, 1, deadline).requests
    refused = [r for r in warm if r.error and r.error.kind == "too_long"]
    errors = [describe_error("warm-up", r.error, r) for r in warm if r.error and r not in refused]
    unfit += [(r.prompt, r.error.message) for r in refused if r.error]
    good = [request.prompt for request in warm if request.answer]
    before = _settled_metrics(plan, first, warm)
    waves = _waves(plan, good, deadline) if good else []
    after = _settled_metrics(plan, before, [request for wave in waves for request in wave.requests])
    errors += [describe_error("measured", r.error, r) for wave in waves for r in wave.requests if r.error]
    result = _result(server, waves, _acceptance(plan, good, before, after, deadline))
    whole = bool(good) and len(waves) == len(plan.streams) * plan.repetitions
    return {
        **result,
        **_failures(errors),
        "complete": whole and not errors,
        "not_applicable": [{"prompt": prompt.name, "kind": prompt.kind, "reason": why} for prompt, why in unfit],
        "disturbed": _disturbed(plan, waves, before, after),
    }


def _failures(errors: list[dict[str, Any]]) -> dict[str, Any]:
    return {"errors": errors[:MAX_ERRORS], "errors_total": len(errors), "complete": False}


def _result(server: Server, waves: list[Wave], acceptance: Acceptance) -> dict[str, Any]:
    return {
        "model": server.model,
        "max_model_len": server.max_model_len,
        "engine_version": server.version,
        "engine_settings": server.settings,
        "seconds": 0.0,
        **summarize(waves),
        **describe_acceptance(acceptance),
    }


def _ask(plan: Plan) -> Server:
    models = get_json(plan.endpoint, "/v1/models", QUICK)
    listed = [m for m in models.get("data", []) if isinstance(m, dict)] if isinstance(models, dict) else []
    if not listed:
        raise EndpointError("garbage", "/v1/models lists no model")
    chosen = next((m for m in listed if m.get("id") == plan.model), None) if plan.model else listed[0]
    if chosen is None:
        names = ", ".join(str(m.get("id")) for m in listed)
        raise EndpointError("http", f"the server has no model {plan.model}, it serves {names}", 404)
    limit = chosen.get("max_model_len")
    info = _info(plan)
    version = info.get("version")
    settings = {key: info[key] for key in sorted(info) if key.startswith("speculative_") and info[key] is not None}
    return Server(str(chosen.get("id")), limit if isinstance(limit, int) else None, version, settings)


def _info(plan: Plan) -> dict[str, Any]:
    """Version, and for SGLang the arguments that it resolved; nothing where the server does not tell."""
    paths = ("/version",) if plan.engine == "vllm" else ("/server_info", "/get_server_info")
    for path in paths:
        try:
            document = get_json(plan.endpoint, path, QUICK)
        except EndpointError:
            continue
        if isinstance(document, dict):
            return document
    return {}


def _fitting(plan: Plan, server: Server) -> tuple[list[Prompt], list[tuple[Prompt, str]]]:
    """The prompts that fit the model together with their answers, and the others with the reason."""
    fitting, unfit = [], []
    for prompt in plan.prompts:
        size = len(prompt.text.encode())
        if server.max_model_len is None or size + 1 + plan.max_tokens <= server.max_model_len:
            fitting.append(prompt)  # a token stands for one byte or more
            continue
        tokens = _count_tokens(plan, prompt)
        if tokens is None or tokens + plan.max_tokens <= server.max_model_len:
            fitting.append(prompt)  # unknown: the server itself says so in the warm-up
        else:
            reason = f"{tokens} tokens and {plan.max_tokens} to generate exceed the model's {server.max_model_len}"
            unfit.append((prompt, reason))
    return fitting, unfit


def _count_tokens(plan: Plan, prompt: Prompt) -> int | None:
    try:
        answer = post_json(plan.endpoint, "/tokenize", {"model": plan.model, "prompt": prompt.text}, QUICK)
    except EndpointError:
        return None
    count = answer.get("count") if isinstance(answer, dict) else None
    return count if isinstance(count, int) else None


def _waves(plan: Plan, prompts: list[Prompt], deadline: float) -> list[Wave]:
    waves: list[Wave] = []
    for streams in plan.streams:
        for _repetition in range(plan.repetitions):
            if time.monotonic() >= deadline:
                return waves
            wave = _wave(plan, _schedule(prompts, streams), streams, deadline)
            waves.append(wave)
            if not any(request.answer for request in wave.requests):
                return waves  # a server that answers nothing any more is not asked again
    return waves


def _schedule(prompts: list[Prompt], streams: int) -> list[Prompt]:
    """The prompts, repeated until every stream has the same number of requests."""
    count = -(-max(len(prompts), streams) // streams) * streams
    return [prompts[index % len(prompts)] for index in range(count)]


def _wave(plan: Plan, prompts: list[Prompt], streams: int, deadline: float) -> Wave:
    waiting, lock = list(reversed(prompts)), threading.Lock()
    requests: list[Request] = []

    def work() -> None:
        while True:
            with lock:
                if not waiting:
                    return
                prompt = waiting.pop()
                hopeless = _hopeless(requests)
            done = Request(prompt, streams, None, hopeless) if hopeless else _request(plan, prompt, streams, deadline)
            with lock:
                requests.append(done)

    started = time.monotonic()
    threads = [threading.Thread(target=work, daemon=True) for _stream in range(streams)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    order = {prompt.name: index for index, prompt in enumerate(prompts)}
    return Wave(streams, time.monotonic() - started, sorted(requests, key=lambda r: order[r.prompt.name]))


def _hopeless(requests: list[Request]) -> EndpointError | None:
    """Why nothing more is sent: a server that hangs would otherwise take its whole time for each prompt."""
    failed = [request for request in requests if request.error and request.error.kind != "too_long"]
    if len(failed) < MAX_FAILURES or any(request.answer for request in requests):
        return None
    return EndpointError("skipped", f"not sent: {len(failed)} requests failed and none was answered")


def _request(plan: Plan, prompt: Prompt, streams: int, deadline: float) -> Request:
    left = min(plan.timeout, deadline - time.monotonic())
    if left <= 0:
        late = EndpointError("budget", f"not sent: the measurement's {plan.max_seconds:g} seconds were used up")
        return Request(prompt, streams, None, late)
    try:
        return Request(prompt, streams, stream_completion(plan.endpoint, _body(plan, prompt), left), None)
    except EndpointError as error:
        return Request(prompt, streams, None, error)


def _body(plan: Plan, prompt: Prompt) -> dict[str, Any]:
    body = {
        "model": plan.model,
        "prompt": prompt.text,
        "max_tokens": plan.max_tokens,
        "temperature": 0,
        "seed": plan.seed,
    }
    return {**body, "ignore_eos": True} if plan.ignore_eos else body


def _metrics(plan: Plan) -> str:
    try:
        return get(plan.endpoint, "/metrics", QUICK)
    except EndpointError:
        return ""


def _settled_metrics(plan: Plan, before: str, requests: list[Request]) -> str:
    """The metrics once they count these requests and stand still: engines count a moment after the last token."""
    start = generated(before, plan.engine)
    own = sum(request.answer.tokens for request in requests if request.answer)
    text = _metrics(plan)
    for _attempt in range(SETTLE_TRIES):
        now = generated(text, plan.engine)
        if now is None:
            break  # no such counter, nothing to wait for
        time.sleep(SETTLE_PAUSE)
        again = _metrics(plan)
        if generated(again, plan.engine) == now and (start is None or now - start >= own):
            return again
        text = again
    return text


def _acceptance(plan: Plan, prompts: list[Prompt], before: str, after: str, deadline: float) -> Acceptance:
    if not prompts:
        return Acceptance("unknown", reason="no request was answered")
    if plan.engine == "vllm":
        return vllm_acceptance(before, after) if after else Acceptance("unknown", reason="/metrics does not answer")
    metas = _generate(plan, prompts, deadline)
    if any(meta.get("spec_verify_ct") for meta in metas):
        return sglang_acceptance(metas)
    gauge = sglang_gauge(after)
    return gauge if gauge.speculation == "on" else sglang_acceptance(metas)


def _generate(plan: Plan, prompts: list[Prompt], deadline: float) -> list[dict[str, Any]]:
    """What SGLang's own endpoint says about the verifications of each prompt."""
    metas = []
    for prompt in prompts:
        sampling = {"temperature": 0, "max_new_tokens": plan.max_tokens, "ignore_eos": plan.ignore_eos}
        left = min(plan.timeout, deadline - time.monotonic())
        if left <= 0:
            break
        try:
            answer = post_json(plan.endpoint, "/generate", {"text": prompt.text, "sampling_params": sampling}, left)
        except EndpointError:
            break  # an endpoint that is closed to one prompt is closed to all
        meta = answer.get("meta_info") if isinstance(answer, dict) else None
        metas += [meta] if isinstance(meta, dict) else []
    return metas


def _disturbed(plan: Plan, waves: list[Wave], before: str, after: str) -> bool | None:
    """Whether others used the server meanwhile: it generated more tokens than were asked for here."""
    old, new = generated(before, plan.engine), generated(after, plan.engine)
    failed = any(request.error for wave in waves for request in wave.requests)
    if old is None or new is None or failed or not waves:
        return None
    own = sum(request.answer.tokens for wave in waves for request in wave.requests if request.answer)
    return new - old > own
