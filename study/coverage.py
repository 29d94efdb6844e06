"""Which printed cells of the five papers a shipped sweep names, and which have been measured.

``python -m study.coverage [--list] [--check]`` computes it from results/published, configs/sweeps and the
packed records, prints a line per table and writes docs/coverage.md and docs/results.md. ``--list`` prints every cell
instead; ``--check`` compares the pages only. That every entry can be built is a test (tests/test_sweeps.py).

A cell is a printed number. It is *named* if an entry of a sweep is compared with it (``published``), if it is read
from the same runs (training errors, gains), or if a benchmark measures it; *measured* if all runs of the entry are in
results/measured at the paper's size. Where a paper's text and its release disagree, there is a sweep for each: a cell
of which another one says the contrary of the first is counted apart, with the name of that sweep.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from graphbench import atomic
from graphbench.command_line import CommandParser
from graphbench.exit_codes import exit_codes
from graphbench.published.table import PublishedRow, names, read_published
from graphbench.runs.aggregate import Mean
from graphbench.sweeps.sweep import Sweep
from graphbench.tables.cell_specs import cell_specs
from graphbench.tables.provenance import Provenance
from graphbench.tables.sweep_table import Cell, sweep_cells
from study import coverage_page, results_page
from study.shipped_sweeps import SWEEPS, shipped_sweep

ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / "results/measured/records"
PAGE = ROOT / "docs/coverage.md"
RESULTS = ROOT / "docs/results.md"

BENCHMARKS: Mapping[str, str] = {
    "geco_table10": "python scripts/bench.py geco --device cuda",
    "sgformer_table4": "python scripts/bench.py sgformer_table4 --device cuda",
}
"""Tables of times and memory -> the command that measures them."""
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
        column: of the sweep's table.
        variant: an entry of another sweep, or with another column, which reproduces a cell that the first does not, or
            the other way round; None: none.
        mean: of the runs, in the scale of the printed number; None where there are none.
        validation: mean score of the same runs on validation data, in the same scale.
        protocol: split of the runs, and the metric that chose their epochs where it is another one.
    """

    table: str
    row: PublishedRow
    sweep: str = ""
    config: str = ""
    status: str = "not named"
    column: str = ""
    variant: Coverage | None = None
    mean: Mean | None = None
    validation: float | None = None
    protocol: str = ""

    @property
    def measured(self) -> bool:
        """Whether all runs at the paper's size are there."""
        return self.status in ("reproduced", "below", "above")

    @property
    def reproduced(self) -> bool:
        """Whether they agree with it."""
        return self.status == "reproduced"


def coverage(sweeps: Iterable[Sweep]) -> list[Coverage]:
    """Every printed cell of results/published, in its order.

    Args:
        sweeps: the shipped ones. Where several entries name a cell, the sweep that names most cells counts, of equal
            ones that with the first name (variants of a table have longer names), and in it the first entry; one that
            is measured goes before all that are not.
    """
    named: dict[str, dict[PublishedRow, Coverage]] = {}
    of_sweeps = (_cells_of(sweep) for sweep in sweeps if sweep.published)
    with_cells = filter(None, of_sweeps)
    by_size = sorted(with_cells, key=lambda cells: (-len({cell.row for cell in cells}), cells[0].sweep))
    for cells in by_size:
        for cover in cells:
            first = named.setdefault(cover.table, {}).setdefault(cover.row, cover)
            if cover.measured and not first.measured:
                named[cover.table][cover.row] = cover
            elif first.measured and cover.measured and first.reproduced != cover.reproduced:
                named[cover.table][cover.row] = replace(first, variant=first.variant or cover)
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
                    cell.spec.column,
                    mean=cell.measured,
                    validation=_validation(cell),
                    protocol=_protocol(cell),
                )
            )
    return found


def _validation(cell: Cell) -> float | None:
    if cell.measured is None or cell.published is None:
        return None
    mean = cell.result.mean("val", cell.measured.name)
    return None if mean is None else mean.mean * cell.published.scale.factor


def _protocol(cell: Cell) -> str:
    split = "; ".join(Provenance.of(cell.result.runs).split)
    chosen_by = cell.result.metric if cell.measured and cell.measured.name != cell.result.metric else None
    return split + (f"; epochs by {chosen_by}" if chosen_by else "")


def _status(cell: Cell) -> str:
    """Of the comparison; ``incomplete`` where runs are missing, ``smaller`` for experiments of reduced size."""
    if cell.comparison is None or cell.stale:
        return "not run"
    if cell.spec.reduced:
        return "smaller"
    return "incomplete" if cell.spec.shortfall(cell.result.runs) else cell.comparison.status


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


def read_sweeps() -> list[Sweep]:
    """All shipped sweeps."""
    return [shipped_sweep(path.stem) for path in SWEEPS]


@exit_codes
def main(arguments: Sequence[str] | None = None) -> int:
    """Prints, and writes the page."""
    parser = CommandParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="every cell as tab-separated values")
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if a page is out of date")
    options = parser.parse_args(arguments)
    cells = coverage(read_sweeps())
    text = coverage_page.page(cells)
    if options.list:
        for cell in cells:
            row = cell.row
            what = (cell.table, row.model, row.dataset, row.setting, row.metric, row.printed)
            print("\t".join((*what, cell.sweep, cell.config, cell.status, cell.variant.sweep if cell.variant else "")))
        return 0
    print(text.partition("\n| ")[2], end="")
    pages = {PAGE: text, RESULTS: results_page.page(cells)}
    stale = [path for path, new in pages.items() if not path.is_file() or path.read_text(encoding="utf-8") != new]
    for path in stale if not options.check else ():
        atomic.write_text(path, pages[path])
    return int(bool(stale) and options.check)


if __name__ == "__main__":
    sys.exit(main())
