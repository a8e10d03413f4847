# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small server that speaks the endpoints of vLLM and SGLang, and misbehaves as it is told."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

VLLM = "vllm:spec_decode_num_"


class StandIn:
    """What the server is told to be, what it counts, and what it saw. One token is one byte."""

    def __init__(self, engine: str = "vllm") -> None:
        self.engine = engine
        self.max_model_len: int | None = 256
        self.models = [{"id": "target"}]
        self.speculates = True
        self.accepted_per_draft = 1  # of three drafted tokens
        self.key = ""
        self.behaviour = "good"  # or: hang, garbage, empty, break, status 500, no-usage, error-event, slow
        self.not_ready = 0  # so many completions are refused with 503 first
        self.tokenizes = True
        self.generates = True  # SGLang's own endpoint
        self.metrics_late = 0.0
        self.texts: dict[str, list[str]] = {}  # per prompt: what to answer, one after the other
        self.seen: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.drafts = self.generated = 0
        self.lock = threading.Lock()
        self.running = self.most_running = 0
        self.url = ""

    def metrics(self) -> str:
        """The metrics as the engine writes them."""
        if self.engine == "sglang":
            length = 1 + self.accepted_per_draft if self.speculates else 0
            return (
                f'sglang:spec_accept_length{{tp_rank="0"}} {length}.0\n'
                f"sglang:generation_tokens_total {self.generated}.0\n"
            )
        text = f'vllm:generation_tokens_total{{engine="0",model_name="a,b}}"}} {float(self.generated)}\n'
        if not self.speculates:
            return "# HELP\n" + text
        accepted = self.drafts * self.accepted_per_draft
        text += f'{VLLM}drafts_total{{engine="0"}} {self.drafts}.0\n'
        text += f'{VLLM}draft_tokens_total{{engine="0"}} {self.drafts * 3}.0\n'
        text += f'{VLLM}accepted_tokens_total{{engine="0"}} {accepted}.0\n'
        for position in range(3):
            count = self.drafts if position < self.accepted_per_draft else 0
            text += f'{VLLM}accepted_tokens_per_pos_total{{engine="0",position="{position}"}} {count}.0\n'
        return text

    def count(self, tokens: int) -> int:
        """Count a completion, and say how many drafts it took."""
        drafts = (tokens - 1) // (1 + self.accepted_per_draft)

        def later() -> None:
            time.sleep(self.metrics_late)
            with self.lock:
                self.generated += tokens
                self.drafts += drafts

        if self.metrics_late:
            threading.Thread(target=later).start()
        else:
            later()
        return drafts


@contextlib.contextmanager
def serve(stand_in: StandIn) -> Iterator[StandIn]:
    """Run the server at `stand_in.url` until the block ends."""

    class Handler(_Handler):
        case = stand_in

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    stand_in.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield stand_in
    finally:
        stand_in.behaviour = "good"
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    case: StandIn
    protocol_version = "HTTP/1.1"

    def log_message(self, *_args: Any) -> None:
        pass

    def answer(self, document: object, status: int = 200) -> None:
        data = document.encode() if isinstance(document, str) else json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        case = self.case
        case.paths.append(self.path)
        if self.path == "/v1/models":
            limit = {} if case.max_model_len is None else {"max_model_len": case.max_model_len}
            self.answer({"data": [{**model, **limit} for model in case.models]})
        elif self.path == "/metrics":
            self.answer(case.metrics())
        elif self.path == "/version" and case.engine == "vllm":
            self.answer({"version": "0.32.0"})
        elif self.path == "/get_server_info" and case.engine == "sglang":
            self.answer({"version": "0.5.9", "speculative_num_draft_tokens": 2, "speculative_x": None, "other": 1})
        else:
            self.answer({"detail": "Not Found"}, 404)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        case = self.case
        case.paths.append(self.path)
        if case.key and self.headers.get("Authorization") != f"Bearer {case.key}":
            self.answer({"error": "Unauthorized"}, 401)
        elif self.path == "/tokenize" and case.tokenizes:
            self.answer({"count": len(body["prompt"].encode())})
        elif self.path == "/generate" and case.engine == "sglang" and case.generates:
            self.answer({"text": "x", "meta_info": self.meta_info(body)})
        elif self.path == "/v1/completions":
            case.seen.append(body)
            self.completion(body)
        else:
            self.answer({"detail": "Not Found"}, 404)

    def meta_info(self, body: dict[str, Any]) -> dict[str, Any]:
        tokens = body["sampling_params"]["max_new_tokens"]
        if not self.case.speculates:
            return {"completion_tokens": tokens}
        verified = (tokens - 1) // (1 + self.case.accepted_per_draft)
        histogram = [0] * self.case.accepted_per_draft + [verified]
        meta = {"completion_tokens": tokens, "spec_verify_ct": verified, "spec_accept_histogram": histogram}
        return {**meta, "spec_draft_token_num": verified * 3}

    def completion(self, body: dict[str, Any]) -> None:
        case, prompt = self.case, body["prompt"]
        if case.not_ready > 0:
            case.not_ready -= 1
            self.answer({"detail": "starting"}, 503)
        elif case.max_model_len and len(prompt.encode()) + body["max_tokens"] > case.max_model_len:
            message = f"This model's maximum context length is {case.max_model_len} tokens."
            self.answer({"object": "error", "error": {"message": message, "code": 400}}, 400)
        elif case.behaviour == "status 500":
            self.answer({"error": {"message": "EngineCore encountered an issue"}}, 500)
        elif case.behaviour == "hang":
            while case.behaviour == "hang":
                time.sleep(0.01)
            self.close_connection = True
        elif case.behaviour == "garbage":
            self.answer("<html>welcome</html>")
        elif body.get("stream"):
            self.stream(body)
        else:
            case.count(body["max_tokens"])
            self.answer({"choices": [{"text": "" if case.behaviour == "empty" else "ok"}]})

    def stream(self, body: dict[str, Any]) -> None:
        case, tokens = self.case, body["max_tokens"]
        with case.lock:
            case.running += 1
            case.most_running = max(case.most_running, case.running)
            prepared = case.texts.get(body["prompt"])
            text = prepared.pop(0) if prepared else ("answer to " + body["prompt"])[:tokens].ljust(tokens, ".")
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.events(text, tokens)
        with case.lock:
            case.running -= 1

    def events(self, text: str, tokens: int) -> None:
        case = self.case
        if case.behaviour == "error-event":
            self.event({"error": {"message": "EngineCore died"}})
            return
        half = len(text) // 2
        for piece in (text[:half], text[half:]) if case.behaviour != "empty" else ():
            time.sleep(0.3 if case.behaviour == "slow" else 0.005)
            self.event({"choices": [{"text": piece, "index": 0}], "usage": None})
        if case.behaviour == "break":
            return
        case.count(tokens)
        if case.behaviour != "no-usage":
            self.event({"choices": [], "usage": {"completion_tokens": tokens, "prompt_tokens": 7}})
        self.wfile.write(b"data: [DONE]\n\n")

    def event(self, document: object) -> None:
        self.wfile.write(b"data: " + json.dumps(document).encode() + b"\n\n")
        self.wfile.flush()
