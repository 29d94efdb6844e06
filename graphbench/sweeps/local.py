"""Runs on this machine: N worker processes, fed one run at a time."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from graphbench.sweeps.dependencies import WorkQueue
from graphbench.sweeps.progress import SweepProgress
from graphbench.sweeps.run_spec import RunResult
from graphbench.sweeps.work_item import WorkItem
from graphbench.sweeps.worker import work
from graphbench.train.signals import StopRequest

POLL_INTERVAL = 0.5
"""Seconds after which the display is drawn again when no worker reports."""

GRACE_PERIOD = 60.0
"""Seconds that workers get for saving their state after Ctrl-C; a second Ctrl-C ends them at once."""

MAX_ATTEMPTS = 2
"""Number of starts of a run whose process is killed."""


@dataclass
class _Worker:
    process: SpawnProcess
    pipe: Connection
    item: WorkItem | None = None


def launch(items: Sequence[WorkItem], progress: SweepProgress, *, jobs: int, threads: int) -> None:
    """Trains what is missing, in order, ``jobs`` runs at a time.

    Args:
        items: missing work.
        progress: is told every start and end.
        jobs: worker processes.
        threads: CPU threads of each; a set ``OMP_NUM_THREADS`` wins, and ``num_threads`` of a configuration over both.

    Raises:
        KeyboardInterrupt: Ctrl-C or SIGTERM, after the workers have saved their state.
    """
    waiting = WorkQueue(items)
    workers: list[_Worker] = []
    with StopRequest() as stop, _omp_num_threads(threads):
        try:
            while waiting or any(worker.item for worker in workers):
                if stop.received:
                    raise KeyboardInterrupt(stop.received)
                busy = sum(worker.item is not None for worker in workers)
                while len(workers) < min(jobs, len(waiting) + busy):
                    workers.append(_start_worker())
                for worker in workers:
                    if worker.item is None and (item := waiting.take()) is not None:
                        _assign(worker, item, progress)
                if not any(worker.item for worker in workers):
                    progress.waiting_for_others(len(waiting))
                wait([handle for worker in workers for handle in (worker.pipe, worker.process.sentinel)], POLL_INTERVAL)
                for worker in list(workers):
                    if _receive(worker, waiting, progress, stop):
                        workers.remove(worker)
                progress.refresh()
        finally:
            _shut_down(workers)


def _start_worker() -> _Worker:
    context = multiprocessing.get_context("spawn")  # a fork would carry torch's threads and CUDA state along
    ours, theirs = context.Pipe()
    # Not a daemon, which could have no processes of its own: reading molecules takes some. It ends with this process
    # all the same, see worker.work.
    process = context.Process(target=work, args=(theirs,))
    process.start()
    theirs.close()
    return _Worker(process, ours)


def _assign(worker: _Worker, item: WorkItem, progress: SweepProgress) -> None:
    item.attempts += 1
    worker.item = item
    with suppress(OSError):  # it died while idle: noticed by _receive
        worker.pipe.send(item.spec())
    progress.started(item)


def _receive(worker: _Worker, waiting: WorkQueue, progress: SweepProgress, stop: StopRequest) -> bool:
    """Takes in the result of a worker if there is one; True when its process has ended."""
    result: RunResult | None = None
    ended = False
    try:
        if worker.pipe.poll():
            result = worker.pipe.recv()
        elif not worker.process.is_alive():
            ended = True
    except (EOFError, OSError):
        ended = True
    item = worker.item
    if result is not None and item is not None and result.status != "interrupted":
        report(item, result, waiting, progress)
        worker.item = None
        return False
    if result is None and not ended:
        return False
    worker.process.join()
    worker.pipe.close()
    if item is not None and not stop.received:
        reason = _exit_reason(worker.process.exitcode) if result is None else result.reason
        if item.attempts < MAX_ATTEMPTS:
            progress.retried(item, reason)
            waiting.give_back(item)
        else:
            report(item, RunResult("failed", f"{reason}, {item.attempts} times"), waiting, progress)
    return True


def report(item: WorkItem, result: RunResult, waiting: WorkQueue, progress: SweepProgress) -> None:
    """Tells the progress how a run ended, and that those have failed which build on one that failed.

    One that another process works on has not ended: it waits for that.
    """
    if result.status == "elsewhere":
        progress.put_off(item)
        waiting.put_off(item)
        item.attempts = 0
        return
    progress.ended(item, result)
    for orphan in waiting.ended(item, finished=result.status == "finished"):
        progress.ended(orphan, RunResult("failed", f"the run that it starts from has not finished: {item.name}"))


def _exit_reason(code: int | None) -> str:
    if code is not None and code < 0:
        return f"its process was killed ({signal.Signals(-code).name})"
    return f"its process ended with code {code}"


def _shut_down(workers: Sequence[_Worker]) -> None:
    """Ends all workers: those without a run at once, the others after they have saved their state."""
    for worker in workers:
        if worker.item is None:
            worker.pipe.close()
        else:
            worker.process.terminate()
    deadline = time.monotonic() + GRACE_PERIOD
    try:
        for worker in workers:
            worker.process.join(max(0.0, deadline - time.monotonic()))
    finally:  # a second Ctrl-C
        for worker in workers:
            if worker.process.is_alive():
                worker.process.kill()


@contextmanager
def _omp_num_threads(threads: int) -> Iterator[None]:
    """Number of threads that the workers inherit: it decides before their libraries are loaded."""
    if "OMP_NUM_THREADS" in os.environ:
        yield
        return
    os.environ["OMP_NUM_THREADS"] = str(threads)
    try:
        yield
    finally:
        del os.environ["OMP_NUM_THREADS"]
