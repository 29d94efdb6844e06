"""The command line; see the package."""

from __future__ import annotations

import json
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from graphbench.command_line import CommandParser
from scripts import torture
from scripts.torture import workplace
from scripts.torture.files import damages
from scripts.torture.inputs import commands, configurations
from scripts.torture.kills import kills, sweep_kills
from scripts.torture.places import full_disks, races, read_only
from scripts.torture.program import import_program

Campaign = Callable[[int, random.Random, Path, Path], Iterator[str | None]]
CAMPAIGNS: dict[str, tuple[Campaign, int]] = {
    "configs": (configurations, 2000),
    "commands": (commands, 500),
    "files": (damages, 500),
    "kills": (kills, 180),
    "sweeps": (sweep_kills, 20),
    "disks": (full_disks, 60),
    "read_only": (read_only, 20),
    "races": (races, 20),
}
"""Name -> what makes its cases, and how many by default."""
SHOWN = 100
"""Defects per campaign that the report names."""


def run(name: str, number: int, seed: int, minutes: float) -> dict[str, Any]:
    """Counts and defects of one campaign; stops early when its time is over."""
    start, cases, defects = time.monotonic(), 0, []
    with tempfile.TemporaryDirectory(prefix="torture-") as scratch:
        Path(scratch).chmod(0o755)
        blank = workplace.make(Path(scratch) / "blank")
        if number:
            for defect in CAMPAIGNS[name][0](number, random.Random(f"{seed} {name}"), blank, Path(scratch)):
                cases += 1
                if defect is not None:
                    defects.append(f"case {cases}: {defect}"[:2000])
                    print(f"{name}, {defects[-1]}", file=sys.stderr, flush=True)
                if time.monotonic() - start > 60 * minutes:
                    break
    seconds = time.monotonic() - start
    print(f"{name}: {cases} cases, {len(defects)} defects, {seconds:.0f} s", file=sys.stderr, flush=True)
    return {"cases": cases, "held": cases - len(defects), "seconds": round(seconds), "defects": defects[:SHOWN]}


def main() -> int:
    """Runs the campaigns and writes the report; 1 where a case was a defect."""
    parser = CommandParser(description=torture.__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="report, JSON; campaigns in it that are not run now stay")
    parser.add_argument("--minutes", type=float, default=1e6, help="most for one campaign")
    for name, (campaign, number) in CAMPAIGNS.items():
        text = (campaign.__doc__ or "").splitlines()[0]
        parser.add_argument(f"--{name}", type=int, metavar="N", help=f"cases, default {number}: {text}")
    options = parser.parse_args()
    chosen = {name: vars(options)[name] for name in CAMPAIGNS}
    if all(number is None for number in chosen.values()):
        chosen = {name: number for name, (_, number) in CAMPAIGNS.items()}
    import_program()
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout
    known = json.loads(options.out.read_text())["campaigns"] if options.out and options.out.is_file() else {}
    failed = False
    for name, number in chosen.items():
        if not number:
            continue
        result = run(name, number, options.seed, options.minutes)
        facts = {"seed": options.seed, "commit": commit.strip(), "date": time.strftime("%Y-%m-%d")}
        known[name] = facts | result
        failed = failed or bool(result["defects"])
        if options.out:
            options.out.parent.mkdir(parents=True, exist_ok=True)
            report = {"python": platform.python_version(), "campaigns": known}
            options.out.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
