"""Undirected edges and rings against NetworkX, graph by graph."""

from __future__ import annotations

import networkx as nx
import pytest
import torch
from torch import Tensor

from graphbench.data.generators import BlockModel, sbm_cluster
from graphbench.data.store import GraphStore
from graphbench.transforms.algorithms import substructures
from graphbench.transforms.cell_complex import RingEdges, Rings, UndirectedEdges
from tests.transforms.small_graphs import undirected


def rows(out: dict[str, Tensor], graph: int) -> tuple[list[list[int]], list[list[int]]]:
    """Ends and attributes of one graph."""
    own = slice(*out["ptr"][graph : graph + 2].tolist())
    return out["index"][:, own].T.tolist(), out["attr"][own].tolist()


@pytest.mark.parametrize("nodes", [1, 1 << 15])
@pytest.mark.parametrize("longest", [3, 7])
def test_equals_networkx(nodes: int, longest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(substructures, "_NODES", nodes)
    store = sbm_cluster((6,), 0, base=BlockModel(3, 5, 7, 0.35, 0.1))
    edges, rings, sides = UndirectedEdges()(store), Rings(longest)(store), RingEdges(longest)(store)
    lengths = set()
    for number in range(store.num_graphs):
        directed = store.gather([number]).edge_index.T.tolist()
        graph = nx.Graph(directed)
        pairs, there_and_back = rows(edges, number)
        assert pairs == sorted([min(each), max(each)] for each in graph.edges)
        assert [(directed[a], directed[b]) for a, b in there_and_back] == [(each, each[::-1]) for each in pairs]
        expected = sorted(sorted(each) for each in nx.chordless_cycles(graph, length_bound=longest))
        smallest, count = rows(rings, number)
        found: list[list[list[int]]] = [[] for _ in count]
        for ends, (ring, edge) in zip(*rows(sides, number), strict=True):
            assert pairs[edge] == ends
            found[ring].append(ends)
        assert sorted(sorted({node for ends in each for node in ends}) for each in found) == expected
        assert [[min(map(min, each))] * 2 for each in found] == smallest
        assert [len(each) for each in found] == count == sorted(count)
        assert all(nx.is_connected(nx.Graph(each)) for each in found)
        lengths |= set(count)
    assert lengths == set(range(3, longest + 1))


def test_directions_repeated_edges_and_loops() -> None:
    edges = torch.tensor([[2, 0, 1, 1, 1, 2, 3], [2, 1, 0, 2, 0, 0, 3]])
    store = GraphStore.from_arrays([1, 0, 4, 2], [0, 0, 7, 0], edges)
    out = UndirectedEdges()(store)
    assert out["ptr"].tolist() == [0, 0, 0, 3, 3]
    assert rows(out, 2) == ([[0, 1], [0, 2], [1, 2]], [[1, 2], [5, 5], [3, 3]])
    assert rows(Rings(3)(store), 2) == ([[0, 0]], [3])
    assert rows(RingEdges(3)(store), 2) == ([[0, 1], [1, 2], [0, 2]], [[0, 0], [0, 2], [0, 1]])


def test_two_rings_that_share_an_edge_by_hand() -> None:
    square = undirected(6, (0, 1), (1, 2), (2, 3), (3, 0), (3, 4), (4, 5), (5, 2))
    out = RingEdges(4)(square)
    assert out["index"].dtype == out["attr"].dtype == torch.int32
    assert rows(Rings(6)(square), 0) == ([[0, 0], [2, 2]], [4, 4])  # the cycle around both has a chord
    assert torch.bincount(out["attr"][:, 1]).tolist() == [1, 1, 1, 2, 1, 1, 1]


def test_rings_are_three_nodes_or_more() -> None:
    with pytest.raises(ValueError, match="longest must be at least 3, received 2"):
        Rings(2)
