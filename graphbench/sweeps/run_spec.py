"""Messages between a launcher and its workers: the specification of a run, and how it ended."""

from __future__ import annotations

import json
import sys
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Self

from graphbench.config import Config, load_config
from graphbench.errors import Interrupted, Pruned, RunFailed, RunInUse, UserError
from graphbench.exit_codes import told_to_user
from graphbench.frozen_imports import frozen_imports
from graphbench.runs.planned import planned_runs
from graphbench.sweeps.search import SearchPlan


class Spec(ABC):
    """Specification of what a worker does at a time; can be pickled and written as JSON.

    Attributes:
        log_file: file for what is printed meanwhile.
    """

    log_file: Path

    @abstractmethod
    def plain(self) -> dict[str, Any]:
        """Dictionary of plain values, as JSON takes it."""

    @classmethod
    @abstractmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """Inverse of :meth:`plain`, before or after JSON."""

    @abstractmethod
    def run(self) -> RunResult:
        """Does it, in this process."""


@dataclass(frozen=True)
class RunSpec(Spec):
    """One run, or one trial of a search.

    Attributes:
        file: file of the configuration.
        overrides: ``(KEY, VALUE, ...)``.
        origins: ``file:line`` of the sweep file for each of them.
        repeat: number of seeds of the entry.
        run_ids: folder names of its runs to train; None: all of them (a trial).
        together: whether these are trained in turns, in one process.
        bases: folder of the run of another entry that each of the runs starts from; empty: they build on no entry.
        config_hash: hash of the configuration as it was checked.
        log_file: file for what the run prints.
        search: the search that the trial belongs to; None: a run.
    """

    file: Path
    overrides: tuple[str, ...]
    origins: dict[str, str]
    repeat: int
    run_ids: tuple[int, ...] | None
    config_hash: str
    log_file: Path
    search: SearchPlan | None = None
    together: bool = False
    bases: tuple[str, ...] = ()

    def plain(self) -> dict[str, Any]:
        """Dictionary of plain values, as JSON takes it."""
        content = asdict(self) | {"file": str(self.file), "log_file": str(self.log_file)}
        if self.search is not None:
            content["search"] |= {"folder": str(self.search.folder)}
        return content

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """Inverse of :meth:`plain`, before or after JSON."""
        paths = {"file": Path(plain["file"]), "log_file": Path(plain["log_file"])}
        search = plain["search"] and SearchPlan.from_plain(plain["search"])
        runs = None if plain["run_ids"] is None else tuple(plain["run_ids"])
        lists = {"overrides": tuple(plain["overrides"]), "run_ids": runs, "bases": tuple(plain.get("bases", ()))}
        return cls(**{**plain, **paths, **lists, "search": search})

    def run(self) -> RunResult:
        """Trains."""
        with frozen_imports():  # seconds: after a worker has told Ctrl-C to be ignored
            from graphbench.experiment import run
        from graphbench.sweeps.trial import run_trial

        if self.search is None:
            options: dict[str, Any] = {"repeat": self.repeat, "only": self.run_ids, "together": self.together}
            return capture_result(lambda: run(self.load_config(), **options), self.log_file)
        try:
            return run_trial(self, self.search)
        except UserError as error:  # the study cannot be opened
            return RunResult("failed", str(error))

    def load_config(self) -> Config:
        """The configuration of the entry, as long as it is what was checked and what it builds on has finished.

        Raises:
            UserError: it is not, or that has not.
        """
        config = load_config(self.file, self.overrides, places=self.origins)
        if config.hash != self.config_hash:
            raise UserError(
                f"{self.file}: hash {self.config_hash} when the sweep began, {config.hash} now: the file, one it is "
                "based on, or the program was changed meanwhile. Start the sweep again."
            )
        if self.bases:
            self._check_bases(config)
        return config

    def _check_bases(self, config: Config) -> None:
        from graphbench.train.pretrained import check_base

        runs = self.run_ids or [run.run_id for run in planned_runs(config, self.repeat)]
        for run_id, base in zip(runs, self.bases, strict=True):
            check_base(config.tree.pretrained.dir, run_id, base)


@dataclass(frozen=True)
class RunResult:
    """Result of a run: how it ended.

    Attributes:
        status: ``finished``, ``failed``, ``pruned`` (given up by a search), ``interrupted`` (from outside, state
            kept) or ``elsewhere`` (another process works on it).
        reason: why it did not finish.
        line: the final line of a finished run.
        trial: number of the trial in its search.
    """

    status: Literal["finished", "failed", "pruned", "interrupted", "elsewhere"]
    reason: str = ""
    line: Mapping[str, Any] | None = None
    trial: int | None = None


def capture_result(train: Callable[[], Mapping[str, Any] | None], log_file: Path) -> RunResult:
    """Calls ``train`` and turns its final line, or its exception, into a result.

    Args:
        train: trains and returns the final line.
        log_file: file with the traceback of a defect, for the message.
    """
    try:
        line = train()
    except RunInUse as error:
        _say(f"running elsewhere: {error}")
        return RunResult("elsewhere", str(error))
    except (UserError, RunFailed) as error:
        _say(f"failed: {error}")
        return RunResult("failed", str(error))
    except Pruned as error:
        _say(f"pruned: {error}")
        return RunResult("pruned", str(error))
    except (Interrupted, KeyboardInterrupt) as error:
        return RunResult("interrupted", str(error) or "interrupted")
    except (Exception, SystemExit) as error:  # noqa: BLE001  a defect in one run must not end the others; its traceback is in the log
        told = told_to_user(error)
        if told is not None:
            _say(f"failed: {told}")
            return RunResult("failed", str(told))
        _say(traceback.format_exc())
        return RunResult("failed", f"{type(error).__name__}: {error} (traceback in {log_file})")
    if line is not None:
        _say(json.dumps(line))
    return RunResult("finished", line=line)


def _say(text: str) -> None:
    """Into the log; where that has no room, whoever is handed the result knows all the same."""
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)
