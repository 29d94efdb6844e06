"""Finished runs into results/measured: ``python -m study.fold_measurements RUNS [--only SWEEP ...]``.

RUNS is the ``--out_dir`` that sweeps were run with. Every sweep that results/measured/README.md has a table of gets the
finished runs of its configurations into its packed records, and all tables are written again. What is packed already
stays; another record of the same run is refused. Then: ``python -m scripts.regenerate``, for the claims.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from graphbench import atomic
from graphbench.command_line import CommandParser
from graphbench.errors import UserError
from graphbench.exit_codes import exit_codes
from graphbench.runs.records import RecordFolder, read_packed, write_packed
from graphbench.sweeps import read_sweep
from graphbench.sweeps.sweep import Entry
from graphbench.tables import cli as tables

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "results/measured/README.md"


def commands() -> list[list[str]]:
    """Arguments of scripts/tables.py, one list per table of the README."""
    text = README.read_text(encoding="utf-8").replace("\\\n", " ")
    found = re.findall(r"^python scripts/tables\.py (.*)$", text, re.MULTILINE)
    return [shlex.split(line, comments=True) for line in found]


def fold(file: Path, entries: Sequence[Entry], runs: Path) -> int:
    """Adds the finished runs of a sweep's entries to its packed records; waits for others that do so.

    Args:
        file: packed records of the sweep; need not exist.
        entries: of the sweep.
        runs: folder of the configurations' folders.

    Returns:
        How many records were new.

    Raises:
        UserError: the file holds another record of a run.
    """
    with atomic.locked(file.parent):
        return _fold(file, entries, runs)


def _fold(file: Path, entries: Sequence[Entry], runs: Path) -> int:
    contents = read_packed(file) if file.is_file() else {}
    before = len(contents)
    for entry in entries:
        source = RecordFolder(runs / entry.config.name)
        for run_id in source.run_ids():
            record = source.read(run_id)
            if record is None or record.status != "finished" or record.settings != entry.config.settings:
                continue
            path, content = f"{source.config}/{run_id}", json.loads(record.to_json())
            known = contents.setdefault(path, content)
            # A later version writes more fields; those that both have must be equal.
            if any(known[name] != content[name] for name in known.keys() & content.keys()):
                raise UserError(f"{file} holds another record of {path} than {source.path / run_id}.")
    if len(contents) > before:
        write_packed(file, contents)
    return len(contents) - before


@exit_codes
def main(arguments: Sequence[str] | None = None) -> int:
    """Folds, and writes the tables."""
    parser = CommandParser(description=__doc__)
    parser.add_argument("runs", type=Path, metavar="RUNS", help="--out_dir of the sweeps")
    parser.add_argument("--only", nargs="+", metavar="SWEEP", help="names of sweeps; default: all of the README")
    options = parser.parse_args(arguments)
    for command in commands():
        parsed = tables.parse(command)
        if parsed.sweep is not None and parsed.records is not None:
            sweep = read_sweep(ROOT / parsed.sweep)
            if options.only is None or sweep.name in options.only:
                added = fold(ROOT / parsed.records, sweep.entries, options.runs)
                print(f"{sweep.name}: {added} records added")
        if parsed.sweep is None or (ROOT / parsed.records).is_file():
            tables.main(command)
    return 0


if __name__ == "__main__":
    sys.exit(main())
