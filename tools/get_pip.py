# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Installs pip into an environment from the wheel that lies beside this script.

ansible-test fetches a bootstrap script of this purpose from a host that is no package index. A copy of this file under
the name of the script in ansible-test's cache, with pip's wheel beside it, takes its place.
``get_pip.py --release`` prints which release of pip ansible-test wants.
"""

from __future__ import annotations

import importlib.util
import re
import runpy
import sys
from pathlib import Path


def wanted_release() -> str:
    """Return the release of pip that the installed ansible-test bootstraps with."""
    spec = importlib.util.find_spec("ansible_test")
    if spec is None or spec.origin is None:
        sys.exit("get_pip: there is no ansible_test here; run it with the Python of .venv")
    text = (Path(spec.origin).parent / "_internal/python_requirements.py").read_text(encoding="utf-8")
    match = re.search(r"pip='([\d.]+)'", text)
    if match is None:
        sys.exit("get_pip: this ansible-test names its release of pip in another way; correct wanted_release()")
    return match[1]


def install(arguments: list[str]) -> None:
    """Run the wheel's own pip to install itself, with pip's options among ``arguments``."""
    wheel = str(max(Path(__file__).resolve().parent.glob("pip-*.whl")))
    options = [word for word in arguments if not word.startswith(("pip", "--no-setuptools", "--no-wheel"))]
    sys.path.insert(0, wheel)
    sys.argv = ["pip", "install", wheel, *options]
    runpy.run_module("pip", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["--release"]:
        print(wanted_release())
    else:
        install(sys.argv[1:])
