# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Brings a revision of a model hub's repository onto the node, whole and proven; Python 3.8 and later.

    fetch_model.py check DIRECTORY
    fetch_model.py fetch DIRECTORY REPOSITORY REVISION ENDPOINT [IGNORED ...]

`check` needs no network and no packages: it is content (status 0) where a finished download lies with all its files,
and says what is missing (status 1) where not.

`fetch` runs as the service's user in the engine's environment, with that one's huggingface_hub (tried with 2.4). It
asks the hub what the revision holds, looks whether the disk has the room, downloads (files that were whole before
count, one that was not begins anew: that release keeps no parts), compares every file with the digest that the hub
names for it, and only then writes the list that `check` looks for. A file that is not what the hub says is removed, so
that the next try gets it anew. How far it is stands in DIRECTORY/.specdecode-progress. The token, if one is needed,
is the file `token` of $CREDENTIALS_DIRECTORY.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import os
import re
import shutil
import sys
import threading
from typing import Any, Iterator, NamedTuple

LIST = ".specdecode-model.json"
# What a download that was killed leaves: named at random, so that nothing would ever use it again.
PART = re.compile(r"\.[0-9a-f]{8}\.incomplete$")
PROGRESS = ".specdecode-progress"
RESERVE = 1024**3  # bytes that stay free beside the model
EVERY = 2.0  # seconds between two looks at the progress
GB = 10**9


class FetchError(Exception):
    """The model can't be had; the text says why, and what to do."""


class RemoteFile(NamedTuple):
    """A file of the revision as the hub describes it: large ones by sha256, the others by git's digest of a blob."""

    name: str
    size: int
    kind: str
    digest: str


def missing(directory: str) -> str:
    """What a finished download lacks, or ''."""
    try:
        with open(os.path.join(directory, LIST), encoding="utf-8") as file:
            sizes: dict[str, int] = json.load(file)["files"]
    except FileNotFoundError:
        return f"{directory} holds no finished download"
    for name, size in sizes.items():
        try:
            found = os.stat(os.path.join(directory, name)).st_size
        except FileNotFoundError:
            return f"{directory}/{name} is missing"
        if found != size:
            return f"{directory}/{name} has {found} bytes, not {size}"
    return ""


def wanted_files(siblings: list[Any], ignored: list[str]) -> list[RemoteFile]:
    """The files of a revision but the ignored ones; FetchError for a name that would lead out of the directory."""
    files = []
    for entry in siblings:
        name = entry.rfilename
        if name.startswith("/") or ".." in name.split("/"):
            raise FetchError(f"the hub names a file {name!r}, which would lie outside of the model's directory")
        if any(fnmatch.fnmatch(name, pattern) for pattern in ignored):
            continue
        lfs = entry.lfs
        sha256 = (lfs.get("sha256") if isinstance(lfs, dict) else lfs.sha256) if lfs else None
        kind, digest = ("sha256", sha256) if sha256 else ("git", entry.blob_id)
        files.append(RemoteFile(name, entry.size or 0, kind, digest))
    return files


def present_bytes(directory: str) -> int:
    """Bytes below a directory, of files that are whole and of those that are not yet."""
    return sum(_size(os.path.join(folder, name)) for folder, _folders, names in os.walk(directory) for name in names)


def _size(path: str) -> int:
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return 0  # renamed meanwhile
    return min(status.st_size, status.st_blocks * 512)


def remove_parts(directory: str) -> None:
    """Remove parts of files that an earlier try left; nobody else downloads into the directory."""
    for folder, _folders, names in os.walk(directory):
        for name in filter(PART.search, names):
            os.unlink(os.path.join(folder, name))


def check_room(directory: str, files: list[RemoteFile]) -> None:
    """FetchError when the disk can't hold what is still to come."""
    total = sum(file.size for file in files)
    needed = max(0, total - present_bytes(directory)) + RESERVE
    free = shutil.disk_usage(directory).free
    if free < needed:
        raise FetchError(
            f"{directory} needs {needed / GB:.1f} GB ({total / GB:.1f} GB in all), and {free / GB:.1f} GB are free. "
            "Make room, or name another place in inference_server_models_directory"
        )


def digest_of(path: str, kind: str) -> str:
    """The digest of a file in the way that the hub names it."""
    total = hashlib.sha256() if kind == "sha256" else hashlib.sha1(b"blob %d\0" % os.stat(path).st_size)
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 22), b""):
            total.update(block)
    return total.hexdigest()


def wrong_files(directory: str, files: list[RemoteFile], say: Any) -> Iterator[RemoteFile]:
    """The files whose content is not what the hub says."""
    for number, file in enumerate(files, 1):
        say(f"checking {number} of {len(files)}")
        path = os.path.join(directory, file.name)
        if not os.path.exists(path) or digest_of(path, file.kind) != file.digest:
            yield file


def write_text(directory: str, name: str, text: str) -> None:
    """Put a small file in place at once."""
    fresh = os.path.join(directory, f"{name}.new")
    with open(fresh, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(fresh, os.path.join(directory, name))


class Progress:
    """Says how far it is: in words, and while a download runs by the bytes on the disk."""

    def __init__(self, directory: str, total: int) -> None:
        """total: bytes of the whole model."""
        self.directory, self.total = directory, total
        self._stop = threading.Event()

    def say(self, text: str) -> None:
        """Write a text down."""
        write_text(self.directory, PROGRESS, text + "\n")

    def __enter__(self) -> Progress:
        """Begin to look at the bytes on the disk."""
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_about: object) -> None:
        """Look no more."""
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while True:
            have = min(present_bytes(self.directory), self.total)
            self.say(f"downloaded {have / GB:.2f} of {self.total / GB:.2f} GB")
            if self._stop.wait(EVERY):
                return


def fetch(directory: str, repository: str, revision: str, endpoint: str, ignored: list[str]) -> None:
    """Bring the revision into the directory; FetchError."""
    from huggingface_hub import HfApi, snapshot_download  # noqa: PLC0415  # `check` does without it

    token = read_token()
    info = HfApi(endpoint=endpoint, token=token).model_info(repository, revision=revision, files_metadata=True)
    files = wanted_files(info.siblings or [], ignored)
    if not files:
        raise FetchError(f"{repository} at {revision} holds no file; look at {endpoint}/{repository}/tree/{revision}")
    remove_parts(directory)
    check_room(directory, files)
    with Progress(directory, sum(file.size for file in files)) as progress:
        snapshot_download(
            repository,
            revision=info.sha,
            local_dir=directory,
            endpoint=endpoint,
            token=token,
            ignore_patterns=ignored or None,
        )
    wrong = list(wrong_files(directory, files, progress.say))
    for file in wrong:
        if os.path.exists(os.path.join(directory, file.name)):
            os.unlink(os.path.join(directory, file.name))
    if wrong:
        names = ", ".join(file.name for file in wrong)
        raise FetchError(f"{names}: the content is not what {endpoint} says. It was removed; run again to get it anew")
    about = {"repository": repository, "revision": revision, "commit": info.sha}
    write_text(directory, LIST, json.dumps({**about, "files": {file.name: file.size for file in files}}, indent=1))
    progress.say("complete")


def read_token() -> str | bool:
    """The token that systemd handed over, or False: then none is sent, whatever lies in a home directory."""
    path = os.path.join(os.environ.get("CREDENTIALS_DIRECTORY", ""), "token")
    if not os.path.isfile(path):
        return False
    with open(path, encoding="utf-8") as file:
        return file.read().strip() or False


def main(arguments: list[str]) -> int:
    """Check or fetch."""
    if arguments[:1] == ["check"] and len(arguments) == 2:
        lacking = missing(arguments[1])
        print(lacking or "complete")
        return 1 if lacking else 0
    if arguments[:1] != ["fetch"] or len(arguments) < 5:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        fetch(arguments[1], arguments[2], arguments[3], arguments[4], arguments[5:])
    except Exception as error:  # whatever the hub's library raises, its words are what helps
        print(f"ERROR fetch_model: {type(error).__name__}: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
