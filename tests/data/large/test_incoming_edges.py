"""Edges sorted by target, in one range and in many."""

from __future__ import annotations

import pytest
import torch

from graphbench.data.large import arrays as large_arrays
from graphbench.data.large import incoming_edges as module
from graphbench.data.large.incoming_edges import IncomingEdges
from tests.data.large.large_graphs import one_graph


@pytest.mark.parametrize("in_memory", [2**30, 0])
@pytest.mark.parametrize("chunk", [1, 37, 2**22])
def test_it_is_a_stable_sort_by_target(monkeypatch, chunk, in_memory):
    monkeypatch.setattr(module, "CHUNK", chunk)
    monkeypatch.setattr(large_arrays, "IN_MEMORY", in_memory)
    store = one_graph()
    made = IncomingEdges.of(store.edge_index, store.num_nodes, numbered=True)
    source, target = store.edge_index.long()
    order = target.argsort(stable=True)
    assert torch.equal(made.edge, order)
    assert torch.equal(made.source.long(), source[order])
    assert torch.equal(made.ptr.diff(), torch.bincount(target, minlength=store.num_nodes))
    assert torch.equal(made.loops.long(), torch.bincount(target[source == target], minlength=store.num_nodes))
    assert int(made.loops.sum()) > 0
    plain = IncomingEdges.of(store.edge_index, store.num_nodes, numbered=False)
    assert plain.edge is None
    assert torch.equal(plain.source, made.source)


def test_worked_example_and_no_edges():
    made = IncomingEdges.of(torch.tensor([[0, 2, 2], [1, 0, 1]]), 3, numbered=True)
    assert (made.ptr.tolist(), made.source.tolist(), made.edge.tolist()) == ([0, 1, 3, 3], [2, 0, 2], [1, 0, 2])
    empty = IncomingEdges.of(torch.empty(2, 0, dtype=torch.int32), 3, numbered=True)
    assert empty.ptr.tolist() == [0, 0, 0, 0]
    assert empty.source.numel() == empty.edge.numel() == 0


@pytest.mark.parametrize("bad", [3, -1])
def test_an_edge_out_of_the_graph_is_named(bad):
    with pytest.raises(ValueError, match=f"edge 1 is 0 -> {bad}, but nodes are numbered 0 .. 2"):
        IncomingEdges.of(torch.tensor([[0, 0], [1, bad]]), 3, numbered=False)
