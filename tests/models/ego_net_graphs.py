"""Small molecules with their ego nets, and the nets again by searches, for tests of models that read them."""

from __future__ import annotations

import torch
from torch import Tensor

from graphbench.data.store import GraphStore
from graphbench.structures import GraphBatch
from graphbench.transforms.algorithms.cache import with_outputs
from graphbench.transforms.ego_nets import EgoNetEdges
from graphbench.transforms.hop_neighbors import HopNeighbors
from tests.contract import example_batch

SIZES = (9, 1, 5, 2)
ATOMS, BONDS = (119, 5, 12, 12, 10, 6, 6, 2, 2), (5, 6, 2)


def graphs_of(
    sizes: tuple[int, ...], node_types: tuple[int, ...] = ATOMS, edge_types: tuple[int, ...] = BONDS
) -> GraphStore:
    """Graphs with categories."""
    batch = example_batch(sizes, node_types=node_types, edge_types=edge_types, pairs=False)
    graph = batch.ragged.graph_id[batch.edge_index[0]]
    return GraphStore.from_arrays(
        sizes,
        torch.bincount(graph, minlength=len(sizes)),
        batch.edge_index - batch.ragged.ptr[graph],
        x=batch.x,
        edge_attr=batch.edge_attr,
    )


def graphs_with_nets(hops: int, node_types: tuple[int, ...] = ATOMS, edge_types: tuple[int, ...] = BONDS) -> GraphStore:
    """The same with the nets of all nodes."""
    store = graphs_of(SIZES, node_types, edge_types)
    transforms = {"HopNeighbors": HopNeighbors(hops), "EgoNetEdges": EgoNetEdges(hops)}
    return with_outputs(store, transforms, {name: each(store) for name, each in transforms.items()})


def distances(graph: GraphBatch, hops: int) -> list[dict[int, int]]:
    """For every node of one graph the nodes of its net, with their distances."""
    neighbours: list[set[int]] = [set() for _ in range(graph.num_nodes)]
    for a, b in graph.edge_index.T.tolist():
        neighbours[a].add(b)
    nets = []
    for root in range(graph.num_nodes):
        seen, front = {root: 0}, {root}
        for hop in range(1, hops + 1):
            front = {b for a in front for b in neighbours[a]} - seen.keys()
            seen |= dict.fromkeys(front, hop)
        nets.append(seen)
    return nets


def normed(norm: torch.nn.Module, h: Tensor) -> Tensor:
    """BatchNorm in evaluation."""
    mean, var, weight, bias = norm.running_mean, norm.running_var, norm.weight, norm.bias
    return (h - mean) / (var + norm.eps).sqrt() * weight + bias
