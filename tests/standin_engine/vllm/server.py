# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The endpoints of an OpenAI-compatible server, as far as the collection asks them."""

from __future__ import annotations

import json
import os
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from vllm.behaviour import Behaviour
from vllm.text import BYTES_PER_TOKEN, Writer


class Server(ThreadingHTTPServer):
    """The server with what its requests need. The port is taken at once, connections only after `server_activate`."""

    daemon_threads = True

    def __init__(self, address: Any, settings: Any, behaviour: Behaviour) -> None:
        """settings: the parsed arguments of the command."""
        self.settings = settings
        self.behaviour = behaviour
        self.writer = Writer(behaviour, speculates=bool(settings.speculative_config))
        self.key = os.environ.get("VLLM_API_KEY", "")
        super().__init__(address, Handler, bind_and_activate=False)
        self.server_bind()


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Health, model, counters."""
        settings = self.server.settings
        model = {"id": settings.name, "object": "model", "max_model_len": settings.max_model_len}
        pages = {
            "/version": {"version": settings.release},
            "/v1/models": {"object": "list", "data": [model]},
        }
        if self.path == "/health":
            self._answer(200, b"", "text/plain")
        elif self.path == "/metrics":
            self._answer(200, self.server.writer.metrics().encode(), "text/plain")
        elif self.path in pages and self._may(self.path):
            self._json(200, pages[self.path])
        elif self.path not in pages:
            self._json(404, {"detail": "Not Found"})

    def do_POST(self) -> None:
        """A completion, whole or streamed; the tokens of a text."""
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        prompt = str(body.get("prompt", ""))
        tokens = max(1, len(prompt.encode()) // BYTES_PER_TOKEN)
        if self.path == "/tokenize":
            self._json(200, {"count": tokens, "max_model_len": self.server.settings.max_model_len})
        elif self.path != "/v1/completions":
            self._json(404, {"detail": "Not Found"})
        elif self._may(self.path) and self._fits(tokens, int(body.get("max_tokens", 16))):
            self._misbehave(prompt)
            self._complete(prompt, tokens, int(body.get("max_tokens", 16)), bool(body.get("stream")))

    def _may(self, path: str) -> bool:
        """Whether the client showed the key, where one is set and the path asks for it."""
        key = self.server.key
        if not key or not path.startswith("/v1") or self.headers.get("Authorization") == "Bearer " + key:
            return True
        self._json(401, {"error": "Unauthorized"})
        return False

    def _fits(self, tokens: int, wanted: int) -> bool:
        limit = self.server.settings.max_model_len
        if tokens + wanted <= limit:
            return True
        message = f"This model's maximum context length is {limit} tokens. However, you requested {tokens + wanted}."
        self._json(400, {"error": {"message": message, "type": "BadRequestError", "code": 400}})
        return False

    def _misbehave(self, prompt: str) -> None:
        """Do what the server is told to do instead of answering."""
        told = self.server.behaviour
        if told.crash_on_prompt_bytes and len(prompt.encode()) >= told.crash_on_prompt_bytes:
            # The words of Triton on sm_120, whose blocks have 101,376 bytes of shared memory.
            print(
                "ERROR triton.runtime.errors.OutOfResources: out of resource: shared memory, "
                "Required: 131072, Hardware limit: 101376",
                flush=True,
            )
            os._exit(1)
        while told.hang:
            time.sleep(3600)

    def _complete(self, prompt: str, tokens: int, wanted: int, stream: bool) -> None:
        garbage = {"html": b"<html>502 Bad Gateway</html>", "empty": b'{"choices": [{"text": ""}]}'}
        if self.server.behaviour.garbage:
            self._answer(200, garbage[self.server.behaviour.garbage], "application/json")
            return
        usage = {"prompt_tokens": tokens, "completion_tokens": wanted, "total_tokens": tokens + wanted}
        if stream:
            self._stream(prompt, wanted, usage)
            return
        words: list[str] = []
        for step, seconds in self.server.writer.words(prompt, wanted):
            time.sleep(seconds)
            words += step
        choice = {"index": 0, "text": "".join(words), "finish_reason": "length"}
        self._json(
            200, {"object": "text_completion", "model": self.server.settings.name, "choices": [choice], "usage": usage}
        )

    def _stream(self, prompt: str, wanted: int, usage: dict[str, int]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        for step, seconds in self.server.writer.words(prompt, wanted):
            time.sleep(seconds)
            self._event({"choices": [{"index": 0, "text": "".join(step), "finish_reason": None}]})
        self._event({"choices": [], "usage": usage})
        self.wfile.write(b"data: [DONE]\n\n")

    def _event(self, event: dict[str, Any]) -> None:
        self.wfile.write(b"data: " + json.dumps(event).encode() + b"\n\n")
        self.wfile.flush()

    def _json(self, status: int, document: Any) -> None:
        self._answer(status, json.dumps(document).encode(), "application/json")

    def _answer(self, status: int, content: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing about single requests."""
