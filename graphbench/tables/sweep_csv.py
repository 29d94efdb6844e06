"""A sweep's table for programs: one CSV line per cell."""

from __future__ import annotations

import csv
import io

from graphbench.tables.provenance import Provenance
from graphbench.tables.sweep_table import Cell, SweepTable


def long_csv(table: SweepTable) -> str:
    """One line per model and column, unrounded, in the scale of the column; empty: does not apply.

    Every key that varies in the sweep is a column.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    lines = [_csv_line(table, cell) for cell in table.cells.values()]
    writer.writerow(lines[0])
    writer.writerows(line.values() for line in lines)
    return out.getvalue()


def _csv_line(table: SweepTable, cell: Cell) -> dict[str, object]:
    column, spec, measured, published = table.column(cell), cell.spec, cell.measured, cell.published
    facts = Provenance.of(cell.result.runs)
    comparison = cell.comparison
    val = cell.validation
    return {
        "label": spec.label,
        "column": spec.column,
        "dataset": spec.dataset,
        **spec.varied,
        "metric": published.metric if published else measured.name if measured else "",
        "direction": "" if column.scale is None else "higher" if column.scale.maximize else "lower",
        "scale": "" if column.scale is None else column.scale.factor,
        "mean": measured.mean if measured else "",
        "std": "" if measured is None or measured.std is None else measured.std,
        "val_mean": val.mean if val else "",
        "val_std": "" if val is None or val.std is None else val.std,
        "n": measured.n if measured else 0,
        "n_wanted": len(spec.run_ids),
        "rank": cell.rank or "",
        "published_mean": published.mean if published else "",
        "published_std": published.std if published else "",
        "difference": comparison.difference if comparison else "",
        "difference_sd": "" if comparison is None or comparison.deviations is None else comparison.deviations,
        "status": cell.status,
        "p_value": "" if cell.p_value is None else cell.p_value,
        "corrected_p": "" if cell.corrected_p is None else cell.corrected_p,
        "parameters": facts.params[1] if facts.params else "",
        "seconds_per_epoch": "" if facts.seconds is None else facts.seconds,
        "peak_memory_mib": "" if facts.memory is None else facts.memory / 2**20,
        "runs": " ".join(run.run_id for run in cell.result.runs),
        "left_out": "; ".join(f"{run}: {why}" for run, why in cell.result.left_out.items()),
        "configuration": cell.result.config,
        "config_hash": cell.result.runs[0].config_hash if cell.result.runs else "",
        "date": facts.date,
        "commit": " ".join(facts.commits),
        "hardware": "; ".join(facts.hardware),
    }
