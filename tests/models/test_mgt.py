"""MGT graph by graph from its equations, in float64, with dense matrices."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from graphbench.config import load_config
from graphbench.errors import UserError
from graphbench.factory.model import build_model
from graphbench.models.soft_clusters import cluster_loss
from graphbench.structures import DataInfo, GraphBatch
from graphbench.transforms.algorithms.cache import with_outputs
from graphbench.transforms.wavelets import Wavelets
from tests.contract import shaken
from tests.models.ego_net_graphs import graphs_of, normed
from tests.paths import ROOT

DIM, HEADS, SIZES = 8, 2, (9, 1, 12, 2)
SMALL = {
    "gt.dim_hidden": DIM,
    "gnn.dim_inner": DIM,
    "gt.n_heads": HEADS,
    "gt.MGT.cluster_heads": HEADS,
    "gt.MGT.clusters": 3,
    "posenc_WavePE.dim_pe": 4,
}


def build(**own: Any) -> Any:
    info = DataInfo("molecules", "graph", "classification_multilabel", 9, 3, 10, "ap", maximize=True)
    overrides = [str(each) for pair in {**SMALL, **own}.items() for each in pair]
    torch.manual_seed(0)
    return shaken(build_model(load_config(ROOT / "configs/lrgb/mgt-peptides-func.yaml", overrides), info).double())


def molecules() -> Any:
    store, wavelets = graphs_of(SIZES), Wavelets([*range(1, 9)])
    return with_outputs(store, {"WavePE": wavelets}, {"WavePE": wavelets(store)})


def gated(layer: Any, x: Tensor, e: Tensor, p: Tensor, ends: Tensor) -> tuple[Tensor, Tensor]:
    """GatedGCN with a gate of distances, from dense incidences, without residuals."""
    source, target = ends
    logit = layer.gate_edge(e) + layer.gate_target(x)[target] + layer.gate_source(x)[source]
    apart = (p[source] - p[target]).square().sum(1, keepdim=True)
    first, _, second, _ = layer.pe_gate
    weight = logit.sigmoid() * second(first(apart).relu()).sigmoid()
    at_target = torch.nn.functional.one_hot(target, len(x)).T.to(x)
    mean = at_target @ (weight * layer.lin_neighbor(x)[source]) / (at_target @ weight + 1e-6)
    return normed(layer.node_norm, layer.lin_self(x) + mean).relu(), logit


def attention(layer: Any, x: Tensor) -> Tensor:
    """Softmax attention of all rows to each other."""
    q, k, v = (part.unflatten(1, (HEADS, -1)).transpose(0, 1) for part in layer.qkv(x).chunk(3, dim=1))
    weights = (q @ k.mT / q.shape[2] ** 0.5).softmax(2)
    return layer.out((weights @ v).transpose(0, 1).flatten(1))


def feed_forward(module: Any, x: Tensor) -> Tensor:
    return module.lin_out(module.lin_in(x).relu())


def network(module: Any, x: Tensor, e: Tensor, p: Tensor, ends: Tensor) -> Tensor:
    first, logit = gated(module.first, x, e, p, ends)
    first = normed(module.norms[0], first)
    second, _ = gated(module.second, first, normed(module.first.edge_norm, logit).relu(), p, ends)
    return module.lin(torch.cat([first, normed(module.norms[1], second)], 1)).relu()


def plain(model: Any, graph: GraphBatch) -> Tensor:
    """Prediction of one graph."""
    h, state = model.encoder(graph)
    e, p, ends = model.edge_encoder(graph), state.state.stable_encoding, graph.edge_index
    for block in model.layers:
        local, everybody = block.branches
        new, logit = gated(local.part, h, e, p, ends)
        e = e + normed(local.part.edge_norm, logit).relu()
        h = normed(local.norm, h + new) + normed(everybody.norm, h + attention(everybody.part, h))
        h = normed(block.norm_out, h + feed_forward(block.feed_forward, h))
    share = network(model.assign, h, e, p, ends).softmax(1)
    clusters = share.T @ network(model.embed, h, e, p, ends)
    x = clusters
    for layer in model.cluster_layers:
        x = normed(layer.norm_attention, x + attention(layer.attention, x))
        x = normed(layer.norm_ffn, x + feed_forward(layer.feed_forward, x))
    return model.head.mlp(model.lin(torch.cat([x, clusters], 1)).sum(0))


def test_the_model_is_its_equations() -> None:
    model, store = build().eval(), molecules()
    with torch.no_grad():
        expected = torch.stack([plain(model, store.gather([graph])) for graph in range(len(SIZES))])
        torch.testing.assert_close(model(store.gather(range(len(SIZES)))), expected, rtol=1e-10, atol=1e-10)
    assert model.auxiliary_loss is None


def test_positions_are_a_map_of_normalised_wavelets() -> None:
    model, batch = build().eval(), molecules().gather([0, 2])
    encoder = model.encoder
    h, after = encoder(batch)
    wave = next(each for each in encoder.modules() if type(each).__name__ == "WavePE")
    position = wave.lin_position(normed(wave.raw_norm, batch.pe["WavePE.wavelets"].double()))
    torch.testing.assert_close(after.state.stable_encoding, position)
    features = encoder.features(batch)
    torch.testing.assert_close(h, wave.lin(torch.cat([features, position], 1)))


def test_the_loss_of_clusters_is_its_equation() -> None:
    batch = molecules().gather(range(len(SIZES)))
    share = torch.randn(batch.num_nodes, 3, dtype=torch.float64).softmax(1).requires_grad_()
    adjacency = torch.zeros(batch.num_nodes, batch.num_nodes, dtype=torch.float64)
    adjacency[tuple(batch.edge_index)] = 1
    same = batch.ragged.graph_id[:, None] == batch.ragged.graph_id
    apart = ((adjacency - share @ share.T) * same).norm() / same.sum()
    expected = apart - (share * share.log()).sum(1).mean()
    received = cluster_loss(share, batch)
    torch.testing.assert_close(received, expected, rtol=1e-12, atol=0)
    gradients = [torch.autograd.grad(each, share)[0] for each in (received, expected)]
    torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-12)


def test_training_leaves_the_loss_with_its_weight() -> None:
    batch, found = molecules().gather(range(len(SIZES))), []
    for weight in (0.5, 2.0, 0.0):
        model = build(**{"gt.MGT.cluster_loss": weight, "gt.dropout": 0, "gt.attn_dropout": 0}).train()
        model(batch)
        found.append(model.auxiliary_loss)
    torch.testing.assert_close(found[1], 4 * found[0])
    assert found[2] is None


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"gt.MGT.clusters": 0}, "clusters must be at least 1, received 0"),
        ({"gt.MGT.cluster_heads": 3}, "dim must be a multiple of heads, received dim=8, heads=3"),
        ({"dataset.edge_encoder": False}, "needs edge states|edge states as wide as nodes, received no edge encoder"),
        ({"gt.dim_edge": 4}, "edge states as wide as nodes, received 4 and 8 columns"),
        ({"posenc_WavePE.scales": "[]"}, "scales must name at least one scale"),
        ({"posenc_WavePE.dim_pe": 0}, "dim_pe must be at least 1, received 0"),
    ],
)
def test_wrong_values_are_named(own: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        build(**own)
