# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for a model hub: one repository from a directory, in the words that huggingface_hub 2.4 understands.

    hub.py DIRECTORY PORT [--break-after BYTES]

Large files (*.safetensors) are described by sha256, the others by git's digest of a blob. With --break-after the first
answers break off after so many bytes, as a bad line does; a request that continues with a range is served whole.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(ThreadingHTTPServer):
    """The hub with its repository, what it was asked, and how it misbehaves."""

    daemon_threads = True

    def __init__(self, directory: Path, port: int = 0, break_after: int = 0) -> None:
        """break_after: bytes after which an answer without a range breaks off; 0 for never."""
        super().__init__(("127.0.0.1", port), Handler)
        self.directory = directory
        self.break_after = break_after
        self.break_always = False
        self.lies_about: set[str] = set()
        self.asked: list[str] = []

    def files(self) -> list[Path]:
        """The files of the repository."""
        return sorted(path for path in self.directory.rglob("*") if path.is_file())

    def describe(self, path: Path) -> dict[str, Any]:
        """Name, size and digests of a file."""
        content = path.read_bytes()
        name = str(path.relative_to(self.directory))
        told = content + b"!" if name in self.lies_about else content
        about: dict[str, Any] = {
            "name": name,
            "size": len(content),
            "git": hashlib.sha1(b"blob %d\0" % len(content) + told).hexdigest(),
        }
        if name.endswith(".safetensors"):
            about["sha256"] = hashlib.sha256(told).hexdigest()
        return about


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Hub
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        """What a file is."""
        self.do_GET()

    def do_GET(self) -> None:
        """The revision, its tree, or a file."""
        self.server.asked.append(f"{self.command} {self.path} {self.headers.get('Range', '')}".strip())
        path = self.path.partition("?")[0]
        files = [self.server.describe(file) for file in self.server.files()]
        if re.match(r"/api/models/[^/]+/[^/]+/revision/", path):
            siblings = [
                {"rfilename": f["name"], "size": f["size"], "blobId": f["git"], **_lfs(f, "sha256")} for f in files
            ]
            self._json({"id": "some/model", "sha": COMMIT, "siblings": siblings})
        elif re.match(r"/api/models/[^/]+/[^/]+/tree/", path):
            self._json(
                [
                    {"type": "file", "path": f["name"], "size": f["size"], "oid": f["git"], **_lfs(f, "oid")}
                    for f in files
                ]
            )
        elif "/resolve/" in path:
            self._file(path.split("/resolve/", 1)[1].split("/", 1)[1], files)
        else:
            self.send_error(404)

    def _json(self, document: Any) -> None:
        content = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _file(self, name: str, files: list[dict[str, Any]]) -> None:
        about = next((file for file in files if file["name"] == name), None)
        if about is None:
            self.send_error(404)
            return
        content = (self.server.directory / name).read_bytes()
        begins = re.match(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(begins.group(1)) if begins else 0
        self.send_response(206 if begins else 200)
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("ETag", f'"{about.get("sha256", about["git"])}"')
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(len(content) - start))
        if begins:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.end_headers()
        if self.command == "GET":
            # A line that is down for good gives nothing to a request that goes on where the last one ended.
            limit = 0 if begins else self.server.break_after
            breaks = len(content) - start > limit and bool(self.server.break_always if begins else limit)
            self.wfile.write(content[start : start + limit if breaks else None])
            self.close_connection = bool(breaks) or self.close_connection

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing about single requests."""


def _lfs(about: dict[str, Any], key: str) -> dict[str, Any]:
    if "sha256" not in about:
        return {}
    return {"lfs": {key: about["sha256"], "size": about["size"], "pointerSize": 130}}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("port", type=int)
    parser.add_argument("--break-after", type=int, default=0)
    given = parser.parse_args()
    Hub(given.directory, given.port, given.break_after).serve_forever()
