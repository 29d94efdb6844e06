"""Graph tokens: one more node per graph, its first, that represents the whole graph.

Worked example: graphs of 2 and 1 nodes become graphs of 3 and 2. Their nodes 0, 1 | 2 are then 1, 2 | 4, the tokens 0
and 3; distances of the first graph, before and after (T: :data:`~graphbench.structures.pairs.TOKEN`)::

    0 1        0 T T
    1 0        T 0 1
               T 1 0
"""

from __future__ import annotations

import torch
from torch import Tensor

from graphbench.structures import EdgeSet, GraphBatch, HopNeighbors, PairBlocks, Ragged
from graphbench.structures.pairs import TOKEN


def with_token(h: Tensor, token: Tensor, batch: GraphBatch, reader: str) -> tuple[Tensor, GraphBatch]:
    """Prepends a token to every graph, empty ones included.

    Args:
        h: (N, dim + c) states.
        token: (1, dim) state of the token; its other c columns are 0.
        batch: the graphs; ``pair_pe`` whose name begins with ``reader`` has been read and is left out.
        reader: name of the encoder.

    Returns:
        (N + G, dim + c) and the new batch, ``state`` kept.

    Raises:
        ValueError: an encoder named earlier computed a state with one row per node or pair, which would no longer fit.
    """
    counts = (batch.num_nodes, batch.ragged.num_pairs)
    for name, value in batch.state.tensors():
        if value.dim() and len(value) in counts:
            raise ValueError(
                f"{reader} adds a node to every graph, and '{name}' has been computed without it: name {reader} before "
                f"the encoder of '{name}' in dataset.node_encoder_name"
            )
    rows, after = batch.derived(prepend_token, reader)
    first = torch.cat([token, token.new_zeros(1, h.shape[1] - token.shape[1])], dim=1)
    return insert(h, rows, first, after.num_nodes), after.with_state(batch.state)


def prepend_token(batch: GraphBatch, reader: str = "") -> tuple[Tensor, GraphBatch]:
    """(N,) new number of every node, and the batch in which every graph begins with one more node.

    The token has no edges, zeros in ``pe`` and ``pair_pe`` and the distance TOKEN from and to all nodes; where there
    are neighbour lists it lists all nodes and is listed by all. ``x`` is left out, targets stay.
    """
    ragged = batch.ragged
    rows = torch.arange(batch.num_nodes, device=batch.device) + ragged.graph_id + 1
    new = ragged.with_token()
    pair_pe = {name: value for name, value in batch.pair_pe.items() if not name.startswith(f"{reader}.")}
    pairs = pairs_after_token(batch) if pair_pe or batch.pairs is not None else rows
    return rows, GraphBatch(
        ragged=new,
        edge_index=rows[batch.edge_index],
        edge_attr=batch.edge_attr,
        y=batch.y,
        pe={name: _among_zeros(value, rows, new.num_rows) for name, value in batch.pe.items()},
        edge_pe=batch.edge_pe,
        pair_pe={name: _among_zeros(value, pairs, new.num_pairs) for name, value in pair_pe.items()},
        edge_sets={name: EdgeSet(rows[edges.index], edges.ptr, edges.attr) for name, edges in batch.edge_sets.items()},
        pairs=None if batch.pairs is None else _distances(batch.pairs, pairs, new),
        hops=None if batch.hops is None else _neighbors(batch.hops, rows, ragged, new),
        real_graphs=batch.real_graphs,
    )


def pairs_after_token(batch: GraphBatch) -> Tensor:
    """(P,) position of every pair of nodes after one more node was inserted as the first of every graph."""
    ragged, new = batch.ragged, batch.ragged.with_token()
    graph = ragged.pair_graph
    row, column = (end - ragged.ptr[graph] + 1 for end in ragged.pair_ends)
    positions = new.pair_ptr[graph] + row * new.size_tensor[graph] + column
    if batch.real_graphs is None:
        return positions
    # Pairs that belong to no graph stay behind all others.
    number = torch.arange(ragged.num_pairs, device=batch.device)
    return torch.where(number < ragged.pair_ptr[-1], positions, number - ragged.pair_ptr[-1] + new.pair_ptr[-1])


def insert(rows: Tensor, positions: Tensor, other: Tensor, total: int) -> Tensor:
    """(total, c): rows (R, c) at their positions (R,), and the one row ``other`` (1, c) everywhere else."""
    return other.expand(total, -1).index_copy(0, positions, rows)


def _distances(pairs: PairBlocks, positions: Tensor, new: Ragged) -> PairBlocks:
    distance = pairs.distance.new_full((new.num_pairs,), TOKEN).index_copy_(0, positions, pairs.distance)
    return pairs.replaced(distance.index_fill_(0, new.pair_ptr[:-1], 0), new)


def _neighbors(hops: HopNeighbors, rows: Tensor, old: Ragged, new: Ragged) -> HopNeighbors:
    """Neighbour lists that begin with the token, and before those of every graph the token's list of all nodes."""
    count = hops.row_ptr.diff()
    token = new.ptr[:-1]
    total = hops.col.numel() + 2 * old.num_rows + old.num_graphs
    counts = new.size_tensor.new_empty(new.num_rows).index_copy_(0, rows, count + 1)
    row_ptr = torch.cat([counts.new_zeros(1), counts.index_copy_(0, token, new.size_tensor).cumsum(0)])
    listed = torch.arange(hops.col.numel(), device=rows.device)
    listed = listed + (row_ptr[rows] + 1 - hops.row_ptr[:-1]).repeat_interleave(count, output_size=listed.numel())
    node = torch.arange(new.num_rows, device=rows.device)
    token_of = token[new.graph_id]
    col = node.new_empty(total).index_copy_(0, listed, rows[hops.col])
    col.index_copy_(0, row_ptr[rows], token_of[rows])
    col.index_copy_(0, row_ptr[token_of] + node - token_of, node)
    hop = hops.hop.new_full((total,), TOKEN).index_copy_(0, listed, hops.hop)
    return HopNeighbors(row_ptr, col, hop.index_fill_(0, row_ptr[token], 0))


def _among_zeros(values: Tensor, positions: Tensor, total: int) -> Tensor:
    return values.new_zeros(total, *values.shape[1:]).index_copy_(0, positions, values)
