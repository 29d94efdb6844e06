"""Neighbourhoods as graphs, against their definition, node by node."""

from __future__ import annotations

import pytest
import torch

from graphbench.data.large import ego_graphs as module
from graphbench.data.large.ego_graphs import ego_graphs
from tests.data.large.large_graphs import one_graph


@pytest.mark.parametrize("roots", [7, 4096])
@pytest.mark.parametrize(("depth", "neighbors"), [(1, -1), (2, 3), (3, 2)])
def test_graphs_are_induced_on_what_was_drawn(
    depth: int, neighbors: int, roots: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_ROOTS", roots)
    store = one_graph()
    edges = store.edge_index.T.tolist()
    into = {node: {source for source, target in edges if target == node} for node in range(store.num_nodes)}
    cut = ego_graphs(store, depth=depth, neighbors=neighbors, seed=1)
    assert (cut.num_graphs, cut.y_level) == (store.num_nodes, "graph")
    assert torch.equal(cut.y, store.y)
    for root in range(store.num_nodes):
        graph = cut.gather([root])
        nodes = graph.x[:, 0].int().tolist()
        assert nodes[0] == root
        assert len(set(nodes)) == len(nodes)
        ball, ring = {root}, {root}
        for _ in range(depth):
            ring = set().union(*(into[node] for node in ring)) - ball
            ball |= ring
        drawn = len(ball) if neighbors < 0 else sum(neighbors**hop for hop in range(depth + 1))
        assert set(nodes) <= ball
        assert set(nodes) == ball if neighbors < 0 else len(nodes) <= drawn
        # All edges among the nodes, double edges and self loops too, each with its attribute.
        expected = sorted(number for number, (source, target) in enumerate(edges) if {source, target} <= set(nodes))
        assert sorted(graph.edge_attr[:, 0].int().tolist()) == expected
        ends = [[nodes[source], nodes[target]] for source, target in graph.edge_index.T.tolist()]
        assert ends == [edges[number] for number in graph.edge_attr[:, 0].int().tolist()]


def test_as_many_neighbors_as_asked_for() -> None:
    store = one_graph()
    sources = [store.edge_index[0, store.edge_index[1] == node].tolist() for node in range(store.num_nodes)]
    cut = ego_graphs(store, depth=1, neighbors=3, seed=0)
    for node, (size, near) in enumerate(zip(cut.sizes.tolist(), sources, strict=True)):
        if node not in near and len(set(near)) == len(near):  # in-edges are drawn: loops and double edges add no node
            assert size == 1 + min(3, len(near))


def test_the_seed_decides() -> None:
    store = one_graph()
    drawn = [ego_graphs(store, depth=2, neighbors=2, seed=seed).fingerprint for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_a_depth_of_none_is_refused() -> None:
    with pytest.raises(ValueError, match="depth must be at least 1, received 0"):
        ego_graphs(one_graph(), depth=0, neighbors=2, seed=0)
