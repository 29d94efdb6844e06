"""When a run's state is written, and how a run that is asked to stop comes to its end: between two steps, saved."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from lightning_fabric import Fabric

from graphbench.errors import Interrupted
from graphbench.train.checkpoints import Checkpoints
from graphbench.train.settings import Settings
from graphbench.train.signals import StopRequest
from graphbench.train.state import State
from graphbench.train.tally import gather_objects


class Saver:
    """Checkpoints in time; listens for signals while it is entered.

    Args:
        fabric: its processes agree before anything is written or ended.
        settings: periods.
        checkpoints: the files.
        pack: the content of a checkpoint, called by all processes.
    """

    def __init__(
        self, fabric: Fabric, settings: Settings, checkpoints: Checkpoints, pack: Callable[[], dict[str, Any]]
    ) -> None:
        self._fabric, self._settings, self._checkpoints, self._pack = fabric, settings, checkpoints, pack
        self._stop = StopRequest()

    def __enter__(self) -> Saver:
        """Takes over the signals."""
        self._stop.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Gives the signals back."""
        self._stop.__exit__(kind, error, trace)

    @property
    def urgent(self) -> bool:
        """True when this process should save or stop now."""
        return self._stop.received is not None or self.is_due()

    def is_due(self, improved: bool = False) -> bool:
        """Whether it is time for a checkpoint.

        Args:
            improved: the epoch that just ended is the best one.
        """
        since = time.monotonic() - self._checkpoints.written_at
        # A better epoch is worth a checkpoint, as long as writing them takes little of the time.
        better = self._settings.ckpt_best and improved and since >= 200 * self._checkpoints.cost
        return better or since >= self._settings.ckpt_seconds

    def save_or_stop(self, due: bool, state: State) -> None:
        """Saves if a process finds it due, and ends the run if one was asked to stop.

        Raises:
            Interrupted: one was, and the run is not over anyway.
        """
        stop = self._any(self._stop.received is not None)
        if self._settings.enable_ckpt and (stop or self._any(due)):
            self._save()
        if stop and state.ended is None:
            kept = (
                "The state is saved; the same command resumes the run."
                if self._settings.enable_ckpt
                else "No state is saved (train.enable_ckpt is False)."
            )
            raise Interrupted(f"stopped by {self._stop.received or 'another process'} in epoch {state.epoch}. {kept}")

    def _save(self) -> None:
        content = self._pack()
        if self._fabric.is_global_zero:
            self._checkpoints.save(content)
        else:
            self._checkpoints.written_at = time.monotonic()

    def _any(self, flag: bool) -> bool:
        """True in every process if it is in one of them."""
        return any(gather_objects(flag, self._fabric))
