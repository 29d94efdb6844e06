"""DeeperGCN against PyG's ``DeepGCNLayer`` and ``GENConv`` with the same weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch_geometric.nn import DeepGCNLayer
from torch_geometric.nn import GENConv as PygGENConv

from graphbench import registry
from graphbench.encoders.compose import EdgeEncoder, NodeEncoder
from graphbench.encoders.edge.linear import LinearEdge
from graphbench.encoders.node.linear import LinearNode
from graphbench.heads.node import NodeHead
from graphbench.layers.local.gen import GENConv
from graphbench.models.deeper_gcn import DeeperGCN
from tests.contract import example_batch, shaken

DIM = 8


def build(dim_edge: int = DIM, *, mlp_layers: int = 2, learn: bool = False, **own: Any) -> Any:
    layer = {"dim_edge": DIM, "mlp_layers": mlp_layers, "temperature": 0.5, "learn_temperature": learn}
    arguments = {
        "encoder": NodeEncoder(LinearNode(DIM, 12), {}, DIM, batch_norm=False),
        "dim_encoded": DIM,
        "edge_encoder": EdgeEncoder(LinearEdge(dim_edge, 12), {}, dim_edge, batch_norm=False),
        "dim": DIM,
        "layers": 3,
        "local": lambda dim_in, dim_out: GENConv(dim_in, dim_out, **layer),
        "head": lambda width: NodeHead(width, 3),
    }
    return shaken(registry.construct(DeeperGCN, {**arguments, **own}).double()).eval()


def peer_of(layer: GENConv, mlp_layers: int, learn: bool) -> nn.Module:
    peer = PygGENConv(DIM, DIM, t=0.5, learn_t=learn, num_layers=mlp_layers, bias=mlp_layers == 1).double()
    if learn:
        peer.aggr_module.t = layer.temperature
    ours, theirs = layer.mlp.state_dict(), peer.mlp.state_dict()
    peer.mlp.load_state_dict(dict(zip(theirs, ours.values(), strict=True)))
    return peer.eval()


@pytest.mark.parametrize(("mlp_layers", "learn"), [(1, True), (2, False)])
@pytest.mark.parametrize("tables", ["shared", "per_layer"])
def test_model_is_pygs_layers(mlp_layers: int, learn: bool, tables: str) -> None:
    width = 3 * DIM if tables == "per_layer" else DIM
    model, batch = build(width, mlp_layers=mlp_layers, learn=learn, edge_tables=tables), example_batch((6, 1, 5))
    h, e = model.encoder(batch)[0], model.edge_encoder(batch)
    for number, layer in enumerate(model.layers):
        edges = e[:, number * DIM : (number + 1) * DIM] if tables == "per_layer" else e
        peer = peer_of(layer, mlp_layers, learn)
        if number == 0:
            h = peer(h, batch.edge_index, edges)
        else:
            h = DeepGCNLayer(peer, model.norms[number - 1], nn.ReLU(), "res+").eval()(h, batch.edge_index, edges)
    torch.testing.assert_close(model(batch), model.head.mlp(model.norms[-1](h)))


def test_a_virtual_node_hears_and_speaks_between_layers() -> None:
    model, batch = build(virtual_node=True), example_batch((6, 1, 5))
    graph = batch.ragged.graph_id
    h, e = model.encoder(batch)[0], model.edge_encoder(batch)
    v = model.virtual.expand(3, -1)
    for number, layer in enumerate(model.layers):
        x = torch.relu(model.norms[number - 1](h)) if number else h
        if number:
            heard = v + torch.zeros(3, DIM, dtype=x.dtype).index_add(0, graph, x)
            v = nn.Sequential(*model.virtual_updates[number - 1])(heard)
        new = peer_of(layer, 2, learn=False)(x + v[graph], batch.edge_index, e)
        h = h + new if number else new
    torch.testing.assert_close(model(batch), model.head.mlp(model.norms[-1](h)))


def test_constant_weights_are_pygs_semi_gradient() -> None:
    layer = shaken(GENConv(DIM, DIM, temperature=0.5, constant_weights=True, bias=True).double()).eval()
    peer = PygGENConv(DIM, DIM, t=0.5, bias=True).double().eval()
    peer.aggr_module.semi_grad = True
    peer.mlp.load_state_dict(dict(zip(peer.mlp.state_dict(), layer.mlp.state_dict().values(), strict=True)))
    batch = example_batch((6, 1, 5), node_dim=DIM, edge_dim=DIM)
    ours, theirs = (batch.x.clone().requires_grad_() for _ in range(2))
    out, expected = layer(ours, batch.edge_attr, batch)[0], peer(theirs, batch.edge_index, batch.edge_attr)
    torch.testing.assert_close(out, expected)
    weight = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)
    (out * weight).sum().backward()
    (expected * weight).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad)


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"layers": 0}, "1 or more local layers are needed, received 0"),
        ({"edge_tables": "own"}, "received 'own'"),
        ({"virtual_node": True, "dim": 4}, "received 8 and 4 columns"),
    ],
)
def test_wrong_values_are_named(own: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(**own)


def test_wrong_numbers_of_maps_are_named() -> None:
    with pytest.raises(ValueError, match="mlp_layers must be one of 1, 2; received 3"):
        GENConv(4, 4, mlp_layers=3)
