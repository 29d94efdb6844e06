"""Which printed cells of the five papers a shipped sweep names, and which have been measured.

``python -m study.coverage [--list] [--check]`` computes it from results/published, configs/sweeps and the
packed records, prints a line per table and writes docs/coverage.md and docs/results.md. ``--list`` prints every cell
instead; ``--check`` compares the pages only. That every entry can be built is a test (tests/test_sweeps.py).

A cell is a printed number. It is *named* if an entry of a sweep is compared with it (``published``), if it is read
from the same runs (training errors, gains), or if a benchmark measures it; *measured* if all runs of the entry are in
results/measured at the paper's size. Where a paper's text and its release disagree, there is a sweep for each: a cell
that the first does not reproduce but another one does is counted apart, with the name of that sweep.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

import yaml

from graphbench.exit_codes import exit_codes
from graphbench.published.table import PublishedRow, names, read_published
from graphbench.runs import atomic
from graphbench.runs.aggregate import Mean
from graphbench.sweeps import read_sweep
from graphbench.sweeps.sweep import Sweep
from graphbench.tables.cli import cell_specs
from graphbench.tables.sweep_table import Cell, sweep_cells
from study import results_page

ROOT = Path(__file__).resolve().parents[1]
SWEEPS = ROOT / "configs/sweeps"
RECORDS = ROOT / "results/measured/records"
PAGE = ROOT / "docs/coverage.md"
RESULTS = ROOT / "docs/results.md"
NOT_NAMED = ROOT / "study/not_named.yaml"
NOT_REPRODUCED = ROOT / "study/not_reproduced.yaml"


BENCHMARKS: Mapping[str, str] = {
    "geco_table10": "python scripts/bench.py geco --device cuda",
    "sgformer_table4": "python scripts/bench.py sgformer_table4 --device cuda",
}
"""Tables of times and memory -> the command that measures them."""
MANY_CELLS = 5
"""With fewer cells the distances of a row from validation and test scores say nothing."""
SAME_RUNS: Mapping[str, str] = {"train_mae": "valid_mae", "accuracy_gain_percent_points": "accuracy_percent"}
"""Metric of a cell -> metric of the cell in the same row whose runs give it, too."""


@dataclass(frozen=True)
class Coverage:
    """What there is for one printed cell.

    Attributes:
        table: name of the published table.
        row: the printed number.
        sweep: that names it; empty: none.
        config: name of the configuration, or the benchmark's command; empty: none.
        status: of its measurement, see :attr:`Cell.status`; ``not named`` without a command.
        variant: another sweep, which reproduces a cell that ``sweep`` does not; empty: none.
        mean: of the runs, in the scale of the printed number; None where there are none.
        validation: mean score of the same runs on validation data, in the same scale.
    """

    table: str
    row: PublishedRow
    sweep: str = ""
    config: str = ""
    status: str = "not named"
    variant: str = ""
    mean: Mean | None = None
    validation: float | None = None

    @property
    def measured(self) -> bool:
        """Whether all runs at the paper's size are there."""
        return self.status in ("reproduced", "below", "above")


def coverage(sweeps: Iterable[Sweep]) -> list[Coverage]:
    """Every printed cell of results/published, in its order.

    Args:
        sweeps: the shipped ones. Where several entries name a cell, the sweep that names most cells counts, of equal
            ones that with the first name (variants of a table have longer names), and in it the first entry.
    """
    named: dict[str, dict[PublishedRow, Coverage]] = {}
    of_sweeps = (_cells_of(sweep) for sweep in sweeps if sweep.published)
    with_cells = filter(None, of_sweeps)
    by_size = sorted(with_cells, key=lambda cells: (-len({cell.row for cell in cells}), cells[0].sweep))
    for cells in by_size:
        for cover in cells:
            first = named.setdefault(cover.table, {}).setdefault(cover.row, cover)
            if first.measured and first.status != "reproduced" and cover.status == "reproduced":
                named[cover.table][cover.row] = replace(first, variant=first.variant or cover.sweep)
    result = []
    for table in names():
        for row in (row for row in read_published(table).rows if row.mean):
            found = named.get(table, {})
            result.append(found.get(row) or _otherwise(table, row, found))
    return result


def _cells_of(sweep: Sweep) -> list[Coverage]:
    """The printed cells that the entries of a sweep are compared with."""
    assert sweep.published is not None
    packed = RECORDS / f"{sweep.name}.jsonl"
    found = []
    for cell in sweep_cells(cell_specs(sweep, packed), sweep.published):
        row = cell.published
        if row is not None and row.mean:
            config = cell.spec.records.name
            found.append(
                Coverage(
                    sweep.published.name,
                    row,
                    sweep.name,
                    config,
                    _status(cell),
                    mean=cell.measured,
                    validation=_validation(cell),
                )
            )
    return found


def _validation(cell: Cell) -> float | None:
    if cell.measured is None or cell.published is None:
        return None
    mean = cell.result.mean("val", cell.measured.name)
    return None if mean is None else mean.mean * cell.published.scale.factor


def _status(cell: Cell) -> str:
    """Of the comparison; ``incomplete`` where runs are missing, ``smaller`` for experiments of reduced size."""
    if cell.comparison is None or cell.stale:
        return "not run"
    if cell.spec.reduced:
        return "smaller"
    return cell.comparison.status if len(cell.result.runs) >= len(cell.spec.run_ids) else "incomplete"


def _otherwise(table: str, row: PublishedRow, found: Mapping[PublishedRow, Coverage]) -> Coverage:
    """A cell that no entry names: measured by a benchmark, or with another cell's runs."""
    if table in BENCHMARKS:
        return Coverage(table, row, config=BENCHMARKS[table], status="benchmark")
    other = SAME_RUNS.get(row.metric)
    for cover in found.values() if other else ():
        model = row.model.partition(" minus ")[0]
        same = (cover.row.model, cover.row.dataset, cover.row.metric) == (model, row.dataset, other)
        if same and row.settings.items() <= cover.row.settings.items() | row.settings.items():
            return Coverage(table, row, cover.sweep, cover.config, "with " + str(other))
    return Coverage(table, row)


def page(cells: Sequence[Coverage]) -> str:
    """The counts per table and paper as Markdown."""
    lines = [
        "# The printed tables, cell by cell",
        "",
        "Written by `python -m study.coverage` from results/published, configs/sweeps and results/measured.",
        "A cell is a printed number. *Named*: one command trains it and compares (a sweep), or measures it (a",
        "benchmark, for times and memory), and its model builds, which tests check. *Measured*: all runs are in",
        "results/measured at the paper's size; then it is *reproduced* (within one published deviation plus one",
        "point), *below* or *above*. *By a variant*: how many of these last two a sweep of the same table with other",
        "settings reproduces: the text's protocol where the table follows the release, or the other way round.",
        "`--list` prints every cell.",
        "",
        "| table | printed | named | measured | reproduced | below | above | by a variant | rows not named |",
        "|---|--:|--:|--:|--:|--:|--:|--:|---|",
    ]
    papers: dict[str, list[Coverage]] = {}
    for cell in cells:
        papers.setdefault(cell.row.paper, []).append(cell)
    for paper, of_paper in papers.items():
        for table in dict.fromkeys(cell.table for cell in of_paper):
            lines.append(_line(table, [cell for cell in of_paper if cell.table == table]))
        lines.append(_line(f"**{paper}**", of_paper, rows=False))
    lines.append(_line("**all**", cells, rows=False))
    lines += [
        "",
        "## What was measured and not reproduced",
        "",
        "† marks what no command of the repository repeats.",
        "",
    ]
    lines += _with_reasons([cell for cell in cells if cell.status in ("below", "above")], NOT_REPRODUCED)
    lines += ["", "## Rows in print that are nearer to validation scores", ""]
    lines += _nearer_to_validation(cells)
    lines += ["", "## What is missing for the rows not named", ""]
    lines += _with_reasons([cell for cell in cells if cell.status == "not named"], NOT_NAMED)
    return "\n".join(lines) + "\n"


def reasons(path: Path) -> dict[tuple[str, str], str]:
    """(table, row as printed) -> what is missing or what was tried, from a file of the study."""
    read = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {(table, model): reason for table, models in read.items() for model, reason in models.items()}


def _with_reasons(cells: Iterable[Coverage], path: Path) -> list[str]:
    """A line per reason: the rows that it holds for, with the number of their cells."""
    stated = reasons(path)
    rows: dict[str, list[str]] = {}
    for (table, model), count in Counter((cell.table, cell.row.model) for cell in cells).items():
        reason = stated.get((table, model), f"no reason is stated in {path.relative_to(ROOT)}")
        rows.setdefault(reason, []).append(f"{model} ({table}, {count})")
    return [f"- {', '.join(named)}: {reason}." for reason, named in rows.items()]


def _nearer_to_validation(cells: Iterable[Coverage]) -> list[str]:
    """A table of the rows whose printed numbers are nearer to our validation scores than to our test scores."""
    distances: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for cell in cells:
        if cell.measured and cell.mean is not None and cell.validation is not None:
            printed = float(cell.row.mean)
            of_row = distances.setdefault((cell.table, cell.row.model), [])
            of_row.append((abs(printed - cell.mean.mean), abs(printed - cell.validation)))
    lines = []
    judged = {row: pairs for row, pairs in distances.items() if len(pairs) >= MANY_CELLS}
    for (table, model), pairs in judged.items():
        from_test, from_validation = (fmean(each) for each in zip(*pairs, strict=True))
        if from_validation < from_test:
            lines.append(f"| {table} | {model} | {len(pairs)} | {from_test:.2f} | {from_validation:.2f} |")
    return [
        f"Of the {len(judged)} rows with at least {MANY_CELLS} measured cells these {len(lines)}: mean distance of the",
        "printed numbers from our scores on test and on validation data, same runs.",
        "",
        "| table | row | cells | from test | from validation |",
        "|---|---|--:|--:|--:|",
        *lines,
    ]


def _line(title: str, cells: Sequence[Coverage], rows: bool = True) -> str:
    count = Counter(cell.status for cell in cells)
    measured = sum(cell.measured for cell in cells)
    named = len(cells) - count["not named"]
    missing = Counter(cell.row.model for cell in cells if cell.status == "not named") if rows else {}
    shown = ", ".join(f"{model} {number}" for model, number in missing.items())
    numbers = [len(cells), named, measured, count["reproduced"], count["below"], count["above"]]
    numbers.append(sum(bool(cell.variant) for cell in cells))
    return f"| {title} | {' | '.join(map(str, numbers))} | {shown} |"


def read_sweeps() -> list[Sweep]:
    """All shipped sweeps."""
    return [read_sweep(path) for path in sorted(SWEEPS.glob("*.yaml"))]


@exit_codes
def main(arguments: Sequence[str] | None = None) -> int:
    """Prints, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="every cell as tab-separated values")
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if a page is out of date")
    options = parser.parse_args(arguments)
    cells = coverage(read_sweeps())
    text = page(cells)
    if options.list:
        for cell in cells:
            row = cell.row
            what = (cell.table, row.model, row.dataset, row.setting, row.metric, row.printed)
            print("\t".join((*what, cell.sweep, cell.config, cell.status, cell.variant)))
        return 0
    print(text.partition("\n| ")[2], end="")
    pages = {PAGE: text, RESULTS: results_page.page(cells)}
    stale = [path for path, new in pages.items() if not path.is_file() or path.read_text(encoding="utf-8") != new]
    for path in stale if not options.check else ():
        atomic.write_text(path, pages[path])
    return int(bool(stale) and options.check)


if __name__ == "__main__":
    sys.exit(main())
