"""One trial of a search: an ordinary run (or several, over seeds or splits) with the values that the study proposes.

The objective is the validation metric at the best validation epoch; the test split has no say.
"""

from __future__ import annotations

import math
import os
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import yaml

from graphbench.errors import Pruned
from graphbench.runs import atomic
from graphbench.sweeps.search import SearchPlan, written
from graphbench.sweeps.study import Standing, Study, Trial
from graphbench.train.reporter import EpochReport, Reporter, StartReport

if TYPE_CHECKING:
    from graphbench.sweeps.worker import Answer, Task

REPORTS = 100
"""How often a run is looked at for pruning at most: each look costs some milliseconds of file system."""


class Pruning(Reporter):
    """Gives a run up when the study says so. Of several runs of a trial, only the first can be given up.

    Args:
        trial: hears the best validation metric so far.
        first_run: folder name of the trial's first run.
        max_epoch: of the run.
    """

    def __init__(self, trial: Trial, first_run: str, max_epoch: int) -> None:
        self._trial, self._first_run, self._active = trial, first_run, False
        self._every = math.ceil(max_epoch / REPORTS)

    def start(self, report: StartReport) -> None:
        """Looks which run it is."""
        self._active = report.path.name == self._first_run

    def epoch(self, report: EpochReport) -> None:
        """Reports an evaluated epoch.

        Raises:
            Pruned: the run is worse than others were at this epoch.
        """
        step = report.epoch + 1
        if not self._active or "val" not in report.stats or report.best_epoch is None:
            return
        if step - self._trial.reported < self._every or step == report.max_epoch:
            return
        value = report.best["val"][report.metric]
        if self._trial.report(step, value):
            raise Pruned(
                f"given up after {step} of {report.max_epoch} epochs: the best validation {report.metric} so far is "
                f"{value:.4f}, worse than that of other trials at this point"
            )


def run_trial(task: Task, plan: SearchPlan) -> Answer:
    """Claims a trial, trains it and tells the study how it ended."""
    from graphbench.experiment import run
    from graphbench.preflight import check
    from graphbench.sweeps.sweep import load_entry
    from graphbench.sweeps.worker import Answer, answered, load_unchanged

    study = Study(plan)
    trial = study.claim()
    if trial is None:
        return Answer("finished", "no trial is left to be done")

    def work() -> dict[str, Any]:
        load_unchanged(task)
        own = {"out_dir": str(plan.folder), "name_tag": plan.tag(trial.number)}
        settings = _settings(task.overrides) | trial.parameters | own
        places = {**task.places, **{each.key: each.where for each in plan.space}}
        config = load_entry(task.file, [text for pair in settings.items() for text in pair], places)
        checked = check(config, repeat=task.repeat)
        pruning = Pruning(trial, str(checked.runs[0].run_id), plan.max_epoch)
        line = run(config, repeat=task.repeat, reporters=[pruning])
        assert line is not None
        return line

    answer = answered(work, task.log_file)
    if answer.status == "finished":
        assert answer.line is not None
        trial.complete(answer.line["val"][plan.metric])
        write_best(task, study)
    elif answer.status == "pruned":
        trial.prune()
    elif answer.status == "failed":
        trial.fail(answer.reason)
    else:
        trial.put_back()
    return replace(answer, trial=trial.number)


def write_best(task: Task, study: Study) -> None:
    """The best trial so far as a configuration of its own, which can be run with more seeds."""
    plan = study.plan
    with study.guard:
        standing = study.standing()
        if standing.best is None:
            return
        settings = _settings(task.overrides) | dict(standing.parameters) | {"name_tag": "''"}
        lines = [
            f"# {describe(plan, standing)}",
            f"# {rerun(plan)}",
            f"_base_: {written(os.path.relpath(task.file, plan.folder))}",
            *(f"{key}: {written(yaml.safe_load(value))}" for key, value in settings.items()),
        ]
        atomic.write_text(plan.best_file, "\n".join(lines) + "\n")


def rerun(plan: SearchPlan) -> str:
    """The command that trains the best trial with more seeds."""
    return shlex.join(["python", "main.py", "--cfg", str(plan.best_file), "--repeat", "5"])


def describe(plan: SearchPlan, standing: Standing) -> str:
    """The best trial in one line."""
    ended = f"{standing.complete} complete, {standing.pruned} pruned, {standing.failed} failed"
    if standing.best is None:
        return f"{plan.name}: no trial is complete ({ended})"
    return (
        f"{plan.name}: best of {standing.ended} trials ({ended}) is trial {standing.best}, "
        f"validation {plan.metric} {standing.value:.4f}"
    )


def _settings(overrides: tuple[str, ...]) -> dict[str, str]:
    return dict(zip(overrides[::2], overrides[1::2], strict=True))
