# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command `vllm`: `vllm serve MODEL ...`, and its help."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

from vllm.behaviour import Behaviour, read_behaviour
from vllm.server import Server

# Options of vLLM 0.32.0. Those without a use here are taken and ignored, as far as anybody may give them.
WITH_VALUE = """
    served-model-name revision host port tensor-parallel-size max-model-len max-num-seqs gpu-memory-utilization
    dtype config speculative-config seed block-size swap-space quantization tokenizer tokenizer-mode load-format
    download-dir kv-cache-dtype max-num-batched-tokens pipeline-parallel-size data-parallel-size root-path api-key
    uvicorn-log-level chat-template response-role tool-call-parser reasoning-parser compilation-config
    optimization-level attention-backend distributed-executor-backend cpu-offload-gb hf-overrides
    limit-mm-per-prompt generation-config scheduling-policy max-logprobs code-revision
"""
FLAGS = "trust-remote-code enforce-eager enable-prefix-caching enable-chunked-prefill enable-auto-tool-choice"
SHARDS = 4


def main() -> None:
    """Serve until a signal ends it, or what it was told to do."""
    settings = read_arguments(sys.argv[1:])
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    say(f"vLLM API server version {settings.release} (the stand-in, not the engine)")
    behaviour = read_behaviour()
    server = Server((settings.host, settings.port), settings, behaviour)
    load(behaviour)
    workers = [start_worker() for _number in range(behaviour.workers)]
    stopping = threading.Event()
    threading.Thread(target=watch, args=(workers, stopping), daemon=True).start()
    server.server_activate()
    say("Application startup complete.")
    try:
        server.serve_forever()
    finally:
        stopping.set()
        stop(workers, behaviour)


def read_arguments(arguments: list[str]) -> Any:
    """The arguments, refused as argparse refuses them."""
    parser = argparse.ArgumentParser(prog="vllm serve", add_help=False)
    parser.add_argument("command", choices=["serve"])
    parser.add_argument("model", nargs="?", default="")
    parser.add_argument("--help", nargs="?", const="all")
    for name in WITH_VALUE.split():
        parser.add_argument("--" + name)
    for name in FLAGS.split():
        parser.add_argument("--" + name, action="store_true")
    settings = parser.parse_args(arguments)
    if settings.help:
        parser.print_help()
        sys.exit(0)
    settings.host = settings.host or "0.0.0.0"
    settings.port = int(settings.port or 8000)
    settings.max_model_len = int(settings.max_model_len or 32768)
    settings.name = settings.served_model_name or settings.model
    settings.release = importlib.metadata.version("vllm")
    return settings


def load(behaviour: Behaviour) -> None:
    """The phases of a start, in the words of the engine's log."""
    if behaviour.crash_at_start:
        raise RuntimeError(behaviour.crash_at_start)
    pause = behaviour.start_seconds / (SHARDS + 2)
    for shard in range(SHARDS + 1):
        print(
            f"Loading safetensors checkpoint shards: {shard * 100 // SHARDS:3}% Completed | {shard}/{SHARDS}",
            flush=True,
        )
        time.sleep(pause)
    print("Capturing CUDA graphs (decode, FULL): 100%|##########| 2/2 [00:00<00:00]", flush=True)
    time.sleep(pause)


def start_worker() -> subprocess.Popen[bytes]:
    """A worker that is ready; RuntimeError when it is not."""
    worker = subprocess.Popen([sys.executable, "-m", "vllm.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert worker.stdout is not None
    if worker.stdout.readline() != b"ready\n":
        raise RuntimeError(f"Engine core initialization failed. Worker ended with {worker.wait()}")
    return worker


def watch(workers: list[subprocess.Popen[bytes]], stopping: threading.Event) -> None:
    """End the server when a worker dies before it is told to stop."""
    while all(worker.poll() is None for worker in workers):
        time.sleep(0.1)
    if not stopping.is_set():
        print("ERROR vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.", flush=True)
        os._exit(0)  # as vLLM 0.32.0 does: it stops serving, and that went well


def stop(workers: list[subprocess.Popen[bytes]], behaviour: Behaviour) -> None:
    """Let the workers tidy up; those that are told to survive go on."""
    if behaviour.workers_survive:
        return
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write(b"x")
        worker.stdin.close()
    for worker in workers:
        worker.wait(10)


def say(text: str) -> None:
    """A line as the engine logs it."""
    print(f"(APIServer pid={os.getpid()}) INFO {time.strftime('%m-%d %H:%M:%S')} [api_server.py:1] {text}", flush=True)
