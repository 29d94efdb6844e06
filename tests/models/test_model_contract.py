"""The contract of every registered model, with layers of this package inside."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from graphbench import registry
from graphbench.structures import EdgeSet
from graphbench.testing import (
    check_batch_independence,
    check_gradients,
    check_model,
    check_outputs,
    check_permutation,
    check_state_dict,
    check_untouched,
)
from graphbench.testing.graphs import permuted
from graphbench.testing.models import DIM, example_of, model_subject, new_model, parts

HOPS, RING = 5, 5
MOTIFS = {"cycles": 5, "paths": 5, "stars": 3, "hops": 1, "walk": 0}
LEVELS = {"coarsening": [0.6, 0.5], "partition": "rcm", "hops": 2}
EDGE_COLUMNS = {"SUN": 4 * (DIM + 2 + DIM)}
"""Where a model reads other edge states than DIM columns."""
OWN = {
    "OGBGNN": [{}, {"virtual_node": True, "local_residual": True, "jump": "cat"}],
    "CIN": [{"longest_ring": RING}, {"longest_ring": RING, "pool": "add"}],
    "CRaWl": [{"steps": 6, "eval_steps": 6, "window": 3, "kernel": 3, "start_ratio": ratio} for ratio in (1.0, 0.5)],
    "DeepGraph": [{**MOTIFS, "heads": 2, "redundancy": 2}],
    "DeeperGCN": [{}, {"virtual_node": True}],
    "GatedGCNLSPE": [{"positions": 4}, {"positions": 4, "unit_positions": False}],
    "GNNAK": [
        {"hops": HOPS, "hop_dim": 4},
        {"hops": HOPS, "hop_dim": 4, "centroid": False, "combine": "add", "pool": "mean", "inner_layers": 2},
    ],
    "GraphMixer": [{"patches": 4, "mixer": mixer} for mixer in ("mlp", "hadamard", "standard")],
    "HSGT": [{**LEVELS, "heads": 2}],
    "MGT": [{"clusters": 3, "distance_gates": False}],
    "TwoBranch": [
        {},
        {"aggregate": "cat", "attention_norm": True, "attention_residual": "mix", "attention_act": True},
        {"aggregate": "cat", "attention_jump": "cat"},
        {"local_stem": True, "local_norm": True, "local_residual": True, "local_init": True},
    ],
}
OF_GRAPHS = {"CIN", "DeepGraph", "GNNAK", "GraphMixer", "MGT", "SUN"}
"""Models whose heads read one row per graph."""
CASES = [
    (model, head, own, local, attention)
    for model in registry.names("models")
    for own in OWN.get(model, [{}])
    for head, local, attention in (("graph", "GINE", "Transformer"), ("node", "GCN", "SGFormer"))
    if head == "graph" or model not in OF_GRAPHS
]
every_model = pytest.mark.parametrize(("model", "head", "own", "local", "attention"), CASES)


def _parts(model, head, local, attention):
    return parts(head, local, attention, edges=local == "GINE", dim_edge=EDGE_COLUMNS.get(model, DIM))


def _renumbered(batch, nodes, edges):
    """The one graph with other numbers of nodes and edges, in the edge sets that name these, too."""
    number, sets = edges.argsort(), {}
    other = permuted(batch, nodes, edges)
    for name, each in other.edge_sets.items():
        facts = each.attr
        if name in ("EgoNetEdges", "UndirectedEdges"):
            facts = number[facts]
        elif name == "PatchEdges":
            facts = torch.cat([number[facts[:, :1]], facts[:, 1:]], 1)
        sets[name] = EdgeSet(each.index, each.ptr, facts)
    return other.replace(edge_sets=sets)


@every_model
def test_model(model, head, own, local, attention):
    component = registry.lookup("models", model)
    context = _parts(model, head, local, attention)
    whole = head == "graph" and own == OWN.get(model, [{}])[0]
    if whole:
        check_model(component, context=context, **own)
    graphs = example_of(component, **own)
    subject = model_subject(partial(new_model, component, context, **own), graphs)
    if component.permutation_equivariant:
        check_permutation(subject, graphs((7,)), 1e-11, renumbered=_renumbered)
    check_batch_independence(subject, graphs(), 1e-11)
    check_gradients(subject, graphs(), vectors=True)
    if not whole:  # corner cases and the rest are about the model, once
        check_outputs(subject, graphs())
        check_untouched(subject, graphs())
        check_state_dict(subject, graphs())
