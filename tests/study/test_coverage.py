"""``study.coverage``: docs/coverage.md and docs/results.md are what the sweeps name and the records hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphbench.published.table import names, read_published
from study import results_page
from study.coverage import PAGE, RESULTS, Coverage, coverage
from study.coverage_page import NOT_NAMED, NOT_REPRODUCED, page, reasons
from study.shipped_sweeps import SWEEPS, shipped_sweep

pytestmark = pytest.mark.slow  # all entries of all sweeps are built


@pytest.fixture(scope="module")
def cells() -> list[Coverage]:
    return coverage([shipped_sweep(path.stem) for path in SWEEPS])


def test_every_printed_number_is_a_cell(cells: list[Coverage]) -> None:
    printed = [(name, row) for name in names() for row in read_published(name).rows if row.mean]
    assert [(cell.table, cell.row) for cell in cells] == printed


def test_the_pages_are_up_to_date(cells: list[Coverage]) -> None:
    assert PAGE.read_text() == page(cells), "python -m study.coverage"
    assert RESULTS.read_text() == results_page.page(cells), "python -m study.coverage"


def test_at_least_so_many_cells_are_named(cells: list[Coverage]) -> None:
    named = [cell for cell in cells if cell.status != "not named"]
    assert len(named) >= 1250
    assert all(cell.config for cell in named)


def test_rows_nearer_to_validation_are_listed(cells: list[Coverage]) -> None:
    """The printed number of every cell of a row is moved to the score of one split, then of the other."""
    of_row = [cell for cell in cells if (cell.table, cell.row.model) == ("sgformer_table5", "GCN")]
    scores = [(cell.mean.mean, cell.validation) for cell in of_row if cell.mean]
    assert len(scores) == len(of_row) == 10
    for number, listed in ((0, False), (1, True)):
        moved = [replace(c, row=replace(c.row, mean=f"{s[number]:.2f}")) for c, s in zip(of_row, scores, strict=True)]
        assert ("| sgformer_table5 | GCN | 10 |" in page(moved)) == listed


def test_a_smaller_experiment_measures_no_cell(cells: list[Coverage]) -> None:
    small = [cell for cell in cells if cell.sweep == "ffgt-sbm-small"]
    assert not any(cell.measured for cell in small)
    assert any(cell.measured for cell in cells)


def test_a_variant_says_the_contrary_of_the_first_sweep(cells: list[Coverage]) -> None:
    """Of cells with a variant, one reproduced and one not, both statuses computed from the other sweep alone."""
    found = [cell for cell in cells if cell.variant and cell.variant.sweep != cell.sweep]
    for reproduced in (True, False):
        cell = next(cell for cell in found if cell.reproduced == reproduced)
        assert cell.measured
        assert cell.variant
        (alone,) = (other for other in coverage([shipped_sweep(cell.variant.sweep)]) if other.row == cell.row)
        assert alone.measured
        assert alone.reproduced != reproduced


def test_the_public_split_stands_beside_the_one_of_the_release(cells: list[Coverage]) -> None:
    cell = next(cell for cell in cells if cell.config == "sgformer-cora" and cell.table == "sgformer_table2")
    assert cell.protocol == "random-class 140/500/1000"
    assert cell.variant
    assert (cell.variant.column, cell.variant.protocol) == ("Cora, public", "standard 140/500/1000")
    assert f"| {cell.protocol} | reproduced; not with [sgformer-table2]" in results_page.page(cells)


def test_the_criterion_is_held_against_other_rows(cells: list[Coverage]) -> None:
    """Two rows of a column: far apart and right, then far apart and exchanged, then equal."""
    a, b = [cell for cell in cells if (cell.table, cell.column) == ("sgformer_table5", "1 %") and cell.mean][:2]
    for means, shown in (((10.0, 90.0), "100% | 100% | 0%"), ((90.0, 10.0), "0% | 0% | 100%"), ((10.0, 10.0), "")):
        pair = [
            replace(cell, mean=replace(cell.mean, mean=mean), row=replace(cell.row, mean=printed, std="1.0"))
            for cell, mean, printed in zip((a, b), means, ("10.00", "90.00"), strict=True)
            if cell.mean
        ]
        pair = [replace(cell, status="reproduced" if shown[:3] == "100" else "below") for cell in pair]
        assert f"| **all** | 2 | {shown or '0% | 50% | 50%'} |" in page(pair)


def test_every_row_that_is_not_named_has_a_reason_and_no_other(cells: list[Coverage]) -> None:
    missing = {(cell.table, cell.row.model) for cell in cells if cell.status == "not named"}
    stated = reasons(NOT_NAMED).keys()
    assert not missing - stated, "say in study/not_named.yaml what is missing"
    assert not stated - missing, "named by now: take the reason out of study/not_named.yaml"


def test_every_row_with_a_number_that_does_not_reproduce_says_what_was_tried(cells: list[Coverage]) -> None:
    missed = {(cell.table, cell.row.model) for cell in cells if cell.status in ("below", "above")}
    stated = reasons(NOT_REPRODUCED).keys()
    assert not missed - stated, "say in study/not_reproduced.yaml what was tried"
    assert not stated - missed, "reproduced by now: take the text out of study/not_reproduced.yaml"
