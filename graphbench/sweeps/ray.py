"""Runs on a Ray cluster: one Ray task per run, or per trial of a search.

The cluster is that of ``RAY_ADDRESS`` or of the machine (``ray start``); without one, a cluster of this machine is
started for the sweep. All machines need the same files under the same paths (configurations, data, ``out_dir``).
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from graphbench.errors import UserError
from graphbench.sweeps.plan import Unit
from graphbench.sweeps.watch import Watcher
from graphbench.sweeps.worker import Answer, Task
from graphbench.train.signals import StopRequest

TICK = 0.5
"""Seconds between two looks at the tasks when nothing happens."""

PATIENCE = 60.0
"""Seconds that runs get for saving their state after Ctrl-C."""


def launch(units: Sequence[Unit], watcher: Watcher, *, jobs: int | None) -> None:
    """Trains what is missing. A run whose process or machine dies is started once more by Ray, and goes on.

    Args:
        units: what is missing.
        watcher: hears of every start and end.
        jobs: runs at the same time; None: as many as the cluster has room for, up to 1000.

    Raises:
        UserError: Ray is not installed, or no cluster can be reached.
        KeyboardInterrupt: Ctrl-C or SIGTERM, after the runs were told to save their state.
    """
    try:
        import ray
    except ImportError:
        raise UserError("--launcher ray needs Ray, which is not installed: pip install 'graphbench-gt[ray]'.") from None
    root = str(Path(__file__).resolve().parents[2])
    try:
        ray.init(
            runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}},
            log_to_driver=False,
        )
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise UserError(f"--launcher ray cannot reach a cluster: {error}") from None
    waiting: deque[Unit] = deque(units)
    running: dict[Any, Unit] = {}
    remote = ray.remote(num_cpus=1, num_gpus=1 if torch.cuda.is_available() else 0, max_retries=1)(_train)
    with StopRequest() as stop:
        try:
            while waiting or running:
                if stop.received:
                    raise KeyboardInterrupt(stop.received)
                while waiting and len(running) < (jobs or 1000):
                    unit = waiting.popleft()
                    running[remote.remote(unit.task().plain(), os.getcwd())] = unit
                    watcher.started(unit)
                done, _ = ray.wait(list(running), timeout=TICK)
                for each in done:
                    watcher.ended(running.pop(each), _answer(ray, each))
                watcher.tick()
        finally:
            for each in running:
                ray.cancel(each)  # as Ctrl-C in the task: its state is saved
            with suppress(Exception):  # of runs that were cancelled
                ray.wait(list(running), num_returns=len(running), timeout=PATIENCE)
            ray.shutdown()


def _train(plain: dict[str, Any], folder: str) -> dict[str, Any]:
    """One run, in a process of the cluster."""
    import dataclasses

    from graphbench.sweeps.worker import execute

    os.chdir(folder)
    return dataclasses.asdict(execute(Task.from_plain(plain)))


def _answer(ray: Any, done: Any) -> Answer:
    try:
        answer = Answer(**ray.get(done))
        return Answer("failed", answer.reason, trial=answer.trial) if answer.status == "interrupted" else answer
    except ray.exceptions.RayError as error:
        return Answer("failed", f"its process or machine was lost: {str(error).splitlines()[0]}")
