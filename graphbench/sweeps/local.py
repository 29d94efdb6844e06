"""Runs on this machine: N worker processes, fed one run at a time."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from graphbench.sweeps.plan import Unit
from graphbench.sweeps.watch import Watcher
from graphbench.sweeps.worker import Answer, work
from graphbench.train.signals import StopRequest

TICK = 0.5
"""Seconds between two looks at the workers when nothing happens."""

PATIENCE = 60.0
"""Seconds that workers get for saving their state after Ctrl-C; a second Ctrl-C ends them at once."""

ATTEMPTS = 2
"""How often a run is started whose process is killed."""


@dataclass
class _Worker:
    process: SpawnProcess
    pipe: Connection
    unit: Unit | None = None


def launch(units: Sequence[Unit], watcher: Watcher, *, jobs: int, threads: int) -> None:
    """Trains what is missing, in order, ``jobs`` runs at a time.

    Args:
        units: what is missing.
        watcher: hears of every start and end.
        jobs: worker processes.
        threads: CPU threads of each; a set ``OMP_NUM_THREADS`` wins, and ``num_threads`` of a configuration over both.

    Raises:
        KeyboardInterrupt: Ctrl-C or SIGTERM, after the workers have saved their state.
    """
    waiting = deque(units)
    workers: list[_Worker] = []
    with StopRequest() as stop, _thread_number(threads):
        try:
            while waiting or any(each.unit for each in workers):
                if stop.received:
                    raise KeyboardInterrupt(stop.received)
                while len(workers) < min(jobs, len(waiting) + sum(each.unit is not None for each in workers)):
                    workers.append(_start())
                for each in workers:
                    if each.unit is None and waiting:
                        _give(each, waiting.popleft(), watcher)
                wait([handle for each in workers for handle in (each.pipe, each.process.sentinel)], TICK)
                for each in list(workers):
                    if _hear(each, waiting, watcher, stop):
                        workers.remove(each)
                watcher.tick()
        finally:
            _end(workers, stop)


def _start() -> _Worker:
    context = multiprocessing.get_context("spawn")  # a fork would carry torch's threads and CUDA state along
    ours, theirs = context.Pipe()
    # Not a daemon, which could have no processes of its own: reading molecules takes some. It ends with this process
    # all the same, see worker.work.
    process = context.Process(target=work, args=(theirs,))
    process.start()
    theirs.close()
    return _Worker(process, ours)


def _give(worker: _Worker, unit: Unit, watcher: Watcher) -> None:
    unit.attempts += 1
    worker.unit = unit
    with suppress(OSError):  # it died while idle: noticed by _hear
        worker.pipe.send(unit.task())
    watcher.started(unit)


def _hear(worker: _Worker, waiting: deque[Unit], watcher: Watcher, stop: StopRequest) -> bool:
    """Takes in what a worker says; True when it is gone."""
    answer: Answer | None = None
    gone = False
    try:
        if worker.pipe.poll():
            answer = worker.pipe.recv()
        elif not worker.process.is_alive():
            gone = True
    except (EOFError, OSError):
        gone = True
    unit = worker.unit
    if answer is not None and unit is not None and answer.status != "interrupted":
        watcher.ended(unit, answer)
        worker.unit = None
        return False
    if answer is None and not gone:
        return False
    worker.process.join()
    worker.pipe.close()
    if unit is not None and not stop.received:
        how = _how(worker.process.exitcode) if answer is None else answer.reason
        if unit.attempts < ATTEMPTS:
            watcher.retried(unit, how)
            waiting.appendleft(unit)
        else:
            watcher.ended(unit, Answer("failed", f"{how}, {unit.attempts} times"))
    return True


def _how(code: int | None) -> str:
    if code is not None and code < 0:
        return f"its process was killed ({signal.Signals(-code).name})"
    return f"its process ended with code {code}"


def _end(workers: Sequence[_Worker], stop: StopRequest) -> None:
    """Ends all workers: those without a run at once, the others after they have saved their state."""
    for each in workers:
        each.pipe.close() if each.unit is None else each.process.terminate()
    deadline = time.monotonic() + PATIENCE
    try:
        for each in workers:
            each.process.join(max(0.0, deadline - time.monotonic()))
    finally:  # a second Ctrl-C
        for each in workers:
            if each.process.is_alive():
                each.process.kill()


@contextmanager
def _thread_number(threads: int) -> Iterator[None]:
    """What the workers inherit: it decides before their libraries are loaded."""
    if "OMP_NUM_THREADS" in os.environ:
        yield
        return
    os.environ["OMP_NUM_THREADS"] = str(threads)
    try:
        yield
    finally:
        del os.environ["OMP_NUM_THREADS"]
