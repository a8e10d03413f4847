# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small client of an OpenAI-compatible server: one request, bounded in time and size, that answers with a result.

Whatever the server does (refuse, hang, break off, talk nonsense) becomes an EndpointError with its kind.
"""

from __future__ import annotations

import http.client
import json
import re
import socket
import ssl
import time
from typing import Any, NamedTuple
from urllib.parse import urlsplit

MAX_ANSWER_BYTES = 64 * 1024 * 1024
MAX_MESSAGE = 300
TOO_LONG = re.compile(r"context length|max_model_len|maximum model length|longer than the model", re.IGNORECASE)


class EndpointError(Exception):
    """A request without a useful answer.

    Kinds: `connection` (nobody listens, or it broke off), `timeout`, `http` (status other than 200), `too_long` (the
    prompt does not fit the model), `garbage` (an answer that is not what the protocol says).
    """

    def __init__(self, kind: str, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = " ".join(message.split())[:MAX_MESSAGE]
        self.status = status


class Endpoint(NamedTuple):
    """Where a server answers, and the key it wants ('' for none). Never printed: repr hides the key."""

    scheme: str
    host: str
    port: int
    base: str
    key: str = ""

    def __repr__(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}{self.base}"


class Streamed(NamedTuple):
    """A streamed completion. Times are seconds since the request was sent."""

    text: str
    tokens: int
    prompt_tokens: int
    seconds: float
    first_token: float


def parse_url(url: str, key: str = "") -> Endpoint:
    """The endpoint of a base address such as http://127.0.0.1:8000; raises ValueError when it is none."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"{url!r} is no address of a server; give one such as http://127.0.0.1:8000")
    if parts.username or parts.password:
        raise ValueError("the address holds a user name or password; put a key into a file and name that")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    base = parts.path.rstrip("/")
    return Endpoint(parts.scheme, parts.hostname, port, base[:-3] if base.endswith("/v1") else base, key)


KEY_VARIABLES = ("VLLM_API_KEY", "SPECDECODE_API_KEY")


def read_key(path: str) -> str:
    """The API key in a file: the file's only word, or the value of a line `..._API_KEY=value` (an environment file).

    The variables that the role inference_server writes come first: a file may hold keys for other things as well.
    Raises ValueError when there is neither, OSError when the file cannot be read.
    """
    with open(path, encoding="utf-8") as file:
        lines = [line.strip() for line in file if line.strip() and not line.startswith("#")]
    pairs = [line.partition("=")[::2] for line in lines if re.match(r"[A-Z_]*API_KEY\s*=", line)]
    if pairs:
        return _unquoted(min(pairs, key=lambda pair: pair[0].strip() not in KEY_VARIABLES)[1].strip())
    if len(lines) == 1 and " " not in lines[0]:
        return lines[0]
    raise ValueError(f"{path} holds no API key: neither one word nor a line that sets ..._API_KEY")


def _unquoted(value: str) -> str:
    """A value of an environment file as systemd reads it: in double quotes a backslash protects what follows."""
    if len(value) > 1 and value[0] == value[-1] == '"':
        return re.sub(r"\\(.)", r"\1", value[1:-1])
    return value.strip("'")


def get(endpoint: Endpoint, path: str, timeout: float) -> str:
    """The text at a path; raises EndpointError."""
    return _exchange(endpoint, "GET", path, None, timeout).decode("utf-8", "replace")


def get_json(endpoint: Endpoint, path: str, timeout: float) -> Any:
    """The JSON document at a path; raises EndpointError."""
    return _json(_exchange(endpoint, "GET", path, None, timeout))


def post_json(endpoint: Endpoint, path: str, body: dict[str, Any], timeout: float) -> Any:
    """The JSON answer to a JSON request; raises EndpointError."""
    return _json(_exchange(endpoint, "POST", path, body, timeout))


def stream_completion(endpoint: Endpoint, body: dict[str, Any], timeout: float) -> Streamed:
    """Send a completion request and read its stream of events to the end; raises EndpointError."""
    started = time.monotonic()
    deadline = started + timeout
    request = {**body, "stream": True, "stream_options": {"include_usage": True}}
    connection = _connect(endpoint, timeout)
    try:
        response, sock = _send(connection, endpoint, "POST", "/v1/completions", request)
        return _read_stream(response, sock, started, deadline)
    except (OSError, http.client.HTTPException) as error:
        raise _failure(error) from error
    finally:
        connection.close()


def _connect(endpoint: Endpoint, timeout: float) -> http.client.HTTPConnection:
    if endpoint.scheme == "https":
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(endpoint.host, endpoint.port, timeout=timeout, context=context)
    return http.client.HTTPConnection(endpoint.host, endpoint.port, timeout=timeout)


def _send(
    connection: http.client.HTTPConnection, endpoint: Endpoint, method: str, path: str, body: dict[str, Any] | None
) -> tuple[http.client.HTTPResponse, socket.socket]:
    headers = {"Content-Type": "application/json"}
    if endpoint.key:
        headers["Authorization"] = "Bearer " + endpoint.key
    data = json.dumps(body).encode() if body is not None else None
    connection.connect()
    sock = connection.sock  # kept, because the connection gives it up when the answer ends with the connection
    connection.request(method, endpoint.base + path, data, headers)
    response = connection.getresponse()
    if response.status != 200:
        raise _refusal(response)
    return response, sock


def _exchange(endpoint: Endpoint, method: str, path: str, body: dict[str, Any] | None, timeout: float) -> bytes:
    deadline = time.monotonic() + timeout
    connection = _connect(endpoint, timeout)
    try:
        response, sock = _send(connection, endpoint, method, path, body)
        parts: list[bytes] = []
        size = 0
        while True:
            _limit(sock, deadline)
            part = response.read1(1 << 16)
            if not part:
                return b"".join(parts)
            parts.append(part)
            size += len(part)
            if size > MAX_ANSWER_BYTES:
                raise EndpointError("garbage", f"the answer to {path} exceeds {MAX_ANSWER_BYTES} bytes")
    except (OSError, http.client.HTTPException) as error:
        raise _failure(error) from error
    finally:
        connection.close()


def _limit(sock: socket.socket, deadline: float) -> None:
    """Let no single read last longer than what is left of the request's time."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise socket.timeout("timed out")
    sock.settimeout(left)


def _refusal(response: http.client.HTTPResponse) -> EndpointError:
    text = response.read(1 << 16).decode("utf-8", "replace")
    try:
        document = json.loads(text)
        error = document.get("error", document)
        text = str(error.get("message", error) if isinstance(error, dict) else error)
    except (ValueError, AttributeError):
        pass
    kind = "too_long" if response.status in (400, 413, 422) and TOO_LONG.search(text) else "http"
    return EndpointError(kind, text or response.reason, response.status)


def _failure(error: Exception) -> EndpointError:
    if isinstance(error, (socket.timeout, TimeoutError)):
        return EndpointError("timeout", "no answer within the time allowed")
    return EndpointError("connection", f"{type(error).__name__}: {error}")


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError as error:
        raise EndpointError("garbage", f"the answer is not JSON: {data[:80]!r}") from error


def _read_stream(response: http.client.HTTPResponse, sock: socket.socket, started: float, deadline: float) -> Streamed:
    text: list[str] = []
    first, last, size, events = 0.0, 0.0, 0, 0
    usage: dict[str, Any] = {}
    while True:
        _limit(sock, deadline)
        line = response.readline(1 << 20)
        size += len(line)
        if not line or size > MAX_ANSWER_BYTES:
            kind = "connection" if events else "garbage"
            raise EndpointError(kind, f"the stream ended before it was complete, after {events} events")
        if not line.startswith(b"data:"):
            continue
        events += 1
        if line[5:].strip() == b"[DONE]":
            break
        piece, usage_here = _event(_json(line[5:]))
        usage = usage_here or usage
        if piece:
            last = time.monotonic() - started
            first = first or last
            text.append(piece)
    return _streamed("".join(text), usage, first, last)


def _event(event: Any) -> tuple[str, dict[str, Any]]:
    """Text and usage of one event of the stream."""
    if not isinstance(event, dict):
        raise EndpointError("garbage", f"an event of the stream is {type(event).__name__}, not an object")
    if event.get("error"):
        error = event["error"]
        message = str(error.get("message", error) if isinstance(error, dict) else error)
        raise EndpointError("too_long" if TOO_LONG.search(message) else "http", message)
    choices = event.get("choices") or [{}]
    usage = event.get("usage") or {}
    if not isinstance(choices, list) or not isinstance(choices[0], dict) or not isinstance(usage, dict):
        raise EndpointError("garbage", "an event of the stream has another shape than a completion's")
    return str(choices[0].get("text") or ""), usage


def _streamed(text: str, usage: dict[str, Any], first: float, last: float) -> Streamed:
    tokens, prompt_tokens = usage.get("completion_tokens"), usage.get("prompt_tokens", 0)
    if not isinstance(tokens, int) or not isinstance(prompt_tokens, int):
        raise EndpointError("garbage", "the stream ended without saying how many tokens it had")
    if tokens < 1 or not text:
        raise EndpointError("garbage", "the completion is empty")
    return Streamed(text, tokens, prompt_tokens, last, first)
