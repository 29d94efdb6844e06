"""Stores the output of a measuring command with hardware, versions and commit, so that rules on claims can read it.

``python -m study.record_measurement OUTPUT NAME --command COMMAND --hardware NAME --software VERSIONS`` reads a JSON
file, or the JSON object in the last line of printed output, and writes ``results/measured/NAME.json``. Rules of
study/claims.yaml refer to its numbers as ``NAME: STEP / STEP``.
"""

from __future__ import annotations

import datetime
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from graphbench import atomic
from graphbench.command_line import CommandParser
from graphbench.errors import UserError
from graphbench.runs.environment import environment

ROOT = Path(__file__).resolve().parents[1]


def main(arguments: Sequence[str] | None = None) -> int:
    """Reads, adds, writes."""
    parser = CommandParser(description=__doc__)
    parser.add_argument("output", type=Path, help="a JSON file, or what the command printed")
    parser.add_argument("name", help="of the file below results/measured, without .json")
    parser.add_argument("--command", required=True, help="that measured")
    parser.add_argument("--hardware", required=True, help="device, as its maker calls it")
    parser.add_argument(
        "--software", required=True, metavar="VERSIONS", help="for example 'torch 2.11.0, triton 3.6.0'"
    )
    parser.add_argument("--date", default=datetime.datetime.now(datetime.UTC).date().isoformat(), help="default: today")
    parser.add_argument("--commit", help="that was measured; default: the one checked out")
    parser.add_argument("--folder", type=Path, default=ROOT / "results" / "measured", help="default: results/measured")
    options = parser.parse_args(arguments)
    try:
        content = {
            "command": options.command,
            "date": options.date,
            "hardware": options.hardware,
            "software": options.software,
            "commit": options.commit or _checked_out(),
            "measured": _read(options.output),
        }
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return UserError.exit_code
    file = options.folder / f"{options.name}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    atomic.write_text(file, json.dumps(content, indent=1) + "\n")
    print(f"wrote {file}")
    return 0


def _checked_out() -> str:
    commit = environment()["git_commit"]
    if commit is None:
        raise UserError("--commit is needed: this folder is no checkout.")
    return str(commit)[:7]


def _read(file: Path) -> dict[str, Any]:
    """The object in a file, or in its last line."""
    try:
        text = file.read_text(encoding="utf-8").strip()
        for part in (text, text[text.rfind("\n") + 1 :]):
            try:
                content = json.loads(part)
            except ValueError:
                continue
            if isinstance(content, dict) and content:
                return content
    except OSError as error:
        raise UserError(f"{file}: cannot be read ({error.strerror}).") from None
    raise UserError(f"{file}: neither the file nor its last line is a JSON object.")


if __name__ == "__main__":
    sys.exit(main())
