"""Display of a running sweep: a live table on a terminal, a line per event elsewhere."""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import fmean

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from graphbench import registry
from graphbench.durations import clock
from graphbench.sweeps.run_spec import RunResult
from graphbench.sweeps.work_item import WorkItem


@dataclass(frozen=True)
class Failure:
    """A run or trial that did not come to its end."""

    item: WorkItem
    reason: str
    name: str


class SweepProgress:
    """Counts and shows the starts and ends that the launcher reports.

    Args:
        total: runs and trials of the sweep, finished ones included.
        finished: those that were finished before.
        console: console to write to; default: standard error.
    """

    def __init__(self, total: int, finished: int, console: Console | None = None) -> None:
        self.total = total
        self.finished = finished
        self.done = 0
        self.finished_runs = 0
        self._noted = ""
        self.failures: list[Failure] = []
        self.failed_trials: list[Failure] = []
        self.elsewhere: list[WorkItem] = []
        self._scores: dict[str, dict[str, list[float]]] = {}  # validation, by column and metric, then by row
        self._console = console or Console(stderr=True)
        self._running: dict[tuple[str, str], tuple[WorkItem, float]] = {}
        self._started_at = time.monotonic()
        self._live: Live | None = None

    def __enter__(self) -> SweepProgress:
        """Starts the live table."""
        if self._console.is_terminal:
            self._live = Live(self._render(), console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stops it."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def started(self, item: WorkItem) -> None:
        """A worker has begun."""
        self._running[item.key] = (item, time.monotonic())
        self.refresh()

    def ended(self, item: WorkItem, result: RunResult) -> None:
        """A run or trial is over, for good: here, where another process trains it."""
        _, start = self._running.pop(item.key, (item, time.monotonic()))
        seconds = time.monotonic() - start
        name = item.name if result.trial is None else f"{item.name[:-1]}, trial {result.trial})"
        first, *_ = result.reason.split("\n")  # all of it is listed at the end
        if result.status == "failed":
            self._note_failure(item, result, name)
            outcome = f"FAILED: {first}"
        elif result.status == "elsewhere":
            self.elsewhere.append(item)
            outcome = "running elsewhere"
        else:
            self.done += item.size
            self.finished_runs += 0 if item.is_interchangeable else item.size
            outcome = (first or "done") if result.line is None else _score(result)
            self._note_score(item, result)
        self._print(f"{self._count()} {name}: {outcome} ({clock(seconds)})")

    def _note_failure(self, item: WorkItem, result: RunResult, name: str) -> None:
        """Notes a failure; of runs together, those that have finished all the same count as such."""
        failures = self.failures if result.trial is None else self.failed_trials
        names = [name] if item.size == 1 else item.unfinished()
        failures += [Failure(item, result.reason, each) for each in names]
        self.done += item.size - len(names)
        self.finished_runs += item.size - len(names)

    def _note_score(self, item: WorkItem, result: RunResult) -> None:
        line = result.line or {}
        metric = str(line.get("metric"))
        value = line.get("val", {}).get(metric)
        if value is not None:
            _, row, column, _ = item.cells
            self._scores.setdefault(f"{column}, validation {metric}", {}).setdefault(row, []).append(float(value))

    def _best(self) -> list[str]:
        """The best row of every column by the mean validation of the runs that have ended here."""
        lines = []
        for column, rows in self._scores.items():
            metric = registry.lookup(registry.METRICS, column.rpartition(" ")[2])
            means = {row: fmean(values) for row, values in rows.items()}
            row = (max if metric.maximize else min)(means, key=lambda name: means[name])
            lines.append(f"best so far on {column}: {row} {means[row]:.4f} (runs: {len(rows[row])})")
        return lines

    def retried(self, item: WorkItem, reason: str) -> None:
        """A process was killed; its run goes on in another one."""
        self._running.pop(item.key, None)
        self._print(f"{self._count()} {item.name}: {reason}; it is started once more")

    def put_off(self, item: WorkItem) -> None:
        """Another process works on it; it is looked at again when that has ended."""
        self._running.pop(item.key, None)
        self._print(f"{self._count()} {item.name}: running elsewhere, looked at again when that has ended")

    def waiting_for_others(self, left: int) -> None:
        """Nothing is left but what other processes work on, and what starts from it."""
        self.note(f"{self._count()} {left} left, running elsewhere: waiting until that has ended")

    def note(self, text: str) -> None:
        """Something else that is worth a line, unless it is what was noted last."""
        if text != self._noted:
            self._print(text)
        self._noted = text

    def refresh(self) -> None:
        """Draws the live table again."""
        if self._live is not None:
            self._live.update(self._render(), refresh=True)

    @property
    def ended_here(self) -> int:
        """Number of items that have ended since this began."""
        return self.done + len(self.failures) + len(self.failed_trials)

    def _print(self, text: str) -> None:
        """Prints a line.

        Raises:
            KeyboardInterrupt: nobody reads any more.
        """
        try:
            self._console.print(Text(text), soft_wrap=True)
        except (BrokenPipeError, SystemExit):  # rich makes the second of the first
            raise KeyboardInterrupt("a closed output pipe") from None
        self.refresh()

    def _count(self) -> str:
        return f"[{self.finished + self.ended_here}/{self.total}]"

    def _render(self) -> Group:
        table = Table(box=None, pad_edge=False)
        for heading in ("running", "row", "column", "run", "for"):
            table.add_column(heading, overflow="ellipsis", no_wrap=True)
        now = time.monotonic()
        for item, start in self._running.values():
            table.add_row(*map(escape, (*item.cells, clock(now - start))))
        return Group(table, Text("\n".join([*self._best(), self._summary(now)])))

    def _summary(self, now: float) -> str:
        ended = self.ended_here
        left = self.total - self.finished - ended
        running = sum(item.size for item, _ in self._running.values())
        text = f"{self.finished + self.done} of {self.total} done, {running} running, "
        text += f"{left - running} waiting, {len(self.failures) + len(self.failed_trials)} failed"
        if ended and left:
            text += f", about {clock((now - self._started_at) / ended * left)} left"
        return text


def _score(result: RunResult) -> str:
    """A run's test score; of a trial the validation score, since nobody should choose by the other."""
    line = result.line or {}
    metric, split = line.get("metric"), "test" if result.trial is None else "val"
    shown = "test" if split == "test" else "validation"
    return f"{shown} {metric} {line.get(split, {}).get(metric, float('nan')):.4f}"
