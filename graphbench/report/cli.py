"""Writes one HTML page from run records: ``graphbench report RECORDS... --out report.html``.

The page loads nothing from elsewhere: leaderboards per data set beside the published values, score over size and time,
training curves and the gap to test (where the runs' ``stats.json`` lie beside their records), fractions of exactly-zero
attention, and per configuration its runs, settings, commit and environment. RECORDS are folders at any height above
``record.json``, or packed records (.jsonl). docs/report.md says how to read it.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from graphbench import atomic
from graphbench.command_line import CommandParser
from graphbench.exit_codes import exit_codes
from graphbench.report.gather import gather
from graphbench.report.page import page
from graphbench.runs.record_index import indexed

LIMIT = 300


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = CommandParser(description=__doc__)
    parser.add_argument("records", nargs="+", type=Path, metavar="RECORDS", help="folders above record.json, or .jsonl")
    parser.add_argument("--out", type=Path, default=Path("report.html"), metavar="FILE", help="default: report.html")
    parser.add_argument("--title", default="Results", help="heading of the page")
    parser.add_argument(
        "--sweep", type=Path, nargs="+", default=(), metavar="FILE", help="sweep files that name published values"
    )
    parser.add_argument(
        "--limit", type=int, default=LIMIT, metavar="N", help=f"configurations with curves, details (default: {LIMIT})"
    )
    options = parser.parse_args(arguments)
    if options.limit < 0:
        parser.error(f"--limit must be at least 0, received {options.limit}")
    return options


@exit_codes
def main(arguments: Sequence[str] | None = None) -> int:
    """Reads the records and writes the page."""
    options = parse(arguments)
    with indexed(options.records):
        configurations = gather(options.records, options.sweep)
        text = page(configurations, title=options.title, limit=options.limit)
    with atomic.output(options.out) as file:
        file.write(text.encode())
    runs = sum(len(configuration.result.runs) for configuration in configurations)
    missing = sum(len(configuration.result.left_out) for configuration in configurations)
    print(f"wrote {options.out}: {runs} finished runs, {missing} not included, {len(text) / 2**20:.1f} MiB")
    return 0
