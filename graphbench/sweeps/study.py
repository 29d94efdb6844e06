"""A search that lives on disk: an Optuna study in a journal file, shared by any number of processes.

Trials are proposed by a tree-structured Parzen estimator (TPE, Bergstra et al. 2011). Its random numbers depend on the
seed of the configuration and the number of the trial only: a search by one process proposes the same trials, however
often it is interrupted. A process holds a lock as long as it works on a trial. When it is killed, the operating system
releases the lock, and whoever looks next goes on with the trial from its checkpoint; after :data:`ATTEMPTS` such ends
it counts as failed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from graphbench.errors import UserError
from graphbench.sweeps.search import Search, SearchPlan, written

if TYPE_CHECKING:
    import optuna

ATTEMPTS = 2
"""How often a trial is started whose process is killed."""


@dataclass(frozen=True)
class Standing:
    """How far a search is.

    Attributes:
        complete: trials with a value.
        pruned: trials that were given up early.
        failed: trials that failed.
        unfinished: trials that were begun, running or waiting to go on.
        best: number of the best complete trial, None where there is none.
        value: its value.
        parameters: its keys and values.
    """

    complete: int
    pruned: int
    failed: int
    unfinished: int
    best: int | None = None
    value: float | None = None
    parameters: tuple[tuple[str, str], ...] = ()

    @property
    def ended(self) -> int:
        """Trials that nothing more is done for."""
        return self.complete + self.pruned + self.failed


class Study:
    """Opens a search, or creates it.

    Args:
        plan: what is searched for.

    Raises:
        UserError: Optuna is not installed, or the folder holds another search.
    """

    def __init__(self, plan: SearchPlan) -> None:
        self.plan = plan
        self._optuna = load_optuna()
        plan.folder.mkdir(parents=True, exist_ok=True)
        self.guard = FileLock(plan.folder / ".study.lock")
        with self.guard:
            backend = self._optuna.storages.journal.JournalFileBackend(str(plan.journal))
            self._study = self._optuna.create_study(
                study_name=plan.name,
                storage=self._optuna.storages.JournalStorage(backend),
                direction="maximize" if plan.maximize else "minimize",
                pruner=_pruner(self._optuna, plan),
                load_if_exists=True,
            )
            self._identify()

    def claim(self) -> Trial | None:
        """A trial for this process: one that was killed or interrupted, else a new one; None where all are taken."""
        with self.guard:
            self._settle()
            found = self._abandoned()
            if found is None and len(self._study.get_trials(deepcopy=False)) < self.plan.trials:
                number = len(self._study.get_trials(deepcopy=False))
                self._study.sampler = self._optuna.samplers.TPESampler(seed=(self.plan.seed * 100_003 + number) % 2**32)
                lock = self._lock(number)
                lock.acquire()
                found = Trial(self, self._study.ask(), lock, attempts=1)
            if found is not None:
                found.begin()
            return found

    def standing(self) -> Standing:
        """Counts, and the best trial so far."""
        with self.guard:
            self._settle()
        states = self._optuna.trial.TrialState
        trials = self._study.get_trials(deepcopy=False)
        count = {state: sum(each.state == state for each in trials) for state in states}
        standing = Standing(count[states.COMPLETE], count[states.PRUNED], count[states.FAIL], count[states.RUNNING])
        if not standing.complete:
            return standing
        best = self._study.best_trial
        parameters = tuple((key, _text(value)) for key, value in best.params.items())
        counts = (standing.complete, standing.pruned, standing.failed, standing.unfinished)
        return Standing(*counts, best.number, best.value, parameters)

    def tell(self, trial: optuna.Trial, state: str, value: float | None = None) -> None:
        """Ends a trial."""
        with self.guard:
            self._study.tell(trial, value, state=self._optuna.trial.TrialState[state])

    def _identify(self) -> None:
        """A study goes on only as what it was."""
        space = {each.key: [each.choices, each.low, each.high, each.log] for each in self.plan.space}
        own = json.dumps([self.plan.config_hash, self.plan.metric, space], sort_keys=True)
        there = self._study.user_attrs.get("identity")
        if there is None:
            self._study.set_user_attr("identity", own)
        elif there != own:
            raise UserError(
                f"{self.plan.folder}: holds a search over another space or another configuration. Choose another "
                "--out_dir or name_tag; nothing is ever deleted."
            )

    def _abandoned(self) -> Trial | None:
        """The first trial that nobody works on any more."""
        return next(self._unattended(), None)

    def _settle(self) -> None:
        """Trials whose processes were killed too often have failed."""
        for each in self._unattended():
            if each.attempts > ATTEMPTS:
                each.fail(f"its process was killed, {ATTEMPTS} times")
            else:
                each.lock.release()

    def _unattended(self) -> Iterator[Trial]:
        """Trials that are not ended and in nobody's hands, each locked for the caller."""
        for each in self._study.get_trials(deepcopy=False, states=(self._optuna.trial.TrialState.RUNNING,)):
            lock = self._lock(each.number)
            try:
                lock.acquire(timeout=0)
            except Timeout:
                continue
            trial = self._optuna.trial.Trial(self._study, each._trial_id)
            attempts, reported = each.user_attrs.get("attempts", 0), max(each.intermediate_values, default=0)
            yield Trial(self, trial, lock, attempts=attempts + 1, reported=reported)

    def _lock(self, number: int) -> FileLock:
        return FileLock(self.plan.folder / f".trial-{number:03d}.lock")


class Trial:
    """One set of values, in the hands of one process until it is put back or ended.

    Attributes:
        number: from 0.
        attempts: how often it was started, this time included.
        reported: the last step that the pruner has heard of.
    """

    def __init__(self, study: Study, trial: optuna.Trial, lock: FileLock, *, attempts: int, reported: int = 0) -> None:
        self._study, self._trial, self.lock = study, trial, lock
        self.number, self.attempts, self.reported = trial.number, attempts, reported
        self.parameters: dict[str, str] = {}

    def begin(self) -> None:
        """Counts the attempt and draws the values; a trial that was begun before keeps its own."""
        self._trial.set_user_attr("attempts", self.attempts)
        self.parameters = {each.key: _text(_suggest(self._trial, each)) for each in self._study.plan.space}

    def report(self, step: int, value: float) -> bool:
        """Tells the pruner what the run is worth after ``step`` epochs; True when it should be given up."""
        self._trial.report(value, step)
        self.reported = step
        return self._trial.should_prune()

    def complete(self, value: float) -> None:
        """The end of a run, or of several: mean validation metric."""
        self._study.tell(self._trial, "COMPLETE", value)
        self.lock.release()

    def prune(self) -> None:
        """Given up early."""
        self._study.tell(self._trial, "PRUNED")
        self.lock.release()

    def fail(self, reason: str) -> None:
        """It cannot be trained, or the training failed; it counts as a trial."""
        self._trial.set_user_attr("reason", reason)
        self._study.tell(self._trial, "FAIL")
        self.lock.release()

    def put_back(self) -> None:
        """Interrupted: whoever claims it next goes on, and the attempt is not counted."""
        self._trial.set_user_attr("attempts", self.attempts - 1)
        self.lock.release()


def load_optuna() -> ModuleType:
    """Optuna, without its notes on every trial.

    Raises:
        UserError: it is not installed.
    """
    try:
        import optuna
        import optuna.storages.journal
    except ImportError:
        raise UserError("a search needs Optuna, which is not installed: pip install 'graphbench-gt[sweeps]'.") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _suggest(trial: optuna.Trial, each: Search) -> Any:
    if each.choices is not None:
        return trial.suggest_categorical(each.key, each.choices)
    assert each.low is not None
    assert each.high is not None
    if isinstance(each.low, int) and isinstance(each.high, int):
        return trial.suggest_int(each.key, each.low, each.high, log=each.log)
    return trial.suggest_float(each.key, each.low, each.high, log=each.log)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else written(value)


def _pruner(optuna: Any, plan: SearchPlan) -> Any:
    """Steps are epochs: no run is given up in the first tenth, nor before five others are complete (median)."""
    if plan.pruner == "median":
        return optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=plan.max_epoch // 10)
    if plan.pruner == "halving":
        return optuna.pruners.SuccessiveHalvingPruner(min_resource=max(1, plan.max_epoch // 16), reduction_factor=4)
    return optuna.pruners.NopPruner()
