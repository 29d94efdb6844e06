"""Loggers: Weights & Biases, TensorBoard, CSV. Each library is imported when its logger starts."""

from __future__ import annotations

import csv
import inspect
import io
import logging
import os
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TextIO

from graphbench import atomic
from graphbench.runs.record import Outcome
from graphbench.train.reporter import EpochReport, Reporter, StartReport, Stats

logger = logging.getLogger(__name__)


def flatten(stats: Stats) -> dict[str, Any]:
    """``{"val": {"loss": 1.0}}`` as ``{"val/loss": 1.0}``; the epoch number itself is left out."""
    return {
        f"{split}/{name}": value for split, line in stats.items() for name, value in line.items() if name != "epoch"
    }


def with_best(report: EpochReport) -> dict[str, Any]:
    """The numbers of an epoch; where it was evaluated, those of the best one so far as ``best/val_loss``, ..."""
    evaluated = report.best if "val" in report.stats else {}
    best = {f"best/{split}_{name}": value for split, line in evaluated.items() for name, value in line.items()}
    return flatten(report.stats) | best


class CSVLogger(Reporter):
    """``metrics.csv`` in the run directory: one row per epoch, columns ``train/loss``, ``val/accuracy``, ...

    The columns are those of the first epoch, which is always evaluated; cells of a split that was not are empty.

    Why not Fabric's ``CSVLogger``: a resumed run must have every epoch once, and a kill must not cost rows. Fabric's
    deletes the file that it finds, and rewrites its own in place when a column is new.
    """

    def __init__(self) -> None:
        self._file: TextIO | None = None
        self._path: Path | None = None
        self._columns: list[str] = []

    def start(self, report: StartReport) -> None:
        """Writes the rows of the epochs before a resumption anew, so that none is there twice."""
        self._path = report.path / "metrics.csv"
        rows: dict[int, dict[str, Any]] = {}
        for split, lines in report.history.items():
            for line in lines:
                rows.setdefault(line["epoch"], {"epoch": line["epoch"]}).update(flatten({split: line}))
        if rows:
            self._open(rows[min(rows)], [rows[epoch] for epoch in sorted(rows)])

    def epoch(self, report: EpochReport) -> None:
        """Adds a row."""
        row = {"epoch": report.epoch, **flatten(report.stats)}
        if self._file is None:
            self._open(row, [])
        assert self._file is not None
        csv.DictWriter(self._file, self._columns, extrasaction="ignore").writerow(row)
        self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self, first: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
        assert self._path is not None
        self._columns = list(first)
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, self._columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
        atomic.write_text(self._path, text.getvalue())
        self._file = self._path.open("a", newline="", encoding="utf-8")


class ServiceLogger(Reporter):
    """Base of the loggers of other programs: trouble with one costs one warning, never the run.

    Attributes:
        service: its name in messages.
        package: its library.
        extra: the extra of this package that installs it.
    """

    service: ClassVar[str]
    package: ClassVar[str]
    extra: ClassVar[str] = "logging"
    _is_open = False

    def start(self, report: StartReport) -> None:
        """Opens the run, or continues the one a killed process had opened."""
        try:
            self._open(report)
            self._is_open = True
        except ImportError:
            install = f"{self.package} is not installed: pip install 'graphbench-gt[{self.extra}]'."
            logger.warning("%s logging is off: %s", self.service, install)
        except Exception as error:  # noqa: BLE001  any trouble with a service must not cost the run
            logger.warning("%s logging is off: %s: %s", self.service, type(error).__name__, error)

    def epoch(self, report: EpochReport) -> None:
        """Logs the epoch, and the best values where it was evaluated."""
        if not self._is_open:
            return
        try:
            self._log(report)
        except Exception as error:  # noqa: BLE001
            self._is_open = False
            reason = f"{type(error).__name__}: {error}"
            logger.warning("%s logging stops in epoch %d: %s", self.service, report.epoch, reason)

    def finish(self, outcome: Outcome) -> None:
        """Ends the run as a success."""
        self._end(finished=True)

    def close(self) -> None:
        """Ends a run that did not finish as a failure."""
        self._end(finished=False)

    def _end(self, finished: bool) -> None:
        was_open, self._is_open = self._is_open, False
        if was_open:
            self._close(finished)

    @abstractmethod
    def _open(self, report: StartReport) -> None:
        """Connects to the service."""

    @abstractmethod
    def _log(self, report: EpochReport) -> None:
        """Sends what an epoch gave."""

    @abstractmethod
    def _close(self, finished: bool) -> None:
        """Ends what :meth:`_open` has opened."""


class TensorBoardLogger(ServiceLogger):
    """Event files in ``<run directory>/tensorboard``, tags ``train/loss``, ``val/accuracy``, ..."""

    service = "TensorBoard"
    package = "tensorboard"

    def _open(self, report: StartReport) -> None:
        """Events of epochs that are trained again are hidden."""
        from lightning_fabric.loggers.tensorboard import TensorBoardLogger as EventFiles

        self._files = EventFiles(report.path, name="", version="tensorboard", purge_step=report.first_epoch)
        self._files.experiment.flush()

    def _log(self, report: EpochReport) -> None:
        try:
            self._files.log_metrics(flatten(report.stats), report.epoch)
        except ValueError as error:  # its thread could not write; Lightning blames the number
            raise error.__cause__ or error from None

    def _close(self, finished: bool) -> None:
        self._files.finalize("closed")


class WandbLogger(ServiceLogger):
    """Weights & Biases with the keys of GraphGPS.

    ``train/...``, ``val/...``, ``test/...`` per epoch; ``best/epoch`` and ``best/{split}_{metric}`` per evaluated
    epoch; in the summary ``best_{split}_perf``, ``full_epoch_time_avg`` and ``full_epoch_time_sum``. Works offline
    (files in the run directory, for ``wandb sync``) unless the user is logged in or ``WANDB_MODE`` says otherwise.

    Args:
        project: W&B project.
        entity: W&B entity, None for the user's own.
        name: name of the run.
        config: configuration shown with the run.
        group: the runs that are averaged in W&B's tables: the seeds, or splits, of one configuration.
        tags: tags to filter by.
        among_others: other runs of the process are open at the same time.
    """

    service = "W&B"
    package = "wandb"

    def __init__(
        self,
        project: str,
        entity: str | None,
        name: str,
        config: Mapping[str, Any],
        *,
        group: str | None = None,
        tags: Sequence[str] = (),
        among_others: bool = False,
    ) -> None:
        self._arguments: dict[str, Any] = {
            "project": project,
            "entity": entity or None,
            "name": name,
            "config": dict(config),
            "group": group,
            "tags": list(tags),
            **({"reinit": "create_new"} if among_others else {}),
        }

    def _open(self, report: StartReport) -> None:
        import wandb

        self._metric = report.metric
        mode: Any = os.environ.get("WANDB_MODE") or ("online" if _has_credentials() else "offline")
        self._run = wandb.init(
            **self._arguments, id=_run_id(report.path), resume="allow", mode=mode, dir=str(report.path)
        )

    def _log(self, report: EpochReport) -> None:
        values = with_best(report)
        if "val" in report.stats and report.best_epoch is not None:
            values["best/epoch"] = report.best_epoch
            for split, best in report.best.items():
                if self._metric in best:
                    self._run.summary[f"best_{split}_perf"] = best[self._metric]
            self._run.summary["full_epoch_time_avg"] = report.seconds_total / (report.epoch + 1)
            self._run.summary["full_epoch_time_sum"] = report.seconds_total
        self._run.log(values, step=report.epoch)

    def _close(self, finished: bool) -> None:
        self._run.finish(exit_code=0 if finished else 1)


def _run_id(folder: Path) -> str:
    """An id that stays with the run directory, so that a resumed run continues its curves."""
    path = folder / "wandb_id.txt"
    if not path.is_file():
        atomic.write_text(path, os.urandom(4).hex())
    return path.read_text().strip()


def _has_credentials() -> bool:
    """Whether wandb would find a key without asking for one."""
    import wandb

    if "prompt" in inspect.signature(wandb.login).parameters:  # from 0.31 on, where wandb.api warns
        return bool(wandb.login(prompt=False, verify=False))
    return bool(wandb.api.api_key)
