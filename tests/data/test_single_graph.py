from __future__ import annotations

import torch

from graphbench.data.single_graph import NodeFacts, node_card, node_store, prepared
from graphbench.data.store import GraphStore


def _store() -> GraphStore:
    x = torch.tensor([[1.0, 3.0], [0.0, 0.0], [2.0, 2.0]])
    return node_store(x, torch.tensor([[0, 1, 0], [1, 0, 2]]), torch.tensor([0, 1, 1]))


def _edges(store: GraphStore) -> list[list[int]]:
    return store.gather([0]).edge_index.T.tolist()


def test_prepared_leaves_alone_what_nobody_asked_for() -> None:
    store = _store()
    assert prepared(store) is store


def test_every_step_alone_and_together() -> None:
    listed = [[0, 1], [1, 0], [0, 2]]
    assert _edges(prepared(_store(), undirected=True)) == [[0, 1], [0, 2], [1, 0], [2, 0]]
    assert _edges(prepared(_store(), add_reverse_edges=True)) == [*listed, [1, 0], [0, 1], [2, 0]]
    assert _edges(prepared(_store(), add_self_loops=True)) == [*listed, [0, 0], [1, 1], [2, 2]]
    everything = prepared(_store(), normalize_features=True, add_reverse_edges=True, add_self_loops=True)
    assert everything.num_edges == 9
    assert everything.x.tolist() == [[0.25, 0.75], [0.0, 0.0], [0.5, 0.5]]


def test_two_classes_are_one_number() -> None:
    assert node_card("A", NodeFacts(3, 3, 2, 2)).out_dim == 1
    card = node_card("B", NodeFacts(3, 3, 2, 5), metric="auc")
    assert (card.out_dim, card.metric) == (5, "auc")
    node_card("C", NodeFacts(3, 3, 2, 2)).check(_store())
