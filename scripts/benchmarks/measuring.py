"""Time and peak memory of two sides, taken so that the machine is the same for both."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from graphbench.errors import UserError

ROOT = Path(__file__).resolve().parents[2]


def paired(ours: Callable[[], object], peer: Callable[[], object], pairs: int) -> tuple[list[float], list[float]]:
    """Seconds of both, one after the other, in turns so that drift of the machine cancels."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for pair in range(pairs):
        for which in (0, 1) if pair % 2 else (1, 0):
            start = time.perf_counter()
            (ours, peer)[which]()
            seconds[which].append(time.perf_counter() - start)
    return seconds


def step(forward: Callable[[], Tensor], inputs: Sequence[Tensor]) -> Callable[[], None]:
    """Forward and backward, with fresh gradients of the inputs."""

    def once() -> None:
        for each in inputs:
            each.grad = None
        out = forward()
        out.backward(torch.ones_like(out))

    return once


def peaks(module: str, sides: Sequence[str], pairs: int, *arguments: str) -> tuple[list[float], ...]:
    """MiB that ``python -m module SIDE ARGUMENTS`` prints last, a fresh process each; see :func:`print_peak`."""
    measured: tuple[list[float], ...] = tuple([] for _ in sides)
    for _ in range(pairs):
        for side, values in zip(sides, measured, strict=True):
            command = [sys.executable, "-m", module, side, *arguments]
            done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
            values.append(float(done.stdout.split()[-1]))
    return measured


def print_peak(step: Callable[[], None]) -> None:
    """Prints the peak memory of a step in MiB above what the process held before it."""
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak that importing left
    step()
    print(_status("VmHWM") - before)


def _status(field: str) -> float:
    """A line of the process's status in MiB (Linux)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    raise UserError(f"/proc/self/status has no {field}: peak memory is measured on Linux only")
