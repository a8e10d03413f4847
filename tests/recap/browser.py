# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A headless Chromium that shows one page at a time, driven by its DevTools protocol over a pipe.

The pipe needs nothing but the standard library, and no port that another could connect to.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
# Python that becomes another program, with the first two arguments as its descriptors 3 and 4.
START = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
# What is reported of a page that is not as it should be.
COMPLAINTS = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded", "Page.javascriptDialogOpening")


def find() -> str | None:
    """The browser on this machine: what CHROMIUM names, or one that is on the path."""
    names = [os.environ.get("CHROMIUM"), "chromium", "chromium-browser", "google-chrome"]
    return next((found for name in names if name and (found := shutil.which(name))), None)


class Browser:
    """The process, and the one page in it. Use it as a context."""

    def __init__(self, program: str) -> None:
        self.profile = tempfile.mkdtemp(prefix="recap-browser-")
        # Chromium reads commands from descriptor 3 and answers on 4; high ones are not in the way of the two.
        read_there, write_here = (_high(end) for end in os.pipe())
        read_here, write_there = (_high(end) for end in os.pipe())
        shim = [sys.executable, "-c", START, str(read_there), str(write_there)]
        command = [*shim, program, *FLAGS, f"--user-data-dir={self.profile}", "about:blank"]
        self.process = subprocess.Popen(
            command, pass_fds=(read_there, write_there), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(read_there)
        os.close(write_there)
        self.read, self.write = read_here, write_here
        self.buffer = b""
        self.number = 0
        self.session: str | None = None
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Browser:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(self, *_error: object) -> None:
        with contextlib.suppress(OSError, TimeoutError):
            self.session = None
            self.call("Browser.close")
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.read)
        os.close(self.write)
        shutil.rmtree(self.profile, ignore_errors=True)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Have the browser do something, and wait for its answer."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        answer = self._until(lambda got: got.get("id") == self.number)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer.get("result", {})

    def open(self, path: Path, width: int, scheme: str = "light", media: str = "", height: int = 900) -> None:
        """Show a file in a window of that width, to somebody who prefers that colour scheme."""
        self.events.clear()
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call(
            "Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": scheme}]
        )
        self.call("Page.navigate", url=path.resolve().as_uri())
        self._until(lambda got: got.get("method") == "Page.loadEventFired")
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def evaluate(self, expression: str) -> Any:
        """The value of an expression of the page's."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"])
        return result["result"].get("value")

    def complaints(self) -> list[str]:
        """Messages of the console, exceptions, dialogs, and requests for anything but the page itself."""
        found = [json.dumps(event["params"]) for event in self.events if event.get("method") in COMPLAINTS]
        for event in self.events:
            if event.get("method") == "Network.requestWillBeSent":
                url = event["params"]["request"]["url"]
                if not url.startswith(("file:", "data:")):
                    found.append(f"asked for {url}")
        return found

    def picture(self, path: Path, clip: tuple[float, float, float, float] | None = None, scale: float = 1) -> None:
        """Write the whole page as a PNG, or x, y, width and height of it."""
        x, y, width, height = clip or (0, 0, *self.size())
        area = {"x": x, "y": y, "width": width, "height": height, "scale": scale}
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=area)
        path.write_bytes(base64.b64decode(shot["data"]))

    def size(self) -> tuple[float, float]:
        """Width and height of the page with what would have to be scrolled to."""
        width, height = self.evaluate("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
        return width, height

    def pdf(self) -> bytes:
        """The page as it would be printed."""
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])

    def _until(self, wanted: Any, seconds: float = 120) -> dict[str, Any]:
        end = time.monotonic() + seconds
        while True:
            head, separator, rest = self.buffer.partition(b"\0")
            if separator:
                self.buffer = rest
                message: dict[str, Any] = json.loads(head)
                self.events.append(message)
                if wanted(message):
                    return message
                continue
            if not select.select([self.read], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError(f"no answer from the browser within {seconds} s")
            chunk = os.read(self.read, 1 << 16)
            if not chunk:
                raise OSError(f"the browser ended with status {self.process.wait()}")
            self.buffer += chunk


def _high(descriptor: int) -> int:
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(descriptor)
    return moved
