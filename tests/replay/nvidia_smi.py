# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program that takes the place of nvidia-smi in an unpacked recording: it repeats what was recorded.

It never invents an answer. Arguments that were not recorded end with status 97 and a message. Each call is noted, one
JSON list of arguments a line, in the file `calls` beside it, so that a test can tell how often it was asked.
"""

from __future__ import annotations

import json
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
FOREVER = 3600


def main(arguments: list[str]) -> int:
    """Repeat the recorded answer to these arguments, and return its exit status."""
    with open(os.path.join(HERE, "calls"), "a", encoding="utf-8") as calls:
        calls.write(json.dumps(arguments) + "\n")
    with open(os.path.join(HERE, "answers.json"), encoding="utf-8") as file:
        answers = json.load(file)
    for answer in answers:
        if answer["arguments"] == arguments:
            if answer.get("hangs"):
                time.sleep(FOREVER)
            sys.stdout.write(answer["output"])
            sys.stderr.write(answer.get("errors", ""))
            return int(answer["status"])
    sys.stderr.write(f"nvidia-smi of a recording: {arguments} was not recorded\n")
    return 97


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
