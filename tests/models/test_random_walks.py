"""Walks along edges, and what is known of their last nodes, step by step."""

from __future__ import annotations

import pytest
import torch

from graphbench.models.random_walks import Walks, along, draw_walks, fixed_walks
from graphbench.structures import GraphBatch, Ragged
from tests.contract import alone, example_batch


def graphs() -> GraphBatch:
    return example_batch((9, 1, 12, 0, 4), pairs=False)


def check(batch: GraphBatch, walks: Walks) -> None:
    """Every step goes along its edge, and back only where there is no other way."""
    source, target = batch.edge_index.tolist()
    degree = torch.bincount(batch.edge_index[0], minlength=batch.num_nodes).tolist()
    for nodes, edges, moving in zip(walks.nodes.tolist(), walks.edges.tolist(), walks.moving.tolist(), strict=True):
        assert moving == (degree[nodes[0]] > 0)
        if not moving:
            assert set(nodes) == {nodes[0]}
            assert set(edges) == {batch.num_edges}
            continue
        for i, edge in enumerate(edges):
            assert (source[edge], target[edge]) == (nodes[i], nodes[i + 1])
            if i and nodes[i + 1] == nodes[i - 1]:
                assert degree[nodes[i]] == 1


@pytest.mark.parametrize("ratio", [1.0, 0.5, 0.01])
def test_walks_go_along_edges(ratio: float) -> None:
    batch = graphs()
    torch.manual_seed(0)
    walks = draw_walks(batch, 20, ratio)
    assert walks.nodes.shape == ({1.0: 26, 0.5: 13, 0.01: 4}[ratio], 21)
    check(batch, walks)
    if ratio == 1:
        assert walks.nodes[:, 0].tolist() == list(range(26))
    else:
        assert set(batch.ragged.graph_id[walks.nodes[:, 0]].tolist()) == {0, 1, 2, 4}


def test_fixed_walks_do_not_depend_on_the_batch() -> None:
    batch = graphs()
    walks = fixed_walks(batch, 30)
    check(batch, walks)
    assert torch.equal(walks.nodes, fixed_walks(batch, 40).nodes[:, :31])
    for graph, first in enumerate(batch.ragged.ptr[:-1].tolist()):
        own = fixed_walks(alone(batch, graph), 30).nodes
        assert torch.equal(walks.nodes[first : first + len(own)], own + first)


@pytest.mark.parametrize("fixed", [True, False])
def test_every_way_is_as_likely(fixed: bool) -> None:
    """From the centre of stars with four rays, out and back: then each of the other three, about as often."""
    stars = 3000
    ends = torch.tensor([[0, 0, 0, 0, 1, 2, 3, 4], [1, 2, 3, 4, 0, 0, 0, 0]])
    index = (ends.unsqueeze(1) + 5 * torch.arange(stars).view(1, -1, 1)).flatten(1)
    one = GraphBatch(Ragged.from_sizes([5 * stars]), index)  # one graph: numbers of nodes differ
    torch.manual_seed(0)
    nodes = (fixed_walks(one, 3) if fixed else draw_walks(one, 3)).nodes[::5] % 5
    pairs = torch.bincount(nodes[:, 1] * 5 + nodes[:, 3], minlength=25).view(5, 5)[1:, 1:].double()
    assert (pairs.diagonal() == 0).all()
    others = pairs[~torch.eye(4, dtype=torch.bool)]
    expected = stars / 12
    assert ((others - expected).square() / expected).sum() < 31.3  # chi-square, 11 degrees of freedom, p = 0.001


def test_what_is_known_along_a_walk() -> None:
    batch, window = graphs(), 4
    walks = fixed_walks(batch, 12)
    edges = set(map(tuple, batch.edge_index.T.tolist()))
    known = along(batch, walks, window)
    assert known.shape == (26, 13, 2 * window - 1)
    for nodes, rows in zip(walks.nodes.tolist(), known.tolist(), strict=True):
        for i, row in enumerate(rows):
            same = [i >= o and nodes[i] == nodes[i - o] for o in range(window, 0, -1)]
            joined = [i >= o and (nodes[i], nodes[i - o]) in edges for o in range(window, 1, -1)]
            assert row == same + joined
    assert known.any((0, 1)).all()


def test_short_walks_and_graphs_without_edges() -> None:
    empty = example_batch((3, 2), edges=False, pairs=False)
    walks = draw_walks(empty, 2)
    assert not walks.moving.any()
    assert along(empty, walks, 5).shape == (5, 3, 9)
    nothing = draw_walks(example_batch((), pairs=False), 3)
    assert nothing.nodes.shape == (0, 4)
