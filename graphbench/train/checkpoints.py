"""``last.ckpt``, ``previous.ckpt`` and ``best.ckpt``: always complete, checked when read, loaded without pickle.

``last`` holds everything a run needs to continue bit for bit, the best model so far included; ``best`` only the
model (``torch.load(path, weights_only=True)["model"]``). ``previous`` is the ``last`` of before.
"""

from __future__ import annotations

import logging
import pickle
import random
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from graphbench.errors import UserError
from graphbench.runs import atomic

FORMAT = 1
logger = logging.getLogger(__name__)

DAMAGED = (OSError, EOFError, RuntimeError, ValueError, KeyError, pickle.UnpicklingError, zipfile.BadZipFile)


class Checkpoints:
    """The checkpoint files of one run.

    Args:
        folder: where they lie.
    """

    def __init__(self, folder: Path) -> None:
        self.last = folder / "last.ckpt"
        self.previous = folder / "previous.ckpt"
        self.best = folder / "best.ckpt"
        self.written_at = time.monotonic()
        self.cost = 0.0
        self._best_epoch: int | None = None

    def save(self, state: dict[str, Any]) -> None:
        """Writes ``last.ckpt`` (the old one becomes ``previous.ckpt``), and ``best.ckpt`` where it changed."""
        start = time.monotonic()
        self.last.parent.mkdir(parents=True, exist_ok=True)
        waiting = self.last.with_name("next.ckpt")
        with atomic.replacing(waiting) as file:
            torch.save({"format": FORMAT, **state}, file)
        # Killed between the next two lines: there is no last.ckpt, and previous.ckpt is taken.
        if self.last.is_file():
            self.last.replace(self.previous)
        waiting.replace(self.last)
        best = state.get("best")
        if best is not None and best["epoch"] != self._best_epoch:
            with atomic.replacing(self.best) as file:
                torch.save({"format": FORMAT, **best}, file)
            self._best_epoch = best["epoch"]
        else:
            atomic.sync_folder(self.last.parent)
        self.written_at = time.monotonic()
        self.cost = self.written_at - start

    def load(self) -> dict[str, Any] | None:
        """The latest complete state, on the CPU; None where there is none.

        A damaged file is renamed to ``*.damaged`` with a warning, and the one before it is taken.

        Raises:
            UserError: a state in a format of another version.
        """
        for path in (self.last, self.previous):
            if not path.is_file():
                continue
            try:
                state = read(path)
            except DAMAGED as error:
                aside = path.with_name(path.name + ".damaged")
                logger.warning(
                    "%s is damaged (%s); renamed to %s, trying an older state.", path, _first_line(error), aside.name
                )
                atomic.rename(path, aside)
                continue
            if state.get("format") != FORMAT:
                raise UserError(
                    f"{path}: written in format {state.get('format')}, this version reads format {FORMAT}. Resume "
                    "with the version that wrote it, or pass --overwrite to start again (the folder is kept aside)."
                )
            return state
        return None


def read(path: Path) -> dict[str, Any]:
    """A checkpoint's content, on the CPU.

    Raises:
        zipfile.BadZipFile: the file's checksums do not fit (PyTorch itself does not look at them).
    """
    with zipfile.ZipFile(path) as archive:
        broken = archive.testzip()
    if broken is not None:
        raise zipfile.BadZipFile(f"wrong checksum of {broken}")
    return torch.load(path, map_location="cpu", weights_only=True)


def random_state() -> dict[str, Any]:
    """The states of all global random generators, as tensors and plain numbers."""
    name, keys, *rest = np.random.get_state()  # noqa: NPY002  libraries draw from the global generator
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else [],
        "numpy": [name, torch.from_numpy(keys.astype(np.int64)), *rest],
        "python": random.getstate(),
    }


def set_random_state(state: dict[str, Any]) -> None:
    """Inverse of :func:`random_state`."""
    torch.set_rng_state(state["torch"])
    if state["cuda"] and torch.cuda.device_count() == len(state["cuda"]):
        torch.cuda.set_rng_state_all(state["cuda"])
    name, keys, *rest = state["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), *rest))  # noqa: NPY002
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
