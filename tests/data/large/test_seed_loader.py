"""Mini-batches of training nodes of a graph that stays whole."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from graphbench.data.large.loader import LoaderOptions
from graphbench.data.large.seed_loader import SeedLoader
from graphbench.data.loading.process import LoaderProcess
from graphbench.data.splits import Splits
from graphbench.data.store import GraphStore

EDGES = np.array([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]])
SPLITS = Splits.of([0, 2, 3, 5, 6], [1], [4])


@pytest.fixture
def store() -> GraphStore:
    return GraphStore.from_arrays([7], [5], EDGES, x=np.eye(7, dtype=np.float32), y=np.arange(7), y_level="node")


def test_every_training_node_is_asked_once_per_epoch(store: GraphStore) -> None:
    loader = SeedLoader(store, SPLITS, LoaderOptions(LoaderProcess(3)), batch_size=2)
    batches = list(loader.train(0))
    assert len(batches) == loader.num_train_batches == 3
    assert [len(rows) for _, rows in batches] == [2, 2, 1]
    for batch, rows in batches:
        assert torch.equal(batch.state.seed_nodes, rows)
        assert batch.num_nodes == 7
    asked = [torch.cat([rows for _, rows in loader.train(epoch)]) for epoch in (0, 0, 1)]
    assert torch.equal(asked[0].sort().values, SPLITS.train)
    assert torch.equal(asked[0], asked[1])
    assert not torch.equal(asked[0], asked[2])


def test_what_is_derived_from_the_graph_is_computed_once(store: GraphStore) -> None:
    loader = SeedLoader(store, SPLITS, LoaderOptions(LoaderProcess(3)), batch_size=2)
    (first, _), (second, _) = list(loader.train(0))[:2]
    evaluated, _ = next(iter(loader.passes[0].batches()))
    assert first.adjacency() is second.adjacency() is evaluated.adjacency()
    assert evaluated.state.seed_nodes is None


def test_processes_share_the_nodes(store: GraphStore) -> None:
    options = [LoaderOptions(LoaderProcess(3, rank=rank, world_size=2)) for rank in (0, 1)]
    loaders = [SeedLoader(store, SPLITS, each, batch_size=2) for each in options]
    asked = [torch.cat([rows for _, rows in loader.train(0)]) for loader in loaders]
    assert [len(rows) for rows in asked] == [3, 3]
    assert set(torch.cat(asked).tolist()) == set(SPLITS.train.tolist())


def test_other_evaluations_and_empty_batches_are_refused(store: GraphStore) -> None:
    with pytest.raises(ValueError, match=r"set val\.sampler full_batch, received random_node"):
        SeedLoader(store, SPLITS, LoaderOptions(LoaderProcess(0), "random_node"), batch_size=2)
    with pytest.raises(ValueError, match="batch_size must be at least 1, received 0"):
        SeedLoader(store, SPLITS, LoaderOptions(LoaderProcess(0)), batch_size=0)
