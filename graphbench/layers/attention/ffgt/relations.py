"""Relations of pairs of nodes, and learned tables over them: hops and edge types in GRPE and FFGT.

A table of hops has a row for each of 0 .. ``max_hop`` hops (more count as ``max_hop``), one for the graph token and one
for pairs without a path. A table of edges has a row for each type 0 .. E, then (E + 1, E + 2, E + 3) one for the graph
token, one for a node with itself and one for pairs without an edge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from graphbench.errors import check_at_least
from graphbench.ops.focal_attention import Relation
from graphbench.structures import GraphBatch, HopNeighbors, PairBlocks
from graphbench.structures.pairs import TOKEN, UNREACHABLE

Released = Literal["", "vanilla", "grpe"]


@dataclass(frozen=True)
class EdgeTypes:
    """How edges become rows of a table.

    Attributes:
        number: E. With 1 edge features are not read, every edge has type 0; otherwise they must be integers.
        radix: 0: the type is the first column. r: columns are the digits of a number, the first one the lowest.
        offset: added to every type.
        released: rows as the released code of FFGT (``vanilla``, ``grpe``) has them, see :func:`edge_rows`.
    """

    number: int = 1
    radix: int = 0
    offset: int = 0
    released: Released = ""

    @property
    def rows(self) -> int:
        """Size of a table."""
        return self.number + 4


def distances(batch: GraphBatch, reader: str) -> PairBlocks | HopNeighbors:
    """Distances of all pairs, or neighbour lists where the batch has no blocks.

    Raises:
        ValueError: the batch has neither.
    """
    near = batch.pairs if batch.pairs is not None else batch.hops
    if near is None:
        raise ValueError(
            f"{reader} reads hop distances (batch.pairs) or neighbour lists (batch.hops), which its transform computes"
        )
    return near


def hop_rows(batch: GraphBatch, max_hop: int, reader: str) -> Tensor:
    """(P,) int64 row of the hop table for every pair, in the order of :func:`distances`."""
    near = distances(batch, reader)
    hops = (near.distance if isinstance(near, PairBlocks) else near.hop).long()
    rows = hops.clamp(max=max_hop)
    return rows.masked_fill_(hops == TOKEN, max_hop + 1).masked_fill_(hops == UNREACHABLE, max_hop + 2)


def edge_rows(batch: GraphBatch, types: EdgeTypes, reader: str) -> Tensor:
    """(P,) int64 row of the edge table for every pair (i, j), by the edge from i to j.

    The released code differs: without an edge, ``vanilla`` takes row 0, which is also that of type 0, and the token's
    row for everything that touches the first node of a graph, token or not; ``grpe`` takes the row of no edge for a
    node with itself.

    Raises:
        ValueError: a type outside the table; edge features that are no integers.
    """
    near = distances(batch, reader)
    row, col = pairs_of(batch, near)
    token, own, none = types.number + 1, types.number + 2, types.number + 3
    rows = torch.full_like(row, 0 if types.released == "vanilla" else none)
    kind = _types(batch, types, reader)
    rows[_places(batch, near, row, col)] = kind
    rows.masked_fill_(row == col, none if types.released == "grpe" else own)
    hops = near.distance if isinstance(near, PairBlocks) else near.hop
    rows.masked_fill_(hops == TOKEN, token)
    if types.released == "vanilla":
        first = torch.zeros(batch.num_nodes, dtype=torch.bool, device=row.device)
        first[batch.ragged.ptr[:-1][batch.ragged.size_tensor > 0]] = True
        rows.masked_fill_(first[row] | first[col], token)
    return rows


def pairs_of(batch: GraphBatch, near: PairBlocks | HopNeighbors) -> tuple[Tensor, Tensor]:
    """(P,) nodes i and j of every pair."""
    if isinstance(near, HopNeighbors):
        nodes = torch.arange(near.num_nodes, device=near.col.device)
        return nodes.repeat_interleave(near.row_ptr.diff(), output_size=near.col.numel()), near.col
    sizes, total = batch.ragged.size_tensor, near.distance.numel()
    graph = torch.arange(len(sizes), device=sizes.device).repeat_interleave(sizes.square(), output_size=total)
    within = torch.arange(total, device=sizes.device) - near.pair_ptr[graph]
    size, first = sizes[graph], batch.ragged.ptr[graph]
    return first + within.div(size, rounding_mode="floor"), first + within.remainder(size)


def _places(batch: GraphBatch, near: PairBlocks | HopNeighbors, row: Tensor, col: Tensor) -> Tensor:
    """(E,) position of every edge among the pairs."""
    source, target = batch.edge_index
    if isinstance(near, HopNeighbors):
        wanted, keys = source * batch.num_nodes + target, row * batch.num_nodes + col
        order = keys.argsort()
        return order[torch.searchsorted(keys[order], wanted)]
    graph = batch.ragged.graph_id[source]
    first, size = batch.ragged.ptr[graph], batch.ragged.size_tensor[graph]
    return near.pair_ptr[graph] + (source - first) * size + target - first


def _types(batch: GraphBatch, types: EdgeTypes, reader: str) -> Tensor:
    e = batch.edge_attr
    if types.number == 1 or e is None:
        return torch.full((batch.num_edges,), types.offset, device=batch.device)
    if e.is_floating_point():
        raise ValueError(f"{reader} reads types of edges (num_edge_types {types.number}), the edges have {e.dtype}")
    kind = e if e.dim() == 1 else e[:, 0]
    if types.radix and e.dim() > 1:
        kind = (e * types.radix ** torch.arange(e.shape[1], device=e.device)).sum(1)
    kind = kind.long() + types.offset
    if e.device.type == "cpu" and kind.numel():
        low, high = (int(each) for each in torch.aminmax(kind))
        last = types.rows - 1 if types.released else types.number
        if low < 0 or high > last:
            raise ValueError(
                f"{reader} has edge types 0 to {last} (num_edge_types {types.number}), received {low} to {high}; "
                "several columns of features need num_edge_types for all of their combinations, see edge_radix"
            )
    return kind


class RelationTables(nn.Module):
    """Rows for the hops and the edge of a pair, read by queries and keys and added to values.

    Args:
        heads: H.
        width: d, of queries, keys and values.
        types: of edges.
        max_hop: hops that are told apart; None: hops have no tables.
        values: whether there are tables for values, too.
    """

    def __init__(self, heads: int, width: int, types: EdgeTypes, *, max_hop: int | None, values: bool) -> None:
        super().__init__()
        check_at_least(1, num_edge_types=types.number, **({} if max_hop is None else {"max_hop": max_hop}))
        check_at_least(0, edge_radix=types.radix, edge_offset=types.offset)
        self.heads, self.width, self.types, self.max_hop = heads, width, types, max_hop
        self.parts = ("query", "key", "value") if values else ("query", "key")
        sizes = {"edge": types.rows} | ({} if max_hop is None else {"hop": max_hop + 3})
        self.tables = nn.ParameterDict(
            {
                f"{part}_{what}": nn.Parameter(torch.empty(rows, heads * width))
                for what, rows in sizes.items()
                for part in self.parts
            }
        )
        for table in self.tables.values():
            nn.init.normal_(table)  # as torch's Embedding, which the released code has

    def forward(self, batch: GraphBatch, reader: str) -> Relation:
        """One relation that stands for hops and edges together."""
        index, rows = batch.derived(_combinations, self.types, self.max_hop, reader)
        weights = []
        for part in self.parts:
            found = [self.tables[f"{part}_{what}"].index_select(0, row) for what, row in rows.items()]
            weights.append(sum(found[1:], found[0]).view(-1, self.heads, self.width))
        return Relation(index, *weights)


def _combinations(
    batch: GraphBatch, types: EdgeTypes, max_hop: int | None, reader: str
) -> tuple[Tensor, dict[str, Tensor]]:
    """(P,) number of every pair's combination of hops and edge, and the rows of each combination in the tables.

    An edge joins nodes one hop apart, a node is no hop from itself: of all combinations these can occur.
    """
    edge, size = edge_rows(batch, types, reader), types.rows
    every = torch.arange(size, device=edge.device)
    if max_hop is None:
        return _small(edge, size), {"edge": every}
    hop, hops = hop_rows(batch, max_hop, reader), torch.arange(max_hop + 3, device=edge.device)
    token, own, none = every[-3:].split(1)
    rows = {
        "hop": torch.cat([torch.ones_like(every), hops, hops[:1], hops[-2:-1]]),
        "edge": torch.cat([every, none.expand_as(hops), own, token]),
    }
    combination, apart = torch.where(hop == 1, edge, hop + size), hop != 1
    combination.masked_fill_(apart & (edge == own), size + len(hops))
    combination.masked_fill_(apart & (edge == token), size + len(hops) + 1)
    return _small(combination, len(rows["hop"])), rows


def _small(kind: Tensor, kinds: int) -> Tensor:
    """Numbers below ``kinds`` in as few bytes as they need: they are kept for all pairs of a batch."""
    return kind.to(torch.uint8 if kinds <= 256 else torch.int32)
