"""Signals that end a run between two steps, with its state saved.

Ctrl-C, SIGTERM (a cluster's notice), SIGHUP (the terminal or the connection is closed) and SIGXCPU (a limit on
processor time). SIGHUP that is ignored stays so: that is what ``nohup`` is for.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

from graphbench.errors import Interrupted

_SIGNALS = [number for number in signal.Signals if number.name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGXCPU")]
"""Signals for stopping that the system has."""


class Ended(KeyboardInterrupt):
    """A signal outside of trainings; no ``except Exception`` of a library takes it for its own."""


class StopRequest:
    """While active, the first of them only sets :attr:`received`; a second Ctrl-C acts at once.

    Trainings that take turns share one, which is active from the first that enters it until the last has left. Outside
    the main thread, where Python handles no signals, it does nothing.
    """

    def __init__(self) -> None:
        self.received: str | None = None
        self._begun = False
        self._previous: dict[signal.Signals, Any] = {}
        self._inside = 0

    def __enter__(self) -> StopRequest:
        """Takes over the signals."""
        self._inside += 1
        self._begun = True
        if self._inside == 1 and threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                if number.name != "SIGHUP" or signal.getsignal(number) != signal.SIG_IGN:
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

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Around trainings and what is done before and between them: there, the first of the signals ends everything.

        Only signals that nobody else handles are taken over, and Ctrl-C, which Python turns into an exception.

        Raises:
            Interrupted: there is no state to save.
        """
        previous: dict[signal.Signals, Any] = {}
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                if signal.getsignal(number) == signal.SIG_DFL:
                    previous[number] = signal.signal(number, self._end)
        try:
            yield
        except Ended as error:
            raise Interrupted(str(error)) from None
        except KeyboardInterrupt:
            if self._begun:  # the second Ctrl-C of a training
                raise
            raise Interrupted(self._outside("Ctrl-C")) from None
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _end(self, number: int, frame: FrameType | None) -> None:
        raise Ended(self._outside(signal.Signals(number).name))

    def _outside(self, name: str) -> str:
        when = "between two trainings or after the last" if self._begun else "before training began"
        return f"stopped by {name} {when}: there is nothing to resume. The same command does what is missing."

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.received = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
