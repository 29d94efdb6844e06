"""Links as targets, and pairs that are none."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from graphbench.data.links import _unlinked_once, other_targets, unlinked_pairs, with_links_as_targets
from graphbench.data.store import GraphStore
from graphbench.errors import UserError


def _store(pairs: list[list[int]], nodes: int = 7) -> GraphStore:
    return GraphStore.from_graphs([{"num_nodes": nodes, "edge_index": torch.tensor(pairs).T}])


def _pairs(store: GraphStore, label: int) -> list[tuple[int, int]]:
    asked = store.edge_sets["label"].index[:, store.y == label]
    return [(source, target) for source, target in asked.T.tolist()]


def test_a_link_is_asked_about_once_beside_as_many_other_pairs() -> None:
    store = with_links_as_targets(_store([[1, 0], [0, 1], [4, 2], [3, 3], [5, 6], [5, 6]]))
    links, others = _pairs(store, 1), _pairs(store, 0)
    assert {(4, 2), (5, 6)} < set(links)  # of one direction, and listed twice; the self loop is none
    assert sorted(map(sorted, links)) == [[0, 1], [2, 4], [5, 6]]
    assert len({frozenset(pair) for pair in (*links, *others)}) == 6
    assert all(source != target for source, target in others)
    assert store.num_edges == 6  # the split decides which of them are hidden


@pytest.mark.parametrize("density", [0.02, 0.6, 0.95])
def test_neither_order_nor_place_tells_a_link_from_another_pair(density: float) -> None:
    """A classifier that sees nothing but these is right by chance."""
    draw = torch.rand(60, 60, generator=torch.Generator().manual_seed(0)) < density
    edges = draw.triu(1).nonzero()
    store = with_links_as_targets(_store([*edges.tolist(), *edges.flip(1).tolist()], 60))
    links, others = _pairs(store, 1), _pairs(store, 0)
    assert len(links) == len(edges)
    assert len(others) == min(len(links), 60 * 59 // 2 - len(links))
    assert len({frozenset(pair) for pair in (*links, *others)}) == len(links) + len(others)
    for pairs in (links, others):  # five standard deviations of coin tosses
        ascending = sum(source < target for source, target in pairs)
        assert abs(ascending - len(pairs) / 2) < 2.5 * len(pairs) ** 0.5
    place = torch.arange(len(store.y)).double()
    gap = place[store.y == 1].mean() - place[store.y == 0].mean()
    assert abs(gap) < 5 * place.std() * (1 / len(links) + 1 / len(others)) ** 0.5


def test_pairs_that_are_not_linked_are_drawn_uniformly() -> None:
    """Of 15 pairs 3 are linked; each other one is drawn as often, from a list and by rejection."""
    linked = np.array([0 * 6 + 1, 2 * 6 + 3, 4 * 6 + 5])
    for count in (1, 6):
        drawn = [_unlinked_once(linked, 6, count, np.random.default_rng(seed)) for seed in range(2000)]
        values, counts = np.unique(np.concatenate(drawn), return_counts=True)
        assert len(values) == 12
        assert not np.isin(values, linked).any()
        expected = 2000 * count / 12
        assert abs(counts - expected).max() < 5 * expected**0.5


def test_what_has_no_links_to_ask_about() -> None:
    with pytest.raises(ValueError, match="the graph has no links to predict"):
        with_links_as_targets(_store([[3, 3]]))
    with pytest.raises(ValueError, match="the graph links all pairs of nodes"):
        with_links_as_targets(_store([[0, 1]], 2))
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
