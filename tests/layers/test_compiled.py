"""Blocks under torch.compile: one graph each for batches of all sizes, equal to the block itself."""

from __future__ import annotations

import copy
import gc
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from graphbench.contract import HasAuxiliaryLoss, take_auxiliary_loss
from graphbench.layers.compiled import CompiledCall, compile_layers, supported
from graphbench.layers.contract import GlobalAttention
from graphbench.layers.gps import GPSBlock
from graphbench.ops import library
from graphbench.structures import EdgeSet, GraphBatch
from tests.contract import example_batch, shaken
from tests.layers.test_contract import DIM, EVERY, make

SIZES = ((9, 4), (7, 1, 12, 2, 5, 5), (3, 1, 1, 14, 6, 8), (13, 2, 7), (2, 2, 10, 5))
"""Nodes of the graphs of five batches. torch compiles sizes 0 and 1 apart, and takes sizes that were equal when it
compiled for one: no batch has one graph, one node or no edge, and all sizes of the second one differ."""
TOLERANCE = 1e-12
GPS = [
    ("GINE", "Transformer", "layer"),
    (None, "FFGT", "none"),
    pytest.param("CustomGatedGCN", "Transformer", "batch", marks=pytest.mark.slow),
    pytest.param("GENConv", "SFi", "graph", marks=pytest.mark.slow),
    pytest.param(None, "GECO", "batch", marks=pytest.mark.slow),
    pytest.param(None, "Gradformer", "batch", marks=pytest.mark.slow),
    pytest.param("GINE", "Performer", "batch", marks=pytest.mark.slow),
    pytest.param(None, "BigBird", "layer", marks=pytest.mark.slow),
    pytest.param(None, "Exphormer", "batch", marks=pytest.mark.slow),
    pytest.param("GCN", "SGFormer", "batch", marks=pytest.mark.slow),
    pytest.param(None, "GRPE", "batch", marks=pytest.mark.slow),
]

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # the compiler looks at what warns
    pytest.mark.skipif(not supported(), reason="needs a newer PyTorch"),
]


@pytest.fixture(autouse=True)
def _forget_graphs() -> Iterator[None]:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    yield
    torch._dynamo.reset()


def gps_block(local: str | None, attention: str | None, norm: str, dropout: float = 0.0) -> GPSBlock:
    """A block in float64."""
    namespaces = (("layers/local", local), ("layers/attention", attention))
    parts: Any = [None if name is None else make(namespace, name, dropout=dropout) for namespace, name in namespaces]
    return shaken(GPSBlock(DIM, parts, norm=norm, dropout=dropout).double())  # type: ignore[return-value]


def batch_of(number: int, **options: Any) -> GraphBatch:
    return example_batch(SIZES[number], seed=number, **options)


def tensors(result: Any) -> list[Tensor]:
    return [each for each in (result if isinstance(result, tuple) else (result,)) if isinstance(each, Tensor)]


def outputs_and_gradients(layer: nn.Module, batch: GraphBatch) -> list[Tensor | None]:
    """Of node states, edge states and parameters, and the auxiliary loss with theirs."""
    assert batch.x is not None
    h, e = batch.x.clone().requires_grad_(), batch.edge_attr.clone().requires_grad_()
    out = tensors(layer(h, e, batch))
    extra = take_auxiliary_loss(module for module in layer.modules() if isinstance(module, HasAuxiliaryLoss))
    out += [] if extra is None else [extra]
    torch.manual_seed(1)
    loss = sum((each * torch.randn_like(each)).sum() for each in out)
    leaves = [h, e, *(each for each in layer.parameters() if each.requires_grad)]
    return [*out, *torch.autograd.grad(loss, leaves, allow_unused=True)]


def assert_same(received: list[Tensor | None], expected: list[Tensor | None]) -> None:
    """A gradient that is None is one of zeros."""
    for a, b in zip(received, expected, strict=True):
        if a is not None or b is not None:
            a, b = (torch.zeros_like(b) if a is None else a), (torch.zeros_like(a) if b is None else b)
            torch.testing.assert_close(a, b, rtol=TOLERANCE, atol=TOLERANCE)


def check_compiled(layer: nn.Module, backend: str) -> None:
    """The first call finds out what to prepare, the second compiles, the others find the graph of the second."""
    layer.train()
    plain = copy.deepcopy(layer)
    compile_layers(nn.ModuleList([layer]), backend=backend)
    for i in range(len(SIZES) + 1):
        plain.load_state_dict(layer.state_dict())
        results = []
        with torch._dynamo.config.patch(error_on_recompile=i > 1):
            for module in (layer, plain):
                torch.manual_seed(0)
                results.append(outputs_and_gradients(module, batch_of(i % len(SIZES))))
        assert_same(*results)
        for received, expected in zip(layer.buffers(), plain.buffers(), strict=True):
            torch.testing.assert_close(received, expected, rtol=TOLERANCE, atol=TOLERANCE)
    assert not layer._compiled_call_impl._failed
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


@pytest.mark.parametrize(("local", "attention", "norm"), GPS)
def test_gps_block_is_one_graph(local: str | None, attention: str | None, norm: str) -> None:
    check_compiled(gps_block(local, attention, norm), "eager")


@pytest.mark.slow
@pytest.mark.parametrize(("namespace", "name"), EVERY)
def test_every_layer_is_one_graph_or_says_why_not(
    namespace: str, name: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = make(namespace, name)
    if layer.compile_obstacle is None:
        check_compiled(layer, "eager")
        return
    with caplog.at_level(logging.INFO, "graphbench"):
        compile_layers(nn.ModuleList([layer]))
    assert caplog.messages == [f"{name} stays without torch.compile: {layer.compile_obstacle}"]
    assert layer._compiled_call_impl is None
    monkeypatch.setattr(type(layer), "compile_obstacle", None)
    with pytest.raises(AssertionError):
        check_compiled(layer, "eager")


AHEAD = [("local", "GAT"), ("local", "PNA"), ("attention", "SFi"), ("attention", "NodeFormer"), ("blocks", "SATLayer")]


@pytest.mark.parametrize(
    ("namespace", "name"),
    [("blocks", "gineconv"), *(pytest.param(*case, marks=pytest.mark.slow) for case in AHEAD)],
)
def test_graph_differentiated_ahead_of_time(namespace: str, name: str) -> None:
    check_compiled(make(f"layers/{namespace}", name), "aot_eager")


@pytest.mark.slow
def test_graph_of_inductor() -> None:
    check_compiled(make("layers/blocks", "gineconv"), "inductor")


def test_edge_set_and_virtual_nodes() -> None:
    """State that one block hands to the next, and derived values of a batch that belong to another one."""
    layers = [make("layers/attention", "Exphormer") for _ in range(2)]
    blocks = nn.ModuleList(GPSBlock(DIM, [None, layer], edges=[None, "exp"]).double() for layer in layers)  # type: ignore[list-item]
    plain = copy.deepcopy(blocks)
    compile_layers(blocks, backend="eager")
    for number in range(4):
        batch = batch_of(number)
        pairs = EdgeSet(batch.edge_index.flip(0), torch.zeros(1, dtype=torch.int64), batch.edge_attr)
        batch = batch.replace(edge_sets={"exp": pairs}).with_state(edge_states={"exp": batch.edge_attr})
        results = []
        for stack in (blocks, plain):
            h, e, seen = batch.x, batch.edge_attr, batch
            for block in stack:
                h, e, seen = block(h, e, seen)
            results.append([h, *torch.autograd.grad(h.square().sum(), stack.parameters(), allow_unused=True)])
        assert_same(*results)


def test_evaluation_has_a_graph_of_its_own() -> None:
    block = make("layers/blocks", "gineconv", dropout=0.5)
    plain = copy.deepcopy(block)
    compile_layers(nn.ModuleList([block]), backend="eager")
    for number in range(3):
        batch = batch_of(number)
        block.train()(batch.x, batch.edge_attr, batch)
        plain.load_state_dict(block.state_dict())
        with torch.no_grad():
            received, expected = (each.eval()(batch.x, batch.edge_attr, batch)[0] for each in (block, plain))
        torch.testing.assert_close(received, expected, rtol=TOLERANCE, atol=TOLERANCE)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 2


def test_dropout_is_drawn_anew() -> None:
    block = make("layers/blocks", "gineconv", dropout=0.5).train()
    compile_layers(nn.ModuleList([block]), backend="eager")
    drawn = []
    for seed in (None, 0, 1, 0):
        torch.manual_seed(seed or 0)
        batch = batch_of(0)
        drawn.append(block(batch.x, batch.edge_attr, batch)[0])
    assert torch.equal(drawn[1], drawn[3])
    assert not torch.equal(drawn[1], drawn[2])


def test_under_autocast() -> None:
    block = make("layers/blocks", "gineconv").float().train()
    plain = copy.deepcopy(block)
    compile_layers(nn.ModuleList([block]), backend="aot_eager")
    for number in range(3):
        batch = batch_of(number, dtype=torch.float32)
        results = []
        for module in (block, plain):
            with torch.autocast("cpu", torch.bfloat16):
                out = module(batch.x, batch.edge_attr, batch)[0]
            results.append([out, *torch.autograd.grad(out.square().mean(), module.parameters(), allow_unused=True)])
        for a, b in zip(*results, strict=True):
            if a is not None and b is not None:
                # Two roundings to eight bits in a sum of many terms, relative to the largest.
                assert (a - b).abs().max() <= 2**-6 * b.abs().max()


def test_what_cannot_be_compiled_stays(caplog: pytest.LogCaptureFixture) -> None:
    class Asks(GlobalAttention):
        def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> Tensor:
            return h if h.sum() > 0 else -h  # reads a value

    model = nn.ModuleList([nn.Sequential(Asks()), gps_block("GCN", None, "none")])
    compile_layers(model, backend="eager")
    asks, block = model[0][0], model[1]
    assert isinstance(asks._compiled_call_impl, CompiledCall)
    assert not isinstance(block.branches[0].part._compiled_call_impl, CompiledCall)  # part of a block
    with caplog.at_level(logging.INFO, "graphbench"):
        for number in range(4):
            batch = batch_of(number)
            assert asks(batch.x, None, batch).shape == batch.x.shape
            block(batch.x, batch.edge_attr, batch)
    (message,) = [each for each in caplog.messages if "torch.compile" in each]
    assert message.startswith("Asks stays without torch.compile: ")
    assert "\n" not in message
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


def test_errors_of_operators_are_their_own() -> None:
    class Wrong(GlobalAttention):
        rows = 0

        def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> Tensor:
            from graphbench.ops.segment import segment_softmax

            return segment_softmax(h[self.rows :], batch.ragged)

    wrong = Wrong()
    compile_layers(nn.ModuleList([wrong]), backend="eager")
    wrong(batch_of(0).x, None, batch_of(0))
    wrong.rows = 1
    with pytest.raises(ValueError, match="x must have one row per node"):
        wrong(batch_of(1).x, None, batch_of(1))


def test_a_compiled_layer_is_copied_and_stored_as_it_was() -> None:
    block = gps_block("GCN", None, "batch")
    names = list(block.state_dict())
    compile_layers(nn.ModuleList([block]), backend="eager")
    assert list(block.state_dict()) == names
    assert copy.deepcopy(block)._compiled_call_impl is None


@pytest.mark.slow
def test_tapes_end_with_their_graph() -> None:
    """What is kept for a backward pass goes with it, and with outputs of which nobody asks a gradient."""
    block = make("layers/blocks", "gcnconv").train()
    compile_layers(nn.ModuleList([block]), backend="aot_eager")
    before = len(library._tapes)
    for number in range(3):
        batch = batch_of(number)
        out = block(batch.x, batch.edge_attr, batch)[0]
        if number == 2:
            assert len(library._tapes) > before
            del out
        else:
            out.sum().backward()
            del out
        gc.collect()
        assert len(library._tapes) == before
