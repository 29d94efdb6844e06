"""Several batches of graphs as one, put together independently of the loader that tests compare with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from graphbench.structures import EdgeSet, GraphBatch, HopNeighbors, PairBlocks, Ragged


def joined(batches: Sequence[GraphBatch]) -> GraphBatch:
    """Batches with the same fields behind each other, node numbers shifted."""
    starts = torch.tensor([0, *(batch.num_nodes for batch in batches)]).cumsum(0).tolist()

    def cat(read: Callable[[GraphBatch], Tensor | None]) -> Tensor | None:
        values = [value for value in map(read, batches) if value is not None]
        return torch.cat(values) if values else None

    def named(field: str, joins: Callable[[list[Any]], Any] = torch.cat) -> Mapping[str, Any]:
        return {name: joins([getattr(batch, field)[name] for batch in batches]) for name in getattr(batches[0], field)}

    def edge_set(sets: list[EdgeSet]) -> EdgeSet:
        index = torch.cat([each.index + start for each, start in zip(sets, starts)], dim=1)
        attr = None if sets[0].attr is None else torch.cat([each.attr for each in sets])
        return EdgeSet(index, _offsets([each.ptr for each in sets]), attr)

    pairs, hops = ([getattr(batch, field) for batch in batches] for field in ("pairs", "hops"))
    return GraphBatch(
        ragged=Ragged.from_sizes([size for batch in batches for size in batch.ragged.sizes]),
        edge_index=torch.cat([batch.edge_index + start for batch, start in zip(batches, starts)], dim=1),
        x=cat(lambda batch: batch.x),
        edge_attr=cat(lambda batch: batch.edge_attr),
        y=cat(lambda batch: batch.y),
        pe=named("pe"),
        edge_pe=named("edge_pe"),
        pair_pe=named("pair_pe"),
        edge_sets=named("edge_sets", edge_set),
        pairs=None
        if pairs[0] is None
        else PairBlocks(torch.cat([each.distance for each in pairs]), sum((each.sizes for each in pairs), ())),
        hops=None
        if hops[0] is None
        else HopNeighbors(
            _offsets([each.row_ptr for each in hops]),
            torch.cat([each.col + start for each, start in zip(hops, starts)]),
            torch.cat([each.hop for each in hops]),
        ),
    )


def _offsets(parts: Sequence[Tensor]) -> Tensor:
    """Offsets of lists behind each other, from those of each, which begin at 0."""
    counts = torch.cat([part.diff() for part in parts])
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])
