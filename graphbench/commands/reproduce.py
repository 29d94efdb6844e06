"""The tables of one paper: ``graphbench reproduce PAPER [--quick] [--jobs N] [--out_dir DIR] [--dry_run]``.

A paper's sweeps are ``configs/sweeps/PAPER-*.yaml``; ``quick-PAPER.yaml`` is a reduced version that takes minutes. Each
is trained (what is finished is skipped), its table is printed and written to ``DIR/tables/``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from graphbench import shipped
from graphbench.command_line import CommandParser
from graphbench.sweeps import cli
from graphbench.tables import cli as tables

SWEEPS = shipped.root() / "configs" / "sweeps"
PAPERS = {
    "sfi": "SFi-Former",
    "sgformer": "SGFormer",
    "geco": "GECO",
    "gradformer": "Gradformer",
    "ffgt": "FFGT",
}


def sweeps_of(paper: str, *, quick: bool = False) -> list[Path]:
    """The sweep files of a paper, without those that search for settings."""
    if quick:
        return [SWEEPS / f"quick-{paper}.yaml"]
    return sorted(path for path in SWEEPS.glob(f"{paper}-*.yaml") if "-search" not in path.stem)


def main(arguments: Sequence[str] | None = None) -> int:
    """Trains and prints; returns the exit code: the worst of the sweeps'."""
    parser = CommandParser(description="Reproduce the tables of one paper.")
    parser.add_argument("paper", choices=PAPERS)
    parser.add_argument("--quick", action="store_true", help="a reduced version: minutes instead of days")
    parser.add_argument("--jobs", default="1", metavar="N", help="runs at the same time (default: 1)")
    parser.add_argument("--out_dir", type=Path, metavar="DIR", help="default: results/reproduce/PAPER[-quick]")
    parser.add_argument("--dry_run", action="store_true", help="check and list, train nothing")
    options = parser.parse_args(arguments)
    folder = options.out_dir or Path("results/reproduce") / (options.paper + ("-quick" if options.quick else ""))
    worst = 0
    for sweep in sweeps_of(options.paper, quick=options.quick):
        code = cli.main(
            [str(sweep), "--jobs", options.jobs, "--out_dir", str(folder), *(["--dry_run"] if options.dry_run else [])]
        )
        worst = max(worst, code)
        if code not in (0, cli.FAILED):  # wrong input, interrupted
            return code
        if not options.dry_run:
            worst = max(worst, _table(sweep, folder))
    return worst


def _table(sweep: Path, folder: Path) -> int:
    """Prints the table of a sweep and keeps it."""
    target = folder / "tables" / f"{sweep.stem}.md"
    code = tables.main(["--sweep", str(sweep), "--records", str(folder), "--out", str(target)])
    if code == 0:
        print(f"\n{target.read_text()}\n{target}")
    return code
