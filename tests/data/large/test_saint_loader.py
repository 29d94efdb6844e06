"""The estimates of GraphSAINT: loss and propagation of subgraphs have the expectation of the whole graph."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from graphbench import registry
from graphbench.ops.propagate import propagate
from graphbench.structures.sampled_graph import SampledGraph
from tests.data.large.large_graphs import one_graph, split_of
from tests.loader_options import options_of

SAMPLERS = ("saint_node", "saint_edge", "saint_rw")


def saint(sampler="saint_rw", store=None, **options):
    store = one_graph() if store is None else store
    given = {"batch_size": 6, "walk_length": 2, **options}
    return registry.lookup(registry.SAMPLERS, sampler)(store, split_of(store), options_of(given), **given)


@pytest.mark.parametrize("coverage", [0, 2])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_batch_is_the_subgraph_of_its_nodes(sampler, coverage):
    store = one_graph()
    edges = store.edge_index.T.tolist()
    loader = saint(sampler, iterations=3, coverage=coverage)
    assert loader.num_train_batches == 3
    for batch, rows in loader.train(0):
        nodes = batch.x[:, 0].long().tolist()
        assert len(set(nodes)) == len(nodes)
        numbers = batch.edge_attr[:, 0].long().tolist()
        assert sorted(numbers) == [i for i, (s, t) in enumerate(edges) if s in nodes and t in nodes]
        assert [[nodes[s], nodes[t]] for s, t in batch.edge_index.T.tolist()] == [edges[number] for number in numbers]
        assert [nodes[row] for row in rows] == [node for node in nodes if node in split_of(store).train]
        assert isinstance(batch, SampledGraph) == bool(coverage)


def test_an_epoch_depends_on_seed_and_number_only():
    def content(loader, epoch):
        return [(batch.x[:, 0].tolist(), batch.node_weight.tolist()) for batch, _ in loader.train(epoch)]

    loader = saint(coverage=3)
    later = content(loader, 3)
    assert content(saint(coverage=3), 3) == later
    assert content(loader, 3) == later
    assert content(loader, 4) != later
    assert content(saint(coverage=3, seed=1), 3) != later


def test_processes_share_an_epoch():
    alone = [batch.x[:, 0].tolist() for batch, _ in saint(iterations=6).train(1)]
    ranks = [
        [batch.x[:, 0].tolist() for batch, _ in saint(iterations=6, rank=r, world_size=3).train(1)] for r in (0, 1, 2)
    ]
    assert [ranks[number % 3][number // 3] for number in range(6)] == alone
    assert saint(iterations=7, rank=2, world_size=3).num_train_batches == 3


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_expectations_are_those_of_the_whole_graph(sampler):
    """Means over 700 subgraphs; bounds are six standard errors, and as much again for the counts."""
    store = one_graph(20, 60, attributes=False)
    loader = saint(sampler, store, batch_size=5, iterations=700, coverage=350)
    whole = store.gather([0])
    signal = torch.from_numpy(np.random.default_rng(0).standard_normal(store.num_nodes))
    expected = propagate(whole.adjacency(norm="sym", self_loops=True), signal[:, None])[:, 0]
    train = split_of(store).train
    losses, arrived = [], [[] for _ in range(store.num_nodes)]
    for batch, rows in loader.sample(0):
        nodes = batch.x[:, 0].long()
        losses.append(float((batch.node_weight[rows] * signal[nodes[rows]]).sum()))
        new = propagate(batch.adjacency(norm="sym", self_loops=True), signal[nodes][:, None])[:, 0]
        for node, value in zip(nodes.tolist(), new.tolist()):
            arrived[node].append(value)
    # Nodes that can be drawn at all: saint_node draws sources only, saint_edge ends of edges.
    can = {"saint_rw": torch.ones(20, dtype=torch.bool)}.get(sampler, torch.tensor([len(a) > 0 for a in arrived]))
    drawn = [node for node in train.tolist() if can[node]]
    error = 6 * np.std(losses) / len(losses) ** 0.5
    assert np.mean(losses) == pytest.approx(float(signal[drawn].sum()) / len(train), abs=2 * error)
    for node, values in enumerate(arrived):
        if len(values) > 100:
            error = 6 * np.std(values) / len(values) ** 0.5 + 6 * abs(np.mean(values)) / len(values) ** 0.5
            assert np.mean(values) == pytest.approx(float(expected[node]), abs=2 * error + 1e-9)
