"""Time and peak memory of two implementations under the same conditions, on the CPU or on a GPU.

A GPU is asynchronous: the clock is read when it has done all that was queued (:func:`now`); its memory is that of
PyTorch's allocator. Kernels are compiled in the first call, which is not measured.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from graphbench import shipped
from graphbench.errors import UserError
from graphbench.runs.environment import forget_peak_memory, peak_memory
from graphbench.train.step_graph import CudaStepGraphs, StepGraph

ROOT = shipped.root()
CPU = torch.device("cpu")


def device_name(device: torch.device) -> str:
    """Device in the name of a case: the GPU, or the number of threads."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else f"{torch.get_num_threads()} threads"


def now(device: torch.device) -> float:
    """Seconds on a clock, after a GPU has been synchronised."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def seconds_of(once: Callable[[], object], device: torch.device) -> float:
    """Seconds of one call."""
    start = now(device)
    once()
    return now(device) - start


def paired(
    ours: Callable[[], object], peer: Callable[[], object], pairs: int, device: torch.device = CPU
) -> tuple[list[float], list[float]]:
    """Seconds of both, one after the other, in turns so that drift of the machine cancels."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for pair in range(pairs):
        for which in (0, 1) if pair % 2 else (1, 0):
            seconds[which].append(seconds_of((ours, peer)[which], device))
    return seconds


def paired_work(
    ours: Callable[[], object], peer: Callable[[], object], pairs: int
) -> dict[str, tuple[list[float], list[float]]]:
    """``wall`` seconds and ``CPU`` seconds of both, in turns; what other programs take is part of the first alone."""
    found: dict[str, tuple[list[float], list[float]]] = {"wall": ([], []), "CPU": ([], [])}
    for pair in range(pairs):
        for which in (0, 1) if pair % 2 else (1, 0):
            start = time.perf_counter(), time.process_time()
            (ours, peer)[which]()
            for kind, before, after in zip(found, start, (time.perf_counter(), time.process_time()), strict=True):
                found[kind][which].append(after - before)
    return found


def in_own_process(module: str, *arguments: object, message: str | None = None) -> Any:
    """Last line, JSON, that ``python -m graphbench.benchmarks.MODULE ARGUMENTS`` prints: nothing ran before it.

    Raises:
        subprocess.CalledProcessError: it failed, and has said why itself.
        UserError: it failed, and there is a ``message``, which the end of what it said is added to.
    """
    command = [sys.executable, "-m", f"graphbench.benchmarks.{module}", *map(str, arguments)]
    kept = None if message is None else subprocess.PIPE
    done = subprocess.run(command, cwd=ROOT, check=message is None, stdout=subprocess.PIPE, stderr=kept, text=True)
    if done.returncode:
        raise UserError(f"{message}: {' '.join(done.stderr.split()[-60:])}")
    return json.loads(done.stdout.splitlines()[-1])


def processor_seconds(*whose: int) -> float:
    """Processor time of this process and its ended children; or of some, as ``resource`` names them."""
    used = (resource.getrusage(who) for who in whose or (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


@contextmanager
def competing_load() -> Iterator[None]:
    """Load of other processes that compute, as many as there are cores."""
    busy = [sys.executable, "-c", "while True: pass"]
    others = [subprocess.Popen(busy) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


@dataclass(frozen=True)
class Replay:
    """Recorded work, called.

    Attributes:
        graph: graph of the work.
        once: the work. What it reads lies where the graph was told, and is to stay there.
    """

    graph: StepGraph
    once: Callable[[], object]

    def __call__(self) -> None:
        """One launch."""
        self.graph.replay()


def replayed(once: Callable[[], object], device: torch.device) -> Callable[[], None]:
    """Replay of the same work by one CUDA graph: it is done once to warm up, then recorded."""
    graphs = CudaStepGraphs(device)
    graphs.warm_up(once)
    graph = graphs.new()
    graph.capture(once)
    return Replay(graph, once)


def step(forward: Callable[[], Tensor], inputs: Sequence[Tensor]) -> Callable[[], None]:
    """Forward and backward, with fresh gradients of the inputs."""

    def once() -> None:
        for tensor in inputs:
            tensor.grad = None
        out = forward()
        out.backward(torch.ones_like(out))

    return once


def peaks(
    one_step: Callable[..., Callable[[], None]], sides: Sequence[str], pairs: int, device: torch.device, *arguments: str
) -> tuple[list[float], ...]:
    """Peak memory of both sides in MiB, see :func:`peak`.

    Args:
        one_step: called with a side, the device and the arguments; gives the step to measure.
        sides: names of ours and of the peer.
        pairs: measurements on the CPU, each in a fresh process: ``python -m MODULE SIDE ARGUMENTS`` prints it last.
            What a GPU's allocator hands out is the same every time: there it is one, in this process.
        device: device that it runs on.
        arguments: further ones.
    """
    measured: tuple[list[float], ...] = tuple([] for _ in sides)
    for _ in range(pairs if device.type == "cpu" else 1):
        for side, values in zip(sides, measured, strict=True):
            if device.type == "cpu":
                values.append(in_own_process(one_step.__module__.rpartition(".")[2], side, *arguments))
            else:
                one_step(side, device, *arguments)()  # compiles; gradients and what a batch keeps go with it
                values.append(peak(one_step(side, device, *arguments), device))
    return measured


def peak(once: Callable[[], None], device: torch.device) -> float:
    """Peak memory of a step in MiB above what was held before it."""
    before = held(device)
    forget_peak_memory(device)  # on the CPU, that of importing
    once()
    return (peak_memory(device) or 0) / 2**20 - before


def held(device: torch.device) -> float:
    """MiB that are in use now, by PyTorch's tensors on a GPU, by this process otherwise (Linux)."""
    if device.type == "cuda":
        return torch.cuda.memory_allocated(device) / 2**20
    status = Path("/proc/self/status")
    if not status.is_file():
        raise UserError(f"there is no {status}: peak memory is measured on Linux only")
    return int(status.read_text().split("VmRSS:")[1].split()[0]) / 1024


class AnonymousMemory:
    """Largest anonymous memory of this process while a ``with`` block runs (Linux), looked at 20 times per second.

    Unlike resident memory it has no pages of mapped files, which the system takes back where memory is needed.

    Attributes:
        peak: bytes.
    """

    def __init__(self) -> None:
        self.peak = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> AnonymousMemory:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        status = Path("/proc/self/status")
        while status.is_file():
            self.peak = max(self.peak, 1024 * int(status.read_text().split("RssAnon:")[1].split()[0]))
            if self._ended.wait(0.05):
                return
