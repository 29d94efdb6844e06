"""``last.ckpt``, ``previous.ckpt`` and ``best.ckpt``: always complete, checked when read, loaded without pickle.

``last`` holds everything a run needs to continue bit for bit, the best model so far included; ``best`` only the
model (``torch.load(path, weights_only=True)["model"]``). ``previous`` is the ``last`` of before. All say of which run
they are, so that the file of another one is not taken for this one's.
"""

from __future__ import annotations

import logging
import pickle
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from graphbench import atomic
from graphbench.errors import UserError, first_line, is_out_of_memory
from graphbench.runs.identity import RunIdentity, described
from graphbench.runs.record import RunRecord
from graphbench.runs.run_directory import RunDirectory
from graphbench.train.fabric import Fabric
from graphbench.train.settings import TrainerSettings

FORMAT = 1
logger = logging.getLogger(__name__)

DAMAGED = (OSError, EOFError, RuntimeError, ValueError, KeyError, pickle.UnpicklingError, zipfile.BadZipFile)
"""Errors that :func:`read_checkpoint` raises for a file that is not a complete checkpoint."""


_BEST: dict[str, type | tuple[type, ...]] = {"epoch": int, "model": dict}
"""Types of what every checkpoint has, ``best.ckpt`` included."""
_STATE: dict[str, type | tuple[type, ...]] = {
    "batches_done": int,
    **{name: (int, float) for name in ("seconds", "epoch_seconds")},
    **{name: dict for name in ("history", "optimizer", "schedule", "precision")},
    "best": (dict, type(None)),
    "processes": list,
}
"""Types of what a checkpoint has besides that a run goes on from."""


class Checkpointer:
    """Writes and reads the checkpoints of one run, and says when one is due.

    Args:
        run: run whose checkpoints they are.
        fabric: fabric whose first process reads and writes.
        settings: ``ckpt_seconds`` and ``ckpt_best``.

    Attributes:
        next: path of a checkpoint that is about to become the latest.
        last: path of the latest checkpoint.
        previous: path of the one before.
        best: path of the best model.
    """

    def __init__(self, run: RunDirectory, fabric: Fabric, settings: TrainerSettings) -> None:
        self.next = run.ckpt / "next.ckpt"
        self.last = run.ckpt / "last.ckpt"
        self.previous = run.ckpt / "previous.ckpt"
        self.best = run.ckpt / "best.ckpt"
        self._run = run
        self._fabric = fabric
        self._settings = settings
        self._saved_at = time.monotonic()
        self._save_seconds = 0.0
        self._best_epoch: int | None = None

    def is_due(self, improved: bool = False) -> bool:
        """Whether it is time for a checkpoint.

        Args:
            improved: the epoch that just ended is the best one.
        """
        elapsed = time.monotonic() - self._saved_at
        # A better epoch is worth a checkpoint, as long as writing them takes little of the time.
        worth_it = self._settings.ckpt_best and improved and elapsed >= 200 * self._save_seconds
        return worth_it or elapsed >= self._settings.ckpt_seconds

    def save(self, content: dict[str, Any]) -> None:
        """Writes ``last.ckpt`` (the old one becomes ``previous.ckpt``), and ``best.ckpt`` where it changed."""
        start = time.monotonic()
        if self._fabric.is_global_zero:
            self._write(content)
        self._saved_at = time.monotonic()
        self._save_seconds = self._saved_at - start

    def save_best(self, best: dict[str, Any]) -> None:
        """Writes ``best.ckpt`` alone, where it changed: of a run whose state is not worth keeping."""
        if self._fabric.is_global_zero and best["epoch"] != self._best_epoch:
            self._replace(self.best, best)
            self._best_epoch = best["epoch"]

    def _replace(self, path: Path, content: dict[str, Any]) -> None:
        self._run.check_in_place()
        path.parent.mkdir(parents=True, exist_ok=True)
        record = self._run.record
        facts = {"format": FORMAT, "run": None if record is None else vars(record.own_identity)}
        with atomic.replacing(path) as file:
            torch.save({**facts, **content}, file)

    def _write(self, content: dict[str, Any]) -> None:
        # The best model first: a run that is killed between the two, and had ended, writes no checkpoint any more.
        best = content.get("best")
        if best is not None:
            self.save_best(best)
        self._replace(self.next, content)
        self._rotate()

    def _rotate(self) -> None:
        # Killed behind one of these lines, whatever is complete and newest is found by _latest().
        if self.last.is_file():
            self.last.replace(self.previous)
        self.next.replace(self.last)
        atomic.sync_folder(self.last.parent)

    def load(self) -> tuple[Path, dict[str, Any]] | None:
        """The latest complete checkpoint, its path first, on the CPU, in every process; None where there is none.

        A damaged file, or one of another run, is renamed to ``*.damaged`` with a warning, and the one before it is
        taken.

        Raises:
            UserError: a checkpoint in a format of another version.
            OSError: the latest file may not, or cannot be read now, which says nothing about its content.
        """
        latest = self._latest() if self._fabric.is_global_zero else None
        return self._fabric.broadcast(latest)

    def _latest(self) -> tuple[Path, dict[str, Any]] | None:
        damaged = False
        for path in (self.next, self.last, self.previous):
            if not path.is_file():
                continue
            try:
                content = read_checkpoint(path)
                _check_types(content, _STATE)
                check_run(content, self._run.record)
            except DAMAGED as error:
                if is_out_of_memory(error) or (isinstance(error, OSError) and error.errno is not None):
                    raise
                aside = atomic.unused(path.with_name(path.name + ".damaged"))
                logger.warning(
                    "%s is damaged (%s); renamed to %s, trying an older state.", path, first_line(error), aside.name
                )
                atomic.rename(path, aside)
                damaged = True
                continue
            if content.get("format") != FORMAT:
                raise UserError(
                    f"{path}: written in format {content.get('format')}, this version reads format {FORMAT}. Resume "
                    "with the version that wrote it, or pass --overwrite to start again (the folder is kept aside)."
                )
            if path == self.next:  # killed before it had its name
                self._rotate()
                path = self.last
            return path, content
        if damaged:
            logger.warning("%s: no older state, the run starts afresh.", self._run.path)
        elif (record := self._run.record) is not None and record.resumed:
            logger.warning("%s: it had ended before its first checkpoint, the run begins again.", self._run.path)
        return None


def check_run(content: Mapping[str, Any], record: RunRecord | None) -> None:
    """Refuses a checkpoint that says that it is of another run; those of earlier versions do not say.

    Args:
        content: content of the checkpoint.
        record: record of the run in whose folder it lies.

    Raises:
        ValueError: naming what differs.
    """
    if record is not None and content.get("run") is not None:
        different = RunIdentity(**content["run"]).differences(record.own_identity)
        if different:
            raise ValueError(f"it is of a run of another {described(different)}")


def read_checkpoint(path: Path) -> dict[str, Any]:
    """A checkpoint's content, on the CPU.

    Raises:
        zipfile.BadZipFile: the file's checksums do not fit (PyTorch itself does not look at them).
        ValueError: it is not what is written here in this format, e.g. edited by hand.
    """
    with zipfile.ZipFile(path) as archive:
        broken = archive.testzip()
    if broken is not None:
        raise zipfile.BadZipFile(f"wrong checksum of {broken}")
    content: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    if not isinstance(content, dict):
        raise ValueError(f"it holds a {type(content).__name__}")
    _check_types(content, _BEST)
    return content


def _check_types(content: Mapping[str, Any], types: Mapping[str, type | tuple[type, ...]]) -> None:
    """Refuses a checkpoint of this format without what is written into one; of another format nothing is known.

    Raises:
        ValueError: naming what is not there as it is written.
    """
    wrong = [name for name, kind in types.items() if not isinstance(content.get(name, NotImplemented), kind)]
    if wrong and content.get("format") == FORMAT:
        raise ValueError(f"{', '.join(wrong)} missing or of another type")
