"""Links as targets, and pairs that are none."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from graphbench.data.links import other_targets, unlinked_pairs, with_links_as_targets
from graphbench.data.store import GraphStore
from graphbench.errors import UserError


def _store(pairs: list[list[int]], nodes: int = 7) -> GraphStore:
    return GraphStore.from_graphs([{"num_nodes": nodes, "edge_index": torch.tensor(pairs).T}])


def test_a_link_is_asked_about_once_beside_as_many_other_pairs() -> None:
    store = with_links_as_targets(_store([[1, 0], [0, 1], [4, 2], [3, 3], [5, 6], [5, 6]]))
    asked, y = store.edge_sets["label"].index.T.tolist(), store.y.tolist()
    assert asked[:3] == [[0, 1], [4, 2], [5, 6]]  # both directions, one, one that is listed twice; no self loop
    assert y == [1, 1, 1, 0, 0, 0]
    for source, target in asked[3:]:
        assert source != target
        assert {source, target} not in ({0, 1}, {2, 4}, {5, 6})
    assert store.num_edges == 6  # the split decides which of them are hidden


def test_what_has_no_links_to_ask_about() -> None:
    with pytest.raises(ValueError, match="the graph has no links to predict"):
        with_links_as_targets(_store([[3, 3]]))
    two = GraphStore.from_graphs([{"num_nodes": 2}, {"num_nodes": 2}])
    with pytest.raises(ValueError, match=r"2 graphs ask about no pairs of nodes \('edge_label_index'"):
        with_links_as_targets(two)


def test_unlinked_pairs_are_uniform_over_what_is_left() -> None:
    edges = torch.tensor([[0, 1, 2, 2], [1, 0, 0, 1]])
    pairs = unlinked_pairs(edges, 3, 4000, np.random.default_rng(0))
    free, counts = np.unique(pairs.T.numpy(), axis=0, return_counts=True)
    assert free.tolist() == [[0, 2], [1, 2]]
    assert abs(counts[0] - 2000) < 150
    assert unlinked_pairs(torch.empty(2, 0, dtype=torch.int64), 3, 5, np.random.default_rng(0)).shape == (2, 5)
    everything = torch.tensor([[0, 1], [1, 0]])
    with pytest.raises(UserError, match="all 2 nodes are linked"):
        unlinked_pairs(everything, 2, 1, np.random.default_rng(0))


def test_other_targets_are_uniform_over_what_is_left() -> None:
    edges = torch.tensor([[0, 0, 1], [1, 2, 0]])
    drawn = other_targets(edges, 5, torch.tensor([0] * 3000 + [1] * 3000), np.random.default_rng(0))
    values, counts = drawn[:3000].unique(return_counts=True)
    assert values.tolist() == [3, 4]
    assert abs(int(counts[0]) - 1500) < 150
    assert drawn[3000:].unique().tolist() == [2, 3, 4]
    with pytest.raises(UserError, match="linked with every other one"):
        other_targets(torch.tensor([[0], [1]]), 2, torch.tensor([0]), np.random.default_rng(0))
