"""Notes below a sweep's table: what marks mean, what is missing, what the numbers of a column do not share."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from graphbench.runs.identity import RunIdentity
from graphbench.tables.doubts import EXPLANATIONS
from graphbench.tables.provenance import Provenance, copy_notes, is_searched, plug_in_notes, trials_note
from graphbench.tables.significance import SIGNIFICANT
from graphbench.tables.sweep_table import Cell, SweepTable


def sweep_notes(table: SweepTable, rows: Collection[str], star: str = "") -> list[str]:
    """Sentences that explain marks, name what is missing and what in a column is not of one kind.

    Args:
        table: table.
        rows: kinds of rows that are shown, of :data:`~graphbench.tables.sweep_layout.ROWS`.
        star: mark of means that differ from the baseline's; empty where a row says so.
    """
    trials = trials_note(cell.result.config for cell in table.cells.values())
    searched = [cell for cell in table.cells.values() if cell.result.runs and is_searched(cell.result.config)]
    if searched:
        trials.append(
            f"settings chosen by a search on validation, those of other cells as they are: {_by_label(searched)}."
        )
    code = plug_in_notes((cell.spec.name, cell.result.runs) for cell in table.cells.values()) + _versions(table)
    code += copy_notes((str(cell.spec.records), cell.result) for cell in table.cells.values())
    return [*table.notes, *_legend(table, rows, star), *_missing(table), *_inconsistencies(table), *code, *trials]


def _legend(table: SweepTable, rows: Collection[str], star: str) -> list[str]:
    notes = []
    if table.published is not None:
        unbounded = any(column.scale and not column.scale.bounded for column in table.columns)
        otherwise = " (of anything that is no share: 1 % of the published value)" if unbounded else ""
        source = f"published: {table.published.title} ({table.published.file}), in its digits"
        difference = "difference: measured minus published, also in published standard deviations (sd)"
        meanings = {"published": source, "difference": difference}
        shown = [meaning for row, meaning in meanings.items() if row in rows]
        notes += [f"{'; '.join(shown)}."] if shown else []
        if "status" in rows:
            notes.append(
                f"reproduced: the two differ by at most one published standard deviation plus 1 point{otherwise}; "
                "below, above: worse, better than that."
            )
    if any(cell.status == "other configuration" for cell in table.cells.values()):
        notes.append("other configuration: its runs have other settings than the sweep; neither ranked nor judged.")
    other_code = sorted({name for cell in table.cells.values() for name in cell.other_code})
    if other_code:
        notes.append(f"other code: made with another version of {', '.join(other_code)}; neither ranked nor judged.")
    if any(cell.status == "smaller" for cell in table.cells.values()):
        notes.append("smaller: than the published experiment, whose numbers stand beside and are not judged.")
    doubted = {doubt for cell in table.cells.values() for doubt in cell.doubts}
    notes += [text for doubt, text in EXPLANATIONS.items() if doubt in doubted]
    if table.baseline is not None:
        splits = "paired where the records of both name the same several splits"
        test = f"two-sided t-test over the runs, {splits}, else Welch's"
        tested = [cell for cell in table.cells.values() if cell.p_value is not None]
        unpaired = [cell for cell in tested if not cell.paired]
        if unpaired and len(unpaired) < len(tested):
            test += f", here for {_by_label(unpaired)}"
        count = "1 comparison" if len(tested) == 1 else f"{len(tested)} comparisons"
        corrected = f"p < {SIGNIFICANT} after Holm's correction for {count}"
        notes.append(
            f"{star}: better or worse than {table.baseline}, {corrected}; {test}."
            if star
            else f"against {table.baseline}: {test}; better or worse where {corrected}."
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
            ("epoch chosen by", lambda cell: cell.result.selected_by, lambda cell: cell.result.selected_by),
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
        chosen = {
            cell.result.selected_by
            for cell in members
            if cell.measured and cell.measured.name != cell.result.selected_by
        }
        if chosen:
            notes.append(f"{column.name}: epochs were chosen by {', '.join(sorted(map(str, chosen)))} on validation.")
        if any(not math.isfinite(cell.measured.mean) for cell in members if cell.measured):
            notes.append(f"{column.name}: a mean that is not a number has no rank.")
    return notes


def _split_parts(cell: Cell) -> frozenset[tuple[object, ...]]:
    """Mode, number and sizes of every split; of how many it is one, older records do not say."""
    facts = [run.data for run in cell.result.runs]
    return frozenset((each.split_mode, each.split_index, *each.sizes.values()) for each in facts)


def _metric(cell: Cell) -> str:
    return cell.measured.name if cell.measured else "none"


def _fingerprint(cell: Cell) -> str:
    return (cell.result.runs[0].data.fingerprint or "")[:8]


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
