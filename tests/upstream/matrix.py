# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The matrix of releases and patches, as text and as a page of the documentation."""

from __future__ import annotations

from ansible_collections.blackwell.inference.tests.upstream.engines import Release

Cells = dict[tuple[Release, str], str]
_SIGNS = {"applied": "applied", "upstream": "upstream", "not_applicable": "-", "unsupported": "", "drifted": "DRIFTED"}
_INTRODUCTION = """# Patches and engine releases

Made by `make test-upstream` from the engines' own wheels; do not edit. For every release below, each patch was planned,
applied, compiled, applied again without a change, and reverted to the wheel's bytes.

- **applied**: the release needs the patch, and it fits.
- **upstream**: the release has it.
- **-**: the release neither needs it nor has a place for it; the module says why.
- empty: not tried on that release; the module refuses it as unsupported.
"""


def as_text(cells: Cells) -> str:
    """One line for each patch of an engine and each stretch of releases on which it is the same."""
    lines = []
    for engine in _engines(cells):
        for patch in _patches(cells, engine):
            stretches = "; ".join(
                _stretches([(release.number, cells[release, patch]) for release in _releases(cells, engine)])
            )
            lines.append(f"{engine}  {patch}: {stretches}\n")
    return "".join(lines)


def _stretches(row: list[tuple[str, str]]) -> list[str]:
    stretches: list[list[str]] = []
    for number, status in row:
        if stretches and stretches[-1][0] == status:
            stretches[-1][2] = number
        else:
            stretches.append([status, number, number])
    return [
        f"{first} {status}" if first == last else f"{first} to {last} {status}" for status, first, last in stretches
    ]


def as_markdown(cells: Cells) -> str:
    """A table for each engine."""
    parts = [_INTRODUCTION]
    for engine in _engines(cells):
        patches = _patches(cells, engine)
        head = f"\n## {engine}\n\n| release | " + " | ".join(patches) + " |\n|---"
        rows = "".join(
            f"| {release.number} | " + " | ".join(_SIGNS[cells[release, patch]] for patch in patches) + " |\n"
            for release in _releases(cells, engine)
        )
        parts.append(head + "|---" * len(patches) + "|\n" + rows)
    return "".join(parts)


def _engines(cells: Cells) -> list[str]:
    return list(dict.fromkeys(release.engine for release, dummy in cells))


def _releases(cells: Cells, engine: str) -> list[Release]:
    return list(dict.fromkeys(release for release, dummy in cells if release.engine == engine))


def _patches(cells: Cells, engine: str) -> list[str]:
    return list(dict.fromkeys(patch for release, patch in cells if release.engine == engine))
