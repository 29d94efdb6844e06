"""Values that never change keep what is derived from them."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor

from graphbench.structures.side_stream import read_by_all

T = TypeVar("T")
Asked = set[tuple[int, tuple[Hashable, ...]]]
"""Values that were asked for: the identity of a value's ``_memo``, and the key."""
_asked: ContextVar[Asked | None] = ContextVar("asked", default=None)
_numbers = itertools.count()
_by_number: weakref.WeakValueDictionary[int, Memo] = weakref.WeakValueDictionary()


class Memo:
    """Base of immutable values: a derived value is computed once and lives as long as what it is derived from.

    Attributes:
        known: entries that ``torch.compile`` finds in place of ``_memo``, whose keys it cannot look up: function,
            arguments and value, see :mod:`graphbench.structures.reads`.
    """

    known: ClassVar[tuple[tuple[Callable[..., Any], tuple[Hashable, ...], Any], ...]] = ()

    @cached_property
    def _memo(self) -> dict[tuple[Hashable, ...], Any]:
        return {}

    @cached_property
    def handle(self) -> Tensor:
        """(1,) int64 on the host: what stands for this value among the inputs of a compiled graph."""
        number = next(_numbers)
        _by_number[number] = self
        return torch.tensor([number])

    def derived(self, compute: Callable[..., T], *arguments: Hashable) -> T:
        """``compute(self, *arguments)``, computed when it is first asked for.

        Args:
            compute: function of a module (or a class) that depends on nothing else and needs no gradient.
            arguments: further arguments, hashable.
        """
        if torch.compiler.is_compiling():
            for function, its_arguments, present in self.known:
                if function is compute and its_arguments == arguments:
                    return present
            return compute(self, *arguments)
        key = (compute, *arguments)
        asked = _asked.get()
        if asked is not None:
            asked.add((id(self._memo), key))
        if key not in self._memo:
            self._memo[key] = read_by_all(lambda: compute(self, *arguments))
        return self._memo[key]

    def keep(self, value: Any, compute: Callable[..., Any], *arguments: Hashable) -> None:
        """Makes ``value`` what :meth:`derived` returns for these arguments: it is known from elsewhere."""
        self._memo[compute, *arguments] = value

    def share_derived(self, other: Memo) -> None:
        """Keeps derived values together with another, which differs in nothing that they depend on."""
        object.__setattr__(self, "_memo", other._memo)
        object.__setattr__(self, "known", other.known)

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles start without derived values."""
        return {name: value for name, value in self.__dict__.items() if name not in ("_memo", "handle", "known")}


@contextmanager
def asking(record: Asked | None) -> Iterator[Asked]:
    """Within it, what derived values are asked for is added to ``record``; None: to nothing."""
    token = _asked.set(record)
    try:
        yield set() if record is None else record
    finally:
        _asked.reset(token)


def is_recorded() -> bool:
    """Whether :func:`asking` records."""
    return _asked.get() is not None


def by_handle(handle: Tensor) -> Memo:
    """The value that a handle stands for.

    Raises:
        RuntimeError: it does not exist any more.
    """
    try:
        return _by_number[int(handle)]
    except KeyError:
        raise RuntimeError("a compiled graph reads a batch that is gone: keep it until the step is over") from None
