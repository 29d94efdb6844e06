"""A few training steps under PyTorch's profiler."""

from __future__ import annotations

import logging
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile, schedule

from graphbench.runs import atomic
from graphbench.train.reporter import Reporter, StartReport

logger = logging.getLogger(__name__)

SKIPPED = 2
"""Training steps before the first that counts: the first ones allocate and compile."""
ROWS = 40


class Profiler(Reporter):
    """Writes ``<run>/profile/trace.json`` (chrome://tracing, Perfetto) and ``operators.txt``, the dearest first.

    What lies between two of the watched steps is watched as well: an evaluation, where an epoch ends there.

    Args:
        steps: training steps that are watched.
    """

    def __init__(self, steps: int) -> None:
        self._steps = steps
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

    def batch(self, epoch: int, done: int, total: int) -> None:
        """Tells it that a step is over."""
        if self._profile is not None:
            self._profile.step()

    def close(self) -> None:
        """Ends it; a run with fewer steps has what there was."""
        if self._profile is not None:
            self._profile.stop()
            self._profile = None

    def _write(self, finished: profile) -> None:
        assert self._folder is not None
        self._folder.mkdir(parents=True, exist_ok=True)
        finished.export_chrome_trace(str(self._folder / "trace.json"))
        order = "self_device_time_total" if torch.cuda.is_available() else "self_cpu_time_total"
        averages = finished.key_averages()
        atomic.write_text(self._folder / "operators.txt", averages.table(sort_by=order, row_limit=ROWS))
        logger.info("profile of %d training steps: %s", self._steps, self._folder)
