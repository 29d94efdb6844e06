"""SUN copy by copy from its equations, in float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from graphbench.config import load_config
from graphbench.errors import UserError
from graphbench.factory.model import build_model
from graphbench.models.ego_nets import EgoNets
from graphbench.models.sun import SUN
from graphbench.structures import DataInfo, GraphBatch
from tests.contract import shaken
from tests.models.ego_net_graphs import SIZES, distances, graphs_with_nets, normed
from tests.paths import ROOT

DIM, HOPS, COLUMNS = 5, 2, 4 * (7 + 5)
SMALL = {"gnn.dim_inner": DIM, "gt.SUN.hops": HOPS, "gnn.layers_mp": 2, "gnn.dim_edge": COLUMNS}


def build(**own: Any) -> Any:
    info = DataInfo("molecules", "graph", "regression", 1, 1, 1, "mae", maximize=False)
    overrides = [str(each) for pair in {**SMALL, **own}.items() for each in pair]
    return shaken(build_model(load_config(ROOT / "configs/gnnbench/sun-zinc.yaml", overrides), info).double()).eval()


def molecules() -> Any:
    return graphs_with_nets(HOPS, (21,), (4,))


def mlp(module: Any, x: Tensor) -> Tensor:
    first, norm, _, second = module
    return second(normed(norm, first(x)).relu())


def gin(conv: Any, x: Tensor, e: Tensor, edges: list[tuple[int, int, int]]) -> Tensor:
    """(n, dim) of the nodes of one net, ``edges`` as (source, target, number)."""
    heard = (1 + conv.eps) * x
    for a, b, number in edges:
        heard = heard.index_add(0, torch.tensor([b]), (x[a] + e[number]).relu()[None])
    return mlp(conv.mlp, heard)


def plain(model: Any, graph: GraphBatch) -> Tensor:
    """Prediction of one graph of n nodes, from x[k][v]."""
    h, e, n = model.encoder(graph)[0], model.edge_encoder(graph), graph.num_nodes
    edges = [(a, b, number) for number, (a, b) in enumerate(graph.edge_index.T.tolist())]
    inside = [[edge for edge in edges if edge[0] in net and edge[1] in net] for net in distances(graph, HOPS)]
    marks = torch.eye(n).double()
    x = [torch.cat([marks[k][:, None], 1 - marks[k][:, None], h] if model.marked else [h], 1) for k in range(n)]
    first = 0
    for layer in model.layers:
        width = x[0].shape[1]
        e1, e2, e3, e4 = (e[:, first + i * width : first + (i + 1) * width] for i in range(4))
        first += 4 * width
        roots = torch.stack([x[k][k] for k in range(n)])
        means = torch.stack(x).mean(0)
        of_nodes = normed(layer.norms[1], gin(layer.of_nodes, means, e2, edges))
        of_root_nodes = normed(layer.norms[3], gin(layer.of_root_nodes, means, e4, edges))
        new = []
        for k in range(n):
            total = x[k].sum(0)
            seen = normed(layer.norms[0], gin(layer.of_copies, x[k], e1, inside[k]))
            states = mlp(layer.node, roots) + mlp(layer.root, roots[k]) + mlp(layer.copy, x[k]) + mlp(layer.net, total)
            states = states + seen + of_nodes
            seen = normed(layer.norms[2], gin(layer.of_roots, x[k], e3, inside[k])[k])
            own = mlp(layer.own_root, roots[k]) + mlp(layer.own_net, total) + seen + of_root_nodes[k]
            new.append(torch.cat([states[:k], own[None], states[k + 1 :]]).relu())
        x = new
    return model.head.mlp(model.lin_out(torch.stack(x).mean((0, 1))).relu()[None])


@pytest.mark.parametrize("marked", [True, False])
def test_the_model_is_its_equations(marked: bool) -> None:
    model, store = build(**{"gt.SUN.marked": marked}), molecules()
    with torch.no_grad():
        expected = torch.cat([plain(model, store.gather([graph])) for graph in range(len(SIZES))])
        torch.testing.assert_close(model(store.gather(range(len(SIZES)))), expected, rtol=1e-10, atol=1e-10)


def test_norms_of_copies_leave_roots_out() -> None:
    """In training: the mean over all copies that are no roots, and over no others."""
    model, batch = build(), molecules().gather(range(len(SIZES)))
    layer, nets, found = model.layers[0], EgoNets(batch, True), []
    layer.of_copies.register_forward_hook(lambda module, inputs, output: found.append(output))
    before = layer.norms[0].running_mean.clone()
    model.train()(batch)
    copies = [(k, v) for k, v in zip(nets.members.target.tolist(), nets.members.source.tolist(), strict=True)]
    assert [copies[i] for i in nets.centre.tolist()] == [(k, k) for k in range(batch.num_nodes)]
    others = [i for i, (k, v) in enumerate(copies) if k != v]
    assert nets.others.tolist() == others
    expected = 0.9 * before + 0.1 * found[0][others].mean(0)
    torch.testing.assert_close(layer.norms[0].running_mean, expected, rtol=1e-9, atol=1e-12)


def test_nodes_outside_of_a_net_have_states_there() -> None:
    """The bag is that of all pairs, and no lists of nets are read."""
    batch = molecules().gather([0])
    nets = EgoNets(batch.replace(hops=None), True)
    assert nets.members.num_edges == SIZES[0] ** 2 > len(batch.hops.col)


def test_nets_are_asked_for_and_needed() -> None:
    assert SUN.required_transforms({"hops": 3}) == {"EgoNetEdges": {"hops": 3}}
    with pytest.raises(ValueError, match="read the edge set EgoNetEdges"):
        build()(molecules().gather([0]).replace(edge_sets={}))


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"gt.SUN.hops": 0}, "hops must be at least 1, received 0"),
        ({"gnn.layers_mp": 0}, "layers must be at least 1, received 0"),
        ({"gnn.dim_edge": 8}, f"read {COLUMNS} columns of edge states, received 8; set gnn.dim_edge to {COLUMNS}"),
    ],
)
def test_wrong_values_are_named(own: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        build(**own)
