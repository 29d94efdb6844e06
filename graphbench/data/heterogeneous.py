"""Graphs with several kinds of nodes and edges as one graph, for models that know one kind.

Rows of all kinds stand one after the other, in the order of the data. A node's features are its kind, one column each,
then its own features: where all kinds that have features have equally many, in the same columns, else in columns of
their own; all others are 0. An edge's feature is the number of its relation. A relation without a counterpart in the
other direction gets one, as a relation of its own, because messages would reach one of its ends only. Targets are those
of the one kind that has them; all other nodes carry -1 and belong to no split. Features of edges are not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

NO_TARGET = -1
"""Target of a node that is no example."""


def homogeneous(data: Any) -> dict[str, Any]:
    """Fields of one graph.

    Args:
        data: ``torch_geometric.data.HeteroData``.

    Raises:
        TypeError: targets of several kinds of nodes, or no class per node; targets of pairs.
    """
    for relation in data.edge_types:
        if data[relation].get("edge_label_index") is not None:
            raise TypeError("a heterogeneous graph with targets of pairs, whose nodes have other numbers in one graph")
    kinds = list(data.node_types)
    counts = [int(data[kind].num_nodes) for kind in kinds]
    starts = dict(zip(kinds, torch.tensor([0, *counts]).cumsum(0).tolist(), strict=False))
    relations = list(_relations(data))
    edges = [
        edge_index + torch.tensor([[starts[source]], [starts[target]]]) for source, target, edge_index in relations
    ]
    sizes = torch.tensor([each.shape[1] for each in edges], dtype=torch.int64)  # without relations, no numbers at all
    relation = torch.repeat_interleave(torch.arange(len(edges)), sizes)
    fields: dict[str, Any] = {
        "edge_index": torch.cat(edges, 1) if edges else torch.empty(2, 0, dtype=torch.int64),
        "edge_attr": relation.unsqueeze(1),
        "x": _features(data, kinds, counts),
        "num_nodes": sum(counts),
        "node_kinds": len(kinds),
    }
    labelled = [kind for kind in kinds if data[kind].get("y") is not None]
    if len(labelled) > 1:
        raise TypeError(f"a heterogeneous graph with targets of several kinds of nodes: {', '.join(labelled)}")
    if labelled:
        fields |= _targets(data[labelled[0]], starts[labelled[0]], sum(counts))
    return fields


def _relations(data: Any) -> Iterator[tuple[str, str, Tensor]]:
    """Source kind, target kind and edges of every relation, missing reverse ones behind each."""
    from torch_geometric.utils import is_undirected

    ends = [(source, target) for source, _, target in data.edge_types]
    for (source, target), name in zip(ends, data.edge_types, strict=True):
        edge_index = data[name].edge_index.to(torch.int64)
        yield source, target, edge_index
        symmetric = source == target and (ends.count((source, target)) > 1 or is_undirected(edge_index))
        if not symmetric and (source == target or (target, source) not in ends):
            yield target, source, edge_index.flip(0)


def _features(data: Any, kinds: list[str], counts: list[int]) -> Tensor:
    given = {kind: data[kind].x for kind in kinds if data[kind].get("x") is not None}
    widths = {kind: 1 if x.dim() == 1 else x.shape[1] for kind, x in given.items()}
    shared = len(set(widths.values())) <= 1
    width = max(widths.values(), default=0) if shared else sum(widths.values())
    x = torch.zeros(sum(counts), len(kinds) + width)
    first, column = 0, len(kinds)
    for number, (kind, count) in enumerate(zip(kinds, counts, strict=True)):
        x[first : first + count, number] = 1
        if kind in given:
            own = given[kind].to_dense() if given[kind].layout != torch.strided else given[kind]
            x[first : first + count, column : column + widths[kind]] = own.reshape(count, -1).float()
            column += 0 if shared else widths[kind]
        first += count
    return x


def _targets(nodes: Any, start: int, total: int) -> dict[str, Tensor]:
    y = nodes.y.reshape(-1)
    if y.is_floating_point() or len(y) != nodes.num_nodes:
        raise TypeError("a heterogeneous graph whose targets are not one class per node")
    fields = {"y": torch.full((total,), NO_TARGET, dtype=torch.int64)}
    fields["y"][start : start + len(y)] = y
    for name in ("train_mask", "val_mask", "test_mask"):
        if nodes.get(name) is not None:
            fields[name] = torch.zeros(total, dtype=torch.bool)
            fields[name][start : start + len(y)] = nodes[name]
    return fields
