"""What a person sees of a running sweep: a live table on a terminal, a line per event elsewhere."""

from __future__ import annotations

import time
from dataclasses import dataclass

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from graphbench.experiment import Run
from graphbench.sweeps.plan import Planned
from graphbench.sweeps.worker import Answer


@dataclass(frozen=True)
class Failure:
    """A run that did not come to its end."""

    planned: Planned
    run: Run
    reason: str


class Watcher:
    """Counts and shows what the launcher reports.

    Args:
        total: runs of the sweep, finished ones included.
        finished: runs that were finished before.
        console: where to write; default: standard error.
    """

    def __init__(self, total: int, finished: int, console: Console | None = None) -> None:
        self.total, self.finished, self.done = total, finished, 0
        self.failures: list[Failure] = []
        self._console = console or Console(stderr=True)
        self._running: dict[tuple[str, int], tuple[Planned, Run, float]] = {}
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

    def started(self, planned: Planned, run: Run) -> None:
        """A worker has begun a run."""
        self._running[_key(planned, run)] = (planned, run, time.monotonic())
        self.tick()

    def ended(self, planned: Planned, run: Run, answer: Answer) -> None:
        """A run is finished, or has failed for good."""
        *_, begin = self._running.pop(_key(planned, run), (planned, run, time.monotonic()))
        seconds = time.monotonic() - begin
        if answer.status == "finished":
            self.done += 1
            line = answer.line or {}
            metric = line.get("metric")
            says = f"test {metric} {line.get('test', {}).get(metric, float('nan')):.4f}"
        else:
            self.failures.append(Failure(planned, run, answer.reason))
            first, *_ = answer.reason.split("\n")  # all of it is listed at the end
            says = f"FAILED: {first}"
        self._say(f"{self._place()} {name(planned, run)}: {says} ({_clock(seconds)})")

    def retried(self, planned: Planned, run: Run, reason: str) -> None:
        """A run's process was killed; the run goes on in another one."""
        self._running.pop(_key(planned, run), None)
        self._say(f"{self._place()} {name(planned, run)}: {reason}; it is started once more")

    def tick(self) -> None:
        """Draws."""
        if self._live is not None:
            self._live.update(self._picture(), refresh=True)

    def _say(self, text: str) -> None:
        self._console.print(Text(text), soft_wrap=True)
        self.tick()

    def _place(self) -> str:
        return f"[{self.finished + self.done + len(self.failures)}/{self.total}]"

    def _picture(self) -> Group:
        table = Table(box=None, pad_edge=False)
        for heading in ("running", "row", "column", "run", "for"):
            table.add_column(heading, overflow="ellipsis", no_wrap=True)
        now = time.monotonic()
        for planned, run, begin in self._running.values():
            entry = planned.entry
            cells = (entry.config.name, entry.label, planned.column, str(run.run_id), _clock(now - begin))
            table.add_row(*map(escape, cells))
        return Group(table, Text(self._summary(now)))

    def _summary(self, now: float) -> str:
        ended = self.done + len(self.failures)
        left = self.total - self.finished - ended
        text = f"{self.finished + self.done} of {self.total} done, {len(self._running)} running, "
        text += f"{left - len(self._running)} waiting, {len(self.failures)} failed"
        if ended and left:
            text += f", about {_clock((now - self._begin) / ended * left)} left"
        return text


def name(planned: Planned, run: Run) -> str:
    """Row, column and folder of a run."""
    return f"{planned.entry.label} / {planned.column} ({planned.entry.config.name} {run.run_id})"


def _key(planned: Planned, run: Run) -> tuple[str, int]:
    return planned.entry.config.name, run.run_id


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
