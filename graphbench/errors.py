"""The ways a run ends badly, and the exit code of each.

Anything a user can cause raises :class:`UserError` with one complete message (where, what was received, what is
allowed, nearest valid name); the command prints it without a traceback. Broken invariants of our own stay plain
``assert``/``RuntimeError`` and show their traceback, because then the user is not the one who has to act.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


class UserError(Exception):
    """The input is wrong: one message on stderr, exit code 2."""

    exit_code = 2


class RunInUse(UserError):
    """Another process works on the run."""


class RunFailed(Exception):
    """The run itself failed (non-finite loss, out of memory): exit code 3, state kept for resume."""

    exit_code = 3


_NO_MEMORY = (
    *("out of memory", "can't allocate memory", "cannot allocate memory", "failed to map segment"),
    "error return without exception set",  # what CPython 3.11 makes of some MemoryErrors
)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory is exhausted, of this machine or a device."""
    return isinstance(error, MemoryError) or any(sign in str(error).lower() for sign in _NO_MEMORY)


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or its type where it has none."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Tells of a failed ``write``, whose error names no file, which one it was."""
    try:
        yield
    except Exception as error:
        for cause in (error, error.__cause__, error.__context__):  # torch.save has an error of its own
            if isinstance(cause, OSError) and cause.errno is not None and cause.filename is None:
                cause.filename = str(path)
        raise


class Interrupted(Exception):
    """Stopped from outside (Ctrl-C, SIGTERM): exit code 130, state kept for resume."""

    exit_code = 130


class Pruned(Exception):
    """A search gave the run up, since others do better: status ``pruned``, state kept."""


SHOWN = 8
"""Names that a message lists where all of them can be looked up elsewhere."""


def nearest(name: str, allowed: Iterable[str]) -> str | None:
    """The allowed name most likely meant by ``name``, or None when nothing is close."""
    return next(iter(_by_likeness(name, allowed, 1, 0.6)), None)


def _by_likeness(name: str, allowed: Iterable[str], count: int, cutoff: float) -> list[str]:
    """The allowed names most like ``name``, first the nearest.

    Case is ignored, because most slips are ``lapPE`` for ``LapPE``; of names that differ in case only, the first.
    """
    by_lower: dict[str, str] = {}
    for candidate in allowed:
        by_lower.setdefault(candidate.lower(), candidate)
    return [by_lower[each] for each in difflib.get_close_matches(name.lower(), by_lower, n=count, cutoff=cutoff)]


def neighbour(path: Path, pattern: str = "*") -> str:
    """Suggestion beside a path that leads nowhere, as a sentence with a space before it; empty for nothing."""
    hint = nearest(path.name, [each.name for each in path.parent.glob(pattern) if each != path])
    return "" if hint is None else f" Did you mean '{path.parent / hint}'?"


def unknown(
    what: str,
    received: object,
    allowed: Iterable[str],
    where: str | None = None,
    *,
    meant: str | None = None,
    listed: str | None = None,
) -> UserError:
    """The house's message for a name that does not exist.

    Args:
        what: the kind of thing, e.g. ``"configuration key"``.
        received: name that the user wrote.
        allowed: every valid name.
        where: ``file:line`` or ``command line``; left out when the name did not come from a file.
        meant: a better guess than the nearest of the valid names.
        listed: command that lists all names; of more than :data:`SHOWN` the message then has the nearest.
    """
    names = sorted(set(allowed), key=lambda name: (name.lower(), name))
    hint = meant or nearest(str(received), names)
    if listed and len(names) > SHOWN:
        close = ", ".join(_by_likeness(str(received), names, SHOWN, 0.0))
        shown = f" Nearest of {len(names)}: {close}; all: {listed}."
    else:
        shown = ", ".join(names[:40]) + (f", ... ({len(names)} in all)" if len(names) > 40 else "")
        shown = f" Allowed: {shown or 'nothing'}."
    return UserError(
        (f"{where}: " if where else "")
        + f"unknown {what} '{received}'."
        + (f" Did you mean '{hint}'?" if hint else "")
        + shown
    )


class ArgumentError(ValueError):
    """A constructor argument that does not fit; raised by components, which know no configuration.

    Args:
        parameters: name of the constructor parameter, or names of those that do not fit each other.
        message: description of what was received and what is allowed.
    """

    def __init__(self, parameters: str | tuple[str, ...], message: str) -> None:
        super().__init__(message)
        self.parameters = (parameters,) if isinstance(parameters, str) else parameters


class ContractError(UserError, ValueError):
    """Result of a component's method, or the component itself, is not what its base class asks for."""


class UnknownFact(ArgumentError):
    """A fact that the context lacks, since nobody has read the data yet; with the data it is known."""


class NeedsData(UserError):
    """:class:`UnknownFact`, told to a user: the model can be built from the data only."""


def check_at_least(minimum: float, **arguments: float) -> None:
    """Refuses constructor arguments below ``minimum``: ``check_at_least(1, dim_pe=dim_pe, rank=rank)``.

    Raises:
        ArgumentError: naming the first of them.
    """
    for name, value in arguments.items():
        if not value >= minimum:
            raise ArgumentError(name, f"{name} must be at least {minimum:g}, received {value}")


def check_within(low: float, high: float, **arguments: float) -> None:
    """Refuses constructor arguments outside [low, high]: ``check_within(0, 1, alpha=alpha)``.

    Raises:
        ArgumentError: naming the first of them.
    """
    for name, value in arguments.items():
        if not low <= value <= high:
            raise ArgumentError(name, f"{name} must lie in [{low:g}, {high:g}], received {value}")


def check_one_of(allowed: Collection[object], **arguments: object) -> None:
    """Refuses constructor arguments that are none of ``allowed``: ``check_one_of(("mean", "sum"), pooling=pooling)``.

    Raises:
        ArgumentError: naming the first of them, and the nearest that is allowed.
    """
    for name, value in arguments.items():
        if value not in allowed:
            names = [str(each) for each in allowed]
            hint = nearest(str(value), names)
            raise ArgumentError(
                name,
                f"{name} must be one of {', '.join(names)}; received {value!r}"
                + (f", did you mean '{hint}'?" if hint else ""),
            )


def check_multiple(**arguments: int) -> None:
    """Refuses the first of two constructor arguments unless the second divides it: ``(dim=dim, heads=heads)``.

    Raises:
        ArgumentError: naming both.
    """
    (name, value), (divisor_name, divisor) = arguments.items()
    if value % divisor:
        received = f"{name}={value}, {divisor_name}={divisor}"
        raise ArgumentError((name, divisor_name), f"{name} must be a multiple of {divisor_name}, received {received}")
