"""The batch: derived values, copies."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphbench.structures import GraphBatch, Ragged
from tests.contract import alone, example_batch, permutations, permuted
from tests.joined import joined

FIELDS = ("edge_index", "x", "edge_attr", "y")


def graph(n: int, seed: int = 0) -> GraphBatch:
    batch = example_batch((n,), node_dim=3, edge_dim=2, pe={"RWSE": (4,), "LapPE": (2, 2)}, seed=seed)
    return batch.replace(y=torch.full((1,), float(n)))


def assert_equal(a: GraphBatch, b: GraphBatch, without: tuple[str, ...] = ()) -> None:
    assert a.ragged.sizes == b.ragged.sizes
    assert torch.equal(a.ragged.ptr, b.ragged.ptr)
    for name in FIELDS:
        left, right = getattr(a, name), getattr(b, name)
        if name not in without:
            assert (left is None) == (right is None), name
            assert left is None or torch.equal(left, right), name
    assert a.pe.keys() == b.pe.keys()
    assert all(torch.equal(a.pe[name], b.pe[name]) for name in a.pe)
    assert (a.pairs is None) == (b.pairs is None)
    assert a.pairs is None or torch.equal(a.pairs.distance, b.pairs.distance)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 14), min_size=1, max_size=6))
def test_join_and_take_apart(sizes: list[int]) -> None:
    """Two tools of other tests, tested themselves."""
    parts = [graph(n, seed) for seed, n in enumerate(sizes)]
    batch = joined(parts)
    assert batch.num_graphs == len(sizes)
    assert batch.num_nodes == sum(sizes)
    assert batch.num_edges == sum(part.num_edges for part in parts)
    assert batch.y.tolist() == [float(n) for n in sizes]
    if batch.num_edges:
        source, target = batch.ragged.graph_id[batch.edge_index]
        assert torch.equal(source, target)
    for number, part in enumerate(parts):
        assert_equal(alone(batch, number), part, without=("y",))


def test_words_of_pytorch_geometric() -> None:
    """What is written for its batches reads these: here, two of its functions."""
    from torch_geometric.utils import scatter, to_dense_batch

    batch = example_batch((2, 0, 3), node_dim=1)
    assert batch.batch.tolist() == [0, 0, 2, 2, 2]
    assert batch.ptr.tolist() == [0, 2, 2, 5]
    dense, mask = to_dense_batch(batch.x, batch.batch, batch_size=batch.num_graphs)
    assert torch.equal(dense[mask], batch.x)
    sums = scatter(batch.x, batch.batch, dim_size=batch.num_graphs)
    assert torch.equal(sums, torch.stack([part.sum(0) for part in batch.x.split(batch.ragged.sizes)]))


def test_worked_example() -> None:
    triangle = GraphBatch(Ragged.from_sizes([3]), torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]]))
    edge = GraphBatch(Ragged.from_sizes([2]), torch.tensor([[0, 1], [1, 0]]))
    batch = joined([triangle, edge])
    assert batch.ragged.ptr.tolist() == [0, 3, 5]
    assert batch.edge_index.tolist() == [[0, 1, 1, 2, 2, 0, 3, 4], [1, 0, 2, 1, 0, 2, 4, 3]]
    assert batch.x is None


def test_derived_is_computed_once_and_not_copied() -> None:
    batch, calls = graph(4), []

    def degree(each: GraphBatch) -> torch.Tensor:
        calls.append(each)
        return torch.bincount(each.edge_index[1], minlength=each.num_nodes)

    assert batch.derived(degree) is batch.derived(degree)
    assert calls == [batch]
    other = batch.replace(edge_index=batch.edge_index[:, :0])
    assert other.derived(degree).sum() == 0
    assert batch.to("cpu") is batch


def test_fields_cannot_be_assigned() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        graph(3).x = torch.zeros(3)  # type: ignore[misc]


def test_permuting_twice_restores_the_batch() -> None:
    """The tool of every equivariance test, tested itself."""
    batch = example_batch(pe={"RWSE": (3,)})
    node, edge = permutations(batch)
    assert not torch.equal(node, torch.arange(len(node)))
    assert torch.equal(batch.ragged.graph_id[node], batch.ragged.graph_id)
    there = permuted(batch, node, edge)
    assert torch.equal(there.x[there.edge_index], batch.x[batch.edge_index[:, edge]])
    assert_equal(permuted(there, torch.argsort(node), torch.argsort(edge)), batch)


def test_printed_it_has_counts_and_shapes_not_contents() -> None:
    batch = GraphBatch(Ragged.from_sizes([2, 3]), torch.zeros(2, 4, dtype=torch.int64), x=torch.zeros(5, 3))
    assert repr(batch) == "GraphBatch(graphs=2, nodes=5, edges=4, x=(5, 3))"
