"""The command line of scripts/sweep.py.

Exit codes: 0 all runs are finished; 1 some runs failed (listed, with their reasons); 2 the input is wrong, nothing was
started; 130 interrupted (the same command goes on).
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from graphbench.errors import Interrupted, UserError
from graphbench.sweeps.sweep import Sweep, read_sweep

if TYPE_CHECKING:
    from graphbench.sweeps.plan import Planned
    from graphbench.sweeps.watch import Failure, Watcher

FAILED = 1
LAUNCHERS = ("local",)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    options = _parse(arguments)
    try:
        return _main(options)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return UserError.exit_code
    except (Interrupted, KeyboardInterrupt):
        print("interrupted: what was running has saved its state; the same command goes on.", file=sys.stderr)
        return Interrupted.exit_code


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="sweep.py", description="Train every entry of a sweep file.")
    parser.add_argument("sweep", type=Path, metavar="SWEEP.yaml", help="see configs/sweeps and docs/sweeps.md")
    parser.add_argument("overrides", nargs="*", metavar="KEY VALUE", help="for all entries, e.g. optim.max_epoch 5")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="runs at the same time (default: 1)")
    parser.add_argument("--dry_run", action="store_true", help="check and list the entries, train nothing")
    parser.add_argument(
        "--only",
        nargs="+",
        action="extend",
        default=[],
        metavar="PATTERN",
        help="entries whose label, column or folder matches, e.g. SGFormer 'gcn-*'",
    )
    parser.add_argument("--out_dir", metavar="DIR", help="root of the records (default: the configurations' out_dir)")
    parser.add_argument("--launcher", choices=LAUNCHERS, default="local", help="what starts the runs")
    options = parser.parse_intermixed_args(arguments)
    if options.jobs < 1:
        parser.error(f"--jobs must be at least 1, received {options.jobs}")
    if options.out_dir:
        options.overrides += ["out_dir", options.out_dir]
    return options


def _main(options: argparse.Namespace) -> int:
    sweep = read_sweep(options.sweep, options.overrides)  # before seconds are spent on imports
    from graphbench.sweeps.plan import plan, select
    from graphbench.sweeps.watch import Watcher

    planned = plan(sweep, select(sweep, options.only))
    total = sum(len(each.checked.runs) for each in planned)
    finished = sum(len(each.finished) for each in planned)
    if options.dry_run:
        for each in planned:
            print(_dry_line(sweep, each))
    if sweep.search:
        keys = ", ".join(dict.fromkeys(each.key for each in sweep.search))
        print(f"{sweep.path}: search over {keys} is not run; entries keep their own values.", file=sys.stderr)
    print(f"{sweep.name}: {len(planned)} entries, {total} runs, {finished} finished already.", file=sys.stderr)
    if options.dry_run:
        return 0
    with Watcher(total, finished) as watcher:
        if total > finished:
            from graphbench.sweeps.local import launch

            launch(planned, watcher, jobs=options.jobs, threads=max(1, _cores() // options.jobs))
    _list_failures(watcher.failures)
    _conclude(sweep, planned, total, watcher)
    return FAILED if watcher.failures else 0


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _dry_line(sweep: Sweep, planned: Planned) -> str:
    entry, facts = planned.entry, planned.checked.description
    command = shlex.join(["python", "main.py", "--cfg", str(entry.file), "--repeat", str(sweep.repeat(entry))])
    runs = f"{len(planned.checked.runs)} runs, {len(planned.finished)} finished"
    return (
        f"{entry.label} | {planned.column} | {entry.config.name} | {runs} | {facts['params']:,} parameters | "
        f"{command} {shlex.join(entry.overrides)}".rstrip()
    )


def _list_failures(failures: Sequence[Failure]) -> None:
    """Every reason once, below the runs that have it."""
    from graphbench.sweeps.watch import name

    by_reason: dict[str, list[Failure]] = {}
    for each in failures:
        by_reason.setdefault(each.reason, []).append(each)
    for reason, group in by_reason.items():
        for each in group:
            print(f"failed: {name(each.planned, each.run)}, log: {each.planned.log_file}", file=sys.stderr)
        print(f"  {reason}", file=sys.stderr)


def _conclude(sweep: Sweep, planned: Sequence[Planned], total: int, watcher: Watcher) -> None:
    """Where everything is, and what to type for the table."""
    roots = sorted({str(each.checked.folder.parent) for each in planned})
    done = watcher.finished + watcher.done
    print(f"{done} of {total} runs finished; records below {', '.join(roots)}", file=sys.stderr)
    for root in roots:
        command = ["python", "scripts/tables.py", "--sweep", str(sweep.path), "--records", root]
        print(f"table: {shlex.join(command)}", file=sys.stderr)
