"""Graphs that are asked for their own edges."""

from __future__ import annotations

import pytest
import torch

from graphbench.data.builder import LoadedDataset
from graphbench.data.infer_links import InferLinks, infer_links
from graphbench.data.store import GraphStore
from graphbench.errors import UserError
from tests.link_graphs import Contacts


def _loaded() -> LoadedDataset:
    loaded = Contacts("x").load(None)
    return LoadedDataset(loaded.store.replace(edge_attr=torch.randn(loaded.store.num_edges, 3)), loaded.card)


def test_every_edge_and_as_many_other_pairs() -> None:
    asked = infer_links(_loaded())
    store = asked.store
    assert store.edge_attr is None
    for graph in range(store.num_graphs):
        batch = store.gather([graph])
        edges = {tuple(pair) for pair in batch.edge_index.T.tolist()}
        pairs = [tuple(pair) for pair in batch.edge_sets["label"].index.T.tolist()]
        assert len(set(pairs)) == len(pairs) == 2 * len(edges)
        assert {pair for pair, label in zip(pairs, batch.y.tolist()) if label} == edges
    assert infer_links(_loaded()).store.fingerprint == store.fingerprint


def test_the_card_says_two_classes_and_no_edge_features() -> None:
    card = InferLinks(Contacts("x")).card
    assert (card.out_dim, card.edge_in, card.metric, card.task) == (2, 0, "accuracy", "graph")
    assert card.name == "contacts"


def test_a_graph_with_too_many_edges_is_named() -> None:
    every = torch.cartesian_prod(torch.arange(3), torch.arange(3)).T
    full = GraphStore.from_arrays([3], [9], every, x=torch.ones(3, 4))
    with pytest.raises(UserError, match="graph 0 has 9 linked pairs and 0 others"):
        infer_links(LoadedDataset(full, Contacts("x").card))
