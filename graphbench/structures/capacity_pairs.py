"""Distances of the pairs of a batch of fixed shapes."""

from __future__ import annotations

from functools import cached_property

from torch import Tensor

from graphbench.structures.capacity import CapacityRagged
from graphbench.structures.pairs import PairBlocks
from graphbench.structures.ragged import Ragged


class CapacityPairs(PairBlocks):
    """Distances of all pairs of a padded batch, (P,); those behind the last graph's belong to nobody.

    Args:
        distance: (P,) uint8.
        ragged: partition of the batch.
    """

    def __init__(self, distance: Tensor, ragged: CapacityRagged) -> None:
        object.__setattr__(self, "distance", distance)
        object.__setattr__(self, "_ragged", ragged)

    def belong_to(self, ragged: Ragged) -> bool:
        """Whether they are those of this partition, or of one that is padded to the same capacity."""
        own: CapacityRagged = vars(self)["_ragged"]
        return isinstance(ragged, CapacityRagged) and ragged.capacity == own.capacity

    def replaced(self, distance: Tensor, ragged: Ragged) -> CapacityPairs:
        """Other distances, of graphs of other sizes."""
        assert isinstance(ragged, CapacityRagged)
        return CapacityPairs(distance, ragged)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Nodes per graph; see :attr:`CapacityRagged.sizes`."""
        ragged: CapacityRagged = vars(self)["_ragged"]
        return ragged.sizes

    @cached_property
    def pair_ptr(self) -> Tensor:
        """(G+1,) int64, first pair of every graph and the total."""
        ragged: CapacityRagged = vars(self)["_ragged"]
        return ragged.pair_ptr
