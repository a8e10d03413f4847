# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Releases and specifiers: the same answers as `packaging`, which nodes don't have."""

from __future__ import annotations

import pytest
from ansible_collections.blackwell.inference.plugins.module_utils._patch_release import matches, parse_release
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet
from packaging.version import Version

RELEASES = [
    "0.5", "0.5.0", "0.5.5", "0.5.5.post1", "0.5.5.post2", "0.5.6", "0.5.9", "0.5.10rc0", "0.5.10", "0.5.10.post1",
    "0.5.13.dev3", "0.5.13rc1", "0.5.13", "0.11.0.post2", "0.16.0", "0.16.0rc2.dev5", "0.17.0.dev1", "0.17.0", "0.17.1",
    "1.0", "1!0.5", "0.5.9+cu130", "0.32.0+cpu", "0.16.1.post1.dev2", "1.0a1", "1.0b2", "1.0.0.0",
]  # fmt: skip
KNOWN = [release for release in RELEASES if "!" not in release]
OPERATORS = ["==", "!=", ">=", "<=", ">", "<"]
releases = st.sampled_from(KNOWN)


@given(releases, releases)
def test_releases_are_ordered_as_pep_440_says(left: str, right: str) -> None:
    ours = (parse_release(left).key, parse_release(right).key)
    theirs = tuple(Version(Version(release).public) for release in (left, right))
    assert (ours[0] < ours[1], ours[0] == ours[1]) == (theirs[0] < theirs[1], theirs[0] == theirs[1])


@given(releases, st.lists(st.tuples(st.sampled_from(OPERATORS), releases), min_size=1, max_size=3))
def test_specifiers_mean_what_they_mean_to_packaging(release: str, clauses: list[tuple[str, str]]) -> None:
    specifier = ",".join(operator + Version(bound).public for operator, bound in clauses)
    # A preview counts only where the specifier names one; older and newer versions of packaging differ in this.
    previews = any(Version(bound).is_prerelease for dummy, bound in clauses)
    assert matches(release, [specifier]) == SpecifierSet(specifier).contains(Version(release).public, previews)


@given(releases, st.sampled_from(["==", "!="]), st.sampled_from(["0", "0.5", "0.5.10", "1.0", "0.16.0"]))
def test_prefixes_mean_what_they_mean_to_packaging(release: str, operator: str, prefix: str) -> None:
    specifier = f"{operator}{prefix}.*"
    assert matches(release, [specifier]) == SpecifierSet(specifier).contains(Version(release).public, False)


@pytest.mark.parametrize(
    ("release", "specifiers", "expected"),
    [
        ("0.5.9+cu130", ["==0.5.9"], True),
        ("0.5.5.post1", [">0.5.5"], False),
        ("0.5.5.post1", [">=0.5.5,<0.5.6"], True),
        ("0.17.0rc1", [">=0.16.0,<=0.33.0"], False),
        ("0.17.0rc1", [">=0.17.0rc0"], True),
        ("0.17.0rc1", ["<0.17.0"], False),
        ("0.5.9", ["0.5.8", "0.5.9"], True),
        ("0.5.10", ["0.5.8", "0.5.9"], False),
        ("v0.5.9", ["0.5.9"], True),
    ],
)
def test_the_cases_that_matter(release: str, specifiers: list[str], expected: bool) -> None:
    assert matches(release, specifiers) is expected


@pytest.mark.parametrize("release", ["", "main", "1!0.5", "0.5.x", "0.5-cuda", "0..5"])
def test_what_is_no_release_is_refused(release: str) -> None:
    with pytest.raises(ValueError, match="not a release"):
        parse_release(release)


@pytest.mark.parametrize("specifier", ["", "~=0.5", "===0.5", ">=0.5.*", ">=", "0.5 || 0.6", ">=0.5,", "=0.5"])
def test_what_is_no_specifier_is_refused(specifier: str) -> None:
    with pytest.raises(ValueError, match="not a release"):
        matches("0.5", [specifier])
