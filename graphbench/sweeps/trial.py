"""One trial of a search: an ordinary run (or several, over seeds or splits) with the values that the study proposes.

The objective is the validation metric at the best validation epoch; the test split has no say.
"""

from __future__ import annotations

import math
import os
import shlex
from dataclasses import replace

import yaml

from graphbench import atomic
from graphbench.config import load_config
from graphbench.errors import Pruned
from graphbench.experiment import run
from graphbench.preflight import check
from graphbench.runs.record import RunRecord
from graphbench.runs.summary import FinalLine
from graphbench.sweeps.document import in_one_line
from graphbench.sweeps.run_spec import RunResult, RunSpec, capture_result
from graphbench.sweeps.search import SearchPlan
from graphbench.sweeps.study import Study, StudyStatus, Trial
from graphbench.train.reporter import EpochReport, Reporter, StartReport

MAX_REPORTS = 100
"""Reports to the pruner per run: each costs some milliseconds of file system."""


class Pruning(Reporter):
    """Prunes a run when the study says so. Of several runs of a trial, only the first can be pruned.

    Args:
        trial: is told the validation metric of the search at the best epoch so far.
        metric: the search's, which need not choose the epoch (``metric_best: loss``).
        first_run: folder name of the trial's first run.
        max_epoch: epochs of the run.
        same_data: all trials read the same graphs (a search over keys of the data set makes others).
    """

    def __init__(self, trial: Trial, metric: str, first_run: str, max_epoch: int, same_data: bool) -> None:
        self._trial, self._metric, self._first_run = trial, metric, first_run
        self._active, self._same_data = False, same_data
        self._interval = math.ceil(max_epoch / MAX_REPORTS)

    def start(self, report: StartReport) -> None:
        """Notes whether this is the first run, and what it is made of.

        Raises:
            UserError: not of the same as the trials before it.
        """
        self._active = report.path.name == self._first_run
        record = RunRecord.read(report.path / "record.json")
        if record is not None and self._same_data:
            self._trial.check_inputs(record.identity)

    def epoch(self, report: EpochReport) -> None:
        """Reports an evaluated epoch.

        Raises:
            Pruned: the run is worse than others were at this epoch.
        """
        step = report.epoch + 1
        if not self._active or "val" not in report.stats or report.best_epoch is None:
            return
        if step - self._trial.reported < self._interval or step == report.max_epoch:
            return
        value = report.best["val"][self._metric]
        if self._trial.report(step, value):
            raise Pruned(
                f"given up after {step} of {report.max_epoch} epochs: the best validation {self._metric} so far is "
                f"{value:.4f}, worse than that of other trials at this point"
            )


def run_trial(spec: RunSpec, plan: SearchPlan) -> RunResult:
    """Claims a trial, trains it and tells the study how it ended."""
    study = Study(plan)
    trial = study.claim()
    if trial is None:
        return RunResult("finished", "no trial is left to be done")

    def train() -> FinalLine:
        spec.load_config()
        location = {"out_dir": str(plan.folder), "name_tag": plan.tag(trial.number)}
        settings = _settings(spec.overrides) | trial.parameters | location
        origins = {**spec.origins, **{key: dimension.where for dimension in plan.space for key in dimension.keys}}
        config = load_config(spec.file, [text for pair in settings.items() for text in pair], places=origins)
        checked = check(config, repeat=spec.repeat)
        pruning = Pruning(trial, plan.metric, str(checked.runs[0].run_id), plan.max_epoch, plan.same_data)
        line = run(config, repeat=spec.repeat, reporters=[pruning])
        assert line is not None
        return line

    result = capture_result(train, spec.log_file)
    if result.status == "elsewhere":  # nobody but the process that has claimed a trial should train it
        result = replace(result, status="failed")
    if result.status == "finished":
        assert result.line is not None
        trial.complete(result.line["val"][plan.metric])
    elif result.status == "pruned":
        trial.prune()
    elif result.status == "failed":
        trial.fail(result.reason)
    else:
        trial.release()
    write_best(spec, study)  # its first line counts all that have ended
    return replace(result, trial=trial.number)


def write_best(spec: RunSpec, study: Study) -> None:
    """The best trial so far as a configuration of its own, which can be run with more seeds."""
    plan = study.plan
    with study.guard:
        status = study.status()
        if status.best is None:
            return
        # Seeds of its own: by those of the trials it was chosen.
        own = {"name_tag": "''", "seed": str(plan.seed + spec.repeat)}
        settings = _settings(spec.overrides) | dict(status.parameters) | own
        lines = [
            f"# {describe(plan, status)}",
            f"# {rerun(plan)}",
            f"_base_: {in_one_line(os.path.relpath(spec.file, plan.folder))}",
            *(f"{key}: {in_one_line(yaml.safe_load(value))}" for key, value in settings.items()),
        ]
        atomic.write_text(plan.best_file, "\n".join(lines) + "\n")


def rerun(plan: SearchPlan) -> str:
    """The command that trains the best trial with more seeds."""
    return shlex.join(["graphbench", "train", "--cfg", str(plan.best_file), "--repeat", "5"])


def describe(plan: SearchPlan, status: StudyStatus) -> str:
    """The best trial in one line."""
    ended = f"{status.complete} complete, {status.pruned} pruned, {status.failed} failed"
    if status.best is None:
        return f"{plan.name}: no trial is complete ({ended})"
    return (
        f"{plan.name}: best of {status.ended} trials ({ended}) is trial {status.best}, "
        f"validation {plan.metric} {status.value:.4f}"
    )


def _settings(overrides: tuple[str, ...]) -> dict[str, str]:
    return dict(zip(overrides[::2], overrides[1::2], strict=True))
