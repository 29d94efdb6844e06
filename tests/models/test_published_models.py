"""Complete GraphGPS models: recorded outputs and gradients, and every published parameter count within our parts."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from graphbench import registry
from graphbench.encoders.compose import EdgeEncoder, NodeEncoder
from graphbench.layers.gps import GPSBlock
from graphbench.models.stacked import GPSModel
from graphbench.structures import GraphBatch, Ragged
from tests.models.recorded import GPS_NAMES, close, load, with_packed_attention

LAP_PE = {"model": "DeepSet", "layers": 2, "max_freqs": 10, "dim_pe": 16}
RWSE = {"model": "Linear", "raw_norm_type": "BatchNorm"}


def gps(
    *,
    nodes,
    edges,
    positional,
    local,
    dim,
    layers,
    heads,
    head,
    out_dim,
    layers_post_mp=1,
    pooling="mean",
    atoms=5,
    node_in=0,
    edge_in=0,
    node_types=0,
    edge_types=0,
):
    """A GraphGPS model from its parts, with GraphGPS's names for them."""
    encodings = {
        name: registry.construct(registry.lookup("encoders/positional", name), own) for name, own in positional.items()
    }
    width = dim - sum(own["dim_pe"] for own in positional.values())
    context = {"dim": width, "node_in": node_in, "num_types": node_types, "ogb_atom_vocabulary": atoms}
    features = registry.construct(registry.lookup("encoders/node", nodes), context)
    context = {"dim": dim, "edge_in": edge_in, "num_types": edge_types}
    edge_features = registry.construct(registry.lookup("encoders/edge", edges), context)
    local_context = {"dim_in": dim, "dim_out": dim, "dim_edge": dim, "dropout": 0.0, "act": "relu", "heads": heads}
    make_local = partial(registry.construct, registry.lookup("layers/local", local), local_context)
    attention = partial(
        registry.construct, registry.lookup("layers/attention", "Transformer"), {"dim": dim, "heads": heads}
    )
    head_context = {"out_dim": out_dim, "layers_post_mp": layers_post_mp, "pooling": pooling, "act": "relu"}
    return GPSModel(
        NodeEncoder(features, encodings, dim, batch_norm=False),
        dim,
        EdgeEncoder(edge_features, {}, dim, batch_norm=False),
        dim,
        layers,
        lambda: GPSBlock(dim, [make_local(), attention()], dropout=0.0, act="relu", norm="batch"),
        lambda width: registry.construct(registry.lookup("heads", head), {"dim_in": width, **head_context}),
    )


PATTERN = dict(
    nodes="LinearNode",
    edges="DummyEdge",
    positional={"LapPE": LAP_PE},
    local="CustomGatedGCN",
    heads=4,
    layers_post_mp=3,
)
ZINC = dict(
    nodes="TypeDictNode",
    edges="TypeDictEdge",
    positional={"RWSE": {**RWSE, "dim_pe": 28, "times": list(range(1, 21))}},
    local="GINE",
    heads=4,
    head="san_graph",
    pooling="add",
    out_dim=1,
    node_types=28,
    edge_types=4,
)
PEPTIDES = dict(
    nodes="Atom", edges="Bond", positional={"LapPE": LAP_PE}, local="CustomGatedGCN", heads=4, head="graph", out_dim=10
)
SUPERPIXELS = dict(
    nodes="LinearNode",
    edges="LinearEdge",
    positional={"LapPE": LAP_PE},
    local="CustomGatedGCN",
    heads=8,
    dim=96,
    layers=4,
    head="inductive_node",
    layers_post_mp=3,
    node_in=14,
    edge_in=2,
)
IMAGES = dict(
    nodes="LinearNode",
    edges="LinearEdge",
    positional={"LapPE": {**LAP_PE, "dim_pe": 8, "max_freqs": 8}},
    local="CustomGatedGCN",
    heads=4,
    dim=52,
    layers=3,
    head="graph",
    out_dim=10,
    edge_in=1,
)
MOLECULES = dict(
    nodes="Atom",
    edges="Bond",
    positional={"RWSE": {**RWSE, "dim_pe": 20, "times": list(range(1, 17))}},
    local="CustomGatedGCN",
    head="san_graph",
    out_dim=1,
    atoms=4,
)

# Published by Rampasek et al. (https://arxiv.org/abs/2205.12454) with the hyper-parameters of
# https://github.com/rampasek/GraphGPS/tree/main/configs/GPS; atoms=4 because ogb counted four chirality classes then.
PUBLISHED = {
    "ZINC": (423_717, {**ZINC, "dim": 64, "layers": 10}),
    "Peptides-func": (504_362, {**PEPTIDES, "dim": 96, "layers": 4, "atoms": 4}),
    "MNIST": (115_394, {**IMAGES, "node_in": 3, "layers_post_mp": 3}),
    "CIFAR10": (112_726, {**IMAGES, "node_in": 5, "layers_post_mp": 2}),
    "CLUSTER": (
        502_054,
        {**PATTERN, "dim": 48, "layers": 16, "head": "inductive_node", "out_dim": 6, "node_in": 7, "heads": 8},
    ),
    "PascalVOC-SP": (510_453, {**SUPERPIXELS, "out_dim": 21}),
    "COCO-SP": (516_273, {**SUPERPIXELS, "out_dim": 81}),
    "PCQM4Mv2 small": (6_152_001, {**MOLECULES, "dim": 304, "layers": 5, "heads": 4}),
    "PCQM4Mv2 medium": (19_414_641, {**MOLECULES, "dim": 384, "layers": 10, "heads": 16}),
    "PCQM4Mv2 deep": (13_807_345, {**MOLECULES, "dim": 256, "layers": 16, "heads": 8}),
}


def _count(model):
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameter_counts_are_the_published_ones(name):
    expected, arguments = PUBLISHED[name]
    with torch.device("meta"):
        assert _count(gps(**arguments)) == expected


def test_the_fifth_chirality_class_is_one_row_more():
    with torch.device("meta"):
        four, five = (_count(gps(**PEPTIDES, dim=96, layers=4, atoms=atoms)) for atoms in (4, 5))
    assert five - four == 96 - 16


# ---- recorded models -------------------------------------------------------------------------------------------------

RECORDED = {
    "model_zinc_GPS_RWSE": {**ZINC, "dim": 40, "layers": 2},
    "model_peptides_func_GPS": {**PEPTIDES, "dim": 32, "layers": 2},
    "model_pattern_GPS": {**PATTERN, "dim": 32, "layers": 2, "head": "inductive_node", "out_dim": 1, "node_in": 3},
}


def _ours(key):
    """Recorded name -> ours."""
    for old, new in {
        "encoder.node.": "encoder.features.",
        "encoder.edge.": "edge_encoder.features.",
        **GPS_NAMES,
    }.items():
        key = key.replace(old, new)
    return key


@pytest.mark.parametrize("name", RECORDED)
def test_outputs_and_gradients_equal_graphgps(golden, name):
    recorded = golden(f"graphgps/{name}")
    model = gps(**RECORDED[name]).double().eval()
    (encoding,) = RECORDED[name]["positional"]

    def ours(key):
        key = _ours(key.replace("encoder.pe.", f"encoder.positional.{encoding}."))
        return key.replace("head.lin.", "head.mlp.lin.") if RECORDED[name]["head"] != "san_graph" else key

    load(model, with_packed_attention(recorded), ours)
    assert _count(model) == recorded["config"]["parameters"]
    if encoding == "RWSE":
        pe = {"RWSE.landing": recorded["in/stats_RWSE"]}
    else:
        pe = {"LapPE.eigvecs": recorded["in/eigvecs"], "LapPE.eigvals": recorded["in/eigvals"]}
    batch = GraphBatch(
        Ragged.from_sizes(recorded["in/ptr"].diff().tolist()),
        recorded["in/edge_index"],
        x=recorded["in/x"],
        edge_attr=recorded.get("in/edge_attr"),
        pe=pe,
    )
    (h, _), e = model.encoder(batch), model.edge_encoder(batch)
    close(h, recorded["out/after_encoder"], "after the encoder")
    for i, block in enumerate(model.layers):
        h, e, _ = block(h, e, batch)
        close(h, recorded[f"out/after_layer{i}"], f"after layer {i}")
    pred = model(batch)
    close(pred, recorded["out/pred"], "prediction")
    (pred * recorded["in/grad_seed.pred"]).sum().backward()
    parameters = dict(model.named_parameters())
    names = recorded["config"]["grad_norm_names"]
    assert len(names) + len(recorded["config"]["no_gradient"]) == len(parameters)
    for key, expected in zip(names, recorded["grad/norms"], strict=True):
        assert float(parameters[ours(key)].grad.norm()) == pytest.approx(float(expected), rel=1e-7), key
    for key in recorded["config"]["no_gradient"]:
        assert parameters[ours(key)].grad is None, key
