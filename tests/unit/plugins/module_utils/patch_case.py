# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An environment with an installed engine, small enough for a test, and catalogue entries for it."""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from ansible_collections.blackwell.inference.plugins.module_utils._patch_entry import read_entries
from ansible_collections.blackwell.inference.plugins.modules.engine_patch import run

MODEL = """from .interfaces import SupportsLoRA


class Model(SupportsLoRA):
    # é
    def forward(self):
        return 1
"""
CONFIG = 'def verify(name):\n    supported = ["llama"]\n    return name in supported\n'
FILES = {
    "__init__.py": "raise RuntimeError('the engine was imported')\n",
    "models/model.py": MODEL,
    "config.py": CONFIG,
}


class Environment:
    """A virtual environment with one engine, and engine_patch for it."""

    def __init__(self, folder: Path, python: str = sys.executable) -> None:
        self.folder = folder
        self.state = folder / "state"
        self.prefix = folder / "env"
        self.python = self.prefix / "bin" / "python"
        self.python.parent.mkdir(parents=True)
        binary, library = _identify(python)
        self.python.symlink_to(binary)
        (self.prefix / "pyvenv.cfg").write_text(f"home = {binary.parent}\n")
        self.site = self.prefix / "lib" / library / "site-packages"
        self.site.mkdir(parents=True)

    def install(self, release: str = "1.2.0", files: dict[str, str] | None = None, **how: Any) -> None:
        """Install the engine as pip would, or (record=False) as an editable installation."""
        engine = how.get("engine", "engine")
        contents = {f"{engine}/{name}": text.encode() for name, text in {**FILES, **(files or {})}.items()}
        for name, content in contents.items():
            path = self.site / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            path.write_bytes(content)
        distribution = how.get("distribution", engine)
        for stale in self.site.glob(f"{distribution.replace('-', '_')}-*.dist-info"):
            shutil.rmtree(stale)
        info = self.site / f"{distribution.replace('-', '_')}-{release}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {release}\n")
        lines = [f"{name},sha256={_urlsafe(content)},{len(content)}" for name, content in contents.items()]
        (info / "RECORD").write_text("\n".join(lines if how.get("record", True) else []) + f"\n{info.name}/RECORD,,\n")

    def path(self, name: str = "models/model.py") -> Path:
        return self.site / "engine" / name

    def run(
        self, *entries: dict[str, Any], state: str = "applied", check: bool = False, exclusive: bool = False
    ) -> dict[str, Any]:
        params = {"python": str(self.python), "state_directory": str(self.state)}
        return run({**params, "state": state, "exclusive": exclusive}, read_entries(entries), check)

    def tree(self) -> dict[str, bytes]:
        """All that lies in the environment's site-packages and in the state directory."""
        roots = [self.site, self.state]
        return {str(path): path.read_bytes() for root in roots for path in sorted(root.rglob("*")) if path.is_file()}


def entry(name: str = "delegates", **changes: Any) -> dict[str, Any]:
    """A catalogue entry for two files of the engine."""
    return {
        "id": name,
        "engine": "engine",
        "why": "because",
        "releases": ">=1.0,<2.0",
        "verified": ">=0.5,<=3.0",
        "edits": [import_edit(), bases_edit(), list_edit()],
        "clears_when": "2.0 is the oldest",
        "evidence": [{"date": "2026-11-30", "where": "a test", "what": "it works"}],
        **changes,
    }


def import_edit(**changes: Any) -> dict[str, Any]:
    edit = {"kind": "extend_import", "file": "models/model.py", "module": ".interfaces", "names": ["SupportsEagle3"]}
    return {**edit, **changes}


def bases_edit(**changes: Any) -> dict[str, Any]:
    edit = {"kind": "extend_bases", "file": "models/model.py", "class": "Model", "names": ["SupportsEagle3"]}
    return {**edit, **changes}


def list_edit(**changes: Any) -> dict[str, Any]:
    edit = {"kind": "extend_list", "file": "config.py", "scope": "verify", "target": "supported", "items": ["kimi_k2"]}
    return {**edit, **changes}


def replace_edit(expression: str, replacement: str, **changes: Any) -> dict[str, Any]:
    edit = {"kind": "replace_expression", "file": "models/model.py", "scope": "Model.forward", "count": 1}
    return {**edit, "expression": expression, "replacement": replacement, **changes}


PATCHED_MODEL = MODEL.replace("import SupportsLoRA", "import SupportsLoRA, SupportsEagle3").replace(
    "Model(SupportsLoRA)", "Model(SupportsLoRA, SupportsEagle3)"
)
PATCHED_CONFIG = CONFIG.replace('["llama"]', '["llama", "kimi_k2"]')


def _identify(python: str) -> tuple[Path, str]:
    """The binary behind an interpreter's path (a virtual environment, a version manager's script), and its library."""
    code = "import os, sys; print(os.path.realpath(sys.executable)); print('python%d.%d' % sys.version_info[:2])"
    done = subprocess.run([python, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    binary, library = done.stdout.splitlines()
    return Path(binary), library


def _urlsafe(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
