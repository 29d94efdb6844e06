"""Lines of ``stats.json``, reports to reporters, the outcome of a run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from graphbench.runs.environment import peak_memory
from graphbench.runs.history import History
from graphbench.runs.record import Outcome, Score
from graphbench.runs.summary import without_value
from graphbench.tasks.task import Task
from graphbench.train.best_epoch import EpochMetrics
from graphbench.train.evaluation import SplitPredictions
from graphbench.train.failures import no_best_epoch
from graphbench.train.reporter import EpochReport, Reporter, StartReport
from graphbench.train.settings import TrainerSettings
from graphbench.train.state import TrainerState
from graphbench.vocabulary import SPLITS

logger = logging.getLogger(__name__)


class RunLog:
    """Writes the history of a run and tells its reporters.

    Args:
        path: the run directory.
        history: lines of ``stats.json``.
        reporters: reporters told about progress.
        settings: settings of the trainer.
        params: trainable parameters of the model.
        device: device whose memory is reported, where it is a GPU.
    """

    def __init__(
        self,
        path: Path,
        history: History,
        reporters: Iterable[Reporter],
        settings: TrainerSettings,
        *,
        params: int,
        device: torch.device,
    ) -> None:
        self._path = path
        self._history = history
        self._reporters = tuple(reporters)
        self._settings = settings
        self._params = params
        self._device = device
        self._without_value = ""
        """Why the selecting metric had no value on the validation split; empty as long as it had one."""

    def start(self, epoch: int, resumed_from: Path | None) -> None:
        """The run begins, or goes on from a checkpoint, with an epoch."""
        logger.info("%s epoch %d in %s", "starting" if resumed_from is None else "resuming at", epoch, self._path)
        report = StartReport(
            path=self._path,
            first_epoch=epoch,
            resumed_from=resumed_from,
            max_epoch=self._settings.max_epoch,
            metric=self._settings.metric,
            params=self._params,
            history={split: self._history.read(split) for split in SPLITS},
        )
        for reporter in self._reporters:
            reporter.start(report)

    def batch(self, epoch: int, done: int, total: int) -> None:
        """A training batch is over."""
        for reporter in self._reporters:
            reporter.batch(epoch, done, total)

    def epoch(
        self,
        state: TrainerState,
        metrics: EpochMetrics,
        predictions: Mapping[str, SplitPredictions],
        *,
        lr: float,
        seconds: float,
    ) -> None:
        """An epoch is over.

        Args:
            state: state with the seconds of this epoch, still at its number.
            metrics: loss and metrics per split, and whether it is the best epoch so far.
            predictions: predictions that they come from.
            lr: learning rate that the epoch began with.
            seconds: seconds of this epoch.
        """
        seconds_left = (self._settings.max_epoch - state.epoch - 1) * state.seconds / (state.epoch + 1)
        facts = {"lr": lr, "params": self._params}
        memory = peak_memory(self._device) if self._device.type == "cuda" else None
        gpu_memory = {} if memory is None else {"gpu_memory": memory}
        stats = {}
        for split, of_split in predictions.items():
            eta = {"eta": seconds_left, "eta_hours": seconds_left / 3600} if split == "train" else {}
            time_iter = {"time_iter": of_split.seconds / max(1, of_split.batches)}
            # Keys and their order as in GraphGPS.
            line: dict[str, Any] = {"epoch": state.epoch, "time_epoch": of_split.seconds, **eta}
            values = metrics.values[split]
            line |= {"loss": values["loss"], **facts, **time_iter, **gpu_memory, **values}
            stats[split] = line
            self._history.append(split, line)
        best = state.best
        report = EpochReport(
            epoch=state.epoch,
            max_epoch=self._settings.max_epoch,
            metric=self._settings.metric,
            stats=stats,
            best_epoch=None if best is None else best.epoch,
            best={} if best is None else best.values,
            improved=metrics.improved,
            seconds=seconds,
            seconds_total=state.seconds,
            seconds_left=seconds_left,
        )
        for reporter in self._reporters:
            reporter.epoch(report)
        self._watch_selection(state, metrics)

    def _watch_selection(self, state: TrainerState, metrics: EpochMetrics) -> None:
        """Says once, at the first evaluation, that no epoch can be chosen by a metric without a value."""
        reason = metrics.undefined.get("val", {}).get(self._settings.metric)
        if reason is not None and state.best is None and not self._without_value:
            logger.warning(
                "epoch %d: the validation %s has no value: %s. An epoch without one is never the best.",
                state.epoch,
                self._settings.metric,
                reason,
            )
            self._without_value = reason

    def finish(self, state: TrainerState, task: Task) -> Outcome:
        """The run came to its end.

        Raises:
            RunFailed: no epoch can be called the best.
        """
        settings, best = self._settings, state.best
        if best is None:
            raise no_best_epoch(settings.metric, self._without_value)

        def maximize(name: str) -> bool:
            return settings.maximize if name == settings.metric else task.maximize(name)

        scores = [
            Score(split, name, value, maximize(name), best.counts[split])
            for split in SPLITS
            for name, value in best.values.get(split, {}).items()
        ]
        outcome = Outcome(
            reason=str(state.ended),
            best_epoch=best.epoch,
            epochs=state.epoch,
            scores=tuple(scores),
            params=self._params,
            time_per_epoch=state.seconds / state.epoch,
            total_time=state.seconds,
            peak_memory=peak_memory(self._device),
            undefined=best.undefined,
            curves=self._history.digests(),
        )
        logger.info("ended (%s) after %d epochs, best epoch %d", state.ended, state.epoch, best.epoch)
        for line in without_value(best.undefined):
            logger.info(line)
        self._end(lambda reporter: reporter.finish(outcome))
        return outcome

    def close(self) -> None:
        """Always called last, after a failure too."""
        self._history.close()
        self._end(lambda reporter: reporter.close())

    def _end(self, tell: Callable[[Reporter], None]) -> None:
        """Tells every reporter; one that fails costs neither a complete run nor the error that ends another."""
        for reporter in self._reporters:
            try:
                tell(reporter)
            except Exception as error:  # noqa: BLE001
                who = type(reporter).__name__
                logger.warning("%s failed at the end of the run: %s: %s", who, type(error).__name__, error)
