"""Ctrl-C and SIGTERM (a cluster's notice) end a run between two steps, with its state saved."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class StopRequest:
    """While active, the first signal only sets :attr:`received`; a second Ctrl-C acts at once.

    Trainings that take turns share one, which is active from the first that enters it until the last has left. Outside
    the main thread, where Python handles no signals, it does nothing.
    """

    def __init__(self) -> None:
        self.received: str | None = None
        self._previous: dict[signal.Signals, Any] = {}
        self._inside = 0

    def __enter__(self) -> StopRequest:
        """Takes over the signals."""
        self._inside += 1
        if self._inside == 1 and threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._receive)
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Gives the signals back to whoever had them."""
        self._inside -= 1
        if self._inside:
            return
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.received = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
