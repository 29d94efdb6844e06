"""Stacked models block by block: every layer of the registry gives the numbers of one forward pass, or is refused."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import partial

import pytest
import torch
from torch import nn

from graphbench import registry
from graphbench.blockwise.stored import StoredBlocks
from graphbench.encoders.compose import EdgeEncoder, NodeEncoder
from graphbench.encoders.edge.linear import LinearEdge
from graphbench.encoders.expander import ExpanderEdges
from graphbench.encoders.node.linear import LinearNode
from graphbench.heads.node import NodeHead
from graphbench.layers.attention.exphormer import Exphormer
from graphbench.layers.attention.sgformer import SGFormer
from graphbench.layers.contract import LocalLayer
from graphbench.layers.gps import GPSBlock
from graphbench.layers.local.gated_gcn import CustomGatedGCN
from graphbench.layers.local.gcn import GCN
from graphbench.layers.single import SingleBlock
from graphbench.models.gnn import GNN
from graphbench.models.pre_layers import LayerSettings, pre_layers
from graphbench.models.stacked import GPSModel
from graphbench.ops.propagate import propagate
from tests.blockwise.test_forward import ALONG_EDGES
from tests.contract import shaken
from tests.data.large.large_graphs import one_graph
from tests.layers.test_contract import components, make
from tests.paths import ROOT

DIM, NODES, EDGES = 12, 30, 160
BLOCKS = {
    "single nodes": {"max_nodes": 1},
    "blocks of nodes": {"max_nodes": 7, "max_edges": 10**6},
    "blocks of edges": {"max_nodes": 10**6, "max_edges": 11},  # hubs have more
    "more room than nodes": {"max_nodes": NODES + 1, "max_edges": EDGES + 1},
    "on disk": {"max_nodes": 11, "in_memory": 0},
}


ALL_CUTS = {"CustomGatedGCN", "GCN", "GAT"}
"""Local layers that CI cuts in all ways, and in float32: with edge states, without, with a softmax over neighbours."""


def every_local_layer(first, *others):
    """All local layers, cut in the first way in float64; in other ways, and in float32, CI takes some of them."""
    more = (pytest.mark.slow, pytest.mark.exhaustive)
    cuts = [(first, torch.float64), (first, torch.float32), *((name, torch.float64) for name in others)]
    cases = [
        pytest.param(name, BLOCKS[cut], dtype, id=f"{name}-{cut}-{dtype}", marks=() if seen else more)
        for name in ALONG_EDGES
        for i, (cut, dtype) in enumerate(cuts)
        for seen in [i == 0 or name in ALL_CUTS]
    ]
    return pytest.mark.parametrize(("name", "blocks", "dtype"), cases)


TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-6}


@pytest.fixture(scope="module")
def store():
    made = one_graph(NODES, EDGES)
    return made.replace(
        x=made.x.double() / 10,
        edge_attr=made.edge_attr.double() / 100,
        pe={name: value.double() for name, value in made.pe.items()},
        edge_pe={name: value.double() / 10 for name, value in made.edge_pe.items()},
    )


class FromColumn(nn.Module):
    """A positional encoder: a map of a stored encoding of nodes or edges."""

    def __init__(self, group, name):
        super().__init__()
        self.group, self.name, self.lin = group, name, nn.Linear(1, 4)

    def forward(self, batch):
        return self.lin(getattr(batch, self.group)[self.name])


def encoders(edges=True):
    """Features and an encoding beside them, for nodes and, where asked for, for edges."""
    nodes = NodeEncoder(LinearNode(DIM - 4, 2), {"PE": FromColumn("pe", "PE.values")}, DIM, batch_norm=True)
    if not edges:
        return {"encoder": nodes, "dim_encoded": DIM, "edge_encoder": None}
    encoding = {"EPE": FromColumn("edge_pe", "EPE.values")}
    return {
        "encoder": nodes,
        "dim_encoded": DIM,
        "edge_encoder": EdgeEncoder(LinearEdge(DIM - 4, 1), encoding, DIM, batch_norm=True),
    }


def head(width):
    return NodeHead(width, 4, layers_post_mp=2)


def stacked(block, layers=2, **options):
    options = {**encoders(), "pre_mp": pre_layers(DIM, DIM, 1, LayerSettings()), **options}
    return shaken(GPSModel(dim=DIM, layers=layers, block=block, head=head, **options)).eval()


def gnn(local, edges=True, pre_mp=0, stage_type="stack", **settings):
    post = LayerSettings(**settings)
    options = {"pre_mp": pre_layers(DIM, DIM, pre_mp, post), "stage_type": stage_type, "post": post}

    def conv(dim_in, dim_out):
        return make("layers/local", local, dim_in=dim_in, dim_out=dim_out)

    return shaken(GNN(**encoders(edges), dim=DIM, layers=2, local=conv, head=head, **options).double()).eval()


def gps(*parts, norm="batch", **options):
    """Blocks of these parts, each the name of a layer or None."""

    def part(name):
        if name is None:
            return None
        return make("layers/local" if name in registry.names("layers/local") else "layers/attention", name)

    return stacked(lambda: GPSBlock(DIM, [part(each) for each in parts], norm=norm, dropout=0.3, **options))


def assert_equal(model, store, blocks, dtype=torch.float64):
    """Block by block the model gives what its forward pass gives, up to rounding."""
    model, graph = model.to(dtype), StoredBlocks(store, **blocks).cast(dtype)
    batch = store.gather([0])
    cast = {name: {key: each.to(dtype) for key, each in getattr(batch, name).items()} for name in ("pe", "edge_pe")}
    batch = batch.replace(x=batch.x.to(dtype), edge_attr=batch.edge_attr.to(dtype), **cast)
    with torch.no_grad():
        expected, found = model(batch), model.forward_blockwise(graph)
    assert found.dtype is dtype
    assert found.shape == expected.shape == (NODES, 4)
    assert float((expected - expected[0]).abs().max()) > 1e-3, "all nodes alike: nothing to compare"
    torch.testing.assert_close(found, expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@every_local_layer("blocks of nodes", "single nodes", "more room than nodes")
def test_every_local_layer_in_a_gnn(store, name, blocks, dtype):
    assert_equal(gnn(name, pre_mp=1, act="gelu"), store, blocks, dtype)


@every_local_layer("blocks of edges", "on disk")
def test_every_local_layer_beside_attention(store, name, blocks, dtype):
    assert_equal(gps(name, "SGFormer"), store, blocks, dtype)


@pytest.mark.parametrize("stage", ["stack", "skipsum", "skipconcat"])
@pytest.mark.parametrize("l2norm", [True, False])
def test_stages_of_a_gnn(store, stage, l2norm):
    assert_equal(gnn("CustomGatedGCN", stage_type=stage, l2norm=l2norm, act="gelu"), store, BLOCKS["blocks of nodes"])


def test_a_gnn_without_edge_states_and_without_layers_before(store):
    assert_equal(gnn("GCN", edges=False, batchnorm=False), store, {"max_nodes": 7})


STACKS = {
    "two local layers": lambda: gps("CustomGatedGCN", "GINE"),
    "one left out": lambda: gps("GAT", None),
    "all left out": lambda: gps(None, None),
    "attention alone": lambda: gps(None, "SGFormer"),
    "three parts, no norm": lambda: gps("SGFormer", "CustomGatedGCN", "ETransformer", norm="none"),
    "one layer and no more": lambda: stacked(lambda: SingleBlock(DIM, CustomGatedGCN(DIM, DIM, dim_edge=DIM))),
    "one attention and no more": lambda: stacked(lambda: SingleBlock(DIM, SGFormer(DIM, 2))),
    "nothing": lambda: stacked(nn.Identity, layers=0),
    # The pairs keep the states that the edges had before the first block.
    "edges as pairs": lambda: stacked(
        lambda: GPSBlock(DIM, [CustomGatedGCN(DIM, DIM, dim_edge=DIM), Exphormer(DIM, 3, dim_edge=DIM)]),
        prepare=ExpanderEdges(DIM, DIM, expander=False),
    ),
}


@pytest.mark.parametrize("blocks", ["single nodes", "on disk"])
@pytest.mark.parametrize("make_model", STACKS.values(), ids=STACKS)
def test_stacks(store, make_model, blocks):
    assert_equal(make_model(), store, BLOCKS[blocks])


EXACT = {"SGFormer", "DIFFormer", "Performer", "ETransformer", "Exphormer"}, {"gcnconv", "gineconv", "gatedgcnconv"}
REFUSED = {"Transformer", "BiasedTransformer", "NodeFormer", "BigBird"}, {"PerformerLayer", "GraphormerLayer"}


def refusal(model, graph):
    """What the model says against working in blocks; None where it does."""
    try:
        model.forward_blockwise(graph)
    except ValueError as error:
        return str(error)
    return None


@pytest.mark.parametrize("namespace", ["layers/attention", "layers/blocks"])
def test_every_other_layer_is_exact_or_refused_by_name(store, namespace):
    exact, refused = set(), set()
    for name in components(namespace):
        made = [make(namespace, name) for _ in range(2)]
        left = iter(GPSBlock(DIM, [each]) for each in made) if namespace == "layers/attention" else iter(made)
        model = stacked(partial(next, left)).double()
        with torch.no_grad():
            message = refusal(model, StoredBlocks(store, max_nodes=7))
        if message is None:
            assert_equal(model, store, {"max_nodes": 7})
            exact.add(name)
        else:
            assert re.search(r"reads (the graph as a whole|hop distances|what the transform)", message)
            # In a block it may be a part of the layer.
            assert type(made[0]).__name__ in message or namespace == "layers/blocks"
            refused.add(name)
    known = ("layers/attention", "layers/blocks").index(namespace)
    assert exact >= EXACT[known]
    assert refused >= REFUSED[known]


@pytest.mark.parametrize(("norm", "name"), [("layer", "GraphLayerNorm"), ("graph", "GraphNorm")])
def test_norms_over_the_graph_are_refused(store, norm, name):
    with pytest.raises(ValueError, match=f"{name} reads the graph as a whole"):
        gps("GCN", None, norm=norm).double().forward_blockwise(StoredBlocks(store, max_nodes=7))


def test_pairs_besides_the_edges_are_refused(store):
    graph = StoredBlocks(store, max_nodes=7)
    for options in ({"expander": True}, {"expander": False, "num_virtual_nodes": 1}):
        model = stacked(lambda: GPSBlock(DIM, [Exphormer(DIM, 3, dim_edge=DIM)]))
        model.prepare = ExpanderEdges(DIM, DIM, **options).eval()
        with pytest.raises(ValueError, match="expander edges and virtual nodes are not cut into blocks"):
            model.double().forward_blockwise(graph)
    model = stacked(lambda: GPSBlock(DIM, [GCN(DIM, DIM)], edges=["expander"])).double()
    with pytest.raises(ValueError, match="GCN reads the edge set 'expander'"):
        model.forward_blockwise(graph)


class TwoHops(LocalLayer):
    """A local layer of one's own that reads nodes two edges away."""

    def forward(self, h, e, batch):
        return propagate(batch.two_hop_adjacency(direct=False), h), e


def test_edges_that_are_not_at_hand_are_refused(store):
    with pytest.raises(ValueError, match="TwoHops reads the graph as a whole"):
        stacked(lambda: SingleBlock(DIM, TwoHops())).double().forward_blockwise(StoredBlocks(store, max_nodes=7))


def test_a_part_of_a_graph_does_not_say_how_large_the_graph_is(store):
    near = StoredBlocks(store, max_nodes=7).neighborhood(1).batch
    assert near.num_nodes > 7
    assert near.ragged.device == near.device
    for name in ("num_graphs", "graph_id", "max_size", "sizes", "ptr", "size_tensor", "buckets"):
        with pytest.raises(ValueError, match="only a part of the graph is at hand"):
            getattr(near.ragged, name)


MEASURED = """
import sys
from pathlib import Path
import torch
from graphbench.benchmarks.measuring import AnonymousMemory
from graphbench.data.large.generator import power_law
from graphbench.blockwise.stored import StoredBlocks
from graphbench.encoders.compose import NodeEncoder
from graphbench.heads.node import NodeHead
from graphbench.layers.local.gat import GAT
from graphbench.models.gnn import GNN

folder, nodes = Path(sys.argv[1]), int(sys.argv[2])
store = power_law(folder, nodes, 2 * nodes, 0, columns=16)
model = GNN(NodeEncoder(None, {}, 16, False), 16, None, 64, 2, GAT, lambda dim: NodeHead(dim, 10)).eval()
graph = StoredBlocks(store, max_nodes=2**12, max_edges=2**14, in_memory=0)
with torch.no_grad(), AnonymousMemory() as before:
    pass
with torch.no_grad(), AnonymousMemory() as memory:
    model.forward_blockwise(graph)
print((memory.peak - before.peak) / 2**20)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads peak memory from /proc")
def test_memory_does_not_grow_with_the_graph(tmp_path):
    """MiB above what the process held before, each in a fresh process, without the pages of mapped files.

    How many of those stay resident is the system's choice and differs between machines.
    """
    peak = {}
    for nodes in (50_000, 400_000):
        command = [sys.executable, "-c", MEASURED, str(tmp_path / f"{nodes}"), str(nodes)]
        done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
        peak[nodes] = float(done.stdout)
    state = 350_000 * 64 * 4 / 2**20  # the additional nodes of one layer: nothing of that size may be held
    assert peak[400_000] - peak[50_000] < state
