"""MLflow logger; the library is imported when a run starts."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from typing import Any

from graphbench import atomic
from graphbench.train.loggers import ServiceLogger, with_best
from graphbench.train.reporter import EpochReport, StartReport


class MLflowLogger(ServiceLogger):
    """MLflow: ``train/...``, ``val/...``, ``test/...`` per epoch, ``best/{split}_{metric}`` per evaluated epoch.

    Where ``MLFLOW_TRACKING_URI`` says so, else in ``mlflow.db`` beside the folders of the configurations (``mlflow ui
    --backend-store-uri sqlite:///results/mlflow.db``).

    Args:
        experiment: groups runs in MLflow.
        name: name of the run.
        params: parameters shown with the run; cut to 6000 characters each, MLflow's limit.
        tags: tags to filter by.
    """

    service = "MLflow"
    package = "mlflow"
    extra = "mlflow"

    def __init__(self, experiment: str, name: str, params: Mapping[str, Any], tags: Mapping[str, str]) -> None:
        self._experiment = experiment
        self._name = name
        self._params = {key: str(value)[:6000] for key, value in params.items()}
        self._tags = dict(tags)

    def _open(self, report: StartReport) -> None:
        from mlflow.entities import Param
        from mlflow.tracking import MlflowClient

        root = report.path.resolve().parent.parent
        self._client = client = MlflowClient(os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{root}/mlflow.db")
        noted = report.path / "mlflow_id.txt"
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

    def _log(self, report: EpochReport) -> None:
        from mlflow.entities import Metric

        now = round(time.time() * 1000)
        numbers = with_best(report).items()
        metrics = [Metric(metric_name(name), float(value), now, report.epoch) for name, value in numbers]
        self._client.log_batch(self._run_id, metrics=metrics)

    def _close(self, finished: bool) -> None:
        self._client.set_terminated(self._run_id, status="FINISHED" if finished else "FAILED")


def metric_name(name: str) -> str:
    """Name that MLflow accepts, which has letters, digits and ``_-./`` only: ``hits_at_1`` for ``hits@1``."""
    return re.sub(r"[^/\w.\- ]", "_", name.replace("@", "_at_"))
