"""Exceptions of a command line as one message and an exit code: those of :mod:`graphbench.errors`, and the system's.

The operating system says no in many places (a full disk, a folder that may only be read, a file where a folder should
be), which no code around them can do anything about; here they get one message. A reader of standard output that has
seen enough (``| head``) gets none.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import io
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, ParamSpec

from graphbench import plug_ins
from graphbench.errors import Interrupted, RunFailed, UserError, first_line, is_out_of_memory

P = ParamSpec("P")

_EXHAUSTED = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENFILE, errno.EIO, errno.ENOMEM)
"""Errors that pass when somebody makes room; everything else is about a path, which the user has to change."""


CLOSED_PIPE = 128 + 13
"""Exit code of programs that end with SIGPIPE, as a shell states it."""


def exit_codes(main: Callable[P, int]) -> Callable[P, int]:
    """A command line whose failures end in one message on standard error and their exit code, never in a traceback."""

    @functools.wraps(main)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> int:
        interrupts = _Interrupts()
        _mend_standard_streams()
        try:
            with interrupts:
                code = main(*args, **kwargs)
            sys.stdout.flush()  # a full disk behind it shows here, not when the interpreter ends
            return code
        except (Interrupted, KeyboardInterrupt) as error:
            return _end("interrupted", str(error) or "nothing was running yet.", Interrupted.exit_code)
        except (Exception, SystemExit) as error:  # SystemExit: of a plug-in, or of argparse, which has said why
            if interrupts.received and not isinstance(error, (UserError, RunFailed)):
                return _end("interrupted", "nothing was running yet.", Interrupted.exit_code)
            if isinstance(error, BrokenPipeError) and _nobody_reads():
                return _without_output(CLOSED_PIPE)
            told = told_to_user(error)
            if told is None:
                raise
            if isinstance(told, RunFailed):
                return _end("run failed", str(told), RunFailed.exit_code)
            return _end("error", str(told), UserError.exit_code)

    return wrapper


def _mend_standard_streams() -> None:
    """Puts something behind streams that are closed (``>&-``), and lets all take any character.

    Otherwise the next files that are opened get the numbers of the streams, to which libraries print.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest number that is free: this one
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # in an ASCII locale a table has signs that it lacks


class _Interrupts:
    """Notes Ctrl-C, whose exception a library that is being imported may swallow, and then break in another way."""

    def __init__(self) -> None:
        self.received = False
        self._previous: Any = None

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():  # elsewhere Python handles no signals
            self._previous = signal.getsignal(signal.SIGINT)
            if self._previous is signal.default_int_handler:
                signal.signal(signal.SIGINT, self._receive)

    def __exit__(self, *raised: object) -> None:
        if self._previous is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._previous)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self.received = True
        signal.default_int_handler(number, frame)


def told_to_user(error: BaseException) -> UserError | RunFailed | None:
    """Error to show a user for an exception; None for a defect of ours, whose traceback is needed."""
    if isinstance(error, (UserError, RunFailed)):
        return error
    if isinstance(error, BrokenPipeError) and error.filename is None:
        return RunFailed("nobody reads standard output any more. What is finished is kept in the run's folder.")
    if isinstance(error, ValueError) and plug_ins.refused_by_us(error):
        return UserError(str(error))
    for cause in _causes(error):
        failure = None if is_exhausted(cause) else plug_ins.failure(cause)
        if failure is not None:
            return UserError(failure)
        if isinstance(cause, OSError) and cause.errno is not None:
            return _of_system(cause)
        text = str(cause)
        if is_out_of_memory(cause):
            return RunFailed(f"memory is exhausted ({first_line(cause)}). Use a smaller model, batch or data set.")
        if "No space left on device" in text:  # of libraries that write files themselves
            return _of_system(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    return None


def is_exhausted(error: BaseException) -> bool:
    """Whether disk, quota or memory are full, or a device fails: nothing that another input would change."""
    return is_out_of_memory(error) or (isinstance(error, OSError) and error.errno in _EXHAUSTED)


def _of_system(error: OSError) -> UserError | RunFailed:
    names = [str(name) for name in (error.filename, error.filename2) if name is not None]
    place = f"{' -> '.join(names)}: " if names else ""
    reason = error.strerror or str(error)
    if error.errno in _EXHAUSTED:
        return RunFailed(
            f"{place}{reason}. Nothing half-written is left; give the same command again once there is room: a "
            "training goes on where its last checkpoint was."
        )
    if error.errno == errno.ENOLCK:
        return UserError(
            f"{place}{reason}: the file system of the run folders or of the cache has no file locks, which keep two "
            "processes out of one run. Choose an out_dir and a GRAPHBENCH_CACHE on another one."
        )
    return UserError(f"{place}{reason}. Choose another path (out_dir, dataset.dir, ...), or change what lies there.")


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The exception, and those that it was raised from or during."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__


def _end(kind: str, message: str, code: int) -> int:
    with contextlib.suppress(OSError, ValueError):  # standard error may be closed or full, too
        print(f"{kind}: {message}", file=sys.stderr, flush=True)
    return _without_output(code)


def _nobody_reads() -> bool:
    """Whether it is standard output that is closed at its other end; False where the system cannot say."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # no file behind it; no poll on Windows
        pipe = select.poll()
        pipe.register(sys.stdout, 0)
        return any(event & select.POLLERR for _, event in pipe.poll(0))
    return False


def _without_output(code: int) -> int:
    with contextlib.suppress(OSError, ValueError):  # else the interpreter would try once more at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code
