# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the stand-in engine as a wheel, and put such a wheel into an environment that has no pip.

wheel.py build RELEASE FOLDER        prints the wheel's path; the same input gives the same bytes
wheel.py install WHEEL ENVIRONMENT   on the node; nothing happens where exactly this wheel is installed
"""

from __future__ import annotations

import base64
import hashlib
import shutil
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SCRIPT = """#!{python}
import sys

from vllm.command import main

sys.exit(main())
"""


def build(release: str, folder: str) -> Path:
    """Write vllm-RELEASE-py3-none-any.whl into the folder."""
    about = f"vllm-{release}.dist-info"
    files: dict[str, bytes] = {f"vllm/{path.name}": path.read_bytes() for path in sorted(HERE.glob("vllm/*.py"))}
    files[f"{about}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: vllm\nVersion: {release}\nSummary: A stand-in for tests, not the engine\n"
    ).encode()
    files[f"{about}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: standin\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[f"{about}/entry_points.txt"] = b"[console_scripts]\nvllm = vllm.command:main\n"
    lines = [f"{name},sha256={digest(content)},{len(content)}" for name, content in files.items()]
    files[f"{about}/RECORD"] = "\n".join([*lines, f"{about}/RECORD,,", ""]).encode()
    target = Path(folder) / f"vllm-{release}-py3-none-any.whl"
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, content in files.items():
            wheel.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), content, zipfile.ZIP_DEFLATED)
    return target


def digest(content: bytes) -> str:
    """A digest as RECORD writes it."""
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")


def install(wheel_path: str, environment: str) -> bool:
    """Unpack the wheel, and write the command. False when it is there already."""
    packages = next(Path(environment).glob("lib/python3*/site-packages"))
    stamp = packages / "vllm.wheel"
    fingerprint = digest(Path(wheel_path).read_bytes())
    if stamp.exists() and stamp.read_text() == fingerprint:
        return False
    for old in [packages / "vllm", *packages.glob("vllm-*.dist-info")]:
        shutil.rmtree(old, ignore_errors=True)
    with zipfile.ZipFile(wheel_path) as wheel:
        wheel.extractall(packages)
    script = Path(environment) / "bin/vllm"
    script.write_text(SCRIPT.format(python=f"{environment}/bin/python"))
    script.chmod(0o755)
    stamp.write_text(fingerprint)
    return True


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in ("build", "install"):
        sys.exit(__doc__)
    if sys.argv[1] == "build":
        print(build(sys.argv[2], sys.argv[3]))
    else:
        print("installed" if install(sys.argv[2], sys.argv[3]) else "present")
