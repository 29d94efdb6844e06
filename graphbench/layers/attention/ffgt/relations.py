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
    """Map from edges to rows of a table.

    Attributes:
        number: E. With 1 edge features are not read, every edge has type 0; otherwise they must be integers.
        radix: 0: the type is the first column. r: columns are the digits of a number, the first one the lowest.
        offset: number added to every type.
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
    pairs = batch.pairs if batch.pairs is not None else batch.hops
    if pairs is None:
        raise ValueError(
            f"{reader} reads hop distances (batch.pairs) or neighbour lists (batch.hops), which its transform computes"
        )
    return pairs


def hop_rows(batch: GraphBatch, max_hop: int, reader: str) -> Tensor:
    """(P,) int64 row of the hop table for every pair, in the order of :func:`distances`."""
    hops = _hops(distances(batch, reader)).long()
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
    pairs = distances(batch, reader)
    row, col = pair_nodes(batch, pairs)
    token = types.number + 1
    self_pair = types.number + 2
    no_edge = types.number + 3
    rows = torch.full_like(row, 0 if types.released == "vanilla" else no_edge)
    edge_type = _types(batch, types, reader)
    rows[_edge_positions(batch, pairs, row, col)] = edge_type
    rows.masked_fill_(row == col, no_edge if types.released == "grpe" else self_pair)
    rows.masked_fill_(_hops(pairs) == TOKEN, token)
    if types.released == "vanilla":
        # An empty graph points at the first node of the next one, or behind the last.
        first = torch.zeros(batch.num_nodes + 1, dtype=torch.bool, device=row.device)
        first.index_fill_(0, batch.ragged.ptr[:-1], True)
        rows.masked_fill_(first[row] | first[col], token)
    return rows


def pair_nodes(batch: GraphBatch, pairs: PairBlocks | HopNeighbors) -> tuple[Tensor, Tensor]:
    """(P,) nodes i and j of every pair."""
    if isinstance(pairs, HopNeighbors):
        nodes = torch.arange(pairs.num_nodes, device=pairs.col.device)
        return nodes.repeat_interleave(pairs.row_ptr.diff(), output_size=pairs.col.numel()), pairs.col
    return batch.ragged.pair_ends


def _hops(pairs: PairBlocks | HopNeighbors) -> Tensor:
    """(P,) distance of every pair."""
    return pairs.distance if isinstance(pairs, PairBlocks) else pairs.hop


def _edge_positions(batch: GraphBatch, pairs: PairBlocks | HopNeighbors, row: Tensor, col: Tensor) -> Tensor:
    """(E,) position of every edge among the pairs."""
    source, target = batch.edge_index
    if isinstance(pairs, HopNeighbors):
        edge_code = source * batch.num_nodes + target
        pair_code = row * batch.num_nodes + col
        order = pair_code.argsort()
        return order[torch.searchsorted(pair_code[order], edge_code)]
    graph = batch.ragged.graph_id[source]
    first = batch.ragged.ptr[graph]
    size = batch.ragged.size_tensor[graph]
    return pairs.pair_ptr[graph] + (source - first) * size + target - first


def _types(batch: GraphBatch, types: EdgeTypes, reader: str) -> Tensor:
    """(E,) int64 type of every edge."""
    e = batch.edge_attr
    if types.number == 1 or e is None:
        return torch.full((batch.num_edges,), types.offset, device=batch.device)
    if e.is_floating_point():
        raise ValueError(f"{reader} reads types of edges (num_edge_types {types.number}), the edges have {e.dtype}")
    edge_type = e if e.dim() == 1 else e[:, 0]
    if types.radix and e.dim() > 1:
        edge_type = (e * types.radix ** torch.arange(e.shape[1], device=e.device)).sum(1)
    edge_type = edge_type.long() + types.offset
    if e.device.type == "cpu" and edge_type.numel():
        low, high = (int(bound) for bound in torch.aminmax(edge_type))
        last = types.rows - 1 if types.released else types.number
        if low < 0 or high > last:
            raise ValueError(
                f"{reader} has edge types 0 to {last} (num_edge_types {types.number}), received {low} to {high}; "
                "several columns of features need num_edge_types for all of their combinations, see edge_radix"
            )
    return edge_type


class RelationTables(nn.Module):
    """Rows for the hops and the edge of a pair, read by queries and keys and added to values.

    Args:
        heads: H.
        width: d, width of queries, keys and values.
        types: number of edge types.
        max_hop: hops that are told apart; None: hops have no tables.
        values: whether there are tables for values, too.
        gate: whether there are tables of log C, the gate of weights; at the start C = 1.
    """

    def __init__(
        self, heads: int, width: int, types: EdgeTypes, *, max_hop: int | None, values: bool, gate: bool = False
    ) -> None:
        super().__init__()
        check_at_least(1, num_edge_types=types.number)
        if max_hop is not None:
            check_at_least(1, max_hop=max_hop)
        check_at_least(0, edge_radix=types.radix, edge_offset=types.offset)
        self.heads = heads
        self.width = width
        self.types = types
        self.max_hop = max_hop
        self.readers = ("query", "key", "value") if values else ("query", "key")
        sizes = {"edge": types.rows}
        if max_hop is not None:
            sizes["hop"] = max_hop + 3
        self.tables = nn.ParameterDict(
            {
                f"{reader}_{relation}": nn.Parameter(torch.empty(rows, heads * width))
                for relation, rows in sizes.items()
                for reader in self.readers
            }
        )
        for table in self.tables.values():
            nn.init.normal_(table)  # as torch's Embedding, which the released code has
        self.gated = gate
        if gate:
            for relation, rows in sizes.items():
                self.tables[f"gate_{relation}"] = nn.Parameter(torch.zeros(rows, heads))

    def forward(self, batch: GraphBatch, layer: str) -> Relation:
        """One relation for hops and edges together; ``layer`` is the attention's name, for messages."""
        index, rows = batch.derived(_combinations, self.types, self.max_hop, layer)
        weights = []
        for reader in self.readers:
            terms = [self.tables[f"{reader}_{relation}"].index_select(0, row) for relation, row in rows.items()]
            weights.append(sum(terms[1:], terms[0]).view(-1, self.heads, self.width))
        return Relation(index, *weights)

    def log_gate(self, batch: GraphBatch, layer: str) -> Tensor:
        """(T, H) log C of every number of the relation that :meth:`forward` returns: a term by edge, one by hops."""
        _, rows = batch.derived(_combinations, self.types, self.max_hop, layer)
        terms = [self.tables[f"gate_{relation}"].index_select(0, row) for relation, row in rows.items()]
        return torch.stack(terms).sum(0)


def _combinations(
    batch: GraphBatch, types: EdgeTypes, max_hop: int | None, reader: str
) -> tuple[Tensor, dict[str, Tensor]]:
    """(P,) number of every pair's combination of hops and edge, and the rows of each combination in the tables.

    An edge joins nodes one hop apart, a node is no hop from itself: of all combinations these can occur.
    """
    edge = edge_rows(batch, types, reader)
    size = types.rows
    edge_table = torch.arange(size, device=edge.device)
    if max_hop is None:
        return _narrowest(edge, size), {"edge": edge_table}
    hop = hop_rows(batch, max_hop, reader)
    hop_table = torch.arange(max_hop + 3, device=edge.device)
    token, self_pair, no_edge = edge_table[-3:].split(1)
    rows = {
        "hop": torch.cat([torch.ones_like(edge_table), hop_table, hop_table[:1], hop_table[-2:-1]]),
        "edge": torch.cat([edge_table, no_edge.expand_as(hop_table), self_pair, token]),
    }
    combination = torch.where(hop == 1, edge, hop + size)
    not_adjacent = hop != 1
    combination.masked_fill_(not_adjacent & (edge == self_pair), size + len(hop_table))
    combination.masked_fill_(not_adjacent & (edge == token), size + len(hop_table) + 1)
    return _narrowest(combination, len(rows["hop"])), rows


def _narrowest(number: Tensor, count: int) -> Tensor:
    """Numbers below ``count`` in as few bytes as they need: they are kept for all pairs of a batch."""
    return number.to(torch.uint8 if count <= 256 else torch.int32)
