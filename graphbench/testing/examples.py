"""Example graphs with what components read besides features: encodings of transforms, pairs that are asked about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from graphbench.data.store import GraphStore
from graphbench.structures import EdgeSet, GraphBatch
from graphbench.testing.graphs import SIZES, Example
from graphbench.transforms.algorithms.cache import compute, with_outputs
from graphbench.transforms.base import Transform


def encoded(example: Example, transforms: Mapping[str, Transform]) -> Example:
    """Maker of the graphs of another one with encodings, in float64; the same graphs are encoded once.

    Args:
        example: makes the graphs.
        transforms: transforms by the name that their outputs get, see :func:`.with_outputs`.
    """
    known: dict[tuple[tuple[int, ...], bool], dict[str, dict[str, Tensor]]] = {}

    def graphs(sizes: Iterable[int] = SIZES, *, edges: bool = True) -> GraphBatch:
        key = (tuple(sizes), edges)
        batch = example(key[0], edges=edges)
        if not transforms:
            return batch
        store = store_of(batch)
        if key not in known:
            known[key] = {name: compute(store, {name: each})[name] for name, each in transforms.items()}
        outputs = {name: {each: value.clone() for each, value in found.items()} for name, found in known[key].items()}
        there = with_outputs(store, transforms, outputs).gather(range(store.num_graphs))
        return batch.replace(
            pe={**batch.pe, **_doubled(there.pe)},
            edge_pe={**batch.edge_pe, **_doubled(there.edge_pe)},
            pair_pe={**batch.pair_pe, **_doubled(there.pair_pe)},
            edge_sets={**batch.edge_sets, **there.edge_sets},
            pairs=there.pairs or batch.pairs,
            hops=there.hops,
        )

    return graphs


def labelled(example: Example) -> Example:
    """Maker of the graphs of another one that ask about two pairs of each: its first node and its last, both ways."""

    def graphs(sizes: Iterable[int] = SIZES, *, edges: bool = True) -> GraphBatch:
        batch = example(sizes, edges=edges)
        there = batch.ragged.size_tensor > 0
        ends = torch.stack([batch.ragged.ptr[:-1], batch.ragged.ptr[1:] - 1])[:, there]
        pairs = torch.stack([ends, ends.flip(0)], dim=2).flatten(1)
        ptr = torch.cat([there.new_zeros(1, dtype=torch.int64), (2 * there).cumsum(0)])
        return batch.replace(edge_sets={**batch.edge_sets, "label": EdgeSet(pairs, ptr)})

    return graphs


def store_of(batch: GraphBatch) -> GraphStore:
    """The graphs of a batch as those of a data set, with their features."""
    graph = batch.ragged.graph_id[batch.edge_index[0]]
    counts = torch.bincount(graph, minlength=batch.num_graphs)
    first = batch.ragged.ptr[graph]
    edges, sizes = batch.edge_index - first, batch.ragged.sizes
    return GraphStore.from_arrays(sizes, counts, edges, x=batch.x, edge_attr=batch.edge_attr)


def _doubled(values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.double() if value.is_floating_point() else value for name, value in values.items()}
