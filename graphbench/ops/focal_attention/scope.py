"""Who sees whom: reach per head over distances, and what is known about pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from graphbench.structures import HopNeighbors, PairBlocks, Ragged
from graphbench.structures.pairs import TOKEN, UNREACHABLE


@dataclass(frozen=True, eq=False)
class Relation:
    """One number per pair and what it means for attention, per head.

    Attributes:
        index: (P,) integer, 0 .. T - 1.
        query: (T, H, d) read by the query of the row node, or None.
        key: (T, H, d) read by the key of the row node, or None.
        value: (T, H, e) added to the values, or None.
    """

    index: Tensor
    query: Tensor | None = None
    key: Tensor | None = None
    value: Tensor | None = None

    @property
    def weights(self) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """Query, key and value."""
        return self.query, self.key, self.value

    def of_heads(self, heads: slice) -> Relation:
        """The same for some heads."""
        return Relation(self.index, *(None if each is None else each[:, heads] for each in self.weights))

    def check(self, pairs: int, heads: int, d: int, e: int) -> None:
        """Raises ValueError where shapes do not fit."""
        if self.index.shape != (pairs,) or self.index.is_floating_point():
            raise ValueError(
                f"index of a table must be integer of shape ({pairs},), received {self.index.dtype} of shape "
                f"{tuple(self.index.shape)}"
            )
        rows = {each.shape[0] for each in self.weights if each is not None}
        for name, each, width in zip(("query", "key", "value"), self.weights, (d, d, e)):
            if each is not None and (each.shape[1:] != (heads, width) or len(rows) != 1):
                raise ValueError(
                    f"{name} of a table must be (T, {heads}, {width}) with one T, received {tuple(each.shape)}"
                )
        if not rows:
            raise ValueError("a table needs query, key or value")


@dataclass(frozen=True)
class Scope:
    """Reach of every head.

    Attributes:
        ragged: the partition of the rows.
        near: distances of pairs, or None where all heads see the whole graph.
        reach: hops per head, None for the whole graph.
        sees_unreachable: whether limited heads see pairs without a path.
    """

    ragged: Ragged
    near: PairBlocks | HopNeighbors | None
    reach: tuple[int | None, ...]
    sees_unreachable: bool

    @property
    def is_limited(self) -> bool:
        """Whether a head does not see the whole graph."""
        return any(reach is not None for reach in self.reach)

    @property
    def has_blocks(self) -> bool:
        """Whether ``near`` has all pairs (and not lists)."""
        return isinstance(self.near, PairBlocks)

    @property
    def hops(self) -> Tensor:
        """(P,) uint8."""
        assert self.near is not None
        return hops_of(self.near)

    @property
    def pairs(self) -> int:
        """P."""
        return self.hops.numel()

    @property
    def runs(self) -> list[tuple[slice, int | None]]:
        """Heads beside each other that have the same reach."""
        found: list[tuple[slice, int | None]] = []
        for head, reach in enumerate(self.reach):
            if found and found[-1][1] == reach:
                found[-1] = (slice(found[-1][0].start, head + 1), reach)
            else:
                found.append((slice(head, head + 1), reach))
        return found

    def check(self) -> None:
        """Raises ValueError where the parts do not fit each other."""
        if any(reach is not None and not 0 <= reach < TOKEN for reach in self.reach):
            raise ValueError(f"reach must lie in [0, {TOKEN - 1}], received {self.reach}")
        if self.has_blocks:
            if self.near.sizes != self.ragged.sizes:  # type: ignore[union-attr]
                raise ValueError("the pair blocks are those of other graphs: sizes differ from the partition's")
        elif self.near.num_nodes != self.ragged.num_rows:  # type: ignore[union-attr]
            raise ValueError(
                f"the lists must be those of {self.ragged.num_rows} nodes, received {self.near.num_nodes}"  # type: ignore[union-attr]
            )
        elif None in self.reach or self.sees_unreachable:
            raise ValueError(
                "lists of neighbours have no pairs beyond their cut-off: give every head a reach, and leave "
                "unreachable at mask"
            )


def hops_of(near: PairBlocks | HopNeighbors) -> Tensor:
    """(P,) uint8 distances of the pairs that are listed."""
    return near.distance if isinstance(near, PairBlocks) else near.hop


def visible(hops: Tensor, reach: int, sees_unreachable: bool) -> Tensor:
    """Where a head of this reach sees, from hops of any shape."""
    seen = (hops <= reach) | (hops == TOKEN)
    return seen | (hops == UNREACHABLE) if sees_unreachable else seen


def heads_of(reach: int | Sequence[int | None] | None, heads: int) -> tuple[int | None, ...]:
    """The reach of every head."""
    if reach is None or isinstance(reach, int):
        return (reach,) * heads
    if len(reach) != heads:
        raise ValueError(f"reach must be one number or one per head ({heads}), received {len(reach)}")
    return tuple(reach)
