"""Launchers of work, as a command line names them: processes of this machine, SLURM, Ray."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphbench.cores import available_cores

if TYPE_CHECKING:
    from graphbench.sweeps.progress import Failure, SweepProgress
    from graphbench.sweeps.slurm import Arrays
    from graphbench.sweeps.slurm_settings import SlurmSettings
    from graphbench.sweeps.work_item import WorkItem

LAUNCHERS = ("local", "slurm", "ray")


@dataclass(frozen=True)
class LaunchOptions:
    """Values of the options of :func:`add_arguments`, and of ``--dry_run``.

    Attributes:
        jobs: pieces of work at the same time; None: the launcher's default.
        launcher: one of :data:`LAUNCHERS`.
        slurm: ``KEY=VALUE`` of the jobs of SLURM.
        wait: watch them until they have ended.
        dry_run: start nothing.
    """

    jobs: int | None = None
    launcher: str = "local"
    slurm: tuple[str, ...] = ()
    wait: bool = False
    dry_run: bool = False

    @property
    def is_given(self) -> bool:
        """Whether anything is said that leads away from this process."""
        return self.jobs is not None or self.launcher != "local"


def add_arguments(parser: argparse.ArgumentParser, what: str) -> None:
    """``--launcher`` and its options.

    Args:
        parser: gets them.
        what: is started, in the plural.
    """
    parser.add_argument(
        "--jobs",
        type=count,
        metavar="N",
        help=f"{what} at the same time (default: 1; slurm, ray: as many as there is room)",
    )
    parser.add_argument("--launcher", choices=LAUNCHERS, default="local", help=f"what starts the {what}")
    parser.add_argument(
        "--slurm",
        nargs="+",
        action="extend",
        default=[],
        metavar="KEY=VALUE",
        help="what a job gets, e.g. time=4:00:00 gpus=1; wins over what a sweep file says",
    )
    parser.add_argument("--wait", action="store_true", help="slurm: watch the jobs until they have ended")


def parsed(parser: argparse.ArgumentParser, options: argparse.Namespace) -> LaunchOptions:
    """Its options of the launcher; refuses those of SLURM without it."""
    if options.launcher != "slurm" and (options.wait or options.slurm):
        parser.error("--wait and --slurm need --launcher slurm")
    return LaunchOptions(options.jobs, options.launcher, tuple(options.slurm), options.wait, options.dry_run)


def count(text: str) -> int:
    """A whole number from 1 on, for ``argparse``."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, received {text}")
    return int(text)


def submit(arrays: Arrays, items: Sequence[WorkItem], settings: SlurmSettings, options: LaunchOptions) -> None:
    """Hands SLURM what is not in its queue yet, or prints the scripts that would do it.

    Raises:
        UserError: SLURM's programs are missing, or refuse.
    """
    from graphbench.sweeps.slurm_settings import with_flags

    settings = with_flags(settings, options.slurm)
    if options.dry_run:
        print("\n".join(arrays.scripts(items, settings, options.jobs)), end="")
    elif items:
        numbers, count = arrays.submit(items, settings, options.jobs)
        jobs = ", ".join(numbers)
        print(
            f"{count} submitted{f' as job array {jobs}' if jobs else ''}, {len(items) - count} in the queue "
            f"already; scripts and logs in {arrays.folder}. The same command says how far it is, with --wait all the "
            "time.",
            file=sys.stderr,
        )


def launch(items: Sequence[WorkItem], progress: SweepProgress, arrays: Arrays | None, options: LaunchOptions) -> None:
    """Returns when all items have ended.

    Args:
        items: missing work.
        progress: is told every start and end.
        arrays: arrays handed to SLURM; None: another launcher.
        options: which launcher, and how many at the same time.

    Raises:
        UserError: the launcher is not there.
        KeyboardInterrupt: Ctrl-C or SIGTERM.
    """
    if arrays is not None:
        from graphbench.sweeps.slurm import wait

        wait(arrays, items, progress)
    elif options.launcher == "ray":
        from graphbench.sweeps.ray import launch as launch_on_ray

        launch_on_ray(items, progress, jobs=options.jobs)
    else:
        from graphbench.sweeps.local import launch as launch_here

        jobs = options.jobs or 1
        launch_here(items, progress, jobs=jobs, threads=max(1, available_cores() // jobs))


def print_failures(failures: Sequence[Failure]) -> None:
    """Every reason once, below the runs that have it."""
    by_reason: dict[str, list[Failure]] = {}
    for failure in failures:
        by_reason.setdefault(failure.reason, []).append(failure)
    for reason, group in by_reason.items():
        for failure in group:
            print(f"failed: {failure.name}, log: {failure.item.log_file}", file=sys.stderr)
        print(f"  {reason}", file=sys.stderr)
