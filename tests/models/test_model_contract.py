"""The contract of every registered model, with layers of this package inside."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from graphbench import registry
from graphbench.data.store import GraphStore
from graphbench.encoders.compose import EdgeEncoder, NodeEncoder
from graphbench.encoders.edge.linear import LinearEdge
from graphbench.encoders.node.linear import LinearNode
from graphbench.layers.gps import GPSBlock
from graphbench.structures import EdgeSet, GraphBatch, HopNeighbors, Ragged
from tests.joined import joined

DIM, HOPS, RING = 16, 5, 5
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
OF_NUMBERS = {"CRaWl", "DeepGraph"}
"""Models that are invariant in distribution only."""
CASES = [
    (model, head, own, local, attention)
    for model in registry.names("models")
    for own in OWN.get(model, [{}])
    for head, local, attention in (("graph", "GINE", "Transformer"), ("node", "GCN", "SGFormer"))
    if head == "graph" or model not in OF_GRAPHS
]
every_model = pytest.mark.parametrize(("model", "head", "own", "local", "attention"), CASES)


def _build(model, head, own, local, attention):
    columns = EDGE_COLUMNS.get(model, DIM)
    make_local = registry.lookup("layers/local", local)
    make_attention = registry.lookup("layers/attention", attention)

    def new_local(dim_in, dim_out):
        return registry.construct(make_local, {"dim_in": dim_in, "dim_out": dim_out, "dim_edge": columns})

    def new_attention():
        return registry.construct(make_attention, {"dim": DIM, "heads": 2})

    def new_head(width):
        context = {"dim_in": width, "out_dim": 3, "layers_post_mp": 1, "pooling": "mean"}
        return registry.construct(registry.lookup("heads", head), context)

    context = {
        "encoder": NodeEncoder(LinearNode(DIM, 4), {}, DIM, batch_norm=False),
        "dim_encoded": DIM,
        "edge_encoder": EdgeEncoder(LinearEdge(columns, 2), {}, columns, batch_norm=False) if local == "GINE" else None,
        "dim": DIM,
        "dim_edge": columns,
        "layers": 2,
        "layers_pre_mp": 1,
        "block": lambda: GPSBlock(DIM, [new_local(DIM, DIM), new_attention()], norm="layer"),
        "local": new_local,
        "attention": new_attention,
        "head": new_head,
        "batchnorm": True,
        "dropout": 0.0,
        "act": "gelu",
    }
    return registry.construct(registry.lookup("models", model), {**context, **own}).double().eval()


def _graph(size, edges, seed):
    generator = torch.Generator().manual_seed(seed)
    draw = partial(torch.randn, generator=generator, dtype=torch.float64)
    source, target = torch.randint(0, max(size, 1), (2, edges), generator=generator)
    loops = source == target
    edge_index = torch.stack([source[~loops], target[~loops]])
    x, edge_attr = draw(size, 4), draw(edge_index.shape[1], 2)
    store = GraphStore.from_arrays([size], [edge_index.shape[1]], edge_index)
    arguments = {"Patches": [4], "PatchEdges": [4], "EgoNetEdges": [HOPS]}
    arguments |= {"UndirectedEdges": [], "Rings": [RING], "RingEdges": [RING]}
    arguments |= {name: list(MOTIFS.values()) for name in ("Motifs", "MotifNodes")}
    coarsening, partition, hops = LEVELS.values()
    arguments |= {"Hierarchy": [coarsening, partition], "HierarchyPairs": [coarsening, partition, hops]}
    sets = {name: registry.lookup("transforms", name)(*each)(store) for name, each in arguments.items()}
    edge_sets = {name: EdgeSet(out["index"].long(), out["ptr"], out["attr"].long()) for name, out in sets.items()}
    return GraphBatch(
        Ragged.from_sizes([size]),
        edge_index,
        x=x,
        edge_attr=edge_attr,
        edge_sets=edge_sets,
        hops=_hops(size, edge_index),
        pe={"RandomWalkSE.landing": draw(size, 4)},
    )


def _hops(size, edge_index):
    """Nodes within the hops that the models here read."""
    lists = registry.lookup("transforms", "HopNeighbors")(HOPS)(
        GraphStore.from_arrays([size], [edge_index.shape[1]], edge_index)
    )
    return HopNeighbors(lists["row_ptr"], lists["col"].long(), lists["hop"])


def _renumbered(graph, nodes, edges):
    """The pairs of the edge sets with other numbers of nodes and edges."""
    members, inside, nets, pairs = (
        graph.edge_sets[name] for name in ("Patches", "PatchEdges", "EgoNetEdges", "UndirectedEdges")
    )
    facts = inside.attr.clone()
    facts[:, 0] = edges.argsort()[facts[:, 0]]
    return {
        "Patches": EdgeSet(nodes.argsort()[members.index], members.ptr, members.attr),
        "PatchEdges": EdgeSet(nodes.argsort()[inside.index], inside.ptr, facts),
        "EgoNetEdges": EdgeSet(nodes.argsort()[nets.index], nets.ptr, edges.argsort()[nets.attr]),
        "UndirectedEdges": EdgeSet(nodes.argsort()[pairs.index], pairs.ptr, edges.argsort()[pairs.attr]),
        **{
            name: EdgeSet(nodes.argsort()[each.index], each.ptr, each.attr)
            for name, each in graph.edge_sets.items()
            if "Ring" in name or "Hierarchy" in name
        },
    }


GRAPHS = [_graph(7, 12, 1), _graph(1, 0, 2), _graph(0, 0, 3), _graph(5, 8, 4), _graph(2, 0, 5)]
TOGETHER, BACKWARDS = joined(GRAPHS), joined(GRAPHS[::-1])


def _rows(head, batch):
    return batch.num_nodes if head == "node" else batch.num_graphs


@every_model
def test_finite_values_of_a_graph_do_not_depend_on_its_batch(model, head, own, local, attention):
    built = _build(model, head, own, local, attention)
    alone = [built(graph) for graph in GRAPHS]
    for graph, pred in zip(GRAPHS, alone):
        assert pred.shape == (_rows(head, graph), 3)
        assert torch.isfinite(pred).all()
    torch.testing.assert_close(built(TOGETHER), torch.cat(alone), rtol=0, atol=1e-11)
    torch.testing.assert_close(built(BACKWARDS), torch.cat(alone[::-1]), rtol=0, atol=1e-11)


@pytest.mark.parametrize(
    ("model", "head", "own", "local", "attention"), [case for case in CASES if case[0] not in OF_NUMBERS]
)
def test_the_numbering_of_nodes_does_not_matter(model, head, own, local, attention):
    built = _build(model, head, own, local, attention)
    graph = GRAPHS[0]
    nodes, edges = torch.randperm(graph.num_nodes), torch.randperm(graph.num_edges)
    edge_index = nodes.argsort()[graph.edge_index][:, edges]
    permuted = GraphBatch(
        graph.ragged,
        edge_index,
        x=graph.x[nodes],
        edge_attr=graph.edge_attr[edges],
        edge_sets=_renumbered(graph, nodes, edges),
        hops=_hops(graph.num_nodes, edge_index),
        pe={name: values[nodes] for name, values in graph.pe.items()},
    )
    expected = built(graph)
    torch.testing.assert_close(built(permuted), expected[nodes] if head == "node" else expected, rtol=0, atol=1e-11)


@every_model
def test_gradients_reach_everything_and_the_batch_stays_as_it_was(model, head, own, local, attention):
    built = _build(model, head, own, local, attention).train()
    batch = joined(GRAPHS)
    before = [tensor.clone() for tensor in (batch.x, batch.edge_attr, batch.edge_index)]
    pred = built(batch)
    (pred * torch.randn_like(pred)).sum().backward()
    for key, parameter in built.named_parameters():
        assert parameter.grad is not None, key
        assert torch.isfinite(parameter.grad).all(), key
        assert parameter.grad.abs().sum() > 0, key
    for tensor, copy in zip((batch.x, batch.edge_attr, batch.edge_index), before):
        assert torch.equal(tensor, copy)


@every_model
def test_state_dict_round_trip(model, head, own, local, attention):
    built, other = (_build(model, head, own, local, attention) for _ in range(2))
    other.load_state_dict(built.state_dict())
    assert torch.equal(built(TOGETHER), other(TOGETHER))
