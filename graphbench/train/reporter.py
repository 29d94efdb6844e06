"""Callbacks that listen to a run (progress bar, loggers), in the first process only, and what they are told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphbench.runs.record import Outcome

Stats = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class StartReport:
    """The run begins, or goes on.

    Attributes:
        path: the run directory.
        first_epoch: the epoch to be trained first, or the rest of it.
        resumed_from: path of the checkpoint that the run goes on from; None: it begins.
        max_epoch: epochs in all.
        metric: the selecting metric.
        params: number of parameters.
        history: per split the lines of the epochs before ``first_epoch``.
    """

    path: Path
    first_epoch: int
    resumed_from: Path | None
    max_epoch: int
    metric: str
    params: int
    history: Mapping[str, Sequence[Mapping[str, Any]]]


@dataclass(frozen=True)
class EpochReport:
    """An epoch is over.

    Attributes:
        epoch: number of the epoch, from 0.
        max_epoch: epochs in all.
        metric: the selecting metric.
        stats: split -> its line in stats.json; ``val`` and ``test`` in evaluated epochs only.
        best_epoch: best epoch so far.
        best: split -> its values at ``best_epoch``.
        improved: True when this epoch is the best one.
        seconds: seconds of this epoch.
        seconds_total: seconds of all epochs so far.
        seconds_left: estimate for the rest.
    """

    epoch: int
    max_epoch: int
    metric: str
    stats: Stats
    best_epoch: int | None
    best: Stats
    improved: bool
    seconds: float
    seconds_total: float
    seconds_left: float


class Reporter:
    """Callback without influence on the run: override what is of interest, everything else is ignored.

    Exceptions of :meth:`finish` and :meth:`close` cost a warning; those of the others end the run, as pruning does.
    """

    def start(self, report: StartReport) -> None:
        """Before the first epoch."""

    def batch(self, epoch: int, done: int, total: int) -> None:
        """After every training batch: must cost microseconds."""

    def epoch(self, report: EpochReport) -> None:
        """After every epoch."""

    def finish(self, outcome: Outcome) -> None:
        """After the last epoch of a run that came to its end."""

    def close(self) -> None:
        """Always called last, after a failure too."""
