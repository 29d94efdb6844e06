"""The command line of ``graphbench sweep``.

Exit codes: 0 all runs are finished; 1 some are not (listed, with their reasons); 2 the input is wrong, nothing was
started; 130 interrupted (the same command goes on).
"""

from __future__ import annotations

import argparse
import contextlib
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from graphbench.command_line import CommandParser
from graphbench.errors import Interrupted
from graphbench.exit_codes import exit_codes
from graphbench.frozen_imports import frozen_imports
from graphbench.sweeps import launchers
from graphbench.sweeps.sweep import Sweep, read_sweep

if TYPE_CHECKING:
    from graphbench.sweeps.launchers import LaunchOptions
    from graphbench.sweeps.plan import PlannedEntry
    from graphbench.sweeps.progress import SweepProgress
    from graphbench.sweeps.search import SearchPlan

FAILED = 1


@exit_codes
def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    options, launch = _parse(arguments)
    try:
        return _main(options, launch)
    except (Interrupted, KeyboardInterrupt):
        state = (
            "the jobs go on (scancel ends them)"
            if launch.launcher == "slurm"
            else "what was running has saved its state"
        )
        with contextlib.suppress(OSError):  # a closed pipe is an interrupt, too
            print(f"interrupted: {state}; the same command goes on.", file=sys.stderr)
        return Interrupted.exit_code


def _parse(arguments: Sequence[str] | None) -> tuple[argparse.Namespace, LaunchOptions]:
    parser = CommandParser(description="Train every entry of a sweep file.")
    parser.add_argument("sweep", type=Path, metavar="SWEEP.yaml", help="sweep file, or name of a shipped one")
    parser.add_argument(
        "overrides", nargs="*", default=[], metavar="KEY VALUE", help="for all entries, e.g. optim.max_epoch 5"
    )
    launchers.add_arguments(parser, "runs")
    parser.add_argument(
        "--together",
        action="store_true",
        help="train the seeds of an entry at the same time in one process, on a GPU each on a stream of its own",
    )
    parser.add_argument("--trials", type=launchers.count, metavar="N", help="run each search until it has N trials")
    parser.add_argument("--dry_run", action="store_true", help="check and list the entries, train nothing")
    parser.add_argument(
        "--overwrite",
        action="store_true",
        help="runs of another configuration that lie in the way are moved aside, not deleted",
    )
    parser.add_argument(
        "--only",
        nargs="+",
        action="extend",
        default=[],
        metavar="PATTERN",
        help="entries whose label, column or folder matches, e.g. SGFormer 'gcn-*'",
    )
    parser.add_argument("--out_dir", metavar="DIR", help="root of the records (default: the configurations' out_dir)")
    options = parser.parse_intermixed_args(arguments)
    if options.out_dir:
        options.overrides += ["out_dir", options.out_dir]
    return options, launchers.parsed(parser, options)


def _main(options: argparse.Namespace, launch: LaunchOptions) -> int:
    sweep = read_sweep(options.sweep, options.overrides)  # before seconds are spent on imports
    with frozen_imports():
        from graphbench.sweeps.plan import plan, select, set_aside
        from graphbench.sweeps.progress import SweepProgress

    trials = options.trials or sweep.trials
    entries = select(sweep, options.only)

    def planned_now() -> list[PlannedEntry]:
        return plan(sweep, entries, trials=trials, overwrite=options.overwrite, together=options.together)

    planned = planned_now()
    if launch.dry_run:
        for entry in planned:
            print(_dry_line(sweep, entry))
    _print_size(sweep, planned, trials)
    overwrite = options.overwrite and not launch.dry_run
    if overwrite:
        _print_moved(set_aside(planned))
    missing = any(entry.missing for entry in planned)
    if not launch.dry_run and (missing or launch.launcher != "slurm"):  # asking a queue how far it is reads no data
        from graphbench.sweeps.finished import check_finished

        notes, outdated = check_finished(planned, overwrite=overwrite)
        for note in notes:
            print(f"note: {note}", file=sys.stderr)
        if outdated:
            planned = planned_now()
            _print_moved([*outdated, *set_aside(planned)])  # those that build on them as well
            _print_size(sweep, planned, trials)
    total = sum(entry.total for entry in planned)
    finished = sum(entry.done for entry in planned)
    items = [item for entry in planned for item in entry.missing]
    arrays = None
    if launch.launcher == "slurm":
        from graphbench.sweeps.slurm import Arrays

        arrays = Arrays(planned[0].checked.folder.parent, sweep.name)
        launchers.submit(arrays, items, sweep.slurm, launch)
    if launch.dry_run or (arrays and items and not launch.wait):
        return 0
    with SweepProgress(total, finished) as progress:
        if items:
            launchers.launch(items, progress, arrays, launch)
    launchers.print_failures(progress.failures + progress.failed_trials)
    for item in progress.elsewhere:
        print(f"running elsewhere: {item.name}; the same command looks again.", file=sys.stderr)
    _print_runs(sweep, [entry for entry in planned if not entry.search], progress, options.overrides)
    searches_complete = [_print_best_trial(entry.search) for entry in planned if entry.search]
    return FAILED if progress.failures or progress.elsewhere or not all(searches_complete) else 0


def _print_moved(folders: Sequence[Path]) -> None:
    for folder in folders:
        print(f"moved aside: {folder}", file=sys.stderr)


def _print_size(sweep: Sweep, planned: Sequence[PlannedEntry], trials: int | None) -> None:
    keys = ", ".join(dict.fromkeys(dimension.key for entry in planned for dimension in entry.entry.search))
    if keys and not trials:
        print(
            f"{sweep.path}: search over {keys} is not run (--trials); entries keep their own values.", file=sys.stderr
        )
    what = "trials" if all(entry.search for entry in planned) else "runs and trials" if trials else "runs"
    total = sum(entry.total for entry in planned)
    finished = sum(entry.done for entry in planned)
    print(f"{sweep.name}: {len(planned)} entries, {total} {what}, {finished} finished already.", file=sys.stderr)


def _dry_line(sweep: Sweep, planned: PlannedEntry) -> str:
    entry, params = planned.entry, planned.checked.summary.params
    words = ["graphbench", "train", "--cfg", str(entry.file), "--repeat", str(sweep.repeat(entry))]
    command = shlex.join([*words, *(["--together"] if planned.together else [])])
    runs = f"{planned.total} {'trials' if planned.search else 'runs'}, {planned.done} finished"
    for status, count in planned.unfinished().items():
        runs += f", {count} {status}"
    return (
        f"{entry.label} | {planned.column} | {entry.config.name} | {runs} | {params:,} parameters | "
        f"{command} {shlex.join(entry.overrides)}".rstrip()
    )


def _print_runs(
    sweep: Sweep, planned: Sequence[PlannedEntry], progress: SweepProgress, overrides: Sequence[str]
) -> None:
    """Prints where the runs are, and what to type for the table."""
    if not planned:
        return
    roots = sorted({str(entry.checked.folder.parent) for entry in planned})
    total = sum(entry.total for entry in planned)
    done = sum(entry.done for entry in planned) + progress.finished_runs
    print(f"{done} of {total} runs finished; records below {', '.join(roots)}", file=sys.stderr)
    pairs = zip(overrides[::2], overrides[1::2], strict=True)
    settings = [word for pair in pairs if pair[0] != "out_dir" for word in pair]  # of the configurations in the table
    for root in roots:
        command = ["graphbench", "tables", "--sweep", str(sweep.path), *settings, "--records", root]
        print(f"table: {shlex.join(command)}", file=sys.stderr)


def _print_best_trial(search: SearchPlan) -> bool:
    """The best trial, and what to type for more of it; False where there is none."""
    from graphbench.sweeps.plan import search_status
    from graphbench.sweeps.trial import describe, rerun

    status = search_status(search)
    print(describe(search, status), file=sys.stderr)
    if status.best is None:
        return False
    print("  " + ", ".join(f"{key} {value}" for key, value in status.parameters), file=sys.stderr)
    print(f"  with more seeds: {rerun(search)}", file=sys.stderr)
    trials = shlex.quote(str(search.folder / search.name)) + "-trial-*"
    print(f"  all trials: graphbench tables {trials}", file=sys.stderr)
    return True
