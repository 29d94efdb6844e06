"""False pairs drawn for a batch that states the true ones."""

from __future__ import annotations

import torch

from graphbench.data.loading.negatives import with_negatives
from graphbench.structures import EdgeSet, GraphBatch, Ragged

SIZES = [9, 0, 3, 12, 2]


def _batch() -> GraphBatch:
    """Graph 2 has every pair but (5, 5) in its 3 nodes; the last one no true pair, but a false one to be replaced."""
    ragged = Ragged.from_sizes(SIZES)
    pairs = {
        0: [(0, 3), (3, 0), (1, 2), (1, 8)],
        2: [(a, b) for a in range(3) for b in range(3) if (a, b) != (2, 2)],
        3: [(0, 11), (11, 0), (4, 4)],
        4: [(0, 1)],
    }
    index = torch.cat([torch.tensor(ends).T + ragged.ptr[graph] for graph, ends in pairs.items()], dim=1)
    counts = torch.tensor([0, *(len(pairs.get(graph, ())) for graph in range(len(SIZES)))])
    y = torch.ones(index.shape[1], 1)
    y[-1] = 0
    edges = torch.zeros(2, 0, dtype=torch.int64)
    return GraphBatch(ragged, edges, y=y, edge_sets={"label": EdgeSet(index, counts.cumsum(0))})


def _draw(seed: int) -> GraphBatch:
    return with_negatives(_batch(), torch.Generator().manual_seed(seed))


def _pairs(batch: GraphBatch, label: int) -> list[tuple[int, int]]:
    index = batch.edge_sets["label"].index[:, batch.y[:, 0] == label]
    return [tuple(pair) for pair in index.T.tolist()]


def test_true_pairs_stay_and_false_ones_are_none_of_them() -> None:
    true = set(_pairs(_batch(), 1))
    for seed in range(20):
        batch = _draw(seed)
        assert set(_pairs(batch, 1)) == true
        false = _pairs(batch, 0)
        assert not true & set(false)
        assert len(set(false)) == len(false), "no pair twice"
        graph = batch.ragged.graph_id
        assert all(graph[s] == graph[t] for s, t in false)
        sources = [s for s, _ in false]
        # Two per true pair where there is room; node 2 of the crowded graph has one free target, itself.
        assert [sources.count(node) for node in (0, 3)] == [2, 2]
        assert sources.count(1) in (3, 4)  # four of seven free targets: ten tries nearly always find them
        assert [pair for pair in false if 9 <= pair[0] < 12] in ([(11, 11)], [])
        assert not [pair for pair in false if pair[0] >= 24], "a graph without true pairs has no false ones"


def test_pairs_are_grouped_by_graph_and_counted() -> None:
    batch = _draw(0)
    asked = batch.edge_sets["label"]
    graph = batch.ragged.graph_id[asked.index[0]]
    assert torch.equal(graph, graph.sort().values)
    assert torch.equal(asked.ptr.diff(), torch.bincount(graph, minlength=len(SIZES)))
    assert batch.y.shape == (asked.num_pairs, 1)


def test_one_seed_one_draw_and_every_target_is_possible() -> None:
    assert _pairs(_draw(3), 0) == _pairs(_draw(3), 0)
    seen = {target for seed in range(200) for source, target in _pairs(_draw(seed), 0) if source == 0}
    assert seen == set(range(9)) - {3}


def test_a_batch_without_true_pairs() -> None:
    batch = _batch()
    none = with_negatives(batch.replace(y=torch.zeros_like(batch.y)), torch.Generator().manual_seed(0))
    assert none.edge_sets["label"].num_pairs == 0
    assert none.y.shape == (0, 1)
