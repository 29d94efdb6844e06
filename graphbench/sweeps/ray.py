"""Runs on a Ray cluster: one Ray task per run, or per trial of a search.

The cluster is that of ``RAY_ADDRESS`` or of the machine (``ray start``); without one, a cluster of this machine is
started for the sweep. All machines need the same files under the same paths (configurations, data, ``out_dir``).
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from graphbench.errors import UserError
from graphbench.sweeps.dependencies import WorkQueue
from graphbench.sweeps.local import report
from graphbench.sweeps.progress import SweepProgress
from graphbench.sweeps.run_spec import RunResult
from graphbench.sweeps.work_item import WorkItem
from graphbench.sweeps.worker import execute, read_spec, written
from graphbench.train.signals import StopRequest

POLL_INTERVAL = 0.5
"""Seconds after which the display is drawn again when no run ends."""

MAX_RUNNING = 1000
"""Runs at the same time where the command does not say how many."""

GRACE_PERIOD = 60.0
"""Seconds that runs get for saving their state after Ctrl-C."""


def launch(items: Sequence[WorkItem], progress: SweepProgress, *, jobs: int | None) -> None:
    """Trains what is missing. A run whose process or machine dies is started once more by Ray, and goes on.

    Args:
        items: missing work.
        progress: is told every start and end.
        jobs: runs at the same time; None: as many as the cluster has room for, up to :data:`MAX_RUNNING`.

    Raises:
        UserError: Ray is not installed, or no cluster can be reached.
        KeyboardInterrupt: Ctrl-C or SIGTERM, after the runs were told to save their state.
    """
    try:
        import ray
    except ImportError:
        raise UserError("--launcher ray needs Ray, which is not installed: pip install 'graphbench-gt[ray]'.") from None
    try:
        ray.init(runtime_env={"env_vars": environment()}, log_to_driver=False)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise UserError(f"--launcher ray cannot reach a cluster: {error}") from None
    waiting = WorkQueue(items)
    running: dict[Any, WorkItem] = {}
    remote = ray.remote(num_cpus=1, num_gpus=1 if torch.cuda.is_available() else 0, max_retries=1)(_train)
    with StopRequest() as stop:
        try:
            while waiting or running:
                if stop.received:
                    raise KeyboardInterrupt(stop.received)
                while len(running) < (jobs or MAX_RUNNING) and (item := waiting.take()) is not None:
                    running[remote.remote(written(item.spec()), os.getcwd())] = item
                    progress.started(item)
                if not running:
                    progress.waiting_for_others(len(waiting))
                    time.sleep(POLL_INTERVAL)
                done, _ = ray.wait(list(running), timeout=POLL_INTERVAL)
                for reference in done:
                    report(running.pop(reference), _result(ray, reference), waiting, progress)
                progress.refresh()
        finally:
            for reference in running:
                ray.cancel(reference)  # as Ctrl-C in the Ray task: its state is saved
            with suppress(Exception):  # of runs that were cancelled
                ray.wait(list(running), num_returns=len(running), timeout=GRACE_PERIOD)
            ray.shutdown()


def environment() -> dict[str, str]:
    """Environment variables that a run reads; machines of a cluster have those of the one who started it."""
    root, path = str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH")
    own = {name: value for name, value in os.environ.items() if name.startswith("GRAPHBENCH_")}
    own |= {name: os.environ[name] for name in ("OMP_NUM_THREADS",) if name in os.environ}
    return own | {"PYTHONPATH": os.pathsep.join([root, path] if path else [root])}


def _train(plain: dict[str, Any], folder: str) -> dict[str, Any]:
    """One run, in a process of the cluster."""
    os.chdir(folder)
    return dataclasses.asdict(execute(read_spec(plain)))


def _result(ray: Any, reference: Any) -> RunResult:
    """Result of a Ray task; one that was interrupted from outside has failed."""
    try:
        result = RunResult(**ray.get(reference))
    except ray.exceptions.RayError as error:
        return RunResult("failed", f"its process or machine was lost: {str(error).splitlines()[0]}")
    return dataclasses.replace(result, status="failed") if result.status == "interrupted" else result
