"""Counts of cycles and cliques against subgraph isomorphisms, one by one, as NetworkX finds them."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from networkx.algorithms.isomorphism import GraphMatcher

from graphbench.data.generators import BlockModel, sbm_cluster
from graphbench.data.store import GraphStore
from graphbench.transforms.algorithms import substructures
from graphbench.transforms.substructure_counts import EdgeSubstructureCounts, SubstructureCounts
from tests.transforms.small_graphs import undirected


def slowly(graph: nx.Graph, pattern: nx.Graph, induced: bool) -> tuple[dict[int, float], dict[tuple[int, int], float]]:
    """Isomorphisms of a pattern to subgraphs that send something to a node (edge), over the pattern's automorphisms."""
    automorphisms = sum(1 for _ in GraphMatcher(pattern, pattern).isomorphisms_iter())
    matcher = GraphMatcher(graph, pattern)
    found = matcher.subgraph_isomorphisms_iter() if induced else matcher.subgraph_monomorphisms_iter()
    nodes = dict.fromkeys(graph.nodes, 0.0)
    edges = {pair: 0.0 for a, b in graph.edges for pair in ((a, b), (b, a))}
    for place_of in ({v: k for k, v in mapping.items()} for mapping in found):
        for node in pattern:
            nodes[place_of[node]] += 1 / automorphisms
        for a, b in (pair for edge in pattern.edges for pair in (edge, edge[::-1])):
            edges[place_of[a], place_of[b]] += 1 / automorphisms
    return nodes, edges


PATTERNS = [
    ({"cycles": 6}, [nx.cycle_graph(k) for k in (3, 4, 5, 6)]),
    ({"cycles": 6, "induced": False}, [nx.cycle_graph(k) for k in (3, 4, 5, 6)]),
    ({"cycles": 0, "cliques": 5}, [nx.complete_graph(k) for k in (3, 4, 5)]),
    ({"cycles": 4, "cliques": 4}, [nx.cycle_graph(3), nx.cycle_graph(4), nx.complete_graph(4)]),
]


@pytest.mark.parametrize("rows", [5, 1 << 19])
@pytest.mark.parametrize(("arguments", "patterns"), PATTERNS, ids=[str(own) for own, _ in PATTERNS])
def test_equals_isomorphisms_on_random_graphs(
    arguments: dict[str, Any], patterns: list[nx.Graph], rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(substructures, "_ROWS", rows)
    monkeypatch.setattr(substructures, "_NODES", rows)
    inside, between = (0.9, 0.3) if "cliques" in arguments else (0.6, 0.2)  # long cycles without chords are rare in one
    store = sbm_cluster((4,), 0, base=BlockModel(2, 4, 5, inside, between))
    of_nodes = SubstructureCounts(**arguments)(store)["counts"]
    of_edges = EdgeSubstructureCounts(**arguments)(store)["counts"]
    assert of_nodes.shape == (store.num_nodes, len(patterns))
    assert of_edges.shape == (store.num_edges, len(patterns))
    assert (of_nodes.sum(0) > 0).all()
    for number in range(store.num_graphs):
        graph, ends = nx.Graph(), store.gather([number]).edge_index.T.tolist()
        graph.add_nodes_from(range(int(store.sizes[number])))
        graph.add_edges_from(ends)
        node, edge = int(store.node_ptr[number]), int(store.edge_ptr[number])
        for column, pattern in enumerate(patterns):
            nodes, edges = slowly(graph, pattern, arguments.get("induced", True))
            expected = [nodes[place] for place in range(len(graph))]
            np.testing.assert_allclose(of_nodes[node : node + len(graph), column], expected, atol=1e-9)
            expected = [edges[a, b] for a, b in ends]
            np.testing.assert_allclose(of_edges[edge : edge + len(ends), column], expected, atol=1e-9)


def test_two_rings_that_share_an_edge_by_hand() -> None:
    # naphthalene: two hexagons and, around both, a cycle of ten with the shared edge as its chord
    ring = [(i, (i + 1) % 10) for i in range(10)]
    naphthalene = undirected(10, *ring, (0, 5))
    counts = EdgeSubstructureCounts(cycles=10)(naphthalene)["counts"]
    assert counts.dtype == torch.int32
    assert counts[:, :3].sum() == counts[:, 4:].sum() == 0
    assert counts[:, 3].tolist() == ([1] * 10 + [2]) * 2
    everything = EdgeSubstructureCounts(cycles=10, induced=False)(naphthalene)["counts"]
    assert everything[:, 7].tolist() == ([1] * 10 + [0]) * 2


def test_directions_repeated_edges_and_self_loops() -> None:
    edges = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 2, 2, 2, 0, 3]])
    store = GraphStore.from_arrays([4], [6], edges)
    assert EdgeSubstructureCounts(cycles=3)(store)["counts"][:, 0].tolist() == [1, 1, 1, 0, 1, 0]
    assert SubstructureCounts(cycles=3)(store)["counts"][:, 0].tolist() == [1, 1, 1, 0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"cycles": 2}, "cycles must be 0 or at least 3, received 2"),
        ({"cliques": -1}, "cliques must be 0 or at least 3, received -1"),
        ({"cycles": 0}, "cycles or cliques must be at least 3, received 0 and 0"),
    ],
)
def test_bad_sizes(arguments: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SubstructureCounts(**arguments)
