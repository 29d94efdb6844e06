"""Writes tables from run records, from nothing else.

``graphbench tables RECORDS... [--format md|latex|html|csv] [--out FILE]``
    One row per configuration: test metric at the best validation epoch (mean, sample standard deviation, number of
    runs), what layers reported (fraction of zero flows), parameters, seconds per epoch, peak memory, date, commit,
    hardware. RECORDS are folders of configurations or above them, FILE.jsonl for all in a packed file,
    FILE.jsonl/CONFIG for one. Packed records beside own runs are left out unless they are named.

``graphbench tables --sweep FILE [KEY VALUE ...] [--records RECORDS] [--baseline LABEL] [--details] [--format F]``
    Rows are the labels of a sweep, columns its data sets: measured beside published, the difference, a t-test
    against a baseline. KEY VALUE as the sweep was called with. ``--details`` adds what the numbers come from.
    ``--best_of_grid`` has one row per grid, the point that is best on validation.
    ``--format csv`` has one line per cell.
    For a paper of your own: ``--rows measured --percent --digits 2 --max_columns 8 --out table.tex``.

``graphbench tables RECORDS... --models [--baseline LABEL|FOLDER] [--details] [--format F] [--out FILE]``
    Models by data sets, without a sweep file: rows are the names of the configurations without the data set. The
    baseline may be another folder, say of the runs before a change: it becomes a row of its own.

``--out`` chooses the format by its name (.md, .tex, .html, .csv). docs/tables.md says how to read the tables.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from graphbench import atomic
from graphbench.command_line import CommandParser
from graphbench.errors import SHOWN, unknown
from graphbench.exit_codes import exit_codes
from graphbench.runs.record_index import indexed
from graphbench.runs.records import record_sources
from graphbench.tables.best_points import best_points
from graphbench.tables.cell_specs import cell_specs, model_specs
from graphbench.tables.configurations import configuration_table
from graphbench.tables.sweep_csv import long_csv
from graphbench.tables.sweep_layout import ROWS, Layout, details_table, main_tables
from graphbench.tables.sweep_table import NumberFormat, SweepTable, sweep_table
from graphbench.tables.text_table import html, latex, markdown

FORMATS = {"md": markdown, "latex": latex, "html": html}
SUFFIXES = {"": "md", ".md": "md", ".txt": "md", ".tex": "latex", ".html": "html", ".htm": "html", ".csv": "csv"}


def _read_table(options: argparse.Namespace) -> SweepTable:
    number_format = NumberFormat(options.percent, options.digits)
    if options.sweep is None:
        specs = model_specs(options.folders)
        if _is_folder(options.baseline) and options.baseline not in {spec.label for spec in specs}:
            specs = model_specs(options.folders, Path(options.baseline))
            options.baseline = str(Path(options.baseline))
        return sweep_table("runs", specs, baseline=options.baseline, number_format=number_format)
    from graphbench.sweeps import read_sweep

    sweep = read_sweep(options.sweep, options.overrides)
    specs, notes = cell_specs(sweep, options.records), list[str]()
    if options.best_of_grid:
        specs, notes = best_points(specs)
    table = sweep_table(
        sweep.name, specs, published=sweep.published, baseline=options.baseline, number_format=number_format
    )
    return replace(table, notes=tuple(notes))


def _is_folder(baseline: str | None) -> bool:
    """Whether a baseline is records, of a folder or packed, and not the label of a row."""
    return baseline is not None and (Path(baseline).exists() or bool(record_sources(Path(baseline))))


def _text(options: argparse.Namespace) -> str:
    if options.sweep is None and not options.models and options.format != "csv":
        return FORMATS[options.format]([configuration_table(options.folders)])
    table = _read_table(options)
    cells = [cell for cell in table.cells.values() if cell.stale]
    settings = [f"{cell.spec.name} ({cell.differing or 'hash'})" for cell in cells if not cell.other_code]
    _note("runs of another configuration than the sweep's, not judged", settings)
    code = [cell for cell in cells if cell.other_code]
    for name in sorted({name for cell in code for name in cell.other_code}):
        _note(f"made with another version of {name}, not judged", [c.spec.name for c in code if name in c.other_code])
    if options.format == "csv":
        return long_csv(table)
    tables = main_tables(table, options.layout)
    return FORMATS[options.format]([*tables, *([details_table(table)] if options.details else [])])


def _note(what: str, names: Sequence[str]) -> None:
    """Writes a note on standard error; nothing without names."""
    if names:
        shown = "; ".join(names[:SHOWN]) + (f"; ... ({len(names)} in all)" if len(names) > SHOWN else "")
        print(f"note: {what}: {shown}.", file=sys.stderr)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line; what does not fit together ends the program with exit code 2."""
    parser = CommandParser(description=__doc__)
    parser.add_argument(
        "words",
        nargs="*",
        metavar="RECORDS",
        help="results/<config name>, or packed records; with --sweep: KEY VALUE, as the sweep was called with",
    )
    parser.add_argument("--sweep", type=Path, metavar="FILE", help="sweep file, or name of a shipped one")
    parser.add_argument(
        "--records",
        type=Path,
        action="append",
        metavar="RECORDS",
        help="holds <config name>/<run>, or .jsonl; default: out_dir",
    )
    parser.add_argument("--models", action="store_true", help="models by data sets, from RECORDS alone")
    parser.add_argument(
        "--baseline",
        metavar="LABEL",
        help="row that the others are tested against (in a row, or a star where --rows has none); with --models "
        "also a folder",
    )
    parser.add_argument(
        "--best_of_grid", action="store_true", help="with --sweep: one row per grid, its best point on validation"
    )
    parser.add_argument("--details", action="store_true", help="add a table of runs, sizes, times, commits")
    parser.add_argument(
        "--rows", default=",".join(ROWS), metavar="KIND,...", help="below the measured row; default: %(default)s"
    )
    parser.add_argument("--percent", action="store_true", help="accuracies and other shares in percent")
    parser.add_argument("--digits", type=int, choices=range(9), metavar="N", help="default: as published, else 4")
    parser.add_argument(
        "--max_columns", type=int, default=Layout.max_columns, metavar="N", help="of one table; default: %(default)s"
    )
    parser.add_argument(
        "--bare", action="store_true", help="numbers alone: no ranks, and remarks in the notes instead of the cells"
    )
    parser.add_argument("--format", choices=[*FORMATS, "csv"], help="default: by the name of --out, else md")
    parser.add_argument("--out", type=Path, metavar="FILE", help="file to write; default: standard output")
    options = parser.parse_intermixed_args(arguments)
    if len(options.records or ()) > 1:
        parser.error("--records takes one folder or file; join several: graphbench pack A B --out all.jsonl")
    options.records = options.records[0] if options.records else None
    options.folders = [Path(word) for word in options.words] if options.sweep is None else []
    options.overrides = options.words if options.sweep else []
    if (options.sweep is None and not options.folders) or len(options.overrides) % 2:
        parser.error("either folders (RECORDS...) or --sweep FILE [KEY VALUE ...]")
    if options.format is None:
        ending = options.out.suffix.lower() if options.out else ""
        if ending not in SUFFIXES:
            raise unknown("ending of --out (or give --format)", ending, filter(None, SUFFIXES))
        options.format = SUFFIXES[ending]
    if options.models and options.sweep:
        parser.error("--models takes folders (RECORDS...), not --sweep FILE")
    if options.best_of_grid and not options.sweep:
        parser.error("--best_of_grid needs --sweep FILE, which has the grid")
    rows = tuple(options.rows.split(","))
    for row in rows:
        if row not in ROWS:
            raise unknown("kind of row", row, ROWS, "--rows")
    if options.max_columns < 1:
        parser.error(f"--max_columns must be at least 1, got {options.max_columns}")
    if rows != ROWS and "baseline" in rows and not options.baseline:
        parser.error("--rows baseline needs --baseline LABEL")
    options.layout = layout = Layout(rows, options.max_columns, options.bare)
    if (options.percent or options.digits is not None or layout != Layout()) and not (options.sweep or options.models):
        parser.error("--rows, --percent, --digits, --max_columns and --bare need --sweep FILE or --models")
    if options.format == "csv" and (options.digits is not None or layout != Layout()):
        parser.error("--rows, --digits, --max_columns and --bare are not for csv, which has all numbers unrounded")
    compared = options.baseline or options.details
    if options.sweep is None and (options.records or (compared and not options.models)):
        parser.error("--records needs --sweep FILE, --baseline and --details need that or --models")
    return options


@exit_codes
def main(arguments: Sequence[str] | None = None) -> int:
    """Reads the records and writes the table."""
    options = parse(arguments)
    further = [Path(options.baseline)] if _is_folder(options.baseline) else []
    with indexed([*options.folders, *([options.records] if options.records else []), *further]):
        text = _text(options)
    if options.out is None:
        print(text, end="")
    else:
        with atomic.output(options.out) as file:
            file.write(text.encode())
        print(f"wrote {options.out}")
    return 0
