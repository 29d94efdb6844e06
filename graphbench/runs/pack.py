"""Packs run records into one file: ``graphbench pack RUNS... --out FILE.jsonl``.

RUNS are folders at any height above ``record.json`` files, or packed files. Records that FILE already holds stay; one
that is there with another content is refused. ``graphbench/runs/records.py`` has the format.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from graphbench import atomic
from graphbench.command_line import CommandParser
from graphbench.errors import UserError
from graphbench.exit_codes import exit_codes
from graphbench.runs.records import PACKED, read_packed, record_sources, tell_selection, write_packed


def pack(roots: Sequence[Path], file: Path) -> tuple[int, int]:
    """Adds all records below some folders to a packed file. Of several at the same time each waits for the others.

    Returns:
        How many records were new, and how many the file holds now.

    Raises:
        UserError: no record, one that cannot be read, or two different ones of the same run.
    """
    with atomic.locked(file.parent):
        return _pack(roots, file)


def _pack(roots: Sequence[Path], file: Path) -> tuple[int, int]:
    contents = read_packed(file) if file.is_file() else {}
    before, read_from = len(contents), dict[str, Path]()
    sources = [source for root in roots for source in record_sources(root)]
    if not sources:
        raise UserError(f"no record.json below {', '.join(map(str, roots))}.")
    for source in sources:
        for run_id in source.run_ids():
            path = f"{source.config}/{run_id}"
            if source.read(run_id) is None:
                raise UserError(f"{source.path / run_id}: record.json missing, damaged or edited.")
            content: dict[str, Any] = json.loads(source.text(run_id) or "")
            known = contents.get(path, {})
            contents[path] = {**known, **content}
            if contents[path] != {**content, **known}:
                other = read_from.get(path, file)
                raise UserError(f"{source.path / run_id}: {other} holds another record of {path}; pack each by itself.")
            read_from[path] = source.path
    write_packed(file, contents)
    return len(contents) - before, len(contents)


@exit_codes
def main(arguments: Sequence[str] | None = None) -> int:
    """Reads the records and writes the file."""
    parser = CommandParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUNS", help="folders above record.json, packed files")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="FILE.jsonl, written or added to")
    options = parser.parse_args(arguments)
    if options.out.suffix != PACKED:
        parser.error(f"--out must end in {PACKED}, received {options.out}")
    tell_selection(options.runs)
    added, total = pack(options.runs, options.out)
    print(f"wrote {options.out}: {added} records added, {total} in all")
    return 0
