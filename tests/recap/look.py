# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Take pictures of a recap, to be looked at: `python tests/recap/look.py recap.html DIRECTORY`.

`guide.png` shows the page down to the charts of the first node; docs/images/recap.png is that of `nodes.fleet()`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import browser

WIDTHS = (360, 800, 1400)
GUIDE_WIDTH = 1120
END_OF_CHARTS = "document.querySelector('.figures').getBoundingClientRect().bottom + 6"


def main() -> None:
    page, directory = Path(sys.argv[1]), Path(sys.argv[2])
    directory.mkdir(parents=True, exist_ok=True)
    program = browser.find()
    if program is None:
        sys.exit("look: there is no Chromium here; install it, or name one: CHROMIUM=/path/to/chromium")
    with browser.Browser(program) as shown:
        for scheme in ("light", "dark"):
            for width in WIDTHS:
                shown.open(page, width, scheme)
                shown.picture(directory / f"{page.stem}-{width}-{scheme}.png")
        shown.open(page, GUIDE_WIDTH)
        end = shown.evaluate(END_OF_CHARTS)
        shown.picture(directory / "guide.png", (0, 0, GUIDE_WIDTH, end), scale=1.5)
        (directory / f"{page.stem}.pdf").write_bytes(shown.pdf())


if __name__ == "__main__":
    main()
