"""Values that never change keep what is derived from them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cached_property
from typing import Any, TypeVar

T = TypeVar("T")


class Memo:
    """Base of immutable values: a derived value is computed once and lives as long as what it is derived from."""

    @cached_property
    def _memo(self) -> dict[tuple[Hashable, ...], Any]:
        return {}

    def derived(self, compute: Callable[..., T], *arguments: Hashable) -> T:
        """``compute(self, *arguments)``, computed when it is first asked for.

        Args:
            compute: function of a module (or a class) that depends on nothing else and needs no gradient.
            arguments: further arguments, hashable.
        """
        key = (compute, *arguments)
        if key not in self._memo:
            self._memo[key] = compute(self, *arguments)
        value: T = self._memo[key]
        return value

    def share_derived(self, other: Memo) -> None:
        """Keeps derived values together with another, which differs in nothing that they depend on."""
        vars(self)["_memo"] = other._memo

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles start without derived values."""
        return {name: value for name, value in self.__dict__.items() if name != "_memo"}
