"""Progress of a run: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from graphbench.durations import clock
from graphbench.runs.record import Outcome
from graphbench.train.reporter import EpochReport, Reporter, StartReport
from graphbench.train.signals import StopRequest

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

REDRAW_SECONDS = 0.5
"""Between two drawings of the bar (each costs a few milliseconds)."""

PLAIN_LINES = 20
"""About as many lines per run where the output is no terminal."""


class ProgressBar(Reporter):
    """Epoch, loss, validation metric, best so far and time left.

    It draws from the trainer itself, at most twice a second: a drawing thread would take the interpreter from it at
    moments of its own choosing. A terminal that was closed, or a full disk behind standard error, ends no training; a
    pipe that nobody reads any more (``| head``) asks for its end, with its state saved.

    Args:
        console: console to draw on; default: standard error, which leaves standard output to the results.
        title: text shown in front, e.g. the name of the configuration and the seed.
        lines: a line now and then, on a terminal, too.
        stop: asked for the end of the run; default: one that nobody listens to.
    """

    def __init__(
        self,
        console: Console | None = None,
        title: str = "",
        *,
        lines: bool = False,
        stop: StopRequest | None = None,
    ) -> None:
        self._console = console
        self._lines = lines
        self._stop = stop or StopRequest()
        self._title = title
        self._bar: Progress | None = None
        self._bar_task: TaskID | None = None
        self._drawn = 0.0
        self._text = ""
        self._max_epoch = 1
        self._printed = -1

    def start(self, report: StartReport) -> None:
        """Says where a resumed run goes on; opens the bar."""
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self._max_epoch = report.max_epoch
        self._console = self._console or Console(stderr=True)
        if report.resumed_from is not None:
            self._print(f"resumed at epoch {report.first_epoch} from {report.resumed_from}")
        if self._console.is_terminal and not self._lines:
            self._bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=24),
                TextColumn("{task.fields[text]}", markup=False),
                console=self._console,
                auto_refresh=False,
                transient=True,
            )
            self._bar_task = self._bar.add_task(
                self._title or "training", total=report.max_epoch, completed=report.first_epoch, text=""
            )
            with self._shown():
                self._bar.start()

    def batch(self, epoch: int, done: int, total: int) -> None:
        """Moves the bar inside an epoch."""
        if self._bar is not None and time.monotonic() - self._drawn >= REDRAW_SECONDS:
            self._draw(epoch + done / max(1, total), self._text or f"epoch {epoch}, batch {done}/{total}")

    def epoch(self, report: EpochReport) -> None:
        """Takes in the numbers of an epoch; draws or prints when it is time."""
        last = report.epoch + 1 == self._max_epoch
        if self._bar is None:
            tick = (report.epoch + 1) * PLAIN_LINES // self._max_epoch
            if tick != self._printed or report.epoch == 0:
                self._printed = tick
                self._print(describe(report))
        elif last or "val" in report.stats or not self._text:
            self._text = describe(report)
        if self._bar is not None and (last or time.monotonic() - self._drawn >= REDRAW_SECONDS):
            self._draw(report.epoch + 1, describe(report))

    def finish(self, outcome: Outcome) -> None:
        """Says how the run ended."""
        duration = clock(outcome.total_time)
        epochs = "1 epoch" if outcome.epochs == 1 else f"{outcome.epochs} epochs"
        text = f"{epochs} in {duration} ({outcome.reason}), best epoch {outcome.best_epoch}"
        self.close()
        self._print(text)

    def close(self) -> None:
        """Gives the terminal back."""
        bar, self._bar = self._bar, None
        if bar is not None:
            with self._shown():
                bar.stop()

    def _print(self, text: str) -> None:
        stream: IO[str] | None = None if self._console is None else self._console.file
        with self._shown():
            print(f"{self._title}: {text}".removeprefix(": "), file=stream, flush=True)

    def _draw(self, completed: float, text: str) -> None:
        assert self._bar is not None
        assert self._bar_task is not None
        with self._shown():
            self._bar.update(self._bar_task, completed=completed, text=text)
            self._bar.refresh()
        self._drawn = time.monotonic()

    @contextmanager
    def _shown(self) -> Iterator[None]:
        """Leaves out what cannot be shown."""
        try:
            yield
        except (BrokenPipeError, SystemExit):  # rich makes the second of the first
            self._bar = None  # it cannot be closed any more
            self._stop.received = "a closed output pipe"
        except OSError:
            pass


def describe(report: EpochReport) -> str:
    """One epoch in one line, its number as in stats.json.

    ``epoch 11 (12/200)  loss 0.4312  val accuracy 0.8120  best 0.8160 (epoch 9)  left 0:42``
    """
    parts = [
        f"epoch {report.epoch} ({report.epoch + 1}/{report.max_epoch})",
        f"loss {report.stats['train']['loss']:.4f}",
    ]
    value = report.stats.get("val", {}).get(report.metric)
    if value is not None:
        parts.append(f"val {report.metric} {value:.4f}")
    if report.best_epoch is not None:
        parts.append(f"best {report.best['val'][report.metric]:.4f} (epoch {report.best_epoch})")
    left = report.seconds_left if math.isfinite(report.seconds_left) else 0.0
    return "  ".join([*parts, f"left {clock(left)}"])
