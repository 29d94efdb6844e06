"""GIN-AK+ net by net from its equations, in float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from graphbench.config import load_config
from graphbench.errors import UserError
from graphbench.factory.model import build_model
from graphbench.models.gnn_ak import GNNAK, KernelSettings
from graphbench.structures import DataInfo, GraphBatch
from tests.contract import shaken
from tests.models.ego_net_graphs import SIZES, distances, graphs_with_nets, normed
from tests.paths import ROOT

DIM, HOP_DIM, HOPS = 6, 2, 2
SMALL = {
    "gnn.dim_inner": DIM,
    "gnn.OGBGIN.dim_edge": DIM + HOP_DIM,
    "gt.GNNAK.hop_dim": HOP_DIM,
    "gt.GNNAK.hops": HOPS,
    "gnn.layers_mp": 2,
    "gnn.dim_edge": 2 * (DIM + HOP_DIM),
}


def build(name: str = "molhiv", **own: Any) -> Any:
    info = DataInfo("molecules", "graph", "classification", 9, 3, 1, "auc", maximize=True)
    overrides = [str(each) for pair in {**SMALL, **own}.items() for each in pair]
    return shaken(build_model(load_config(ROOT / f"configs/ogb/ginak-{name}.yaml", overrides), info).double()).eval()


def gin(layer: Any, z: dict[int, Tensor], edges: list[tuple[int, int, Tensor]]) -> dict[int, Tensor]:
    """W BN relu W of (1 + eps) z_v + the sum of relu(z_s + e)."""
    first, norm, _, second = layer.mlp
    out = {}
    for v in z:
        heard = (1 + layer.eps) * z[v]
        for a, b, e in edges:
            if b == v:
                heard = heard + (z[a] + e).relu()
        out[v] = second(normed(norm, first(heard)).relu())
    return out


def plain(model: Any, graph: GraphBatch) -> Tensor:
    """Prediction of one graph, by a loop over roots, nodes and edges."""
    x, e = model.encoder(graph)[0], model.edge_encoder(graph)
    nets, ends, width = distances(graph, HOPS), graph.edge_index.T.tolist(), DIM + HOP_DIM
    for number, (layer, outer) in enumerate(zip(model.layers, model.norms, strict=True)):
        table, u = layer.hop_table, {}
        for root, net in enumerate(nets):
            edges = [
                (a, b, e[i, number * width : (number + 1) * width])
                for i, (a, b) in enumerate(ends)
                if a in net and b in net
            ]
            z = {v: torch.cat([x[v], table[hop]]) for v, hop in net.items()}
            for local, norm in zip(layer.layers, layer.norms, strict=True):
                new = gin(local, z, edges)
                z = {v: z[v] + normed(norm, new[v]).relu() for v in z}
            u |= {(root, v): layer.lin_out(z[v]) for v in z}
        described: dict[str, dict[tuple[int, int], Tensor]] = {name: {} for name in layer.gates}
        for name, gate in layer.gates.items():
            for (root, v), state in u.items():
                if name in layer.maps:
                    linear, norm, _ = layer.maps[name]
                    state = normed(norm, linear(state)).relu()
                described[name][root, v] = state * torch.sigmoid(gate(table[nets[root][v]]))
        rows = []
        for k, net in enumerate(nets):
            copies = {
                "centroid": [(k, k)],
                "subgraph": [(k, v) for v in net],
                "context": [(root, k) for root, other in enumerate(nets) if k in other],
            }
            found = []
            for name, of_copy in described.items():
                states = torch.stack([of_copy[copy] for copy in copies[name]])
                found.append(states.mean(0) if layer.pool == "mean" else states.sum(0))
            rows.append(sum(found) if layer.join is None else layer.join(torch.cat(found)))
        x = x + normed(outer, torch.stack(rows)).relu()
    pooled = x.mean(0) if model.layers[0].pool == "mean" else x.sum(0)
    first, last = model.head.lin
    return last(normed(model.head.norm[0], first(pooled)).relu())


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("molhiv", {}),
        ("molpcba", {}),
        ("molhiv", {"gt.GNNAK.subgraph": True, "gt.GNNAK.combine": "concat", "gt.GNNAK.pool": "add"}),
        ("molhiv", {"gt.GNNAK.inner_layers": 2}),
    ],
)
def test_the_model_is_its_equations(name: str, own: dict[str, Any]) -> None:
    model, store = build(name, **own), graphs_with_nets(HOPS)
    with torch.no_grad():
        expected = torch.stack([plain(model, store.gather([graph])) for graph in range(len(SIZES))])
        torch.testing.assert_close(model(store.gather(range(len(SIZES)))), expected, rtol=1e-10, atol=1e-10)


def test_shipped_files_read_what_the_release_reads() -> None:
    assert build("molhiv").layers[0].gates.keys() == {"centroid", "context"}
    assert build("molpcba").layers[0].gates.keys() == {"subgraph"}
    assert not build("molpcba").layers[0].maps


def test_nets_are_asked_for_and_needed() -> None:
    asked = {"HopNeighbors": {"cutoff": 3}, "EgoNetEdges": {"hops": 3}}
    assert GNNAK.required_transforms({"hops": 3}) == asked
    batch = graphs_with_nets(HOPS).gather([0, 1])
    with pytest.raises(ValueError, match="which the transform HopNeighbors computes"):
        build()(batch.replace(hops=None))
    with pytest.raises(ValueError, match="read the edge set EgoNetEdges"):
        build()(batch.replace(edge_sets={}))


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"gt.GNNAK.hops": 0}, "hops must be at least 1, received 0"),
        ({"gt.GNNAK.centroid": False, "gt.GNNAK.context": False}, "centroid, subgraph or context must be true"),
        ({"gnn.layers_mp": 0}, "1 or more local layers"),
    ],
)
def test_wrong_values_are_named(own: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        build(**own)


@pytest.mark.parametrize(
    ("own", "message"),
    [({"combine": "mul"}, "combine must be one of concat, add; received 'mul'"), ({"pool": "max"}, "received 'max'")],
)
def test_wrong_names_in_python(own: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        KernelSettings(**own).check()
