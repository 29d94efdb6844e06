"""Progress of long computations: a bar on a terminal, a line now and then elsewhere.

The computation calls :func:`report`; its caller opens a :class:`Display` around it. Without a display
:func:`report` does nothing, so that computations need no argument for it::

    with Display("computing LapPE of 12,000 graphs", say=logger.info):
        ...                                  # somewhere inside: report(done, total)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import ContextVar, Token
from types import TracebackType
from typing import TYPE_CHECKING

from graphbench.durations import clock

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

REDRAW_SECONDS = 0.5
LINE_SECONDS = 30.0
"""Between two drawings of the bar, and between two lines where the output is no terminal."""


class Display:
    """Shows the progress that :func:`report` states inside a ``with`` block; the innermost block counts.

    Args:
        text: description of the work, in front of the bar and of every line.
        say: takes lines; where the output is no terminal also how far it is, every 30 seconds.
        console: console to draw on; default: standard error.
    """

    def __init__(self, text: str, say: Callable[[str], None], console: Console | None = None) -> None:
        self._text, self._say, self._console = text, say, console
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._token: Token[Display | None] | None = None
        self._start = self._shown = 0.0

    def __enter__(self) -> Display:
        from rich.console import Console

        self._start = self._shown = time.monotonic()
        self._say(self._text)
        console = self._console or Console(stderr=True)
        if console.is_terminal:
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

            self._bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=24),
                TaskProgressColumn(),
                TextColumn("{task.fields[left]}", markup=False),
                console=console,
                auto_refresh=False,
                transient=True,
            )
            self._task = self._bar.add_task(self._text, total=1.0, left="")
            self._bar.start()
        self._token = _shown.set(self)
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._token is not None
        _shown.reset(self._token)
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def update(self, fraction: float) -> None:
        """Draws or prints the progress, if enough time has passed since the last time.

        Args:
            fraction: 0 .. 1 of the work.
        """
        now = time.monotonic()
        if now - self._shown < (LINE_SECONDS if self._bar is None else REDRAW_SECONDS):
            return
        self._shown = now
        left = f"{clock((now - self._start) * (1 / fraction - 1))} left" if fraction > 0 else ""
        if self._bar is None:
            self._say(f"{self._text}: {fraction:.0%}" + (f", {left}" if left else ""))
        else:
            assert self._task is not None
            self._bar.update(self._task, completed=fraction, left=left)
            self._bar.refresh()


_shown: ContextVar[Display | None] = ContextVar("_shown", default=None)


def report(done: float, total: float) -> None:
    """Reports that ``done`` of ``total`` units of work are finished. Cheap; call it as often as you like."""
    display = _shown.get()
    if display is not None and total > 0:
        display.update(min(done / total, 1.0))
