"""Writes a Markdown table from run records: ``python scripts/tables.py results/A results/B ... [--out FILE]``.

One row per configuration folder: test metric at the best validation epoch (mean, sample standard deviation, number of
runs), what layers reported (share of zero flows), parameters, seconds per epoch, peak memory, date, commit, hardware.
Numbers come from ``record.json`` only.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from graphbench.errors import UserError
from graphbench.results import atomic
from graphbench.results.aggregate import Aggregate, aggregate
from graphbench.results.record import RunRecord
from graphbench.results.table import STATISTICS, format_mean

COLUMNS = (
    "configuration",
    "data set",
    "split",
    "metric",
    "test",
    "val",
    "runs",
    "parameters",
    "s/epoch",
    "peak memory",
    "date",
    "commit",
    "hardware",
)


def row(result: Aggregate, statistics: Sequence[str]) -> str:
    """The line of one configuration; ``statistics`` are the names of what its layers reported."""
    records = result.runs
    first = records[0]
    sizes = "/".join(str(size) for size in first.data["sizes"].values())
    seconds = sum(each.time_per_epoch for each in records) / len(records)
    memory = max(each.peak_memory or 0 for each in records)
    commits = sorted({_commit(each) for each in records})
    cells = [
        result.config,
        first.data["name"],
        f"{first.data['split_mode']} {sizes}",
        first.metric,
        format_mean(result.mean("test")),
        format_mean(result.mean("val")),
        *(format_mean(result.mean("test", name)) for name in statistics),
        str(len(records)),
        f"{first.params:,}",
        f"{seconds:.3f}",
        f"{memory / 2**20:.0f} MiB",
        max(each.ended or "" for each in records)[:10],
        " ".join(commits),
        f"{first.environment['gpu'] or first.environment['cpu']}, {first.environment['cores']} cores",
    ]
    return "| " + " | ".join(cells) + " |"


def _commit(record: RunRecord) -> str:
    """Eight digits, with a plus where the working tree had changes."""
    commit, dirty = record.environment["git_commit"], record.environment["git_dirty"]
    return (commit or "unknown")[:8] + ("+" if dirty else "")


def main() -> int:
    """Reads the folders and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR", help="results/<config name>")
    parser.add_argument("--out", type=Path, help="file to write; default: standard output")
    options = parser.parse_args()
    try:
        results = []
        for folder in options.folders:
            results.append(result := aggregate(folder))
            if not result.runs:
                raise UserError(f"{folder}: no finished run ({result.left_out or 'no record.json below it'}).")
        statistics = [name for name in STATISTICS if any(each.mean("test", name) for each in results)]
        after = COLUMNS.index("val") + 1
        columns = [*COLUMNS[:after], *(STATISTICS[name] for name in statistics), *COLUMNS[after:]]
        lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
        lines += [row(each, statistics) for each in results]
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return UserError.exit_code
    text = "\n".join(lines) + "\n"
    if options.out is None:
        print(text, end="")
    else:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        atomic.write_text(options.out, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
