"""Random partitions: a batch is exactly what its nodes induce."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
import torch

from graphbench.data.large import partition as module
from graphbench.data.large.partition import Partition
from tests.data.large.large_graphs import one_graph


def draw(nodes: int, parts: int, seed: int = 0) -> Partition:
    return Partition.draw(nodes, parts, np.random.default_rng(seed))


@pytest.mark.parametrize("chunk", [7, 2**22])
@pytest.mark.parametrize("parts", [1, 3, 60])
def test_edges_of_a_part_are_the_induced_edges(monkeypatch, parts, chunk):
    monkeypatch.setattr(module, "CHUNK", chunk)
    store = one_graph()
    drawn = draw(store.num_nodes, parts)
    inner = 0
    for number, batch in enumerate(drawn.batches(store)):
        nodes = drawn.of(number).tolist()
        here = {node: i for i, node in enumerate(nodes)}
        expected = [
            (here[s], here[t], edge)
            for edge, (s, t) in enumerate(store.edge_index.T.tolist())
            if s in here and t in here
        ]
        assert batch.edge_index.dtype is torch.int64
        assert batch.edge_index.T.tolist() == [[s, t] for s, t, _ in expected]
        assert batch.edge_attr.squeeze(1).tolist() == [edge for *_, edge in expected]
        assert torch.equal(batch.edge_pe["EPE.values"], store.edge_pe["EPE.values"][[e for *_, e in expected]])
        assert batch.ragged.sizes == (len(nodes),)
        for ours, whole in ((batch.x, store.x), (batch.y, store.y), (batch.pe["PE.values"], store.pe["PE.values"])):
            assert torch.equal(ours, whole[nodes])
        inner += len(expected)
    assert inner > 0


@pytest.mark.parametrize(("nodes", "parts"), [(10, 3), (10, 10), (7, 1), (1, 1)])
def test_every_node_is_in_one_part_and_parts_are_equal(nodes, parts):
    drawn = draw(nodes, parts)
    members = [drawn.of(number).tolist() for number in range(drawn.parts)]
    assert sorted(chain.from_iterable(members)) == list(range(nodes))
    assert max(map(len, members)) - min(map(len, members)) <= 1
    assert all(part == sorted(part) for part in members)
    assert all((drawn.part[part] == number).all() for number, part in enumerate(members))


def test_every_pair_of_nodes_meets_equally_often():
    together = np.zeros((6, 6))
    for seed in range(3000):
        part = draw(6, 2, seed).part.numpy()
        together += part[:, None] == part[None, :]
    share = together[~np.eye(6, dtype=bool)] / 3000  # 2 of the other 5 are in the same part; one deviation is 0.009
    assert np.abs(share - 0.4).max() < 0.05


def test_only_wanted_parts_are_made():
    store = one_graph()
    drawn = draw(store.num_nodes, 4)
    every = list(drawn.batches(store))
    for batch, number in zip(drawn.batches(store, [2, 0]), (2, 0), strict=True):
        assert torch.equal(batch.edge_index, every[number].edge_index)
        assert torch.equal(batch.x, every[number].x)


@pytest.mark.parametrize("parts", [0, 11, 2**15])
def test_impossible_numbers_of_parts(parts):
    with pytest.raises(ValueError, match=f"train_parts must lie in 1 .. 10 for 10 nodes; received {parts}"):
        draw(10, parts)


def test_graph_without_edges():
    store = one_graph(edges=3)
    store = store.replace(
        edge_ptr=torch.tensor([0, 0]), edge_index=store.edge_index[:, :0], edge_attr=store.edge_attr[:0], edge_pe={}
    )
    for batch in draw(store.num_nodes, 2).batches(store):
        assert batch.edge_index.shape == (2, 0)
        assert batch.edge_attr.shape == (0, 1)
