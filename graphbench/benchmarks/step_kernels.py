"""Kernels of training steps by PyTorch's profiler, those inside CUDA graphs included."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable

import torch
from torch.profiler import ProfilerActivity, profile

from graphbench.train.reporter import EpochReport, Reporter

STEPS = 10
_NO_KERNELS = ("Memcpy", "Memset")


def watch(step: Callable[[], object], device: torch.device) -> str:
    """Kernels of some steps on a GPU, for the name of a case."""
    kernels = StepKernels(0, device)
    kernels.begin()
    for _ in range(STEPS):
        step()
    kernels.end(STEPS)
    return kernels.text


class StepKernels(Reporter):
    """Watches the GPU during steps of one epoch; an epoch of fewer batches is watched as a whole.

    Args:
        epoch: number of the epoch to watch.
        device: without a GPU nothing is watched.

    Attributes:
        names: number of launches of every kernel.
        steps: number of steps that were watched.
        busy: share of the time in which the GPU computed.
    """

    def __init__(self, epoch: int, device: torch.device) -> None:
        self.names: Counter[str] = Counter()
        self.steps = 0
        self.busy = 0.0
        self._epoch, self._device = epoch, device
        self._profile: profile | None = None
        self._begun = 0.0

    @property
    def per_step(self) -> float:
        """Kernels of a step."""
        return sum(self.names.values()) / self.steps

    @property
    def text(self) -> str:
        """Addition to the name of a case; empty where nothing was watched."""
        return f" ({self.per_step:.0f} kernels per step, GPU busy {self.busy:.0%})" if self.steps else ""

    def batch(self, epoch: int, done: int, total: int) -> None:
        """Begins behind the first step of the epoch, ends some steps later."""
        if epoch != self._epoch or self._device.type != "cuda":
            return
        if total > STEPS and done == 1:
            self.begin()
        elif total > STEPS and done == 1 + STEPS:
            self.end(STEPS)

    def epoch(self, report: EpochReport) -> None:
        """The epoch before begins it, and its own end is the last."""
        if self._device.type != "cuda" or self.steps:
            return
        if report.epoch + 1 == self._epoch and self._profile is None:
            self.begin()
        elif report.epoch == self._epoch and self._profile is not None:
            self.end(1)

    def close(self) -> None:
        """Leaves no profiler behind."""
        if self._profile is not None:
            self._profile.stop()

    def begin(self) -> None:
        """Watches from here on; a profiler that runs already begins anew."""
        if self._profile is not None:  # it was begun for a short epoch
            self._profile.stop()
        torch.cuda.synchronize(self._device)
        self._profile = profile(activities=[ProfilerActivity.CUDA])
        self._profile.start()
        self._begun = time.perf_counter()

    def end(self, steps: int) -> None:
        """Ends watching behind so many steps."""
        assert self._profile is not None
        torch.cuda.synchronize(self._device)
        seconds = time.perf_counter() - self._begun
        self._profile.stop()
        events = [each for each in self._profile.events() or () if each.device_type.name == "CUDA"]
        self._profile = None
        self.names = Counter(each.name for each in events if not each.name.startswith(_NO_KERNELS))
        self.steps = steps
        self.busy = covered((each.time_range.start, each.time_range.end) for each in events) / 1e6 / seconds


def covered(ranges: Iterable[tuple[float, float]]) -> float:
    """Length of what ranges (start, end) cover; kernels of several streams run at the same time."""
    length, reached = 0.0, -math.inf
    for start, end in sorted(ranges):
        length += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return length
