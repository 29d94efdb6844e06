"""DGN's layer, node by node from its equations."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from graphbench.data.store import GraphStore
from graphbench.layers.local.dgn import DGN
from graphbench.structures import GraphBatch, Ragged
from graphbench.transforms.substructure_counts import EdgeSubstructureCounts
from tests.contract import example_batch, shaken

EVERY = ["mean", "sum", "max", "min", "dir1-av", "dir2-dx", "dir3-av"]


def aggregate(name: str, messages: Tensor, u: Tensor, own: int, sources: list[int], h: Tensor) -> Tensor:
    if not sources:
        return torch.zeros_like(h)
    if name in ("mean", "sum"):
        return getattr(messages, name)(0)
    if name in ("max", "min"):
        return getattr(messages, f"a{name}")(0)
    along = u[sources, int(name[3])] - u[own, int(name[3])]
    weight = (along / (along.abs().sum() + 1e-8))[:, None]
    if name.endswith("av"):
        return (weight.abs() * messages).sum(0)
    return ((weight * messages).sum(0) - weight.sum() * h).abs()


def plain(layer: DGN, batch: GraphBatch) -> Tensor:
    h, u = batch.x, batch.pe["LaplacianPE.eigvecs"].nan_to_num()
    rows = []
    for node in range(batch.num_nodes):
        edges = (batch.edge_index[1] == node).nonzero().flatten()
        sources = batch.edge_index[0, edges].tolist()
        messages = h[sources]
        if layer.source is not None:
            messages = layer.source(messages) + layer.target(h[node]) + layer.edge(batch.edge_attr[edges])
        parts = [aggregate(name, messages, u, node, sources, h[node]) for name in layer.aggregators]
        new = layer.lin(torch.cat([*([] if layer.source is None else [h[node]]), *parts]))
        size = batch.ragged.sizes[int(batch.ragged.graph_id[node])]
        rows.append(new / size**0.5 if layer.size_norm else new)
    return torch.stack(rows)


@pytest.mark.parametrize("own", [{}, {"message_map": True, "size_norm": True}], ids=str)
def test_every_aggregator_is_its_equation(own: dict[str, Any]) -> None:
    batch = example_batch((7, 1, 5), node_dim=6, edge_dim=4, pe={"LaplacianPE.eigvecs": (4,)})
    batch.pe["LaplacianPE.eigvecs"][7] = torch.nan  # the graph of one node
    layer = shaken(DGN(6, 5, dim_edge=4, aggregators=EVERY, **own).double())
    h, e = layer(batch.x, batch.edge_attr, batch)
    torch.testing.assert_close(h, plain(layer, batch))
    assert e is batch.edge_attr


def test_directed_derivatives_do_not_see_the_sign_of_an_eigenvector() -> None:
    batch = example_batch((7, 5), node_dim=6, pe={"LaplacianPE.eigvecs": (2,)})
    layer = shaken(DGN(6, 5, aggregators=["dir1-av", "dir1-dx"]).double())
    turned = batch.replace(pe={"LaplacianPE.eigvecs": -batch.pe["LaplacianPE.eigvecs"]})
    torch.testing.assert_close(layer(batch.x, None, batch)[0], layer(batch.x, None, turned)[0])


def test_it_asks_for_the_eigenvectors_that_it_reads() -> None:
    assert DGN.required_transforms({"aggregators": ["mean"], "field": "eigenvectors"}) == {}
    asked = DGN.required_transforms({"aggregators": ["dir1-av", "mean", "dir3-dx"], "field": "eigenvectors"})
    assert asked == {"LaplacianPE": {"max_freqs": 4, "laplacian_norm": "none"}}
    batch = GraphBatch(Ragged.from_sizes([2]), torch.tensor([[0, 1], [1, 0]]), x=torch.ones(2, 3))
    with pytest.raises(ValueError, match="DGN reads 2 eigenvectors"):
        DGN(3, 3, aggregators=["dir1-av"])(batch.x, None, batch)


def test_along_cycles() -> None:
    # two triangles 0 1 2 and 1 2 3 that share the edge 1 2, a square around both with that chord, and a lone end 4
    pairs = [(0, 1), (1, 2), (2, 0), (1, 3), (2, 3), (3, 4)]
    edges = torch.tensor([*pairs, *((b, a) for a, b in pairs)]).T
    store = GraphStore.from_arrays([5], [12], edges)
    counts = {"EdgeSubstructureCounts.counts": EdgeSubstructureCounts(4)(store)["counts"]}
    batch = GraphBatch(Ragged.from_sizes([5]), edges, x=torch.randn(5, 3).double(), edge_pe=counts)
    layer = shaken(DGN(3, 6, aggregators=["dir3-av", "dir3-dx", "dir4-av"], field="cycles").double())
    with torch.no_grad():
        layer.lin.weight.copy_(torch.eye(9)[:6])
        layer.lin.bias.zero_()
    h, x = layer(batch.x, None, batch)[0], batch.x
    # at node 1: the edge to 2 lies on both triangles, those to 0 and 3 on one
    mean = (x[0] + 2 * x[2] + x[3]) / 4
    torch.testing.assert_close(h[1], torch.cat([mean, (mean - x[1]).abs()]), rtol=0, atol=1e-6)
    assert (h[4] == 0).all()
    asked = DGN.required_transforms({"aggregators": ["dir3-av", "dir6-dx", "max"], "field": "cycles"})
    assert asked == {"EdgeSubstructureCounts": {"cycles": 6}}
    for found in ({}, counts):
        with pytest.raises(ValueError, match="DGN reads counts of cycles of up to 6 nodes"):
            DGN(3, 3, aggregators=["dir6-av"], field="cycles")(x.float(), None, batch.replace(edge_pe=found))
    with pytest.raises(ValueError, match="dir<k>-dx with k from 3 on, received 'dir2-av'"):
        DGN(3, 3, aggregators=["dir2-av"], field="cycles")
    with pytest.raises(ValueError, match="field must be one of eigenvectors, cycles; received 'edges'"):
        DGN(3, 3, field="edges")


@pytest.mark.parametrize(("names", "message"), [(["median"], "received 'median'"), ([], "received none")])
def test_wrong_aggregators_are_named(names: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DGN(3, 3, aggregators=names)
