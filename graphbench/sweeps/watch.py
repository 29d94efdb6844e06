"""What a person sees of a running sweep: a live table on a terminal, a line per event elsewhere."""

from __future__ import annotations

import time
from dataclasses import dataclass

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from graphbench.sweeps.plan import Unit
from graphbench.sweeps.worker import Answer


@dataclass(frozen=True)
class Failure:
    """A run or trial that did not come to its end."""

    unit: Unit
    reason: str
    name: str


class Watcher:
    """Counts and shows what the launcher reports.

    Args:
        total: runs and trials of the sweep, finished ones included.
        finished: those that were finished before.
        console: where to write; default: standard error.
    """

    def __init__(self, total: int, finished: int, console: Console | None = None) -> None:
        self.total, self.finished, self.done = total, finished, 0
        self.finished_runs = 0
        self.failures: list[Failure] = []
        self.failed_trials: list[Failure] = []
        self._console = console or Console(stderr=True)
        self._running: dict[tuple[str, str], tuple[Unit, float]] = {}
        self._begin = time.monotonic()
        self._live: Live | None = None

    def __enter__(self) -> Watcher:
        """Begins to draw."""
        if self._console.is_terminal:
            self._live = Live(self._picture(), console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Gives the terminal back."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def started(self, unit: Unit) -> None:
        """A worker has begun."""
        self._running[unit.key] = (unit, time.monotonic())
        self.tick()

    def ended(self, unit: Unit, answer: Answer) -> None:
        """A run or trial is over, for good."""
        _, begin = self._running.pop(unit.key, (unit, time.monotonic()))
        seconds = time.monotonic() - begin
        name = unit.name if answer.trial is None else f"{unit.name[:-1]}, trial {answer.trial})"
        first, *_ = answer.reason.split("\n")  # all of it is listed at the end
        if answer.status == "failed":
            failures = self.failures if answer.trial is None else self.failed_trials
            failures.append(Failure(unit, answer.reason, name))
            says = f"FAILED: {first}"
        else:
            self.done += 1
            self.finished_runs += unit.run is not None
            says = first if answer.line is None else _score(answer)
        self._say(f"{self._place()} {name}: {says} ({_clock(seconds)})")

    def retried(self, unit: Unit, reason: str) -> None:
        """A process was killed; its run goes on in another one."""
        self._running.pop(unit.key, None)
        self._say(f"{self._place()} {unit.name}: {reason}; it is started once more")

    def tick(self) -> None:
        """Draws."""
        if self._live is not None:
            self._live.update(self._picture(), refresh=True)

    @property
    def ended_here(self) -> int:
        """What has ended since this began."""
        return self.done + len(self.failures) + len(self.failed_trials)

    def _say(self, text: str) -> None:
        self._console.print(Text(text), soft_wrap=True)
        self.tick()

    def _place(self) -> str:
        return f"[{self.finished + self.ended_here}/{self.total}]"

    def _picture(self) -> Group:
        table = Table(box=None, pad_edge=False)
        for heading in ("running", "row", "column", "run", "for"):
            table.add_column(heading, overflow="ellipsis", no_wrap=True)
        now = time.monotonic()
        for unit, begin in self._running.values():
            entry, run = unit.planned.entry, str(unit.run.run_id) if unit.run else "search"
            cells = (entry.config.name, entry.label, unit.planned.column, run, _clock(now - begin))
            table.add_row(*map(escape, cells))
        return Group(table, Text(self._summary(now)))

    def _summary(self, now: float) -> str:
        ended = self.ended_here
        left = self.total - self.finished - ended
        text = f"{self.finished + self.done} of {self.total} done, {len(self._running)} running, "
        text += f"{left - len(self._running)} waiting, {len(self.failures) + len(self.failed_trials)} failed"
        if ended and left:
            text += f", about {_clock((now - self._begin) / ended * left)} left"
        return text


def _score(answer: Answer) -> str:
    """A run's test score; of a trial the validation score, since nobody should choose by the other."""
    line = answer.line or {}
    metric, split = line.get("metric"), "test" if answer.trial is None else "val"
    shown = "test" if split == "test" else "validation"
    return f"{shown} {metric} {line.get(split, {}).get(metric, float('nan')):.4f}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
