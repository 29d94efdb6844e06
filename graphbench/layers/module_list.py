"""Module lists whose elements have one type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar, cast

from torch import nn

M = TypeVar("M", bound=nn.Module)


class Modules(nn.ModuleList, Generic[M]):
    """:class:`torch.nn.ModuleList` that iterates over modules of type ``M``; parameter names are the same."""

    def __iter__(self) -> Iterator[M]:
        """The modules in order."""
        return cast("Iterator[M]", super().__iter__())
