"""Pairs two edges apart, against powers of the dense adjacency."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from graphbench.structures import GraphBatch, Ragged, two_hops
from graphbench.structures.two_hops import more_walk_edges, two_hop_edges
from tests.joined import joined


def dense(edge_index: Tensor, nodes: int) -> Tensor:
    """(N, N) bool, row = target."""
    matrix = torch.zeros(nodes, nodes, dtype=torch.bool)
    matrix[edge_index[1], edge_index[0]] = True
    return matrix.fill_diagonal_(False)


@pytest.mark.parametrize(("nodes", "edges"), [(12, 20), (30, 25), (4, 16), (5, 0), (0, 0), (1, 1)])
@pytest.mark.parametrize("direct", [True, False])
def test_equals_the_dense_square(nodes: int, edges: int, direct: bool) -> None:
    """Directed, with loops and repeated edges."""
    edge_index = torch.randint(0, max(nodes, 1), (2, edges))
    one = dense(edge_index, nodes)
    two = (one.double() @ one.double() > 0).fill_diagonal_(False)
    expected = two | one if direct else two & ~one
    found = two_hop_edges(edge_index, nodes, direct=direct)
    assert found.shape[1] == expected.sum()
    assert torch.equal(dense(found, nodes), expected)


@pytest.mark.parametrize(("nodes", "edges"), [(12, 40), (4, 16), (5, 0), (0, 0), (1, 1)])
def test_more_walks_of_two_edges_than_of_one_or_none(nodes: int, edges: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Directed, with loops; paths of a pair in several pieces are counted together."""
    edge_index = torch.unique(torch.randint(0, max(nodes, 1), (2, edges)), dim=1)
    one = dense(edge_index, nodes).double()
    expected = one @ one - one - torch.eye(nodes) > 0
    for paths in (two_hops._PATHS, 1, 7):
        monkeypatch.setattr(two_hops, "_PATHS", paths)
        found = more_walk_edges(edge_index, nodes)
        matrix = torch.zeros(nodes, nodes, dtype=torch.bool)
        matrix[found[1], found[0]] = True
        assert found.shape[1] == expected.sum()
        assert torch.equal(matrix, expected)


def test_pieces_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    edge_index = torch.randint(0, 40, (2, 200))
    whole = two_hop_edges(edge_index, 40, direct=True)
    for paths in (1, 7, 100):
        monkeypatch.setattr(two_hops, "_PATHS", paths)
        assert torch.equal(two_hop_edges(edge_index, 40, direct=True), whole)


def test_a_path_by_hand() -> None:
    """0 -> 1 -> 2 -> 3: two steps away are 0 -> 2 and 1 -> 3."""
    path = torch.tensor([[0, 1, 2], [1, 2, 3]])
    assert two_hop_edges(path, 4, direct=False).tolist() == [[0, 1], [2, 3]]
    assert two_hop_edges(path, 4, direct=True).tolist() == [[0, 0, 1, 1, 2], [1, 2, 2, 3, 3]]


def test_squared_twice_reaches_four_edges() -> None:
    """0 -> 1 -> ... -> 6: from 0 everything up to 4 is reached, and not 5."""
    path = torch.arange(7).unfold(0, 2, 1).T.contiguous()
    found = GraphBatch(Ragged.from_sizes([7]), path).two_hop_adjacency(direct=True, squarings=2)
    assert found.target[found.source == 0].tolist() == [1, 2, 3, 4]


def test_graphs_stay_apart_and_the_batch_keeps_it() -> None:
    path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    graph = GraphBatch(Ragged.from_sizes([3]), path)
    batch = joined([graph, graph])
    adjacency = batch.two_hop_adjacency(direct=False, norm="sym", self_loops=True)
    assert adjacency is batch.two_hop_adjacency(direct=False, norm="sym", self_loops=True)
    assert adjacency is not batch.two_hop_adjacency(direct=True, norm="sym", self_loops=True)
    matrix = torch.zeros(6, 6, dtype=torch.float64)
    matrix[adjacency.target, adjacency.source] = adjacency.weight
    ends = torch.tensor([[0.5, 0, 0.5], [0, 1, 0], [0.5, 0, 0.5]], dtype=torch.float64)
    torch.testing.assert_close(matrix, torch.block_diag(ends, ends))
