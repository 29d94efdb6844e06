"""Subgraphs with weights against the whole graph, drawn entirely."""

from __future__ import annotations

import torch

from graphbench.ops.propagate import propagate
from graphbench.structures.sampled_graph import SampledGraph
from tests.data.large.large_graphs import one_graph


def test_layers_see_the_whole_graph_where_all_of_it_is_drawn():
    store = one_graph()
    whole = store.gather([0])
    degree = torch.bincount(whole.edge_index[1], minlength=60)
    loops = torch.bincount(whole.edge_index[1][whole.edge_index[0] == whole.edge_index[1]], minlength=60)
    ones = torch.ones(whole.num_edges, dtype=torch.float64)
    fields = {"ragged": whole.ragged, "edge_index": whole.edge_index, "x": whole.x, "y": whole.y}
    batch = SampledGraph(**fields, in_degree=degree, loops=loops, edge_weight=ones, node_weight=torch.ones(60))
    h = torch.randn(60, 3, dtype=torch.float64)
    for norm in ("sym", "row", "none"):
        for self_loops in (False, True):
            seen = propagate(batch.adjacency(norm=norm, self_loops=self_loops), h)
            assert torch.allclose(seen, propagate(whole.adjacency(norm=norm, self_loops=self_loops), h))
    double = batch.replace(edge_weight=2 * ones)
    assert torch.allclose(propagate(double.adjacency(), h), 2 * propagate(whole.adjacency(), h))
    assert isinstance(batch.with_state(), SampledGraph)
    moved = batch._map(lambda value: value)
    assert isinstance(moved, SampledGraph)
    assert moved.node_weight is batch.node_weight
    assert torch.equal(moved.x, batch.x)
