# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The truth table: what a fresh interpreter runs after an edit, what is done about it, and what runs after that.

See bytecode_pythons for the choice of interpreters.
"""

from __future__ import annotations

import functools

import pytest
from ansible_collections.blackwell.inference.tests.unit.plugins.module_utils.bytecode_cells import (
    EDITS,
    Row,
    Table,
    build,
)
from ansible_collections.blackwell.inference.tests.unit.plugins.module_utils.bytecode_pythons import (
    SUPPORTED,
    chosen,
    found,
)

# One character for each kind: timestamp, opt-1, opt-2, checked, unchecked, prefix, beside the source, without source.
# F present code, S stale code, N no module, n empty namespace; K kept, R removed, L left; - no meaning.
TRUTH = {
    "none": Row("FFFFFFFF", "KKKKKKKL", "FFFFFFFF"),
    "ordinary": Row("FFFFSFFF", "RRRRRRRR", "FFFFFFFF"),
    "same size, new mtime": Row("FFFFSFF-", "RRRRRRR-", "FFFFFFF-"),
    "same second": Row("FFFFSFF-", "RRRRRRR-", "FFFFFFF-"),
    "same second, same size": Row("SSSFSSFF", "RRRRRRRR", "FFFFFFFF"),
    "touch -r": Row("SSSFSSF-", "RRRRRRR-", "FFFFFFF-"),
    "cp -p": Row("SSSFSSF-", "RRRRRRR-", "FFFFFFF-"),
    "rsync -tI": Row("SSSFSSF-", "RRRRRRR-", "FFFFFFF-"),
    "renamed into place, mtime kept": Row("SSSFSSF-", "RRRRRRR-", "FFFFFFF-"),
    "layer with clamped mtimes": Row("SSSFSSF-", "RRRRRRR-", "FFFFFFF-"),
    "mtime + 2^32": Row("SSSFSSF-", "RRRRRRR-", "FFFFFFF-"),
    "other size, mtime kept": Row("FFFFSFF-", "RRRRRRR-", "FFFFFFF-"),
    "mtime older than before": Row("FFFFSFF-", "RRRRRRR-", "FFFFFFF-"),
    "renamed into place": Row("FFFFSFF-", "RRRRRRR-", "FFFFFFF-"),
    # A pyc beside its source becomes the module when the source goes. It can't be told from a module without source.
    "deleted": Row("NNNNNNS-", "LLLLLLL-", "NNNNNNS-"),
    "module becomes a package": Row("FFFFFFFF", "LLLLLLLL", "FFFFFFFF"),
    "module becomes a namespace": Row("nnnnnnSS", "LLLLLLLL", "nnnnnnSS"),
    "package becomes a module": Row("FFFFFFS-", "LLLLLLL-", "FFFFFFS-"),
    "touched": Row("FFFFFFF-", "KKKKKKK-", "FFFFFFF-"),
    "chmod": Row("FFFFFFF-", "KKKKKKK-", "FFFFFFF-"),
    "another hard link": Row("FFFFFFF-", "KKKKKKK-", "FFFFFFF-"),
    "copied with tar": Row("FFFFFFF-", "KKKKKKK-", "FFFFFFF-"),
    "release switched by a link": Row("FFFFFSF-", "KKKKKRK-", "FFFFFFF-"),
}


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory) -> functools._lru_cache_wrapper[Table]:
    """The table of an interpreter, built once."""
    return functools.lru_cache(maxsize=None)(lambda name: build(tmp_path_factory.mktemp(name), chosen()[name]))


@pytest.fixture
def table(python: str, tables: functools._lru_cache_wrapper[Table]) -> Table:
    """The table of the interpreter at hand."""
    return tables(python)


@pytest.mark.parametrize("python", SUPPORTED)
def test_this_machine_has_the_interpreter(python: str) -> None:
    if python not in found():
        pytest.skip(f"{python} is missing on this machine")


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("python", chosen())
def test_the_truth_table_holds(table: Table, edit: str) -> None:
    assert table.rows[edit] == TRUTH[edit]


@pytest.mark.parametrize("python", chosen())
def test_check_mode_predicts_what_is_done(table: Table) -> None:
    assert sorted(table.predicted.removed) == sorted(table.done.removed)
    assert sorted(table.predicted.left) == sorted(table.done.left)
    assert table.predicted.kept == table.done.kept


@pytest.mark.parametrize("python", chosen())
def test_the_second_run_changes_nothing(table: Table) -> None:
    assert table.again.removed == []


@pytest.mark.parametrize("python", chosen())
def test_nothing_failed_and_every_pyc_is_counted(table: Table) -> None:
    for outcome in (table.predicted, table.done, table.again):
        assert outcome.errors == []
        assert outcome.warnings == []
        assert outcome.examined == outcome.kept + len(outcome.removed) + len(outcome.left)
