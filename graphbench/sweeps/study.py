"""A search on disk: an Optuna study in a journal file, shared by any number of processes.

Trials are proposed by a tree-structured Parzen estimator (TPE, Bergstra et al. 2011). Its random numbers depend on the
seed of the configuration and the number of the trial only: a search by one process proposes the same trials, however
often it is interrupted. A process holds a lock as long as it works on a trial. When it is killed, the operating system
releases the lock, and the next process that claims a trial continues it from its checkpoint; after
:data:`MAX_ATTEMPTS` such ends it counts as failed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import ModuleType
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from graphbench.errors import UserError
from graphbench.runs.identity import RunIdentity, described
from graphbench.sweeps.document import in_one_line, tied_keys
from graphbench.sweeps.journal import JournalLock
from graphbench.sweeps.search import SearchDimension, SearchPlan

if TYPE_CHECKING:
    import optuna

MAX_ATTEMPTS = 2
"""Number of starts of a trial whose process is killed."""


@dataclass(frozen=True)
class StudyStatus:
    """Status of a search.

    Attributes:
        complete: trials with a value.
        pruned: trials that were ended early.
        failed: trials that failed.
        unfinished: trials that were begun, running or waiting to go on.
        best: number of the best complete trial, None where there is none.
        value: value of that trial.
        parameters: keys and values of that trial.
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
        plan: plan of the search.

    Raises:
        UserError: Optuna is not installed, or the folder holds another search.
    """

    def __init__(self, plan: SearchPlan) -> None:
        self.plan = plan
        self._optuna = load_optuna()
        plan.folder.mkdir(parents=True, exist_ok=True)
        self.guard = FileLock(plan.folder / ".study.lock")
        with self.guard:
            lock = JournalLock(plan.journal)
            backend = self._optuna.storages.journal.JournalFileBackend(str(plan.journal), lock_obj=lock)
            try:
                self._study = self._optuna.create_study(
                    study_name=plan.name,
                    storage=self._optuna.storages.JournalStorage(backend),
                    direction="maximize" if plan.maximize else "minimize",
                    pruner=_pruner(self._optuna, plan),
                    load_if_exists=True,
                )
            except (json.JSONDecodeError, UnicodeDecodeError) as error:
                raise UserError(
                    f"{plan.journal}: damaged ({error}). Its trials lie beside it as runs. Put back a copy, or move it "
                    "away to begin the search again."
                ) from error
            self._check_identity()

    def claim(self) -> Trial | None:
        """A trial for this process: one that was killed or interrupted, else a new one; None where all are taken."""
        with self.guard:
            self._fail_exhausted()
            trial = next(self._orphaned(), None)
            number = len(self._study.get_trials(deepcopy=False))
            if trial is None and number < self.plan.trials:
                self._study.sampler = self._optuna.samplers.TPESampler(seed=(self.plan.seed * 100_003 + number) % 2**32)
                lock = self._lock(number)
                lock.acquire()
                trial = Trial(self, self._study.ask(), lock, attempts=1)
            if trial is not None:
                trial.begin()
            return trial

    def status(self) -> StudyStatus:
        """Counts, and the best trial so far."""
        with self.guard:
            self._fail_exhausted()
        states = self._optuna.trial.TrialState
        trials = self._study.get_trials(deepcopy=False)
        count = {state: sum(trial.state == state for trial in trials) for state in states}
        status = StudyStatus(count[states.COMPLETE], count[states.PRUNED], count[states.FAIL], count[states.RUNNING])
        if not status.complete:
            return status
        best = self._study.best_trial
        parameters = tuple((key, _text(value)) for name, value in best.params.items() for key in tied_keys(name))
        return replace(status, best=best.number, value=best.value, parameters=parameters)

    def tell(self, trial: optuna.Trial, state: str, value: float | None = None) -> None:
        """Ends a trial."""
        with self.guard:
            self._study.tell(trial, value, state=self._optuna.trial.TrialState[state])

    def check_inputs(self, identity: RunIdentity) -> None:
        """Refuses to compare trials on different data, or made by different plug-ins, and remembers what they are.

        Args:
            identity: identity of a run of a trial. Its split may be a part of the space and is not looked at.

        Raises:
            UserError: earlier trials were made of something else.
        """
        inputs = {name: digest for name, digest in identity.inputs.items() if not name.startswith("split ")}
        with self.guard:
            known = RunIdentity("", self._study.user_attrs.get("inputs", {}))
            different = RunIdentity("", inputs).differences(known)
            if different:
                raise UserError(
                    f"{self.plan.folder}: its trials were made of another {described(different)}, so that values could "
                    "not be compared. Go back to it, or choose another --out_dir or name_tag; nothing is ever deleted."
                )
            self._study.set_user_attr("inputs", known.joined(RunIdentity("", inputs)).inputs)

    def _check_identity(self) -> None:
        """Refuses a study of another configuration, metric or space."""
        space = {
            dimension.key: [dimension.choices, dimension.low, dimension.high, dimension.log]
            for dimension in self.plan.space
        }
        identity = json.dumps([self.plan.config_hash, self.plan.metric, space], sort_keys=True)
        stored = self._study.user_attrs.get("identity")
        if stored is None:
            self._study.set_user_attr("identity", identity)
        elif stored != identity:
            raise UserError(
                f"{self.plan.folder}: holds a search over another space or another configuration. Choose another "
                "--out_dir or name_tag; nothing is ever deleted."
            )

    def _fail_exhausted(self) -> None:
        """Ends trials whose processes were killed too often as failed."""
        for trial in self._orphaned():
            if trial.attempts > MAX_ATTEMPTS:
                trial.fail(f"its process was killed, {MAX_ATTEMPTS} times")
            else:
                trial.lock.release()

    def _orphaned(self) -> Iterator[Trial]:
        """Trials that have not ended and that no process works on, each locked for the caller."""
        for frozen in self._study.get_trials(deepcopy=False, states=(self._optuna.trial.TrialState.RUNNING,)):
            lock = self._lock(frozen.number)
            try:
                lock.acquire(timeout=0)
            except Timeout:
                continue
            trial = self._optuna.trial.Trial(self._study, frozen._trial_id)
            attempts, reported = frozen.user_attrs.get("attempts", 0), max(frozen.intermediate_values, default=0)
            yield Trial(self, trial, lock, attempts=attempts + 1, reported=reported)

    def _lock(self, number: int) -> FileLock:
        return FileLock(self.plan.folder / f".trial-{number:03d}.lock")


class Trial:
    """One set of values, locked by one process until it is released or ended.

    Attributes:
        number: number of the trial, from 0.
        attempts: number of starts, this time included.
        reported: the last step that was reported to the pruner.
    """

    def __init__(self, study: Study, trial: optuna.Trial, lock: FileLock, *, attempts: int, reported: int = 0) -> None:
        self._study = study
        self._trial = trial
        self.lock = lock
        self.number = trial.number
        self.attempts = attempts
        self.reported = reported
        self.parameters: dict[str, str] = {}

    def begin(self) -> None:
        """Counts the attempt and draws the values; a trial that was begun before keeps its own."""
        self._trial.set_user_attr("attempts", self.attempts)
        for dimension in self._study.plan.space:
            value = _text(_suggest(self._trial, dimension))
            self.parameters |= dict.fromkeys(dimension.keys, value)

    def check_inputs(self, identity: RunIdentity) -> None:
        """See :meth:`Study.check_inputs`."""
        self._study.check_inputs(identity)

    def report(self, step: int, value: float) -> bool:
        """Reports the value after ``step`` epochs to the pruner; True when the trial should be pruned."""
        self._trial.report(value, step)
        self.reported = step
        return self._trial.should_prune()

    def complete(self, value: float) -> None:
        """Ends it with the mean validation metric of its runs."""
        self._study.tell(self._trial, "COMPLETE", value)
        self.lock.release()

    def prune(self) -> None:
        """Ends it early."""
        self._study.tell(self._trial, "PRUNED")
        self.lock.release()

    def fail(self, reason: str) -> None:
        """Ends a trial that cannot be trained, or whose training failed; it counts as a trial."""
        self._trial.set_user_attr("reason", reason)
        self._study.tell(self._trial, "FAIL")
        self.lock.release()

    def release(self) -> None:
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


def _suggest(trial: optuna.Trial, dimension: SearchDimension) -> Any:
    key, low, high = dimension.key, dimension.low, dimension.high
    if dimension.choices is not None:
        return trial.suggest_categorical(key, dimension.choices)
    assert low is not None
    assert high is not None
    if isinstance(low, int) and isinstance(high, int):
        return trial.suggest_int(key, low, high, log=dimension.log)
    return trial.suggest_float(key, low, high, log=dimension.log)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else in_one_line(value)


def _pruner(optuna: Any, plan: SearchPlan) -> Any:
    """Steps are epochs: no run is given up in the first tenth, nor before five others are complete (median)."""
    if plan.pruner == "median":
        return optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=plan.max_epoch // 10)
    if plan.pruner == "halving":
        return optuna.pruners.SuccessiveHalvingPruner(min_resource=max(1, plan.max_epoch // 16), reduction_factor=4)
    return optuna.pruners.NopPruner()
