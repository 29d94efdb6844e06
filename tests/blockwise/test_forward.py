"""Prediction block by block: equal to one forward pass over the whole graph, or refused."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import pytest
import torch
from torch import nn

from graphbench import registry
from graphbench.blockwise import forward
from graphbench.blockwise.forward import Blockwise
from graphbench.blockwise.stored import StoredBlocks
from graphbench.data.store import GraphStore
from graphbench.encoders.compose import EdgeEncoder, NodeEncoder
from graphbench.heads.graph import GraphHead
from graphbench.heads.node import NodeHead
from graphbench.layers.attention.difformer import DIFFormer
from graphbench.layers.attention.geco.layer import GECO
from graphbench.layers.attention.nodeformer import NodeFormer
from graphbench.layers.attention.performer import Performer
from graphbench.layers.attention.sgformer import SGFormer
from graphbench.layers.attention.transformer import Transformer
from graphbench.layers.contract import BlockwiseAttention
from graphbench.layers.local.gcn import GCN
from graphbench.models.decoupled import APPNP, GPRGNN, SGC, SIGN, PreFrame
from graphbench.models.pre_layers import LayerSettings, pre_layers
from graphbench.models.two_branch import TwoBranch
from graphbench.structures import GraphBatch, SparseRows
from tests.contract import shaken
from tests.data.large.large_graphs import one_graph
from tests.layers.test_contract import components, make

DIM = 12
BLOCKS = {
    "blocks of nodes": {"max_nodes": 7, "max_edges": 10**6},
    "blocks of edges": {"max_nodes": 10**6, "max_edges": 11},  # hubs have more
    "one block": {},
    "on disk": {"max_nodes": 13, "in_memory": 0},
}
ALONG_EDGES = [name for name in components("layers/local") if name != "SPN"]
"""Local layers that read edges; SPN reads distances of pairs, and says that it has none."""

EVERY_BLOCKS = pytest.mark.parametrize("blocks", BLOCKS.values(), ids=BLOCKS)


@pytest.fixture(scope="module")
def store():
    return small_store()


def small_store() -> GraphStore:
    made = one_graph()
    return made.replace(
        x=made.x.double() / 10,
        edge_attr=made.edge_attr.double() / 100,
        pe={name: value.double() for name, value in made.pe.items()},
        edge_pe={},
    )


class FromColumn(nn.Module):
    """A positional encoder: a map of a stored encoding."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(1, 3)

    def forward(self, batch: GraphBatch):
        return self.lin(batch.pe["PE.values"])


class OfEdges(nn.Module):
    """An encoder that reads edges."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(1, DIM)

    def forward(self, batch: GraphBatch):
        return self.lin(batch.edge_attr)


def two_branch(head=NodeHead, layers=2, attention=True, local=GCN, edges=False, **options):
    def make_local(dim_in, dim_out):
        return local(dim_in, dim_out) if local is GCN else make("layers/local", local, dim_in=dim_in, dim_out=dim_out)

    arguments = {
        "encoder": NodeEncoder(None, {"PE": FromColumn()}, 3, True) if edges else NodeEncoder(None, {}, 2, False),
        "dim_encoded": 3 if edges else 2,
        "edge_encoder": EdgeEncoder(OfEdges(), {}, DIM, True) if edges else None,
        "dim": DIM,
        "layers": layers,
        "attention": (lambda: SGFormer(DIM, 2)) if attention else None,
        "local": None if local is None else make_local,
        "head": lambda width: head(width, 4),
    }
    model = registry.construct(TwoBranch, {**arguments, **options})
    return shaken(model.double()).eval()


LARGE = {"attention_norm": True, "attention_act": True, "attention_residual": "mean", "local_norm": True}
LARGE |= {"local_stem": True, "local_residual": True, "dropout": 0.3}
VARIANTS = {
    "medium": {"graph_weight": 0.3, "dropout": 0.5},
    "large": LARGE,
    "large, initial maps, side by side": {**LARGE, "local_init": True, "aggregate": "cat"},
    "mix": {"attention_residual": "mix", "alpha": 0.2, "attention_norm": True, "local_norm": True},
    "attention only": {"local": None},
    "all attention layers": {"local": None, "attention_jump": "cat"},
    "local only": {"attention": False, "local_layers": 3},
    "edges": {"edges": True, **LARGE, "local": "CustomGatedGCN"},
    "deep head": {"head": lambda width, out: NodeHead(width, out, layers_post_mp=2)},
}


@EVERY_BLOCKS
@pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS)
def test_two_branch_equals_its_forward_pass(store, options, blocks):
    model = two_branch(**options)
    with torch.no_grad():
        expected = model(store.gather([0]))
        found = model.forward_blockwise(StoredBlocks(store, **blocks))
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-10)


@EVERY_BLOCKS
def test_attention_along_edges_in_a_branch(store, blocks):
    model = two_branch(**LARGE)
    for number in range(2):
        model.attention_branch.layers[number] = make("layers/attention", "ETransformer").eval()
    with torch.no_grad():
        expected = model(store.gather([0]))
        found = model.forward_blockwise(StoredBlocks(store, **blocks))
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-10)


@EVERY_BLOCKS
@pytest.mark.parametrize("name", ALONG_EDGES)
def test_every_local_layer_works_in_blocks(store, name, blocks):
    layer = make("layers/local", name).eval()
    graph, batch = StoredBlocks(store, **blocks), store.gather([0])
    encoder, edge_encoder = nn.Linear(2, DIM).double().eval(), nn.Linear(1, DIM).double().eval()
    with torch.no_grad():
        h, e = layer(encoder(batch.x), edge_encoder(batch.edge_attr), batch)
        blockwise = Blockwise(graph, nn.Module().eval())
        h0 = blockwise.nodes(lambda each: (encoder(each.x), each))
        e0 = blockwise.edges(lambda each: edge_encoder(each.edge_attr))
        new, e_new = blockwise.messages(layer, h0, e0, then=lambda rows: rows)
    torch.testing.assert_close(new.tensor, h, rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(e_new.tensor, e[graph.incoming.edge], rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("norm", ["sym", "row", "none"])
@pytest.mark.parametrize("self_loops", [True, False])
def test_degrees_are_those_of_the_whole_graph(store, norm, self_loops):
    layer = shaken(GCN(2, 3, norm=norm, self_loops=self_loops).double()).eval()
    with torch.no_grad():
        blockwise = Blockwise(StoredBlocks(store, max_nodes=4), layer)
        h0 = blockwise.nodes(lambda each: (each.x, each))
        new, e = blockwise.messages(layer, h0, None, then=lambda rows: rows)
        torch.testing.assert_close(new.tensor, layer(store.gather([0]).x, None, store.gather([0]))[0])
    assert e is None


def test_weights_in_another_type(store):
    model = two_branch(**LARGE).float()
    with torch.no_grad():
        found = model.forward_blockwise(StoredBlocks(store, max_nodes=9).cast(torch.float32))
        expected = model(store.replace(x=store.x.float()).gather([0]))
    assert found.dtype is torch.float32
    torch.testing.assert_close(found, expected)


def test_blocks_keep_their_bounds(store):
    graph = StoredBlocks(store, max_nodes=5, max_edges=20)
    assert (graph.bounds[0], graph.bounds[-1]) == (0, 60)
    spans = enumerate(pairwise(graph.bounds))
    sizes = [(last - first, *graph.neighborhood(block).edges) for block, (first, last) in spans]
    assert all(1 <= nodes <= 5 and (last - first <= 20 or nodes == 1) for nodes, first, last in sizes)
    assert max(last - first for _, first, last in sizes) > 20


class Contextual(nn.Module):
    """Reads its input and leaves something for later layers."""

    def forward(self, h, batch):
        return h, batch.with_state(extra={"seen": h})


class Token(nn.Module):
    """Puts a node in front."""

    def forward(self, batch):
        return torch.cat([batch.x[:1], batch.x]), batch


class FirstRow(nn.Module):
    """A head that answers once."""

    def forward(self, h, batch):
        return h[:1]


class ReadsEdges(nn.Module):
    """A positional encoder that passes messages."""

    def forward(self, batch):
        return torch.zeros(batch.num_nodes, 3).index_add(0, batch.edge_index[1], torch.ones(batch.num_edges, 3))


def test_what_needs_the_whole_graph_is_refused(store):
    graph = StoredBlocks(store, max_nodes=9)
    model = two_branch()
    with pytest.raises(ValueError, match="call eval"):
        model.train().forward_blockwise(graph)
    model = two_branch()
    model.attention_branch.layers[0] = Transformer(DIM, heads=2).double().eval()
    with pytest.raises(ValueError, match="Transformer reads the graph as a whole"):
        model.forward_blockwise(graph)
    model = two_branch()
    model.encoder.contextual["Context"] = Contextual().eval()
    with pytest.raises(ValueError, match="Context leaves something with the whole graph for the layers"):
        model.forward_blockwise(graph)
    model = two_branch()
    model.encoder = Token().eval()
    with pytest.raises(ValueError, match="Token gave 10 rows for 9 nodes"):
        model.forward_blockwise(graph)
    model = two_branch(edges=True)
    model.encoder.positional["PE"] = ReadsEdges().eval()
    with pytest.raises(ValueError, match="NodeEncoder reads the graph as a whole"):
        model.forward_blockwise(graph)
    model = two_branch(head=GraphHead)
    with pytest.raises(ValueError, match="GraphHead reads the graph as a whole"):
        model.forward_blockwise(graph)
    model = two_branch()
    model.head = FirstRow().eval()
    with pytest.raises(ValueError, match="a head gave 1 rows for 9 nodes"):
        model.forward_blockwise(graph)


def test_layers_that_claim_to_work_in_blocks_do(store):
    """The contract of every :class:`BlockwiseAttention`."""
    names = [
        name
        for name in components("layers/attention")
        if issubclass(registry.lookup("layers/attention", name), BlockwiseAttention)
    ]
    assert {"SGFormer", "DIFFormer", "NodeFormer", "Performer"} <= set(names)
    for name in names:
        assert_sums_suffice(make("layers/attention", name).eval(), store)


def assert_sums_suffice(layer, store):
    """The sums of parts, added, and the rows of the term along edges give the rows of a forward pass."""
    h, batch, sizes = torch.randn(60, DIM, dtype=torch.float64), store.gather([0]), [1, 20, 39]
    with torch.no_grad():
        expected = layer(h, None, batch)
        parts = h.split(sizes)
        along = layer.along_edges(h, batch).split(sizes) if layer.reads_edges else [None] * 3
        first, *rest = (layer.reduce_nodes(part) for part in parts)
        for each in rest:
            first = first + each
        found = torch.cat([layer.apply_summary(part, first, edges) for part, edges in zip(parts, along)])
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


WITH_EDGES = {
    "DIFFormer": lambda: DIFFormer(DIM, 2),
    "DIFFormer, mixed, input as values": lambda: DIFFormer(DIM, 3, graph_weight=0.3, use_weight=False),
    "DIFFormer, no edges": lambda: DIFFormer(DIM, 2, use_graph=False),
    "NodeFormer": lambda: NodeFormer(DIM, 2, bias_order=1),
    "NodeFormer, mean": lambda: NodeFormer(DIM, 2, bias_order=1, combine="mean", use_weight=False),
    "NodeFormer, no edges": lambda: NodeFormer(DIM, 2, bias_order=0),
    "Performer": lambda: Performer(DIM, 2, dim_head=8),
}


@EVERY_BLOCKS
@pytest.mark.parametrize("attention", WITH_EDGES.values(), ids=WITH_EDGES)
def test_attention_through_sums_and_along_edges(store, attention, blocks):
    model = two_branch(**LARGE)
    for number in range(2):
        layer = shaken(attention().double()).eval()
        with torch.no_grad():  # keys of very different lengths, so that every block has its own stabilising maximum
            layer.k.weight.mul_(5)
        model.attention_branch.layers[number] = layer
    with torch.no_grad():
        expected = model(store.gather([0]))
        found = model.forward_blockwise(StoredBlocks(store, **blocks))
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


CONVOLUTIONS = {
    "GECO": {},
    "three convolutions": {"order": 3, "local_block": "none", "omega": 10.0},
    "attention nearby, filters of length 1": {"local_block": "gat", "filter_norm": "l1"},
    "a fixed order": {"permutation": "static", "filter_norm": "l2", "permutation_seed": 3},
    "mean over orders": {"eval_permutations": 2, "filter_norm": "channels", "permutation_seed": 3},
}


@EVERY_BLOCKS
@pytest.mark.parametrize("options", CONVOLUTIONS.values(), ids=CONVOLUTIONS)
def test_convolutions_over_all_nodes(store, options, blocks, monkeypatch):
    """Some channels at a time: of 60 nodes, five of the twelve."""
    monkeypatch.setattr(forward, "CELLS", 300)
    model = two_branch(**LARGE)
    for number in range(2):
        model.attention_branch.layers[number] = shaken(GECO(DIM, **options).double()).eval()
    with torch.no_grad():
        expected = model(store.gather([0]))
        found = model.forward_blockwise(StoredBlocks(store, **blocks))
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9 * float(expected.abs().max()))


def test_a_channel_of_what_convolutions_read_is_contiguous(store, monkeypatch):
    """Of files larger than memory everything would be read for each channel otherwise."""
    layer = shaken(GECO(DIM).double()).eval()
    read = []

    def mix_channels(near, taps, channels, device):
        read.extend(part[:, channels].T.is_contiguous() for part in (*near.chunk(3, 1), *taps.chunk(2, 1)))
        return GECO.mix_channels(layer, near, taps, channels, device)

    monkeypatch.setattr(layer, "mix_channels", mix_channels)
    monkeypatch.setattr(forward, "CELLS", 1)
    model = two_branch(**LARGE)
    model.attention_branch.layers[0] = layer
    with torch.no_grad():
        model.forward_blockwise(StoredBlocks(store, **BLOCKS["on disk"]))
    assert read == [True] * 5 * DIM


@pytest.mark.parametrize(
    ("attention", "message"),
    [
        (lambda: GECO(DIM, local_block="conv-3"), "GECO reads the graph as a whole"),
        (lambda: DIFFormer(DIM, 2, kernel="sigmoid"), "DIFFormer reads the graph as a whole"),
        (lambda: NodeFormer(DIM, 2, bias_order=2), "NodeFormer reads the graph as a whole"),
    ],
    ids=["along the order", "all pairs", "two hops"],
)
def test_forms_of_an_attention_that_need_the_whole_graph_are_refused(store, attention, message):
    model = two_branch()
    model.attention_branch.layers[1] = attention().double().eval()
    with pytest.raises(ValueError, match=message):
        model.forward_blockwise(StoredBlocks(store, max_nodes=9))


DECOUPLED = {
    "SGC": partial(SGC, hops=3),
    "SGC, no hops": partial(SGC, hops=0),
    "SIGN": partial(SIGN, hops=3, dropout=0.3),
    "SIGN, no hops": partial(SIGN, hops=0),
    "SIGN, joint": partial(SIGN, hops=2, joint=True, self_loops=False),
    "APPNP": partial(APPNP, hops=4, alpha=0.3),
    "APPNP of predictions": partial(APPNP, hops=4, alpha=0.3, predict_first=True),
    "GPRGNN": partial(GPRGNN, hops=4, dropout=0.3),
}


@EVERY_BLOCKS
@pytest.mark.parametrize("sparse", [True, False], ids=["sparse", "dense"])
@pytest.mark.parametrize("pre_mp", [0, 2])
@pytest.mark.parametrize("make_model", DECOUPLED.values(), ids=DECOUPLED)
def test_decoupled_models_equal_their_forward_pass(store, make_model, pre_mp, sparse, blocks):
    x = store.x.masked_fill(torch.rand(store.x.shape, generator=torch.Generator().manual_seed(0)) < 0.4, 0.0)
    graph = store.replace(x=SparseRows.of(x) if sparse else x)
    pre = pre_layers(2, DIM, pre_mp, LayerSettings(dropout=0.5))
    frame = PreFrame(NodeEncoder(None, {}, 2, False), 2, DIM, lambda width: NodeHead(width, 4, layers_post_mp=2), pre)
    model = shaken(make_model(frame).double()).eval()
    with torch.no_grad():
        expected = model(store.replace(x=x).gather([0]))
        found = model.forward_blockwise(StoredBlocks(graph, **blocks))
    assert float((expected - expected[0]).abs().max()) > 1e-3, "all nodes alike: nothing to compare"
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
