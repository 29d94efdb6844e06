"""A sweep's table in words: what stands in which row, and the notes below it."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence

from graphbench.runs.aggregate import Mean
from graphbench.runs.summary import STATISTICS, format_mean
from graphbench.tables.provenance import Provenance
from graphbench.tables.sheet import Sheet, Text
from graphbench.tables.significance import SIGNIFICANT
from graphbench.tables.sweep_table import Cell, Column, SweepTable

EMPTY = Text("")
WIDE = 5


def main_sheets(table: SweepTable) -> list[Sheet]:
    """Rows per model: measured; published and difference where a table is named; the test against the baseline.

    More than :data:`WIDE` columns are spread evenly over several tables, so that a terminal and a page can hold them.
    """
    runs = _usual_runs(table)
    titles = {_title(column) for column in table.columns if column.scale}
    metric = next(iter(titles)) if len(titles) == 1 else "metric"
    count = f"{runs} run{'' if runs == 1 else 's'}"
    title = f"{table.name}: test {metric} at the best validation epoch, mean ± sample standard deviation of {count}"
    marked = any(cell.rank for cell in table.cells.values())
    parts = math.ceil(len(table.columns) / WIDE)
    bounds = [len(table.columns) * part // parts for part in range(parts + 1)]
    sheets = []
    for start, stop in itertools.pairwise(bounds):
        columns, last = table.columns[start:stop], stop == bounds[-1]
        groups = [_group(table, columns, label, runs) for label in table.labels]
        sheets.append(
            Sheet(
                header=["model", "", *(_heading(column, len(titles) == 1) for column in columns)],
                groups=[group for group in groups if group],
                title=title if start == 0 else f"{table.name}, continued",
                notes=[*_legend(table), *_missing(table), *_doubts(table)] if last else [],
                left=2,
                explains_marks=marked and last,
            )
        )
    return sheets


def details_sheet(table: SweepTable) -> Sheet:
    """One row per model and data set: what its numbers come from."""
    finished = [cell for cell in table.cells.values() if cell.result.runs]
    reported = [name for name in STATISTICS if any(cell.result.mean("test", name) for cell in finished)]
    header = ["model", "column", "configuration", "hash", "data set", "split", "epoch chosen by", "val"]
    header += [*(STATISTICS[name] for name in reported), "runs"]
    rows, provenance = [], []
    for cell in finished:
        result = cell.result
        provenance = list((facts := Provenance.of(result.runs)).cells().items())
        cells = [cell.wanted.label, cell.wanted.column, result.config, result.runs[0].config_hash]
        cells += [str(result.runs[0].data.get("name", "-")), "; ".join(facts.split), result.metric or "-"]
        cells += [format_mean(result.mean(split, name)) for split, name in _means(reported)]
        cells += [str(len(result.runs)), *(text for _, text in provenance)]
        rows.append([Text(each) for each in cells])
    return Sheet([*header, *(name for name, _ in provenance)], [rows], title=f"{table.name}: runs", left=7)


def _means(reported: Iterable[str]) -> list[tuple[str, str | None]]:
    return [("val", None), *(("test", name) for name in reported)]


def _usual_runs(table: SweepTable) -> int:
    return Counter(len(cell.wanted.runs) for cell in table.cells.values()).most_common(1)[0][0]


def _title(column: Column) -> str:
    assert column.scale is not None
    return column.scale.title + ("" if column.scale.maximize else ", lower is better")


def _heading(column: Column, same: bool) -> str:
    return column.name if same or column.scale is None else f"{column.name}: {_title(column)}"


def _group(table: SweepTable, columns: Sequence[Column], label: str, usual: int) -> list[list[Text]]:
    cells = [(column, table.cells.get((label, column.name))) for column in columns]
    rows = [[Text(label), Text("measured"), *(_measured(column, cell, usual) for column, cell in cells)]]
    if any(cell and cell.published for _, cell in cells):
        rows.append([EMPTY, Text("published"), *(_published(cell) for _, cell in cells)])
        rows.append([EMPTY, Text("difference"), *(_difference(column, cell) for column, cell in cells)])
        compared = [cell if cell and cell.comparison else None for _, cell in cells]
        rows.append([EMPTY, Text("status"), *(Text(cell.status) if cell else EMPTY for cell in compared)])
    if table.baseline is not None and label != table.baseline:
        rows.append([EMPTY, Text(f"against {table.baseline}"), *(_against(cell) for _, cell in cells)])
    return [row for row in rows if any(cell.text for cell in row[2:])]


def _measured(column: Column, cell: Cell | None, usual: int) -> Text:
    if cell is None:
        return EMPTY
    if cell.measured is None:
        missing = set(cell.result.left_out.values()) <= {"missing"}
        return Text(cell.status if cell.result.runs or missing else "unfinished")
    return Text(_format(cell.measured, column.digits), cell.rank, _runs(cell, cell.measured.n, usual))


def _format(measured: Mean, digits: int) -> str:
    return f"{measured.mean:.{digits}f}" + ("" if measured.std is None else f" ± {measured.std:.{digits}f}")


def _runs(cell: Cell, n: int, usual: int) -> str:
    asked = len(cell.wanted.runs)
    if n < asked:
        return f"{n} of {asked}"
    return "" if n == usual else f"{n} run{'' if n == 1 else 's'}"


def _published(cell: Cell | None) -> Text:
    if cell is None:
        return EMPTY
    return Text(cell.published.printed if cell.published else "not published")


def _difference(column: Column, cell: Cell | None) -> Text:
    if cell is None or cell.comparison is None:
        return EMPTY
    each = cell.comparison
    deviations = "" if each.deviations is None else f" ({each.deviations:+.1f} sd)"
    return Text(f"{each.difference:+.{column.digits}f}{deviations}")


def _against(cell: Cell | None) -> Text:
    if cell is None or cell.measured is None:
        return EMPTY
    if cell.p_value is None:
        return Text("-")
    words = (" better" if cell.better else " worse") if cell.p_value < SIGNIFICANT else ""
    return Text(("p < 0.001" if cell.p_value < 0.001 else f"p = {cell.p_value:.3f}") + words)


def _legend(table: SweepTable) -> list[str]:
    notes = []
    if table.published is not None:
        some = [column.scale for column in table.columns if column.scale]
        beyond = " (of anything that is no share: 1 % of the published value)" * any(not each.bounded for each in some)
        notes.append(
            f"published: {table.published.title} (results/published/{table.published.name}.csv), in its digits; "
            "difference: measured minus published, also in published standard deviations (sd)."
        )
        notes.append(
            f"reproduced: the two differ by at most one published standard deviation plus 1 point{beyond}; below, "
            "above: worse, better than that."
        )
    if table.baseline is not None:
        notes.append(
            f"against {table.baseline}: two-sided Welch t-test over the runs, not corrected for the number of "
            f"comparisons; better or worse where p < {SIGNIFICANT}."
        )
    return notes


def _missing(table: SweepTable) -> list[str]:
    notes = []
    not_run = [cell for cell in table.cells.values() if set(cell.result.left_out.values()) == {"missing"}]
    not_run = [cell for cell in not_run if not cell.result.runs]
    if not_run:
        notes.append(f"not run: {_by_label(not_run)}.")
    for cell in table.cells.values():
        if cell.result.left_out and cell not in not_run:
            reasons: dict[str, list[str]] = {}
            for run, why in cell.result.left_out.items():
                reasons.setdefault(why, []).append(run)
            text = "; ".join(f"run{'s' * (len(ids) > 1)} {', '.join(ids)} {why}" for why, ids in reasons.items())
            notes.append(f"not included, {cell.wanted.name}: {text.rstrip('.')}.")
    if table.published is not None:
        cells = [cell for cell in table.cells.values() if cell.published is None]
        if cells:
            notes.append(f"not published in {table.published.title}: {_by_label(cells)}.")
        cells = [cell for cell in table.cells.values() if cell.status == "not comparable"]
        if cells:
            notes.append(f"not comparable, the runs lack the published metric: {_by_label(cells)}.")
        used = {cell.published.model for cell in table.cells.values() if cell.published}
        here = {cell.published.dataset for cell in table.cells.values() if cell.published}
        others = dict.fromkeys(
            row.model
            for row in table.published.rows
            if row.mean and row.model not in used and row.dataset in here and row.scale.comparable
        )
        if others:
            notes.append(f"in {table.published.title}, but not in this sweep: {', '.join(others)}.")
    return notes


def _by_label(cells: Sequence[Cell]) -> str:
    groups: dict[str, list[str]] = {}
    for cell in cells:
        groups.setdefault(cell.wanted.label, []).append(cell.wanted.column)
    return ", ".join(f"{label} ({', '.join(columns)})" for label, columns in groups.items())


def _doubts(table: SweepTable) -> list[str]:
    """Where numbers of one column are not quite of one kind."""
    notes = []
    for column in table.columns:
        members = [cell for cell in table.cells.values() if cell.wanted.column == column.name and cell.result.runs]
        for what, of in (
            ("split", lambda cell: "; ".join(Provenance.of(cell.result.runs).split)),
            ("data", lambda cell: str(cell.result.runs[0].data.get("fingerprint", ""))[:8]),
            ("epoch chosen by", lambda cell: cell.result.metric),
        ):
            kinds: dict[str, list[str]] = {}
            for cell in members:
                kinds.setdefault(of(cell), []).append(cell.wanted.label)
            if len(kinds) > 1:
                shown = "; ".join(f"{', '.join(labels)}: {kind}" for kind, labels in kinds.items())
                notes.append(f"{column.name}, not the same {what}: {shown}.")
        chosen = {cell.result.metric for cell in members if cell.measured and cell.measured.name != cell.result.metric}
        if chosen:
            notes.append(f"{column.name}: epochs were chosen by {', '.join(sorted(map(str, chosen)))} on validation.")
        if any(not math.isfinite(cell.measured.mean) for cell in members if cell.measured):
            notes.append(f"{column.name}: a mean that is not a number has no rank.")
    return notes
