"""TunedGNN against PyG's convolutions on a graph whose edges contain the self loops, as its release has them; ExpC."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.nn import GATConv, GCNConv, SAGEConv
from torch_geometric.utils import add_self_loops

from graphbench import registry
from graphbench.config import load_config
from graphbench.encoders.compose import EdgeEncoder, NodeEncoder
from graphbench.heads.node import NodeHead
from graphbench.layers.local.expc import ExpC
from graphbench.layers.local.gat import GAT
from graphbench.layers.local.gcn import GCN
from graphbench.layers.local.sage import SAGE
from graphbench.models.jknet import TunedGNN
from graphbench.preflight import describe
from graphbench.structures import GraphBatch
from tests.contract import example_batch, shaken
from tests.paths import ROOT

IN, DIM = 12, 8


def local(kind: str) -> Any:
    return {
        "gcn": GCN,
        "sage": lambda a, b: SAGE(a, b, self_loops=True),
        "gat": lambda a, b: GAT(a, b, heads=1, bias=False),
    }[kind]


def peer(kind: str, layer: Any) -> nn.Module:
    """PyG's layer with our parameters; the self loops are among its edges."""
    dim_in = (layer.lin_neighbor if kind == "sage" else layer.lin).in_features
    if kind == "sage":
        conv = SAGEConv(dim_in, DIM).double()
        conv.lin_l.load_state_dict(layer.lin_neighbor.state_dict())
        conv.lin_r.load_state_dict(layer.lin_self.state_dict())
    elif kind == "gat":
        conv = GATConv(dim_in, DIM, add_self_loops=False, bias=False).double()
        conv.lin.weight, conv.att_src, conv.att_dst = layer.lin.weight, layer.att_source, layer.att_target
    else:
        conv = GCNConv(dim_in, DIM).double()
        conv.lin.weight, conv.bias = layer.lin.weight, layer.bias
    return conv


def build(kind: str, **own: Any) -> Any:
    arguments = {
        "encoder": NodeEncoder(None, {}, IN, batch_norm=False),
        "dim_encoded": IN,
        "edge_encoder": None,
        "dim": DIM,
        "layers": 3,
        "local": local(kind),
        "head": lambda width: NodeHead(width, 3),
    }
    return shaken(registry.construct(TunedGNN, {**arguments, **own}).double()).eval()


@pytest.mark.parametrize("kind", ["gcn", "sage", "gat"])
@pytest.mark.parametrize(
    "own",
    [
        {"jump": "last", "batchnorm": False},
        {"jump": "last", "batchnorm": True, "residual": True},
        {"jump": "sum", "layer_norm": True, "residual": True, "input_map": True},
    ],
)
def test_model_is_pygs_layers(kind: str, own: dict[str, Any]) -> None:
    model, batch = build(kind, **own), example_batch((7, 1, 5))
    edges, _ = add_self_loops(batch.edge_index, num_nodes=batch.num_nodes)
    x, total = batch.x, 0.0
    if "input_map" in own:
        x = model.lin_in(x)
    for number, (layer, norm) in enumerate(zip(model.layers, model.norms)):
        new = peer(kind, layer)(x, edges)
        if "residual" in own:
            new = new + model.residuals[number](x)
        if "layer_norm" in own:
            new = F.layer_norm(new, (DIM,), norm.weight, norm.bias)
        elif own["batchnorm"]:
            new = F.batch_norm(new, norm.running_mean, norm.running_var, norm.weight, norm.bias)
        x = new.relu()
        total = total + x
    torch.testing.assert_close(model(batch), model.head.mlp(total if own["jump"] == "sum" else x))


def expanded(layer: ExpC, center: Tensor, x: Tensor) -> Tensor:
    """One message, from vectors."""
    a = torch.tanh(layer.expand.weight @ torch.cat([center, x]) + layer.expand.bias)
    z = torch.cat([each * x for each in a])
    for linear in (layer.mlp[0], layer.mlp[2]):
        z = (linear.weight @ z + linear.bias).relu()
    return z


@pytest.mark.parametrize("coefficients", [1, 3])
def test_expc_is_its_sum(coefficients: int) -> None:
    batch: GraphBatch = example_batch((6, 1))
    layer = shaken(ExpC(12, 5, coefficients=coefficients).double())
    for e in (batch.edge_attr, None):
        rows = [expanded(layer, h, h) for h in batch.x]
        for number, (s, t) in enumerate(batch.edge_index.t().tolist()):
            rows[t] = rows[t] + expanded(layer, batch.x[t], batch.x[s] if e is None else batch.x[s] + e[number])
        new, kept = layer(batch.x, e, batch)
        torch.testing.assert_close(new, torch.stack(rows))
        assert kept is e


def test_every_layer_has_its_edge_table() -> None:
    """Layer l reads columns l * dim .. (l + 1) * dim of the edge states."""
    batch = example_batch((6,), edge_dim=2 * IN)
    context = {
        "encoder": NodeEncoder(None, {}, IN, batch_norm=False),
        "dim_encoded": IN,
        "edge_encoder": EdgeEncoder(None, {}, 2 * IN, batch_norm=False),
        "dim": IN,
        "layers": 2,
        "local": ExpC,
        "head": lambda width: NodeHead(width, 3),
        "act": "identity",
        "batchnorm": False,
    }
    model = registry.construct(TunedGNN, {**context, "edge_tables": "per_layer"}).double()
    first, _ = model.layers[0](batch.x, batch.edge_attr[:, :IN], batch)
    second, _ = model.layers[1](first, batch.edge_attr[:, IN:], batch)
    torch.testing.assert_close(model(batch), model.head.mlp(torch.cat([first, second], 1)))
    with pytest.raises(ValueError, match="one of shared, per_layer, per_layer_and_first; received 'own'"):
        registry.construct(TunedGNN, {**context, "edge_tables": "own"})


@pytest.mark.parametrize(
    ("name", "convolution", "width", "depth", "surroundings"),
    [
        ("gcn-cora", GCNConv, 512, 3, ()),
        ("sage-squirrel", SAGEConv, 256, 3, (nn.Linear, nn.BatchNorm1d)),
        ("gat-citeseer", partial(GATConv, bias=False), 256, 3, (nn.Linear,)),
    ],
)
def test_count_is_that_of_what_the_release_trains(
    name: str, convolution: Any, width: int, depth: int, surroundings: tuple[Any, ...]
) -> None:
    features, classes = {"cora": (1433, 7), "squirrel": (2089, 5), "citeseer": (3703, 6)}[name.split("-")[1]]
    parts = [nn.Linear(width, classes)]
    for number in range(depth):
        reads = width if number else features
        parts.append(convolution(reads, width))
        parts += [part(width) if part is nn.BatchNorm1d else part(reads, width) for part in surroundings]
    expected = sum(each.numel() for part in parts for each in part.parameters())
    assert describe(load_config(ROOT / f"configs/nodes/tuned-{name}.yaml")).params == expected
