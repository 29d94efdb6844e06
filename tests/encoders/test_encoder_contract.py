"""The contract of every registered encoder: whatever lands in these namespaces is tested the day it lands."""

from __future__ import annotations

from functools import partial

import pytest

from graphbench import registry
from graphbench.encoders.contract import BatchEncoder, PositionalEncoder
from graphbench.testing import (
    check_batch_independence,
    check_encoder,
    check_gradients,
    check_permutation,
    example_batch,
)
from graphbench.testing.encoders import encoder_subject, example_of, with_states

NAMESPACES = ("encoders/node", "encoders/edge", "encoders/positional")
EVERY = [(namespace, name) for namespace in NAMESPACES for name in registry.names(namespace)]
DIM = 8
CONTEXT = {
    "dim": DIM,
    "dim_pe": DIM,
    "act": "relu",
    "heads": 2,
    "num_types": 2,
    "edge_types": 2,
    "max_nodes": 12,
    "max_freqs": 4,
    "times": [1, 2, 3, 4, 5],
    "scales": [0.5, 1.0, 4.0],
    "layers": 2,
    "post_layers": 2,
    "n_heads": 2,
    "num_spatial_types": 3,
    "num_in_degrees": 12,
    "num_out_degrees": 12,
}
# Columns that an encoder insists on; the others read what there is.
NODE_IN = {"ASTNode": 3, "VOCNode": 14, "COCONode": 14}
EDGE_IN = {"ASTEdge": 2, "PPAEdge": 7, "VOCEdge": 2, "COCOEdge": 2}
OWN = {
    "AtomTable": [{"num_types": 174}],
    "LapPE": [{"model": "DeepSet"}, {"model": "Transformer"}],
    "RWSE": [{"model": "mlp"}, {"model": "linear"}],
    "EquivStableRWSE": [{"raw_norm_type": "BatchNorm"}],
    "ElstaticSE": [{"times": list(range(10))}],
    "SignNet": [{"model": "MLP", "phi_hidden_dim": 6}, {"model": "DeepSet", "phi_hidden_dim": 6}],
    "ERN": [{"model": model, "er_dim": 6} for model in ("Linear", "DeepSet", "Transformer")],
    "GraphormerBias": [{"use_graph_token": True}, {"use_graph_token": False}],
    "WavePE": [{"raw_norm_type": "none"}, {"raw_norm_type": "BatchNorm"}],
    **{name: [{}, {"standardize": True}] for name in ("VOCNode", "COCONode", "VOCEdge", "COCOEdge")},
}
CASES = [(namespace, name, own) for namespace, name in EVERY for own in OWN.get(name, [{}])]


@pytest.mark.parametrize(("namespace", "name", "own"), CASES)
def test_encoder(namespace, name, own):
    encoder = registry.lookup(namespace, name)
    context = {**CONTEXT, "node_in": NODE_IN.get(name, 9), "edge_in": EDGE_IN.get(name, 3)}
    types = {"node_types": (2,) * context["node_in"], "edge_types": (2,) * context["edge_in"]}
    graphs = None if issubclass(encoder, PositionalEncoder) else partial(example_batch, **types)
    arguments = {**CONTEXT, **own}
    check_encoder(encoder, example=graphs, context=context, **arguments)
    graphs = graphs or example_of(encoder, context=context, **arguments)
    graphs = with_states(graphs, DIM) if issubclass(encoder, BatchEncoder) else graphs
    subject, batch = encoder_subject(encoder, example=graphs, context=context, **arguments), graphs()
    check_batch_independence(subject, batch, 1e-12)
    check_permutation(subject, batch, 1e-12)
    check_gradients(subject, batch, vectors=True)


@pytest.mark.parametrize("name", registry.names("encoders/positional"))
def test_every_positional_encoder_reads_what_a_transform_of_its_level_leaves(name):
    kind = registry.lookup("encoders/positional", name)
    assert kind.registered_name == name, "the outputs of transforms are named after the encoder; it has no second name"
    if kind.transform is not None and not issubclass(kind, BatchEncoder):
        transform = registry.lookup("transforms", kind.transform)
        assert getattr(transform, "level", "node") == kind.level
