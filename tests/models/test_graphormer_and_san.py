"""Whole models: parameter counts of published files from their parts, and what their layers share."""

from __future__ import annotations

import pytest
import torch

from graphbench.encoders.compose import EdgeEncoder, NodeEncoder
from graphbench.encoders.edge.type_dict import TypeDictEdge
from graphbench.encoders.node.type_dict import TypeDictNode
from graphbench.encoders.positional.graphormer_bias import GraphormerBias
from graphbench.heads.graph import GraphHead
from graphbench.heads.graphormer_graph import GraphormerGraphHead
from graphbench.layers.blocks.graphormer import GraphormerLayer
from graphbench.layers.blocks.san import SAN2Layer, SANLayer
from graphbench.models.gps_variants import Graphormer, SANTransformer
from graphbench.structures import GraphBatch, PairBlocks
from tests.contract import example_batch


def count(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def zinc_graphormer(layers: int = 12) -> Graphormer:
    """zinc-Graphormer.yaml."""
    bias = GraphormerBias(80, 8, num_spatial_types=20, num_in_degrees=64, num_out_degrees=64, edge_types=4)
    encoder = NodeEncoder(TypeDictNode(80, 28), {}, 80, batch_norm=False, batch_encoders={"GraphormerBias": bias})
    return Graphormer(
        encoder, 80, None, 80, layers, lambda: GraphormerLayer(80, 8), lambda dim: GraphormerGraphHead(dim, 1)
    )


def molecules() -> GraphBatch:
    batch = example_batch(node_types=(28,), edge_types=(4,), dtype=torch.float32)
    pairs = sum(size * size for size in batch.ragged.sizes)
    return batch.replace(pair_pe={"GraphormerBias.edge_types": torch.randint(0, 4, (pairs, 5)).byte()})


def test_parameters_of_zinc_graphormer() -> None:
    d, heads = 80, 8
    layer = 2 * 2 * d + 4 * (d * d + d) + 2 * (d * d + d)
    encodings = 2 * 64 * d + d + 21 * heads + 20 * heads * heads + 4 * heads + heads
    assert count(zinc_graphormer()) == 28 * d + encodings + 12 * layer + 2 * d + d + 1


def test_the_prediction_reads_the_token_of_its_graph() -> None:
    model, batch = zinc_graphormer(2).eval(), molecules()
    seen = {}
    model.head.lin.register_forward_pre_hook(lambda _, inputs: seen.update(rows=inputs[0]))
    model.layers[-1].register_forward_hook(lambda module, inputs, output: seen.update(h=output[0], batch=output[2]))
    assert model(batch).shape == (batch.num_graphs, 1)
    assert seen["batch"].ragged.sizes == tuple(size + 1 for size in batch.ragged.sizes)
    tokens = seen["batch"].ragged.ptr[:-1]
    torch.testing.assert_close(seen["rows"], model.head.norm(seen["h"][tokens]))


def test_distances_and_edges_reach_the_prediction() -> None:
    model, batch = zinc_graphormer(2).eval(), molecules()
    with torch.no_grad():
        for parameter in model.encoder.contextual["GraphormerBias"].bias.parameters():
            parameter.mul_(50)
    pred = model(batch)
    far = batch.replace(pairs=PairBlocks(torch.zeros_like(batch.pairs.distance), batch.ragged.sizes))
    other = batch.replace(pair_pe={name: value.clamp(max=1) for name, value in batch.pair_pe.items()})
    for changed in (far, other):
        assert (model(changed) - pred).abs().max() > 1e-4


@pytest.mark.parametrize("full_graph", [True, False])
@pytest.mark.parametrize("layer", [SANLayer, SAN2Layer])
def test_san_layers_share_one_feature_for_other_pairs(layer: type[SANLayer], full_graph: bool) -> None:
    d = 16
    model = SANTransformer(
        NodeEncoder(TypeDictNode(d, 28), {}, d, batch_norm=False),
        d,
        EdgeEncoder(TypeDictEdge(d, 4), {}, d, batch_norm=False),
        d,
        3,
        lambda: layer(d, 4, full_graph=full_graph),
        lambda dim: GraphHead(dim, 1, layers_post_mp=1),
    )
    per_layer = (7 if full_graph else 4) * d * d + (d * d + d) + (4 * d * d + 3 * d) + 4 * d + (layer is SAN2Layer)
    assert count(model) == 28 * d + 4 * d + full_graph * d + 3 * per_layer + d + 1
    if full_graph:
        batch = example_batch(node_types=(28,), edge_types=(4,), dtype=torch.float32)
        model(batch).sum().backward()
        assert len({id(each.fake_edge_emb.weight) for each in model.layers}) == 1
        assert model.layers[2].fake_edge_emb.weight.grad.abs().max() > 0
        copy = {name: value.clone() for name, value in model.state_dict().items()}
        model.load_state_dict(copy)
        assert len({id(each.fake_edge_emb.weight) for each in model.layers}) == 1
