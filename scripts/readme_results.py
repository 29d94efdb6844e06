"""The table of results in README.md, from the stored records; ``python -m scripts.regenerate`` writes it."""

from __future__ import annotations

import re
from pathlib import Path

from graphbench.runs.aggregate import Mean
from graphbench.tables.cell_specs import cell_specs
from graphbench.tables.sweep_table import Cell, SweepTable, sweep_table
from study.shipped_sweeps import shipped_sweep

ROOT = Path(__file__).resolve().parent.parent
MEASURED = ROOT / "results" / "measured"
SWEEP, MODELS = "sgformer-table2", ("GCN", "SGFormer")
BEGIN, END = "<!-- results: written by scripts.regenerate -->\n", "<!-- end of results -->"


def page() -> str:
    """README.md with the table of today."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    sweep = shipped_sweep(SWEEP)
    specs = cell_specs(sweep, MEASURED / "records" / f"{SWEEP}.jsonl")
    table = sweep_table(SWEEP, specs, published=sweep.published)
    written = f"{BEGIN}{_rows(table)}\n{_protocol(table)}\n{_counts()}\n{END}"
    return re.sub(f"{BEGIN}.*?{END}", lambda _: written, text, flags=re.DOTALL)


def _rows(table: SweepTable) -> str:
    columns = [column for column in table.columns if all(_measured(table, model, column.name) for model in MODELS)]
    columns = [column for column in columns if table.cells[MODELS[0], column.name].published]
    rows = [["", *(column.name.removesuffix("_filtered") for column in columns)], ["---", *["--:"] * len(columns)]]
    for model in MODELS:
        cells = [table.cells[model, column.name] for column in columns]
        measured = [_text(cell, column.digits) for cell, column in zip(cells, columns, strict=True)]
        rows.append([f"**{model}, here**", *measured])
        rows.append([f"{model}, paper", *(cell.published.printed if cell.published else "" for cell in cells)])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _measured(table: SweepTable, model: str, column: str) -> Mean | None:
    cell = table.cells.get((model, column))
    return cell.measured if cell else None


def _text(cell: Cell, digits: int) -> str:
    mean = cell.measured
    assert mean is not None
    return f"{mean.mean:.{digits}f} ± {mean.std:.{digits}f}" if mean.std is not None else f"{mean.mean:.{digits}f}"


def _protocol(table: SweepTable) -> str:
    """What the numbers are means of, and those of the split that the paper speaks of."""
    public = {column: column.name.partition(", public")[0] for column in table.columns if ", public" in column.name}
    shown = [
        f"{_text(table.cells[MODELS[1], column.name], column.digits)} on {name}"
        for column, name in public.items()
        if _measured(table, MODELS[1], column.name)
    ]
    return (
        "Mean and deviation over seeds or splits, CPU. Cora and CiteSeer have the split of SGFormer's release; on the\n"
        f"public one, which its paper speaks of, SGFormer has {' and '.join(shown)}.\n"
        "On Deezer-Europe the epoch is chosen by ROC-AUC, in the release by accuracy."
    )


def _counts() -> str:
    """How the measured numbers compare with the papers, from the last row of docs/coverage.md (`study.coverage`)."""
    lines = (ROOT / "docs" / "coverage.md").read_text(encoding="utf-8").splitlines()
    total = next(line for line in lines if line.startswith("| **all**"))
    printed, named, measured, *states = (word.strip() for word in total.split("|")[2:8])
    listed = ", ".join(f"{state} {name}" for state, name in zip(states, ("reproduced", "below", "above"), strict=True))
    return (
        f"Of the {int(printed):,} numbers that the five papers print, one command each trains or measures "
        f"{int(named):,}; {measured} are\nmeasured: {listed} ([results](docs/results.md), [all of "
        "them, and what the words are worth](docs/coverage.md))."
    )
