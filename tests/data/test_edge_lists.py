from __future__ import annotations

import torch
from torch_geometric import utils

from graphbench.data.edge_lists import coalesce, to_undirected, with_reverse_edges, with_self_loops, without_self_loops

EDGES = torch.tensor([[2, 0, 2, 3, 1], [0, 1, 0, 3, 0]])  # (2,0) twice, a loop at 3, (0,1) in both directions; 4 alone


def _pairs(edge_index: torch.Tensor) -> list[tuple[int, int]]:
    return list(zip(*edge_index.tolist(), strict=True))


def test_by_hand() -> None:
    assert _pairs(coalesce(EDGES, 5)) == [(0, 1), (1, 0), (2, 0), (3, 3)]
    assert _pairs(to_undirected(EDGES, 5)) == [(0, 1), (0, 2), (1, 0), (2, 0), (3, 3)]
    assert _pairs(with_reverse_edges(EDGES)) == _pairs(EDGES) + [(target, source) for source, target in _pairs(EDGES)]
    assert _pairs(with_self_loops(EDGES)) == [*_pairs(EDGES), (0, 0), (1, 1), (2, 2), (3, 3)]  # 3 again, 4 never
    assert _pairs(without_self_loops(EDGES)) == [(2, 0), (0, 1), (2, 0), (1, 0)]


def test_as_pyg_on_a_random_graph() -> None:
    edges = torch.randint(0, 50, (2, 400))
    assert torch.equal(coalesce(edges, 50), utils.coalesce(edges, num_nodes=50))
    assert torch.equal(to_undirected(edges, 50), utils.to_undirected(edges, num_nodes=50))


def test_no_edges_and_no_nodes() -> None:
    nothing = torch.empty(2, 0, dtype=torch.int64)
    for function in (with_reverse_edges, with_self_loops, without_self_loops):
        assert function(nothing).shape == (2, 0)
    for nodes in (0, 3):
        assert coalesce(nothing, nodes).shape == to_undirected(nothing, nodes).shape == (2, 0)
