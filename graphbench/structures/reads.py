"""Reads of a module from a batch, recorded once and prepared for ``torch.compile`` in every later batch.

The compiler traces a module's arithmetic, but no derived value that is computed when it is first asked for. So the
module is called once without the compiler; what its batch holds afterwards is what later batches must hold before.
Operators are nodes of a compiled graph, and derive what they need when it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from torch import Tensor, nn

from graphbench.structures.memo import Asked, Memo

Function = Callable[..., Any]
_OF_MEMO = ("_memo", "handle", "known")


@dataclass(frozen=True)
class Reads:
    """Derived values that were read of a value.

    Attributes:
        cached: names of cached properties.
        derived: functions with their arguments (:meth:`Memo.derived`), and what was read of what they gave.
        parts: attributes (numbers, of a tuple) that hold such values themselves, and what was read of them.
    """

    cached: tuple[str, ...] = ()
    derived: tuple[tuple[Function, tuple[Hashable, ...], Reads], ...] = ()
    parts: tuple[tuple[str | int, Reads], ...] = ()

    @classmethod
    def of(cls, value: Any, asked: Asked) -> Reads:
        """Derived values of ``value`` that were read until now.

        Args:
            value: a batch, or a part of one.
            asked: derived values that were asked for outside of operators.
        """
        memo = value._memo if isinstance(value, Memo) else {}
        derived = [(key, result) for key, result in memo.items() if (id(memo), key) in asked]
        return cls(
            tuple(name for name in _attributes(value) if _is_cached(value, name)),
            tuple((cast("Function", key[0]), key[1:], cls.of(result, asked)) for key, result in derived),
            tuple((name, cls.of(part, asked)) for name, part in _parts(value)),
        )

    def prepare(self, value: Any) -> None:
        """Computes the same of ``value``, with handles for the operators of compiled graphs."""
        for cached in self.cached:
            getattr(value, cached)
        known = []
        for function, arguments, reads in self.derived:
            result = value.derived(function, *arguments)
            reads.prepare(result)
            known.append((function, arguments, result))
        parts = dict(_parts(value))
        for name, reads in self.parts:
            if name in parts:
                reads.prepare(parts[name])
        if isinstance(value, Memo):
            assert value.handle is not None
            vars(value)["known"] = tuple(known)


def _attributes(value: Any) -> dict[str, Any]:
    if isinstance(value, (Tensor, nn.Module, type, dict)) or callable(value):
        return {}
    return {name: each for name, each in getattr(value, "__dict__", {}).items() if name not in _OF_MEMO}


def _is_cached(value: Any, name: str) -> bool:
    return isinstance(getattr(type(value), name, None), cached_property)


def _parts(value: Any) -> Iterator[tuple[str | int, Any]]:
    """Values within ``value`` of which something can be read."""
    named = enumerate(value) if isinstance(value, tuple) else _attributes(value).items()
    for name, part in named:
        if isinstance(part, (Memo, tuple)) or _attributes(part):
            yield name, part
