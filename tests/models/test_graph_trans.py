"""GraphTrans and OGB's baselines against plain formulas with the same weights, and torch's encoder."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.utils import degree, scatter

from graphbench import registry
from graphbench.encoders.compose import EdgeEncoder, NodeEncoder
from graphbench.encoders.edge.linear import LinearEdge
from graphbench.encoders.node.linear import LinearNode
from graphbench.heads.graph import GraphHead
from graphbench.layers.local.ogb import OGBGCN, OGBGIN
from graphbench.models.graph_trans import GraphTrans
from graphbench.models.virtual_node import OGBGNN
from graphbench.structures import GraphBatch
from tests.contract import example_batch, shaken

DIM, LAYERS = 8, 3
SIZES = (5, 1, 4)


def build(model: type[nn.Module], layer: str, dim_edge: int = DIM, **own: Any) -> Any:
    local = {"OGBGCN": OGBGCN, "OGBGIN": OGBGIN}[layer]
    arguments = {
        "encoder": NodeEncoder(LinearNode(DIM, 12), {}, DIM, batch_norm=False),
        "dim_encoded": DIM,
        "edge_encoder": EdgeEncoder(LinearEdge(dim_edge, 12), {}, dim_edge, batch_norm=False),
        "dim": DIM,
        "layers": LAYERS,
        "local": lambda dim_in, dim_out: local(dim_in, dim_out, dim_edge=DIM),
        "head": lambda width: GraphHead(width, 3, pooling="mean"),
    }
    return shaken(registry.construct(model, {**arguments, **own}).double()).eval()


def gcn(layer: OGBGCN, h: Tensor, e: Tensor, batch: GraphBatch) -> Tensor:
    source, target = batch.edge_index
    x = h @ layer.lin.weight.t() + layer.lin.bias
    degrees = degree(source, batch.num_nodes, dtype=torch.float64) + 1
    weight = (degrees[source] * degrees[target]) ** -0.5
    messages = weight[:, None] * torch.relu(x[source] + e)
    return scatter(messages, target, dim_size=batch.num_nodes) + torch.relu(x + layer.root) / degrees[:, None]


def gin(layer: OGBGIN, h: Tensor, e: Tensor, batch: GraphBatch) -> Tensor:
    source, target = batch.edge_index
    messages = scatter(torch.relu(h[source] + e), target, dim_size=batch.num_nodes)
    return layer.mlp((1 + layer.eps) * h + messages)


def message_passing(model: Any, batch: GraphBatch, *, per_layer: bool, residual: bool) -> Tensor:
    """The released stack, graph numbers looked up node by node."""
    stack = model.stack
    h, e = model.encoder(batch)[0], model.edge_encoder(batch)
    graph = batch.ragged.graph_id
    v = torch.zeros(batch.num_graphs, DIM, dtype=torch.float64) if stack.virtual is None else stack.virtual[[0] * 3]
    for number, layer in enumerate(stack.layers):
        x = h + v[graph]
        edges = e[:, number * DIM : number * DIM + DIM] if per_layer else e
        h = (gcn if isinstance(layer, OGBGCN) else gin)(layer, x, edges, batch)
        h = stack.norms[number](h) if number < len(stack.norms) else h
        h = h if number == LAYERS - 1 else torch.relu(h)
        h = h + x if residual else h
        if stack.virtual is not None and number < LAYERS - 1:
            new = stack.virtual_updates[number](v + scatter(x, graph, dim_size=batch.num_graphs))
            v = v + new if residual else new
    return h


@pytest.mark.parametrize("layer", ["OGBGCN", "OGBGIN"])
@pytest.mark.parametrize("virtual_node", [False, True])
@pytest.mark.parametrize(("tables", "residual"), [("shared", False), ("per_layer", True)])
def test_ogb_gnn_is_its_formula(layer: str, virtual_node: bool, tables: str, residual: bool) -> None:
    per_layer = tables == "per_layer"
    own = {"virtual_node": virtual_node, "edge_tables": tables, "local_residual": residual}
    model = build(OGBGNN, layer, dim_edge=LAYERS * DIM if per_layer else DIM, **own)
    batch = example_batch(SIZES)
    h = message_passing(model, batch, per_layer=per_layer, residual=residual)
    pooled = scatter(h, batch.ragged.graph_id, reduce="mean")
    torch.testing.assert_close(model(batch), model.head.mlp(pooled))


def encoder(model: GraphTrans, x: Tensor) -> Tensor:
    """torch's encoder with the weights of the model's, on the nodes (n, dim) of one graph."""
    for block in model.layers:
        peer = nn.TransformerEncoderLayer(DIM, 2, 32, dropout=0.0, batch_first=True).double()
        pairs = {
            "self_attn.in_proj_": block.attention.qkv,
            "self_attn.out_proj.": block.attention.out,
            "linear1.": block.feed_forward.lin_in,
            "linear2.": block.feed_forward.lin_out,
            "norm1.": block.norm_attention,
            "norm2.": block.norm_ffn,
        }
        state = {f"{a}{part}": b.state_dict()[part] for a, b in pairs.items() for part in ("weight", "bias")}
        peer.load_state_dict(state)
        x = peer(x[None])[0]
    return model.norm_out(x)


@pytest.mark.parametrize("readout", ["nodes", "token"])
def test_graph_trans_is_message_passing_and_torchs_encoder(readout: str) -> None:
    own = {"transformer_layers": 2, "transformer_heads": 2, "transformer_ffn_dim": 32, "norm_input": True}
    model = build(GraphTrans, "OGBGCN", readout=readout, virtual_node=True, **own)
    batch = example_batch(SIZES)
    h = model.lin(message_passing(model, batch, per_layer=False, residual=False))
    expected = []
    for graph in h.split(SIZES):
        if readout == "token":
            expected.append(encoder(model, model.norm_in(torch.cat([model.token, graph])))[0])
        else:
            expected.append(encoder(model, model.norm_in(graph)).mean(0))
    torch.testing.assert_close(model(batch), model.head.mlp(torch.stack(expected)))


def test_a_token_stands_for_an_empty_graph() -> None:
    model = build(GraphTrans, "OGBGIN", readout="token", transformer_layers=1)
    batch = example_batch((3, 0))
    prediction = model(batch)
    assert prediction.shape == (2, 3)
    assert torch.isfinite(prediction).all()


def test_encoded_nodes_are_read_beside_the_last_layer() -> None:
    model = build(OGBGNN, "OGBGCN", jump="cat", norm_last=False)
    batch = example_batch(SIZES)
    h = torch.cat([model.encoder(batch)[0], message_passing(model, batch, per_layer=False, residual=False)], dim=1)
    torch.testing.assert_close(model(batch), model.head.mlp(scatter(h, batch.ragged.graph_id, reduce="mean")))


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"layers": 0}, "1 or more local layers are needed, received 0"),
        ({"local": None}, "received 3 of none"),
        ({"jump": "sum"}, "jump must be one of last, cat; received 'sum'"),
        ({"edge_tables": "own"}, "edge_tables must be one of shared, per_layer, per_layer_and_first; received 'own'"),
        ({"dim": 6, "virtual_node": True}, "received 8 and 6 columns"),
    ],
)
def test_wrong_values_are_named(own: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(OGBGNN, "OGBGCN", **own)


def test_an_unknown_readout_is_named() -> None:
    with pytest.raises(ValueError, match="readout must be one of nodes, token; received 'cls'"):
        build(GraphTrans, "OGBGCN", readout="cls")
