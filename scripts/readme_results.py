"""The table of results in README.md, from the stored records; ``python -m scripts.regenerate`` writes it."""

from __future__ import annotations

import re
from pathlib import Path

from graphbench.runs.aggregate import Mean
from graphbench.sweeps import read_sweep
from graphbench.tables.cli import cell_specs
from graphbench.tables.sweep_table import Cell, SweepTable, sweep_table

ROOT = Path(__file__).resolve().parent.parent
MEASURED = ROOT / "results" / "measured"
SWEEP, MODELS = "sgformer-table2", ("GCN", "SGFormer")
BEGIN, END = "<!-- results: written by scripts.regenerate -->\n", "<!-- end of results -->"


def page() -> str:
    """README.md with the table of today."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.sub(f"{BEGIN}.*?{END}", lambda _: f"{BEGIN}{_table()}\n{_counts()}\n{END}", text, flags=re.DOTALL)


def _table() -> str:
    sweep = read_sweep(ROOT / "configs" / "sweeps" / f"{SWEEP}.yaml")
    specs = cell_specs(sweep, MEASURED / "records" / f"{SWEEP}.jsonl")
    table = sweep_table(SWEEP, specs, published=sweep.published)
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


def _counts() -> str:
    """How the measured numbers compare with the papers, from the last row of docs/coverage.md (`study.coverage`)."""
    lines = (ROOT / "docs" / "coverage.md").read_text(encoding="utf-8").splitlines()
    total = next(line for line in lines if line.startswith("| **all**"))
    printed, named, measured, *states = (word.strip() for word in total.split("|")[2:8])
    listed = ", ".join(f"{state} {name}" for state, name in zip(states, ("reproduced", "below", "above"), strict=True))
    return (
        f"Mean and deviation over seeds or splits, CPU. Of the {int(printed):,} numbers that the five papers "
        "print, one\n"
        f"command each trains or measures {int(named):,}; {measured} are measured: {listed} "
        "([results](docs/results.md), [all of them](docs/coverage.md))."
    )
