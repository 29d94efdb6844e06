"""A state of training in the forms that others read: a line of stats.json, reports, the outcome of a run."""

from __future__ import annotations

from typing import Any

import torch

from graphbench.runs.environment import peak_memory
from graphbench.runs.history import SPLITS
from graphbench.runs.record import Outcome, Score
from graphbench.train.evaluation import Collected
from graphbench.train.failures import no_best_epoch
from graphbench.train.reporter import EpochReport
from graphbench.train.settings import Settings
from graphbench.train.state import State
from graphbench.train.tally import Task


def stats_line(
    split: str,
    values: dict[str, float],
    collected: Collected,
    *,
    epoch: int,
    lr: float,
    seconds_left: float,
    params: int,
    memory: int | None,
) -> dict[str, Any]:
    """One split's line in stats.json, keys and their order as in GraphGPS; ``memory`` is the peak on a GPU."""
    stats: dict[str, Any] = {"epoch": epoch, "time_epoch": collected.seconds}
    if split == "train":
        stats |= {"eta": seconds_left, "eta_hours": seconds_left / 3600}
    stats |= {"loss": values["loss"], "lr": lr, "params": params}
    stats["time_iter"] = collected.seconds / max(1, collected.batches)
    if memory is not None:
        stats["gpu_memory"] = memory
    return stats | values


def epoch_report(
    state: State,
    settings: Settings,
    stats: dict[str, dict[str, Any]],
    *,
    improved: bool,
    seconds: float,
    seconds_left: float,
) -> EpochReport:
    """What reporters are told after an epoch."""
    best = state.best
    return EpochReport(
        epoch=state.epoch,
        max_epoch=settings.max_epoch,
        metric=settings.metric,
        stats=stats,
        best_epoch=None if best is None else best.epoch,
        best={} if best is None else best.values,
        improved=improved,
        seconds=seconds,
        seconds_total=state.seconds,
        seconds_left=seconds_left,
    )


def outcome(state: State, settings: Settings, task: Task, *, params: int, device: torch.device) -> Outcome:
    """What a finished training hands back.

    Raises:
        RunFailed: no epoch can be called the best.
    """
    best = state.best
    if best is None:
        raise no_best_epoch(settings.metric)

    def maximize(name: str) -> bool:
        return settings.maximize if name == settings.metric else name != "loss" and task.maximize(name)

    scores = [
        Score(split, name, value, maximize(name), best.counts[split])
        for split in SPLITS
        for name, value in best.values.get(split, {}).items()
    ]
    return Outcome(
        reason=str(state.ended),
        best_epoch=best.epoch,
        epochs=state.epoch,
        scores=tuple(scores),
        params=params,
        time_per_epoch=state.seconds / state.epoch,
        total_time=state.seconds,
        peak_memory=peak_memory(device),
    )
