"""Layout of a sweep's table: its rows as text."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from graphbench.runs.aggregate import Mean
from graphbench.runs.summary import STATISTICS, format_mean
from graphbench.tables.doubts import APPROXIMATE
from graphbench.tables.provenance import Provenance
from graphbench.tables.sweep_notes import sweep_notes
from graphbench.tables.sweep_table import Cell, Column, SweepTable
from graphbench.tables.text_table import TextCell, TextTable

EMPTY = TextCell("")
ROWS = ("measured", "published", "difference", "status", "baseline")
"""Kinds of rows that a model may have; the measured one always stands first."""


@dataclass(frozen=True)
class Layout:
    """Display options of a table.

    Attributes:
        rows: kinds of rows, of :data:`ROWS`.
        max_columns: columns of one table; more do not fit a terminal or a page.
        bare: numbers alone in the cells; what is remarked on them stands in the notes, and ranks nowhere.
    """

    rows: tuple[str, ...] = ROWS
    max_columns: int = 5
    bare: bool = False

    @property
    def star(self) -> str:
        """After a mean that differs from the baseline's; empty where a row says so."""
        return "" if "baseline" in self.rows else "*"


def main_tables(table: SweepTable, layout: Layout = Layout()) -> list[TextTable]:
    """Rows per model: measured; published and difference where a table is named; the test against the baseline.

    Without a row ``baseline``, means that differ from the baseline's have a star.

    Where all models have one row, there is no column that names the kind of row, and no rule between rows.
    More than ``layout.max_columns`` columns are spread evenly over several tables.
    """
    runs = _usual_runs(table)
    titles = {_title(column) for column in table.columns if column.scale}
    metric = next(iter(titles)) if len(titles) == 1 else "metric"
    count = f"{runs} run{'' if runs == 1 else 's'}"
    title = f"{table.name}: test {metric} at the best validation epoch, mean ± sample standard deviation of {count}"
    marked = not layout.bare and any(cell.rank for cell in table.cells.values())
    parts = math.ceil(len(table.columns) / layout.max_columns)
    bounds = [len(table.columns) * part // parts for part in range(parts + 1)]
    spread = [table.columns[start:stop] for start, stop in itertools.pairwise(bounds)]
    groups_of = [
        [group for label in table.labels if (group := _group(table, part, label, runs, layout))] for part in spread
    ]
    alone = all(len(group) == 1 for groups in groups_of for group in groups)
    words = ["model"] if alone else ["model", ""]
    notes = [*sweep_notes(table, layout.rows, layout.star), *(_remarks(table, runs) if layout.bare else [])]
    tables = []
    for number, (columns, groups) in enumerate(zip(spread, groups_of, strict=True), 1):
        last = number == parts
        tables.append(
            TextTable(
                header=[*words, *(_heading(column, len(titles) == 1) for column in columns)],
                groups=[[[row[0], *row[2:]] for (row,) in groups]] if alone else groups,
                title=title if number == 1 else f"{table.name}, continued",
                name=table.name if number == 1 else f"{table.name}-{number}",
                notes=notes if last else [],
                left=len(words),
                explains_marks=marked and last,
            )
        )
    return tables


def details_table(table: SweepTable) -> TextTable:
    """One row per model and data set: the provenance of its numbers."""
    finished = [cell for cell in table.cells.values() if cell.result.runs]
    statistics = [name for name in STATISTICS if any(cell.result.mean("test", name) for cell in finished)]
    header = ["model", "column", "configuration", "hash", "data set", "split", "epoch chosen by", "val"]
    header += [*(STATISTICS[name] for name in statistics), "runs"]
    header += Provenance.of([]).cells()
    rows = []
    for cell in finished:
        result, facts = cell.result, Provenance.of(cell.result.runs)
        cells = [cell.spec.label, cell.spec.column, result.config, result.runs[0].config_hash]
        cells += [result.runs[0].data.name or "-", "; ".join(facts.split), result.selected_by or "-"]
        cells += [format_mean(result.mean("val")), *(format_mean(result.mean("test", name)) for name in statistics)]
        cells += [str(len(result.runs)), *facts.cells().values()]
        rows.append([TextCell(text) for text in cells])
    return TextTable(header, [rows], title=f"{table.name}: runs", left=7)


def _usual_runs(table: SweepTable) -> int:
    return Counter(len(cell.spec.run_ids) for cell in table.cells.values()).most_common(1)[0][0]


def _title(column: Column) -> str:
    assert column.scale is not None
    return column.scale.title + ("" if column.scale.maximize else " (lower is better)")


def _heading(column: Column, one_metric: bool) -> str:
    return column.name if one_metric or column.scale is None else f"{column.name}: {_title(column)}"


def _group(
    table: SweepTable, columns: Sequence[Column], label: str, usual: int, layout: Layout
) -> list[list[TextCell]]:
    cells = [(column, table.cells.get((label, column.name))) for column in columns]
    measured = [_measured(column, cell, usual, layout.star) for column, cell in cells]
    rows = {"measured": ("measured", [TextCell(cell.text) for cell in measured] if layout.bare else measured)}
    if any(cell and cell.published for _, cell in cells):
        compared = [cell if cell and (cell.comparison or cell.stale) else None for _, cell in cells]
        rows["published"] = ("published", [_published(cell) for _, cell in cells])
        rows["difference"] = ("difference", [_difference(column, cell) for column, cell in cells])
        rows["status"] = ("status", [TextCell(cell.status) if cell else EMPTY for cell in compared])
    if table.baseline is not None and label != table.baseline:
        rows["baseline"] = (f"against {table.baseline}", [_against(cell) for _, cell in cells])
    shown = [
        rows[kind] for kind in rows if kind in ("measured", *layout.rows) and any(cell.text for cell in rows[kind][1])
    ]
    first = [TextCell(label), *[EMPTY] * len(shown)]
    return [[name, TextCell(kind), *texts] for name, (kind, texts) in zip(first, shown)]


def _measured(column: Column, cell: Cell | None, usual: int, star: str) -> TextCell:
    if cell is None:
        return EMPTY
    if cell.measured is None:
        return TextCell(cell.status)
    text = _format(cell.measured, column.digits) + (star if cell.differs else "")
    return TextCell(text, cell.rank, _runs(cell, cell.measured.n, usual))


def _format(measured: Mean, digits: int) -> str:
    return f"{measured.mean:.{digits}f}" + ("" if measured.std is None else f" ± {measured.std:.{digits}f}")


def _runs(cell: Cell, n: int, usual: int) -> str:
    expected = len(cell.spec.run_ids)
    count = "" if n == usual else f"{n} run{'' if n == 1 else 's'}"
    count = f"{n} of {expected}" if n < expected else cell.spec.shortfall(cell.result.runs) or count
    doubts = [f"{doubt} ({cell.error})" if doubt == APPROXIMATE and cell.error else doubt for doubt in cell.doubts]
    return ", ".join(filter(None, [count, cell.status if cell.stale else "", *doubts]))


def _remarks(table: SweepTable, usual: int) -> list[str]:
    """A note for every remark that cells would have."""
    cells = [(cell, _runs(cell, cell.measured.n, usual)) for cell in table.cells.values() if cell.measured]
    return [f"{cell.spec.label}, {cell.spec.column}: {remark}." for cell, remark in cells if remark]


def _published(cell: Cell | None) -> TextCell:
    if cell is None:
        return EMPTY
    return TextCell(cell.published.printed if cell.published else "not published")


def _difference(column: Column, cell: Cell | None) -> TextCell:
    if cell is None or cell.comparison is None:
        return EMPTY
    comparison = cell.comparison
    deviations = "" if comparison.deviations is None else f" ({comparison.deviations:+.1f} sd)"
    return TextCell(f"{comparison.difference:+.{column.digits}f}{deviations}")


def _against(cell: Cell | None) -> TextCell:
    if cell is None or cell.measured is None:
        return EMPTY
    if cell.p_value is None:
        return TextCell("-")
    words = (" better" if cell.better else " worse") if cell.differs else ""
    return TextCell(("p < 0.001" if cell.p_value < 0.001 else f"p = {cell.p_value:.3f}") + words)
