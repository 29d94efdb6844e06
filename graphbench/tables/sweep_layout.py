"""Layout of a sweep's table: its rows as text, and the notes below it."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence

from graphbench.runs.aggregate import Mean
from graphbench.runs.identity import RunIdentity
from graphbench.runs.summary import STATISTICS, format_mean
from graphbench.tables.doubts import APPROXIMATE, EXPLANATIONS
from graphbench.tables.provenance import Provenance, trials_note
from graphbench.tables.significance import SIGNIFICANT
from graphbench.tables.sweep_table import Cell, Column, SweepTable
from graphbench.tables.text_table import TextCell, TextTable

EMPTY = TextCell("")
MAX_COLUMNS = 5
"""Columns of one table: more do not fit a terminal or a page."""


def main_tables(table: SweepTable) -> list[TextTable]:
    """Rows per model: measured; published and difference where a table is named; the test against the baseline.

    More than :data:`MAX_COLUMNS` columns are spread evenly over several tables.
    """
    runs = _usual_runs(table)
    titles = {_title(column) for column in table.columns if column.scale}
    metric = next(iter(titles)) if len(titles) == 1 else "metric"
    count = f"{runs} run{'' if runs == 1 else 's'}"
    title = f"{table.name}: test {metric} at the best validation epoch, mean ± sample standard deviation of {count}"
    marked = any(cell.rank for cell in table.cells.values())
    parts = math.ceil(len(table.columns) / MAX_COLUMNS)
    bounds = [len(table.columns) * part // parts for part in range(parts + 1)]
    tables = []
    for start, stop in itertools.pairwise(bounds):
        columns, last = table.columns[start:stop], stop == bounds[-1]
        groups = [_group(table, columns, label, runs) for label in table.labels]
        tables.append(
            TextTable(
                header=["model", "", *(_heading(column, len(titles) == 1) for column in columns)],
                groups=[group for group in groups if group],
                title=title if start == 0 else f"{table.name}, continued",
                notes=_notes(table) if last else [],
                left=2,
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
        cells += [str(result.runs[0].data.get("name", "-")), "; ".join(facts.split), result.metric or "-"]
        cells += [format_mean(result.mean("val")), *(format_mean(result.mean("test", name)) for name in statistics)]
        cells += [str(len(result.runs)), *facts.cells().values()]
        rows.append([TextCell(text) for text in cells])
    return TextTable(header, [rows], title=f"{table.name}: runs", left=7)


def _usual_runs(table: SweepTable) -> int:
    return Counter(len(cell.spec.run_ids) for cell in table.cells.values()).most_common(1)[0][0]


def _title(column: Column) -> str:
    assert column.scale is not None
    return column.scale.title + ("" if column.scale.maximize else ", lower is better")


def _heading(column: Column, one_metric: bool) -> str:
    return column.name if one_metric or column.scale is None else f"{column.name}: {_title(column)}"


def _group(table: SweepTable, columns: Sequence[Column], label: str, usual: int) -> list[list[TextCell]]:
    cells = [(column, table.cells.get((label, column.name))) for column in columns]
    rows = [[TextCell(label), TextCell("measured"), *(_measured(column, cell, usual) for column, cell in cells)]]
    if any(cell and cell.published for _, cell in cells):
        rows.append([EMPTY, TextCell("published"), *(_published(cell) for _, cell in cells)])
        rows.append([EMPTY, TextCell("difference"), *(_difference(column, cell) for column, cell in cells)])
        compared = [cell if cell and (cell.comparison or cell.stale) else None for _, cell in cells]
        rows.append([EMPTY, TextCell("status"), *(TextCell(cell.status) if cell else EMPTY for cell in compared)])
    if table.baseline is not None and label != table.baseline:
        rows.append([EMPTY, TextCell(f"against {table.baseline}"), *(_against(cell) for _, cell in cells)])
    return [row for row in rows if any(cell.text for cell in row[2:])]


def _measured(column: Column, cell: Cell | None, usual: int) -> TextCell:
    if cell is None:
        return EMPTY
    if cell.measured is None:
        return TextCell(cell.status)
    return TextCell(_format(cell.measured, column.digits), cell.rank, _runs(cell, cell.measured.n, usual))


def _format(measured: Mean, digits: int) -> str:
    return f"{measured.mean:.{digits}f}" + ("" if measured.std is None else f" ± {measured.std:.{digits}f}")


def _runs(cell: Cell, n: int, usual: int) -> str:
    expected = len(cell.spec.run_ids)
    count = "" if n == usual else f"{n} run{'' if n == 1 else 's'}"
    count = f"{n} of {expected}" if n < expected else count
    doubts = [f"{doubt} ({cell.error})" if doubt == APPROXIMATE and cell.error else doubt for doubt in cell.doubts]
    return ", ".join(filter(None, [count, "other configuration" if cell.stale else "", *doubts]))


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
    words = (" better" if cell.better else " worse") if cell.p_value < SIGNIFICANT else ""
    return TextCell(("p < 0.001" if cell.p_value < 0.001 else f"p = {cell.p_value:.3f}") + words)


def _notes(table: SweepTable) -> list[str]:
    trials = trials_note(cell.result.config for cell in table.cells.values())
    return [*_legend(table), *_missing(table), *_inconsistencies(table), *_versions(table), *trials]


def _legend(table: SweepTable) -> list[str]:
    notes = []
    if table.published is not None:
        unbounded = any(column.scale and not column.scale.bounded for column in table.columns)
        otherwise = " (of anything that is no share: 1 % of the published value)" if unbounded else ""
        notes.append(
            f"published: {table.published.title} ({table.published.file}), in its digits; "
            "difference: measured minus published, also in published standard deviations (sd)."
        )
        notes.append(
            f"reproduced: the two differ by at most one published standard deviation plus 1 point{otherwise}; below, "
            "above: worse, better than that."
        )
    if any(cell.stale for cell in table.cells.values()):
        notes.append("other configuration: its runs have other settings than the sweep; neither ranked nor judged.")
    if any(cell.status == "smaller" for cell in table.cells.values()):
        notes.append("smaller: than the published experiment, whose numbers stand beside and are not judged.")
    doubted = {doubt for cell in table.cells.values() for doubt in cell.doubts}
    notes += [text for doubt, text in EXPLANATIONS.items() if doubt in doubted]
    if table.baseline is not None:
        notes.append(
            f"against {table.baseline}: two-sided Welch t-test over the runs, not corrected for the number of "
            f"comparisons; better or worse where p < {SIGNIFICANT}."
        )
    return notes


def _missing(table: SweepTable) -> list[str]:
    """Cells without runs, and runs that are not in a mean."""
    notes = []
    not_run = [cell for cell in table.cells.values() if set(cell.result.left_out.values()) == {"missing"}]
    not_run = [cell for cell in not_run if not cell.result.runs]
    if not_run:
        notes.append(f"not run: {_by_label(not_run)}.")
    for cell in table.cells.values():
        if cell.result.left_out and cell not in not_run:
            reasons: dict[str, list[str]] = {}
            for run_id, reason in cell.result.left_out.items():
                reasons.setdefault(reason, []).append(run_id)
            text = "; ".join(
                f"{'run' if len(ids) == 1 else 'runs'} {', '.join(ids)} {reason}" for reason, ids in reasons.items()
            )
            notes.append(f"not included, {cell.spec.name}: {text.rstrip('.')}.")
    return notes + _unpublished(table)


def _unpublished(table: SweepTable) -> list[str]:
    """Cells without a published value, and models of the paper without a row."""
    notes = []
    if table.published is not None:
        cells = [cell for cell in table.cells.values() if cell.published is None]
        if cells:
            notes.append(f"not published in {table.published.title}: {_by_label(cells)}.")
        cells = [cell for cell in table.cells.values() if cell.status == "not comparable"]
        if cells:
            notes.append(f"not comparable, the runs lack the published metric: {_by_label(cells)}.")
        fewer = [
            f"{cell.spec.name} ({cell.measured.n} of {cell.published.n_runs})"
            for cell in table.cells.values()
            if cell.measured and cell.published and cell.measured.n < (cell.published.n_runs or 0)
        ]
        if fewer:
            notes.append(f"fewer runs than in {table.published.title}: {'; '.join(fewer)}.")
        used = {cell.published.model for cell in table.cells.values() if cell.published}
        datasets = {cell.published.dataset for cell in table.cells.values() if cell.published}
        others = dict.fromkeys(
            row.model
            for row in table.published.rows
            if row.mean and row.model not in used and row.dataset in datasets and row.scale.comparable
        )
        if others:
            notes.append(f"in {table.published.title}, but not in this sweep: {', '.join(others)}.")
    return notes


def _by_label(cells: Sequence[Cell]) -> str:
    groups: dict[str, list[str]] = {}
    for cell in cells:
        groups.setdefault(cell.spec.label, []).append(cell.spec.column)
    return ", ".join(f"{label} ({', '.join(columns)})" for label, columns in groups.items())


def _other_splits(cells: Sequence[Cell]) -> list[str]:
    """Names of splits under which two cells have different examples."""
    known, others = RunIdentity(""), dict[str, tuple[str, str]]()
    for run in (run for cell in cells for run in cell.result.runs):
        splits = RunIdentity("", {name: digest for name, digest in run.inputs.items() if name.startswith("split ")})
        others |= splits.differences(known)
        known = known.joined(splits)
    return list(others)


def _inconsistencies(table: SweepTable) -> list[str]:
    """Columns whose numbers differ in split, data or metric of selection."""
    notes = []
    for column in table.columns:
        members = [cell for cell in table.cells.values() if cell.spec.column == column.name and cell.result.runs]
        for what, value_of, shown_as in (
            ("split", _split_parts, lambda cell: "; ".join(Provenance.of(cell.result.runs).split)),
            ("data", _fingerprint, _fingerprint),
            ("metric", _metric, _metric),
            ("epoch chosen by", lambda cell: cell.result.metric, lambda cell: cell.result.metric),
        ):
            by_value: dict[object, list[Cell]] = {}
            for cell in members:
                by_value.setdefault(value_of(cell), []).append(cell)
            if len(by_value) > 1:
                shown = "; ".join(
                    f"{', '.join(cell.spec.label for cell in cells)}: {shown_as(cells[0])}"
                    for cells in by_value.values()
                )
                notes.append(f"{column.name}, not the same {what}: {shown}.")
        others = _other_splits(members)
        if others:
            notes.append(f"{column.name}, not the same examples: {', '.join(others)} differs between rows.")
        chosen = {cell.result.metric for cell in members if cell.measured and cell.measured.name != cell.result.metric}
        if chosen:
            notes.append(f"{column.name}: epochs were chosen by {', '.join(sorted(map(str, chosen)))} on validation.")
        if any(not math.isfinite(cell.measured.mean) for cell in members if cell.measured):
            notes.append(f"{column.name}: a mean that is not a number has no rank.")
    return notes


def _split_parts(cell: Cell) -> frozenset[tuple[object, ...]]:
    """Mode, number and sizes of every split; of how many it is one, older records do not say."""
    facts = [run.data for run in cell.result.runs]
    return frozenset(
        (each.get("split_mode"), each.get("split_index"), *each.get("sizes", {}).values()) for each in facts
    )


def _metric(cell: Cell) -> str:
    return cell.measured.name if cell.measured else "none"


def _fingerprint(cell: Cell) -> str:
    return str(cell.result.runs[0].data.get("fingerprint", ""))[:8]


def _versions(table: SweepTable) -> list[str]:
    """Means over runs of several commits, and runs whose code no commit has."""
    notes = []
    cells = [(cell, Provenance.of(cell.result.runs).commits) for cell in table.cells.values()]
    changed = [cell for cell, commits in cells if any(commit.endswith("+") for commit in commits)]
    if changed:
        notes.append(f"uncommitted changes in the code of at least one run: {_by_label(changed)}.")
    several = [cell for cell, commits in cells if len(commits) > 1]
    if several:
        notes.append(f"runs of several commits in one mean: {_by_label(several)}.")
    return notes
