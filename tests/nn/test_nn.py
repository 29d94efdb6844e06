"""Layers on plain tensors: equal to those inside our models, batch-independent, cached, and the page of examples."""

from __future__ import annotations

import copy
import gc
import pickle
import re
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.nn import GINConv
from torch_geometric.nn import GPSConv as PyGGPSConv
from torch_geometric.nn.attention import SGFormerAttention

import graphbench
from graphbench.errors import ArgumentError, UserError
from graphbench.factory.data import encode, read_data
from graphbench.layers.attention import gradformer
from graphbench.layers.compiled import supported
from graphbench.layers.contract import GlobalAttention
from graphbench.nn import graphs
from graphbench.nn.attention import ATTENTIONS
from graphbench.ops.segment import segment_mean, segment_repeat
from graphbench.registry import FromContext
from graphbench.structures import GraphBatch
from tests.paths import ROOT

DIM, HEADS = 32, 2
LAYERS = {
    "SFi": graphbench.nn.SFi(DIM, HEADS, lam=0.5, max_nodes=40),
    "DFi": graphbench.nn.DFi(DIM, HEADS),
    "SGFormer": graphbench.nn.SGFormer(DIM, HEADS, combine="concat"),
    "GECO": graphbench.nn.GECO(DIM),
    "Gradformer": graphbench.nn.Gradformer(DIM, HEADS, start=1.0),
    "FFGT": graphbench.nn.FFGT(DIM, HEADS),
    "GRPE": graphbench.nn.GRPE(DIM, HEADS, max_hop=3),
    "Transformer": graphbench.nn.Transformer(DIM, HEADS),
    "Performer": graphbench.nn.Performer(DIM, HEADS),
    "Exphormer": graphbench.nn.Exphormer(DIM, HEADS, num_virtual_nodes=1),
}
OF_MODELS = {
    "SFi": {"gt.SFi.lam": 0.5},
    "SGFormer": {"gt.SGFormer.combine": "concat"},
    "GECO": {},
    "Gradformer": {"gt.Gradformer.start": 1.0},
    "FFGT": {"gt.FFGT.focal_heads": 1, "gt.FFGT.edge_bias": False},
    "Exphormer": {"prep.exp": True, "prep.use_exp_edges": True, "prep.exp_deg": 3, "prep.num_virt_node": 1},
}


def _graphs(sizes: tuple[int, ...] = (7, 1, 12)) -> tuple[Tensor, Tensor, Tensor]:
    """Rings with chords: node states, edges, batch."""
    generator = torch.Generator().manual_seed(1)
    edges, first = [], 0
    for size in sizes:
        here = torch.arange(size)
        pairs = [torch.stack([here, (here + step) % size]) for step in (1, 3)] if size > 1 else []
        edges += [torch.cat([pair, pair.flip(0)], dim=1) + first for pair in pairs]
        first += size
    batch = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    return torch.randn(sum(sizes), DIM, generator=generator), torch.cat(edges, dim=1), batch


@pytest.fixture(scope="module")
def model_batch(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """``layer_type -> (model, batch)`` on generated graphs."""
    root = tmp_path_factory.mktemp("nn")

    def build(layer: str, settings: dict[str, Any]) -> tuple[Any, GraphBatch]:
        tiny = {"dataset.SBM.train_graphs": 4, "dataset.SBM.val_graphs": 2, "dataset.SBM.test_graphs": 2}
        given = {"dataset.dir": str(root), "gt.layer_type": f"CustomGatedGCN+{layer}", "gt.layers": 1} | tiny | settings
        overrides = [str(part) for pair in given.items() for part in pair]
        config = graphbench.load_config(ROOT / "configs/quickstart.yaml", overrides)
        loaded = encode(config, read_data(config))
        model = graphbench.build_model(config, loaded.card.info(loaded.store))
        return model.eval(), loaded.store.gather([0, 1, 2])

    return build


@pytest.mark.parametrize("name", OF_MODELS)
def test_equal_to_the_layer_inside_our_model(name: str, model_batch: Any) -> None:
    model, batch = model_batch(name, OF_MODELS[name])
    [block] = model.layers
    inner = block.branches[1].part
    h, e, batch = model.encode(batch)
    index, graph = batch.edge_index, batch.ragged.graph_id
    if name == "Exphormer":
        batch = model.prepare(h, e, batch)
        plain = graphbench.nn.Exphormer(DIM, HEADS, edge_dim=e.shape[1], num_virtual_nodes=1).eval()
        plain.pairs.load_state_dict(model.prepare.state_dict())
        plain.layer.load_state_dict(inner.state_dict())
        with torch.no_grad():
            ours, theirs = plain(h, index, graph, edge_attr=e), inner.step(h, e, batch)[0]
    else:
        sizes = {"max_nodes": int(inner.max_nodes)} if name == "SFi" else {}
        plain = copy.deepcopy(LAYERS[name]) if not sizes else graphbench.nn.SFi(DIM, HEADS, lam=0.5, **sizes)
        plain.eval().layer.load_state_dict(inner.state_dict())
        with torch.no_grad():
            ours, theirs = plain(h, index, graph), inner(h, e, batch)
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)
    assert float(ours.abs().max()) > 1e-3


def test_a_block_is_equal_to_that_of_our_model(model_batch: Any) -> None:
    model, batch = model_batch("Transformer", {})
    [block] = model.layers
    h, e, batch = model.encode(batch)
    h, e, block = h.double(), e.double(), block.double()
    plain = graphbench.nn.GPSBlock(DIM, "CustomGatedGCN", "Transformer", heads=HEADS, edge_dim=e.shape[1]).eval()
    plain.double().layer.load_state_dict(block.state_dict())
    shuffled = torch.randperm(batch.num_edges, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected_h, expected_e, _ = block(h, e, batch)
        index = batch.edge_index[:, shuffled]  # not grouped by graph any more
        ours_h, ours_e = plain(h, index, batch.ragged.graph_id, edge_attr=e[shuffled])
    torch.testing.assert_close(ours_h, expected_h, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(ours_e, expected_e[shuffled], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", LAYERS)
def test_a_graph_does_not_see_its_batch_mates_and_gradients_reach_everything(name: str) -> None:
    layer = copy.deepcopy(LAYERS[name]).eval()
    x, edge_index, batch = _graphs()
    x.requires_grad_()
    out = layer(x, edge_index, batch)
    assert out.shape == x.shape
    last = batch == 2
    inside = last[edge_index[0]]
    alone = layer(x[last], edge_index[:, inside] - 8)
    torch.testing.assert_close(out[last], alone, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(layer(x, edge_index, ptr=torch.tensor([0, 7, 8, 20])), out)
    out.square().sum().backward()
    assert bool(torch.isfinite(x.grad).all())
    assert x.grad.abs().sum() > 0


@pytest.mark.parametrize("name", LAYERS)
def test_parameters_can_be_drawn_anew_and_layers_copied(name: str) -> None:
    layer = pickle.loads(pickle.dumps(LAYERS[name]))
    before = {key: value.clone() for key, value in layer.state_dict().items() if isinstance(value, Tensor)}
    for parameter in layer.parameters():
        torch.nn.init.constant_(parameter, 7.0)
    torch.manual_seed(3)
    layer.reset_parameters()
    after = layer.state_dict()
    assert not any(bool((after[name] == 7.0).any()) for name, _ in layer.named_parameters())
    assert {key: value.shape for key, value in before.items()} == {key: after[key].shape for key in before}


def test_what_is_computed_is_kept_as_long_as_the_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    build = graphs._build
    monkeypatch.setattr(graphs, "_build", lambda *arguments: calls.append(1) or build(*arguments))
    x, edge_index, batch = _graphs()
    kept = len(graphs._cache)
    gradformer, ffgt = LAYERS["Gradformer"], LAYERS["FFGT"]
    for layer in (gradformer, ffgt, gradformer):
        layer(x, edge_index, batch)
    assert len(calls) == 1
    distances = [
        graphs.plain_graphs(20, edge_index, batch, transforms=layer.transforms) for layer in (gradformer, ffgt)
    ]
    assert distances[0].batch is distances[1].batch
    edge_index[:, 0] = edge_index[:, 1]  # written to: what was derived is not valid any more
    gradformer(x, edge_index, batch)
    assert len(calls) == 2
    del edge_index
    gc.collect()
    assert len(graphs._cache) == kept


@pytest.mark.parametrize("name", LAYERS)
def test_inference_mode(name: str) -> None:
    """An evaluation loop under ``torch.inference_mode``, whose loader makes its tensors there, too."""
    layer = copy.deepcopy(LAYERS[name]).eval()
    x, edge_index, batch = _graphs()
    with torch.inference_mode():
        before = layer(x, edge_index, batch)
        edges = edge_index.clone()
        torch.testing.assert_close(layer(x.clone(), edges, batch.clone()), before)
        edges[:, 0] = edges[:, 1]  # these tensors count no changes
        torch.testing.assert_close(layer(x, edges, batch), layer(x, edges.clone(), batch))
    layer(x, edge_index, batch).sum().backward()  # on the same edges: nothing of the evaluation is in it
    assert any(parameter.grad is not None for parameter in layer.parameters())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batch": torch.tensor([0, 1, 0])}, "batch must be ascending"),
        ({"batch": torch.tensor([0, 0])}, "describes 2 nodes, x has 3"),
        ({"batch": torch.tensor([0, 0, 1])}, "edge 1 joins graphs 0 and 1"),
        ({"edge_index": torch.tensor([[0], [5]])}, "names node 5, x has 3"),
        ({"edge_index": torch.tensor([[0], [-1]])}, "names node -1, x has 3"),
        ({"edge_index": torch.zeros(2, 3)}, r"must be integers of shape \(2, E\), received float32 of shape \(2, 3\)"),
        ({"edge_index": None}, r"must be integers of shape \(2, E\), received NoneType"),
        ({"edge_index": torch.ones(2, 3, dtype=torch.bool)}, "received bool of shape"),
        ({"batch": torch.tensor([-1, 0, 0])}, "batch must not be negative, received -1"),
        ({"batch": torch.zeros(3)}, "batch must be integers, received float32"),
        ({"ptr": torch.tensor([2, 5])}, r"ptr must begin with 0, received \[2, 5\]"),
        ({"batch": torch.tensor([0, 0, 0]), "ptr": torch.tensor([0, 3])}, "received both"),
        ({"x": torch.zeros(3, 7)}, rf"x must be \(N, channels\) with channels={DIM}, received \(3, 7\)"),
        ({"x": torch.zeros(3)}, rf"x must be \(N, channels\) with channels={DIM}, received \(3,\)"),
    ],
)
def test_what_describes_no_graphs_is_refused(change: dict[str, Tensor], message: str) -> None:
    given = {"x": torch.zeros(3, DIM), "edge_index": torch.tensor([[0, 1], [1, 2]])} | change
    for layer in (
        graphbench.nn.Transformer(DIM),
        graphbench.nn.GPSBlock(DIM),
        graphbench.nn.GPSBlock(DIM, "GIN", None),
    ):
        with pytest.raises(ValueError, match=message):
            layer(**given)


@pytest.mark.parametrize("name", ["FFGT", "GRPE"])
def test_edge_types_are_read_alone_and_in_blocks(name: str) -> None:
    x, edge_index, batch = _graphs()
    layer = ATTENTIONS[name](DIM, HEADS, num_edge_types=3).eval()
    block = graphbench.nn.GPSBlock(DIM, None, layer, norm="none").eval()
    with_edges = graphbench.nn.GPSBlock(DIM, "GINE", layer, edge_dim=DIM).eval()
    conv = graphbench.nn.GPSConv(DIM, None, attn_type=layer, norm=None).eval()
    shuffled = torch.randperm(edge_index.shape[1], generator=torch.Generator().manual_seed(0))
    types, states = shuffled % 4, torch.zeros(len(shuffled), DIM)  # 0 .. 3: num_edge_types is the last one

    def outputs(types: Tensor, index: Tensor = edge_index) -> dict[str, Tensor]:
        return {
            "alone": layer(x, index, batch, edge_attr=types),
            "block": block(x, index, batch, edge_types=types),
            "block with edges": with_edges(x, index, batch, edge_attr=states, edge_types=types)[0],
            "conv": conv(x, index, batch, edge_types=types),
        }

    with torch.no_grad():
        read, one_type = outputs(types), outputs(0 * types)
        moved = outputs(types[shuffled], edge_index[:, shuffled])
    assert all(not torch.allclose(read[key], one_type[key], atol=1e-3) for key in read)
    torch.testing.assert_close(moved, read, rtol=1e-5, atol=1e-5)  # each edge keeps its type
    after = x + read["alone"]
    torch.testing.assert_close(read["conv"], after + conv.mlp(after))
    for call in (layer, block, conv):
        with pytest.raises(ValueError, match=f"{name} has num_edge_types=3 and needs the type of every edge"):
            call(x, edge_index, batch)
    with pytest.raises(ValueError, match=r"edge types 0 to 3 .* received 1 to 4"):
        layer(x, edge_index, batch, edge_attr=types + 1)
    with pytest.raises(ValueError, match=f"{name} reads edge_attr where it has num_edge_types"):
        ATTENTIONS[name](DIM, HEADS)(x, edge_index, batch, edge_attr=types)
    with pytest.raises(ValueError, match="edge types are edge_types"):
        block(x, edge_index, batch, edge_attr=types)


def test_edge_types_that_nobody_reads_are_refused() -> None:
    x, edge_index, batch = _graphs()
    types = torch.zeros(edge_index.shape[1], dtype=torch.long)
    sparse_flow, multihead = (graphbench.nn.GPSConv(DIM, None, attn_type=name) for name in ("SFi", "multihead"))
    without = graphbench.nn.GPSBlock(DIM, "GIN", None)
    for call, reader in ((sparse_flow, "SFi"), (multihead, "multihead"), (without, "no attention")):
        with pytest.raises(ValueError, match=f"edge_types is for FFGT and GRPE with num_edge_types, .*{reader}"):
            call(x, edge_index, batch, edge_types=types)


def test_a_block_has_the_attention_that_it_is_given() -> None:
    x, edge_index, batch = _graphs()
    attention = graphbench.nn.SFi(DIM, HEADS)
    block = graphbench.nn.GPSBlock(DIM, "GIN", attention)
    before = copy.deepcopy(attention.state_dict())
    owned = {id(parameter) for parameter in block.parameters()}
    assert owned.issuperset(map(id, attention.parameters()))
    block(x, edge_index, batch).sum().backward()
    assert all(parameter.grad is not None for parameter in attention.parameters())
    block.reset_parameters()
    after = attention.state_dict()
    assert any(not torch.equal(value, after[key]) for key, value in before.items())
    again = pickle.loads(pickle.dumps(block)).eval()
    torch.testing.assert_close(again(x, edge_index, batch), block.eval()(x, edge_index, batch))
    again.reset_parameters()
    assert not torch.equal(again(x, edge_index, batch), block(x, edge_index, batch))
    for make, argument, options in (
        (graphbench.nn.GPSBlock, "attention", "attention_options"),
        (graphbench.nn.GPSConv, "attn_type", "attn_kwargs"),
    ):
        with pytest.raises(TypeError, match=f"{argument} must be a name or an attention of .*Linear; .*PlainAttention"):
            make(DIM, None, **{argument: torch.nn.Linear(2, 2)})
        with pytest.raises(TypeError, match=f"{argument} is an attention that has its arguments: lam would change"):
            make(DIM, None, **{argument: attention, options: {"lam": 1}})


def test_exphormer_in_blocks() -> None:
    x, edge_index, batch = _graphs()
    given = graphbench.nn.Exphormer(DIM, HEADS, num_virtual_nodes=1).eval()
    block = graphbench.nn.GPSBlock(DIM, None, given, norm="none").eval()
    after = x + given(x, edge_index, batch)
    torch.testing.assert_close(block(x, edge_index, batch), after + block.layer.feed_forward(after))
    owned = [id(parameter) for parameter in block.parameters()]
    assert set(owned).issuperset(map(id, given.parameters()))
    assert len(block.state_dict()) == len(owned)  # none twice
    torch.nn.init.zeros_(given.pairs.expander.weight)
    block.reset_parameters()
    assert bool(given.pairs.expander.weight.any())
    named = graphbench.nn.GPSBlock(DIM, "GIN", "Exphormer", heads=HEADS, attention_options={"degree": 2})
    assert named(x, edge_index, batch).shape == x.shape

    reading = graphbench.nn.Exphormer(DIM, HEADS, edge_dim=4)
    conv = graphbench.nn.GPSConv(DIM, None, attn_type=reading).eval()
    block = graphbench.nn.GPSBlock(DIM, None, reading, edge_dim=4).eval()
    states = torch.randn(edge_index.shape[1], 4)
    assert not torch.allclose(*(conv(x, edge_index, batch, edge_attr=e) for e in (states, 0 * states)))
    assert not torch.allclose(*(block(x, edge_index, batch, edge_attr=e)[0] for e in (states, 0 * states)))
    for call in (reading, conv):
        with pytest.raises(ValueError, match="exactly where the layer has an edge_dim"):
            call(x, edge_index, batch)
    with pytest.raises(ArgumentError, match="Exphormer has edge_dim 4, the block None"):
        graphbench.nn.GPSBlock(DIM, "GIN", reading)


class MeanOfGraph(GlobalAttention):
    """An attention of a user, as configurations name it."""

    def __init__(self, dim: FromContext[int], *, scale: float = 1.0) -> None:
        super().__init__()
        self.scale = scale
        self.lin = torch.nn.Linear(dim, dim)

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> Tensor:
        return self.scale * segment_repeat(segment_mean(self.lin(h), batch.ragged), batch.ragged)


def test_an_attention_of_ones_own() -> None:
    x, edge_index, batch = _graphs()
    own = graphbench.nn.PlainAttention(partial(MeanOfGraph, DIM, scale=0.5))
    expected = torch.cat([0.5 * own.layer.lin(rows).mean(0).expand(len(rows), -1) for rows in x.split([7, 1, 12])])
    torch.testing.assert_close(own(x, edge_index, batch), expected)
    after = x + expected
    conv = graphbench.nn.GPSConv(DIM, None, attn_type=own, norm=None).eval()
    torch.testing.assert_close(conv(x, edge_index, batch), after + conv.mlp(after))
    block = graphbench.nn.GPSBlock(DIM, None, own, norm="none").eval()
    torch.testing.assert_close(block(x, edge_index, batch), after + block.layer.feed_forward(after))
    distant = graphbench.nn.PlainAttention(partial(gradformer.Gradformer, DIM, HEADS), {"ShortestPaths": {}})
    assert distant(x, edge_index, batch).shape == x.shape
    with pytest.raises(ValueError, match=r"x must be \(N, channels\), received"):
        own(x[0], edge_index, batch)


def test_gps_conv_of_pyg_takes_our_attentions() -> None:
    x, edge_index, batch = _graphs()
    network = torch.nn.Linear(DIM, DIM)
    for attn_type in ("SFi", "SGFormer", "GECO", "Exphormer"):
        heads = 1 if attn_type == "GECO" else HEADS
        conv = graphbench.nn.GPSConv(DIM, GINConv(network), heads=heads, attn_type=attn_type)
        assert conv(x, edge_index, batch).shape == x.shape
        conv.reset_parameters()
    torch.manual_seed(0)
    ours = graphbench.nn.GPSConv(DIM, GINConv(network), heads=HEADS, attn_type="Transformer").eval()
    theirs = PyGGPSConv(DIM, GINConv(network), heads=HEADS).eval()
    renamed = {"attn.in_proj_weight": "qkv.weight", "attn.in_proj_bias": "qkv.bias"}
    renamed |= {"attn.out_proj.weight": "out.weight", "attn.out_proj.bias": "out.bias"}
    state = {("attn.layer." + renamed[k] if k in renamed else k): v for k, v in theirs.state_dict().items()}
    ours.load_state_dict(state)
    torch.testing.assert_close(ours(x, edge_index, batch), theirs(x, edge_index, batch), rtol=1e-5, atol=1e-5)
    with pytest.raises(graphbench.errors.UserError, match="Did you mean 'SFi'"):
        graphbench.nn.GPSConv(DIM, None, attn_type="Sfi")


def test_sgformer_with_norms_per_row_is_that_of_pyg() -> None:
    """What ``docs/layers.md`` says; on one graph, since PyG's pads."""
    x, edge_index, _ = _graphs((12,))
    theirs = SGFormerAttention(DIM, heads=HEADS, head_channels=DIM)
    by_row = graphbench.nn.SGFormer(DIM, HEADS, norm="l2")
    released = graphbench.nn.SGFormer(DIM, HEADS)
    for layer in (by_row.layer, released.layer):
        state = {f"{name}.weight": getattr(theirs, name).weight for name in ("q", "k", "v")}
        layer.load_state_dict(state | {f"{name}.bias": torch.zeros(HEADS * DIM) for name in ("q", "k", "v")})
    expected = theirs(x[None], torch.ones(1, 12, dtype=torch.bool))[0]
    torch.testing.assert_close(by_row(x, edge_index), expected, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(released(x, edge_index), expected, atol=1e-2)


@pytest.mark.filterwarnings("ignore")  # the compiler looks at what warns
@pytest.mark.skipif(not supported(), reason="needs a newer PyTorch")
@pytest.mark.parametrize(
    "name", [*("SGFormer", "SFi"), *(pytest.param(each, marks=pytest.mark.slow) for each in LAYERS if each[0] != "S")]
)
def test_layers_compile(name: str) -> None:
    """The batch is built outside of the compiler; the layer behind it is one graph, which serves all batches."""
    torch._dynamo.reset()
    layer = copy.deepcopy(LAYERS[name])
    compiled = torch.compile(layer, dynamic=True, backend="eager")
    graphs = 0
    for number, sizes in enumerate(((9, 4, 6, 3, 4), (7, 2, 12), (5, 8, 6, 2, 10), (6, 6, 11))):
        x, edge_index, batch = _graphs(sizes)
        out, expected = compiled(x, edge_index, batch), layer(x, edge_index, batch)
        torch.testing.assert_close(out, expected)
        weights = [weight for weight in layer.parameters() if weight.requires_grad]
        received, wanted = (torch.autograd.grad(y.square().sum(), weights, allow_unused=True) for y in (out, expected))
        torch.testing.assert_close(received, wanted)
        compiled_until_now = torch._dynamo.utils.counters["stats"]["unique_graphs"]
        assert number == 0 or compiled_until_now == graphs
        graphs = compiled_until_now


def test_every_attention_is_one_of_the_framework() -> None:
    for layer in LAYERS.values():
        assert isinstance(layer.layer, GlobalAttention) or type(layer).__name__ == "Exphormer"


FURTHER = {
    "SFi": {"solver": "proximal", "iters": 3},
    "DFi": {"adjacency": False},
    "SGFormer": {"use_weight": False},
    "GECO": {"omega": 10.0, "filter_norm": "l1"},
    "Gradformer": {"slope": 0.5, "mask_on": "probs"},
    "FFGT": {"gate": True, "num_edge_types": 4},
    "GRPE": {"tables_per_layer": True},
    "Performer": {"nb_features": 8},
}


@pytest.mark.parametrize("name", FURTHER)
def test_further_arguments_reach_the_layer_and_unknown_ones_are_refused(name: str) -> None:
    make = ATTENTIONS[name]
    layer, ring = make(8, 1, **FURTHER[name]), torch.tensor([[0, 1, 2], [1, 2, 0]])
    assert FURTHER[name].items() <= layer.make.args[1].items()
    types = {"edge_attr": torch.zeros(3, 1, dtype=torch.long)} if layer.num_edge_types else {}
    assert layer(torch.randn(3, 8), ring, **types).isfinite().all()
    with pytest.raises(UserError, match=f"unknown argument of {name} 'lamda'"):
        make(8, 1, lamda=1)


def test_the_page_works_as_written(capsys: pytest.CaptureFixture[str], tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "page"}
    for block in re.findall(r"```python\n(.*?)```", (ROOT / "docs/layers.md").read_text(), re.DOTALL):
        exec(compile(block, "docs/layers.md", "exec"), names)
    printed = capsys.readouterr().out
    assert printed.count("torch.Size([") == 5
    assert "True" in printed
    assert "of the flows are zero" in printed
