"""Pairs of nodes besides the edges of the graphs: expander edges, or the pairs a link task asks about."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class EdgeSet:
    """M ordered pairs of nodes of G graphs.

    Worked example: graph 0 with 3 nodes asks about (0, 2), graph 1 with 2 nodes about (0, 1) and (1, 0)::

        index  [[0, 3, 4],      numbered through the batch
                [2, 4, 3]]
        ptr    [0, 1, 3]

    Attributes:
        index: (2, M) int64, source and target, grouped by graph.
        ptr: (G+1,) int64, first pair of every graph and the total.
        attr: (M, ...) what is known about each pair, or None.
    """

    index: Tensor
    ptr: Tensor
    attr: Tensor | None = None

    @property
    def num_pairs(self) -> int:
        """M."""
        return self.index.shape[1]

    def to(self, device: torch.device | str, non_blocking: bool = False) -> EdgeSet:
        """Edge set on another device."""
        moved = [None if x is None else x.to(device, non_blocking=non_blocking) for x in self._tensors()]
        return EdgeSet(*moved)  # type: ignore[arg-type]

    def pin_memory(self) -> EdgeSet:
        """Edge set in page-locked memory."""
        return EdgeSet(*(None if x is None else x.pin_memory() for x in self._tensors()))  # type: ignore[arg-type]

    def _tensors(self) -> tuple[Tensor, Tensor, Tensor | None]:
        return self.index, self.ptr, self.attr
