"""MLflow logger; the library is imported when a run starts."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graphbench import atomic
from graphbench.runs.record import Outcome
from graphbench.train.loggers import flatten
from graphbench.train.reporter import EpochReport, Reporter, StartReport

logger = logging.getLogger(__name__)


class MLflowLogger(Reporter):
    """MLflow: ``train/...``, ``val/...``, ``test/...`` per epoch, ``best/{split}_{metric}`` per evaluated epoch.

    Where ``MLFLOW_TRACKING_URI`` says so, else in ``mlflow.db`` beside the folders of the configurations (``mlflow ui
    --backend-store-uri sqlite:///results/mlflow.db``). A missing or failing MLflow costs one warning, never the run.

    Args:
        experiment: groups runs in MLflow.
        name: name of the run.
        params: parameters shown with the run; cut to 6000 characters each, MLflow's limit.
        tags: tags to filter by.
    """

    def __init__(self, experiment: str, name: str, params: Mapping[str, Any], tags: Mapping[str, str]) -> None:
        self._experiment = experiment
        self._name = name
        self._params = {key: str(value)[:6000] for key, value in params.items()}
        self._tags = dict(tags)
        self._client: Any = None
        self._run_id = ""

    def start(self, report: StartReport) -> None:
        """Opens the run, or continues the one a killed process had opened."""
        try:
            self._open(report.path)
        except ImportError:
            self._client = None
            logger.warning("MLflow logging is off: mlflow is not installed: pip install 'graphbench-gt[mlflow]'.")
        except Exception as error:  # noqa: BLE001  any trouble with a service must not cost the run
            self._client = None
            logger.warning("MLflow logging is off: %s: %s", type(error).__name__, error)

    def epoch(self, report: EpochReport) -> None:
        """Logs the epoch, and the best values where it was evaluated."""
        values = flatten(report.stats)
        if "val" in report.stats:
            for split, best in report.best.items():
                values |= {f"best/{split}_{name}": value for name, value in best.items() if name != "epoch"}
        if self._client is None:
            return
        try:
            from mlflow.entities import Metric

            now = round(time.time() * 1000)
            metrics = [Metric(metric_name(name), float(value), now, report.epoch) for name, value in values.items()]
            self._client.log_batch(self._run_id, metrics=metrics)
        except Exception as error:  # noqa: BLE001
            logger.warning("MLflow logging stops in epoch %d: %s: %s", report.epoch, type(error).__name__, error)
            self._client = None

    def finish(self, outcome: Outcome) -> None:
        """Ends the run as a success."""
        self._end("FINISHED")

    def close(self) -> None:
        """Ends a run that did not finish as a failure."""
        self._end("FAILED")

    def _open(self, folder: Path) -> None:
        from mlflow.entities import Param
        from mlflow.tracking import MlflowClient

        root = folder.resolve().parent.parent
        self._client = client = MlflowClient(os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{root}/mlflow.db")
        noted = folder / "mlflow_id.txt"
        if noted.is_file():
            self._run_id = noted.read_text().strip()
            client.update_run(self._run_id, status="RUNNING")
            return
        experiment = client.get_experiment_by_name(self._experiment)
        number = experiment.experiment_id if experiment else client.create_experiment(self._experiment)
        self._run_id = client.create_run(number, run_name=self._name, tags=self._tags).info.run_id
        pairs = [Param(key, value) for key, value in self._params.items()]
        for first in range(0, len(pairs), 100):  # as many as one call takes
            client.log_batch(self._run_id, params=pairs[first : first + 100])
        atomic.write_text(noted, self._run_id)

    def _end(self, status: str) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.set_terminated(self._run_id, status=status)


def metric_name(name: str) -> str:
    """Name that MLflow accepts, which has letters, digits and ``_-./`` only: ``hits_at_1`` for ``hits@1``."""
    return re.sub(r"[^/\w.\- ]", "_", name.replace("@", "_at_"))
