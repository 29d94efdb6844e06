"""Pairs that a head sees: largest number of hops per head, distances of pairs, relations of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from graphbench.structures import HopNeighbors, PairBlocks, Ragged
from graphbench.structures.pairs import TOKEN, UNREACHABLE


@dataclass(frozen=True, eq=False)
class Relation:
    """One number per pair, its kind, and what kinds mean for attention, per head.

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
    def tables(self) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """Query, key and value."""
        return self.query, self.key, self.value

    def of_heads(self, heads: slice) -> Relation:
        """Relation for some heads."""
        return Relation(self.index, *(None if table is None else table[:, heads] for table in self.tables))

    def check(self, pairs: int, heads: int, d: int, e: int) -> None:
        """Raises ValueError where shapes do not fit."""
        if self.index.shape != (pairs,) or self.index.is_floating_point():
            raise ValueError(
                f"index of a table must be integer of shape ({pairs},), received {self.index.dtype} of shape "
                f"{tuple(self.index.shape)}"
            )
        kinds = {table.shape[0] for table in self.tables if table is not None}
        for name, table, width in zip(("query", "key", "value"), self.tables, (d, d, e)):
            if table is not None and (table.shape[1:] != (heads, width) or len(kinds) != 1):
                raise ValueError(
                    f"{name} of a table must be (T, {heads}, {width}) with one T, received {tuple(table.shape)}"
                )
        if not kinds:
            raise ValueError("a table needs query, key or value")


@dataclass(frozen=True)
class Scope:
    """The pairs that every head sees.

    Attributes:
        ragged: the partition of the rows.
        distances: distances of pairs, or None where all heads see the whole graph.
        max_hops: largest number of hops per head, None for the whole graph.
        sees_unreachable: whether limited heads see pairs without a path.
    """

    ragged: Ragged
    distances: PairBlocks | HopNeighbors | None
    max_hops: tuple[int | None, ...]
    sees_unreachable: bool

    @property
    def is_limited(self) -> bool:
        """Whether a head does not see the whole graph."""
        return any(limit is not None for limit in self.max_hops)

    @property
    def has_blocks(self) -> bool:
        """Whether the distances are those of all pairs (and not lists)."""
        return isinstance(self.distances, PairBlocks)

    @property
    def hops(self) -> Tensor:
        """(P,) uint8."""
        assert self.distances is not None
        return hops_of(self.distances)

    @property
    def pairs(self) -> int:
        """P."""
        return self.hops.numel()

    @property
    def head_groups(self) -> list[tuple[slice, int | None]]:
        """Consecutive heads that share a limit, and the limit."""
        groups: list[tuple[slice, int | None]] = []
        for head, limit in enumerate(self.max_hops):
            if groups and groups[-1][1] == limit:
                groups[-1] = (slice(groups[-1][0].start, head + 1), limit)
            else:
                groups.append((slice(head, head + 1), limit))
        return groups

    def check(self) -> None:
        """Raises ValueError where the parts do not fit each other."""
        if any(limit is not None and not 0 <= limit < TOKEN for limit in self.max_hops):
            raise ValueError(f"max_hops must lie in [0, {TOKEN - 1}], received {self.max_hops}")
        if isinstance(self.distances, PairBlocks):
            if not self.distances.belong_to(self.ragged):
                raise ValueError("the pair blocks are those of other graphs: sizes differ from the partition's")
        elif self.distances is not None and self.distances.num_nodes != self.ragged.num_rows:
            raise ValueError(
                f"the lists must be those of {self.ragged.num_rows} nodes, received {self.distances.num_nodes}"
            )
        elif None in self.max_hops or self.sees_unreachable:
            raise ValueError(
                "lists of neighbours have no pairs beyond their cut-off: give every head its max_hops, and leave "
                "unreachable at mask"
            )


def hops_of(distances: PairBlocks | HopNeighbors) -> Tensor:
    """(P,) uint8 distances of the pairs that are listed."""
    return distances.distance if isinstance(distances, PairBlocks) else distances.hop


def visible(hops: Tensor, max_hops: int, sees_unreachable: bool) -> Tensor:
    """Pairs that a limited head sees, from hops of any shape."""
    seen = (hops <= max_hops) | (hops == TOKEN)
    return seen | (hops == UNREACHABLE) if sees_unreachable else seen


def per_head(max_hops: int | Sequence[int | None] | None, heads: int) -> tuple[int | None, ...]:
    """The limit of every head."""
    if max_hops is None or isinstance(max_hops, int):
        return (max_hops,) * heads
    if len(max_hops) != heads:
        raise ValueError(f"max_hops must be one number or one per head ({heads}), received {len(max_hops)}")
    return tuple(max_hops)
