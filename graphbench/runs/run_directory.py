"""Folder of a run on disk, and what to do about a run that is already there.

::

    <out_dir>/<config name>/
        config.yaml                       the full configuration (of the latest start); in a run's folder that of this
                                          run alone, with its seed and its split
        <run id>/                         the seed, or the split index
            config.yaml record.json logging.log
            train/stats.json val/stats.json test/stats.json
            ckpt/last.ckpt previous.ckpt best.ckpt
        <run id>.old-<date>/              renamed aside by ``overwrite``; nothing is ever deleted
        agg/{train,val,test}/{stats.json,best.json}

A finished run that was made of the same is skipped, an unfinished one resumes, one of another configuration, other data
or another split is refused. A lock keeps a second process out; the operating system releases it when its holder dies.
"""

from __future__ import annotations

import datetime
import logging
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Literal

from graphbench import atomic
from graphbench.config.settings import describe_differences
from graphbench.errors import Interrupted, Pruned, RunFailed, RunInUse, UserError
from graphbench.runs.identity import CONFIGURATION, PLUG_IN, RunIdentity, described
from graphbench.runs.record import Outcome, RunRecord, Status
from graphbench.vocabulary import SPLITS

Decision = Literal["fresh", "resume", "skip"]


class RunDirectory:
    """One run's folder.

    Args:
        out_dir: root of all outputs.
        config: name of the configuration (file name without ending, with its tag).
        run_id: seed or split index.
        writer: False in every process but the first of a data-parallel run: nothing is written, locked or decided.
    """

    def __init__(self, out_dir: Path | str, config: str, run_id: str | int, *, writer: bool = True) -> None:
        self.config_dir = Path(out_dir) / config
        self.path = self.config_dir / str(run_id)
        self.ckpt = self.path / "ckpt"
        self.record_file = self.path / "record.json"
        self.log_file = self.path / "logging.log"
        self.writer = writer
        self._handle: int | None = None  # of the folder while it is open

    @property
    def record(self) -> RunRecord | None:
        """The record on disk, None where there is none (or a damaged one)."""
        return RunRecord.read(self.record_file)

    def refuse_another(self, identity: RunIdentity, settings: Mapping[str, Any] | None = None) -> None:
        """Refuses a folder with a run that was made of something else, or of nobody knows what.

        Args:
            identity: identity of the run that is to be in the folder, as far as it is known already.
            settings: settings of its configuration, so that the message can name the keys that differ.

        Raises:
            UserError: saying what differs and how to go on.
        """
        record = self.record
        if record is None and self.record_file.is_file() and not os.access(self.record_file, os.R_OK):
            raise UserError(f"{self.record_file} may not be read by you: choose another name_tag, seed or out_dir.")
        if self._is_damaged(record):
            raise UserError(
                f"{self.path}: holds results without a readable record.json, so that it is unknown which configuration "
                f"they belong to: {_ADVICE}"
            )
        if record is not None and record.run_id != self.path.name:
            raise UserError(
                f"{self.path}: holds the record of run {record.run_id} (a copy of its folder, or of its files), which "
                f"would count twice. Put back what belongs here, or {_ADVICE}"
            )
        different = {} if record is None else record.identity.differences_of_one_run(identity)
        if record is not None and different:
            see = f"; see {self.path / 'config.yaml'}" if CONFIGURATION in different else ""
            if CONFIGURATION in different and settings and record.settings:
                see = f": {describe_differences(settings, record.settings)}"
            raise UserError(
                f"{self.path}: holds a run ({record.status}) of another {described(different)}{see}. Go back to what "
                f"it was made of, or keep both: {_ADVICE}{self._advice_on_plug_ins(different)}"
            )

    def _advice_on_plug_ins(self, different: Collection[str]) -> str:
        """How to add to a plug-in without this refusal, and where its file is as the run had it."""
        plug_ins = [name.removeprefix(PLUG_IN) for name in different if name.startswith(PLUG_IN)]
        if not plug_ins:
            return ""
        copies = [str(self.path / name) for name in plug_ins if (self.path / name).is_file()]
        kept = f" (as it was: {', '.join(copies)})" if copies else ""
        return (
            f" A plug-in counts as a whole, file by file: what is added in a file of its own, named by the "
            f"configurations that use it, leaves the runs of the others valid{kept}."
        )

    def set_aside_another(self, identity: RunIdentity) -> Path | None:
        """Renames a run that was made of something else, or of nobody knows what, aside, as ``overwrite`` does.

        Returns:
            Its new folder, None where there is no such run.

        Raises:
            UserError: another process works here.
        """
        record = self.record
        another = self._is_damaged(record) or (
            record is not None and (record.run_id != self.path.name or record.identity.differences_of_one_run(identity))
        )
        return self.set_aside() if another else None

    def set_aside(self) -> Path:
        """Renames the run aside, as ``overwrite`` does.

        Returns:
            Its new folder.

        Raises:
            UserError: another process works here.
        """
        with self._lock():
            target = self._aside()
            atomic.rename(self.path, target)
        return target

    @contextmanager
    def open(
        self, *, identity: RunIdentity, config_text: str, run_text: str | None = None, overwrite: bool = False
    ) -> Iterator[Decision]:
        """Locks the folder, decides, prepares it and writes the log file until the block ends.

        Args:
            identity: identity of the run.
            config_text: the full configuration, written to ``config.yaml`` beside the runs.
            run_text: configuration of this run alone, written into its folder; None: the same.
            overwrite: rename what is there aside instead of skipping, resuming or refusing.

        Returns:
            ``skip``: nothing to do, nothing was touched; ``resume``: a checkpoint may be there; ``fresh``.
            A process that is not the writer gets ``fresh``: broadcast the first one's decision.

        Raises:
            RunInUse: another process works here.
            UserError: the folder holds a run that was made of something else.
        """
        if not self.writer:
            yield "fresh"
            return
        with self._lock():
            decision = self._decide(identity, overwrite)
            if decision == "skip":
                yield decision
                return
            self.ckpt.mkdir(exist_ok=True)
            for folder in (self.path, self.ckpt, *(self.path / split for split in SPLITS)):
                atomic.sweep(folder)
            atomic.write_text(self.path / "config.yaml", run_text or config_text)
            with atomic.locked(self.config_dir):
                atomic.sweep(self.config_dir)
                atomic.write_text(self.config_dir / "config.yaml", config_text)
            with self._held(), self._log():
                yield decision

    def check_in_place(self) -> None:
        """Refuses to write where another folder, or none, has taken the place of the one that was opened.

        Who deletes or renames it takes the lock along: another process may work under its name.

        Raises:
            RunFailed: it was deleted or renamed.
        """
        if self._handle is None:
            return
        try:
            in_place = os.path.samestat(os.fstat(self._handle), os.stat(self.path))
        except OSError:
            in_place = False
        if not in_place:
            raise RunFailed(
                f"{self.path}: the folder was deleted or renamed while the run was going on; nothing more is written. "
                "Give it its name back and the run goes on where its last checkpoint was, or train it again."
            )

    @contextmanager
    def _held(self) -> Iterator[None]:
        with suppress(OSError):  # Windows opens no folder, and renames none that is in use
            self._handle = os.open(self.path, os.O_RDONLY)
        try:
            yield
        finally:
            if self._handle is not None:
                os.close(self._handle)
            self._handle = None

    def keep(self, name: str, content: bytes) -> None:
        """Keeps a file that the run was made of beside its ``config.yaml``, where loading that finds it.

        Args:
            name: path as the configuration has it; one that is absolute or leaves the folder is found without.
            content: content of the file.
        """
        path = Path(name).expanduser()
        if self.writer and not path.is_absolute() and ".." not in path.parts:
            (self.path / path).parent.mkdir(parents=True, exist_ok=True)
            with atomic.replacing(self.path / path) as file:
                file.write(content)

    @contextmanager
    def recorded(self, record: RunRecord) -> Iterator[Callable[[Outcome], None]]:
        """Keeps ``record.json`` true before, during and after a training.

        Args:
            record: record from :meth:`RunRecord.start`.

        Yields:
            What the training inside hands its outcome to. Exceptions that end it are recorded (``interrupted``,
            ``pruned`` or ``failed``) and raised again.
        """
        outcomes: list[Outcome] = []
        self._write(record)
        try:
            yield outcomes.append
        except BaseException as error:
            with suppress(OSError, RunFailed):  # on a full disk the record stays "running", which resumes, too
                self._write(record.end(_status(error), str(error) or type(error).__name__))
            raise
        (outcome,) = outcomes
        self._write(record.end("finished", **vars(outcome)))

    def _write(self, record: RunRecord) -> None:
        if self.writer:
            self.check_in_place()
            record.write(self.record_file)

    @property
    def in_use(self) -> bool:
        """Whether a process works here."""
        if not self._lock_file.is_file():
            return False
        try:
            with self._lock(timeout=0):
                return False
        except RunInUse:
            return True

    def _decide(self, identity: RunIdentity, overwrite: bool) -> Decision:
        present = self.path.is_dir() and any(self.path.iterdir())
        if present and overwrite:
            atomic.rename(self.path, self._aside())
            present = False
        if not present:
            self.path.mkdir(parents=True, exist_ok=True)
            return "fresh"
        record = self.record
        self.refuse_another(identity)
        if record is None:
            return "fresh"  # killed between making the folder and writing the record
        return "skip" if record.status == "finished" else "resume"

    def _is_damaged(self, record: RunRecord | None) -> bool:
        """Whether results lie here without the record, which a run writes first."""
        of_training = (self.path / name for name in ("ckpt", *SPLITS))
        return record is None and any(path.is_file() or (path.is_dir() and any(path.iterdir())) for path in of_training)

    def _aside(self) -> Path:
        date = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
        return atomic.unused(self.path.with_name(f"{self.path.name}.old-{date}"))

    @property
    def _lock_file(self) -> Path:
        # Beside the folder, not inside: renaming the folder aside must not carry a held lock along.
        return self.config_dir / f".{self.path.name}.lock"

    @contextmanager
    def _lock(self, timeout: float = 0.2) -> Iterator[None]:
        """Held while a process works here; waits a little for others that only ask (:attr:`in_use`)."""
        from filelock import FileLock, Timeout

        self.config_dir.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self._lock_file, timeout=timeout)
        try:
            lock.acquire()
        except Timeout:
            raise RunInUse(
                f"{self.path}: another process is working in this run directory. Wait until it ends, or choose "
                "another seed, name_tag or out_dir."
            ) from None
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def _log(self) -> Iterator[None]:
        logger = logging.getLogger("graphbench")
        handler = _LogFile(self.log_file, encoding="utf-8")
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        # Of trainings that take turns, each has a context of its own; threads begin without one.
        handler.addFilter(lambda record: _log_of_context.get() in (None, handler))
        outer = _log_of_context.get()
        _log_of_context.set(handler)
        level = logger.level
        screen = None
        if not logger.hasHandlers():  # warnings would otherwise be seen in the file only
            screen = logging.StreamHandler()
            screen.setLevel(logging.WARNING)
            logger.addHandler(screen)
        logger.addHandler(handler)
        if logger.getEffectiveLevel() > logging.INFO:
            logger.setLevel(logging.INFO)
        try:
            yield
        finally:
            _log_of_context.set(outer)
            logger.setLevel(level)
            logger.removeHandler(handler)
            handler.close()
            if screen is not None:
                logger.removeHandler(screen)


_log_of_context: ContextVar[logging.Handler | None] = ContextVar("log_of_context", default=None)


class _LogFile(logging.FileHandler):
    """A log that a full disk cannot turn into tracebacks: what does not fit is left out."""

    def handleError(self, record: logging.LogRecord) -> None:
        pass


def _status(error: BaseException) -> Status:
    """Status of a run that ended in this way."""
    if isinstance(error, Pruned):
        return "pruned"
    # A generator that is closed was left by whoever drives several trainings in turns.
    return "interrupted" if isinstance(error, (KeyboardInterrupt, Interrupted, GeneratorExit)) else "failed"


_ADVICE = (
    "choose another name_tag, seed or out_dir, or pass --overwrite: the old folder is then renamed aside, not deleted."
)
