"""Time of a run by part: a table of all its steps, and a few of them under PyTorch's profiler."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule

from graphbench import atomic
from graphbench.train.reporter import Reporter, StartReport
from graphbench.train.step_parts import StepClock, watch

logger = logging.getLogger("graphbench")

SKIPPED = 2
"""Training steps before the first that counts: the first ones allocate and compile."""
ROWS = 40


class Profiler(Reporter):
    """Writes into ``<run>/profile``, and logs ``parts.txt`` at the end of the run.

    - ``parts.txt``: data, forward pass with its layers, backward pass, optimiser, evaluation, metrics, of all epochs;
    - ``trace.json``: the watched steps for https://ui.perfetto.dev, in which parts and layers have their names. What
      lies between two of them is watched as well: an evaluation, where an epoch ends there;
    - ``operators.txt``: their operators, the dearest first.

    Args:
        steps: training steps that are watched.
        model: model whose layers are told apart.
    """

    def __init__(self, steps: int, model: nn.Module) -> None:
        self._steps, self._model = steps, model
        self._clock: StepClock | None = None
        self._stop_clock: Callable[[], None] | None = None
        self._folder: Path | None = None
        self._profile: profile | None = None

    def start(self, report: StartReport) -> None:
        """Starts the profiler, which idles at first."""
        self._folder = report.path / "profile"
        activities = [ProfilerActivity.CPU]
        if torch.cuda.is_available():
            activities.append(ProfilerActivity.CUDA)
        watched = schedule(wait=SKIPPED - 1, warmup=1, active=self._steps, repeat=1)
        self._profile = profile(activities=activities, schedule=watched, on_trace_ready=self._write, record_shapes=True)
        self._profile.start()
        device = next((parameter.device for parameter in self._model.parameters()), torch.device("cpu"))
        self._clock = StepClock(device, self._model)
        self._stop_clock = watch(self._clock)

    def batch(self, epoch: int, done: int, total: int) -> None:
        """Tells it that a step is over."""
        if self._profile is not None:
            self._profile.step()

    def close(self) -> None:
        """Ends it; a run with fewer steps has what there was."""
        if self._profile is not None:
            self._profile.stop()
            self._profile = None
        if self._stop_clock is not None and self._clock is not None and self._folder is not None:
            self._stop_clock()
            self._stop_clock = None
            self._folder.mkdir(parents=True, exist_ok=True)
            table = self._clock.table()
            atomic.write_text(self._folder / "parts.txt", table)
            logger.info("where the time went (%s):\n%s", self._folder, table.rstrip())

    def _write(self, finished: profile) -> None:
        assert self._folder is not None
        self._folder.mkdir(parents=True, exist_ok=True)
        finished.export_chrome_trace(str(self._folder / "trace.json"))
        order = "self_device_time_total" if torch.cuda.is_available() else "self_cpu_time_total"
        averages = finished.key_averages()
        atomic.write_text(self._folder / "operators.txt", averages.table(sort_by=order, row_limit=ROWS))
        logger.info("profile of %d training steps: %s", self._steps, self._folder)
