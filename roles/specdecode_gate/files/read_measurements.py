# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prints the measurements of a file, one a line; Python 3.8 and later, standard library.

    read_measurements.py FILE

A line that is no whole measurement, as after a crash while it was written, is passed over, and told on standard error.
No file: no measurement.
"""

from __future__ import annotations

import json
import sys


def is_measurement(line: bytes) -> bool:
    """Whether a line is JSON that says what was measured, and how."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(entry, dict) and {"digest", "method"} <= entry.keys()


def main(arguments: list[str]) -> int:
    """Print them."""
    try:
        with open(arguments[0], "rb") as file:
            lines = file.read().split(b"\n")
    except FileNotFoundError:
        return 0
    except OSError as error:
        print(f"read_measurements: {error}", file=sys.stderr)
        return 1
    for number, line in enumerate(lines, 1):
        if is_measurement(line):
            sys.stdout.buffer.write(line + b"\n")
        elif line:
            print(f"{arguments[0]}: line {number} is no whole measurement, and is passed over", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
