"""FFGT and GRPE: recorded layers of the released code, relations by hand, reach, tied tables, large graphs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from graphbench import registry
from graphbench.encoders.token import prepend_token
from graphbench.layers.attention.ffgt.grpe import GRPE
from graphbench.layers.attention.ffgt.layer import FFGT
from graphbench.layers.attention.ffgt.relations import EdgeTypes, edge_rows, hop_rows
from graphbench.layers.attention.ffgt.settings import FocalSettings
from graphbench.layers.attention.transformer import Transformer
from graphbench.layers.blocks.pre_norm import FFGTLayer, GRPELayer, PreNormLayer
from graphbench.layers.sharing import tie_layers
from graphbench.structures import GraphBatch, HopNeighbors, PairBlocks, Ragged
from tests.contract import example_batch
from tests.layers.recorded import close, load, ours, packed

LAYERS = ["grpe_layer_allfocal", "grpe_layer_graph", "grpe_layer_node", "vanilla_layer_graph", "vanilla_layer_node"]
LAYERS += ["vanilla_layer_noedge_nofocal", "vanilla_layer_wide_heads"]
EITHER = pytest.mark.parametrize("kind", [FFGT, GRPE])


def distances_of(arrays: dict[str, Any]) -> PairBlocks:
    """Hops between the recorded nodes by repeated products of the adjacency matrix."""
    sizes, blocks = arrays["in/ptr"].diff().tolist(), []
    for size, first in zip(sizes, arrays["in/ptr"].tolist()):
        own = arrays["in/edge_index"] - first
        source, target = own[:, (own[0] >= 0) & (own[0] < size)]
        step = torch.zeros(size, size).index_put_((source, target), torch.tensor(1.0))
        hops, reached = torch.full((size, size), 255), torch.eye(size)
        for hop in range(size):
            hops[(reached > 0) & (hops == 255)] = hop
            reached = reached @ step
        blocks.append(hops.to(torch.uint8).view(-1))
    return PairBlocks(torch.cat(blocks), tuple(sizes))


def recorded_batch(arrays: dict[str, Any], token: bool) -> GraphBatch:
    types = next(arrays[name] for name in ("in/edge_type_raw", "in/edge_type") if name in arrays)
    batch = GraphBatch(
        Ragged.from_sizes(arrays["in/ptr"].diff().tolist()),
        arrays["in/edge_index"],
        edge_attr=types[:, None],
        pairs=distances_of(arrays),
    )
    return prepend_token(batch)[1] if token else batch


def valid(padded: Tensor, sizes: tuple[int, ...]) -> Tensor:
    return torch.cat([each[:n] for each, n in zip(padded, sizes, strict=True)])


def blocks_of(matrices: Tensor, sizes: tuple[int, ...]) -> Tensor:
    return torch.cat([each[:n, :n].reshape(-1) for each, n in zip(matrices, sizes, strict=True)])


def recorded_layer(config: dict[str, Any]) -> PreNormLayer:
    focal = FocalSettings(
        focal_heads=config["focal_heads"] if config["max_dist"] else 0,
        focal_length=config["max_dist"],
        attn_dim=config["head_dim"],
        num_edge_types=config["num_edge_type"],
        edge_offset=2,
        unreachable="full",
        released=True,
    )
    dim, heads, ffn_dim = config["dim"], config["heads"], config["ffn_dim"]
    if "GRPE" in config["cls"] or "Grpe" in config["cls"]:
        return GRPELayer(dim, heads, max_hop=config["max_hop"], ffn_dim=ffn_dim, focal=focal)
    return FFGTLayer(dim, heads, ffn_dim=ffn_dim, edge_bias=config["edge_bias"], focal=focal)


def in_layer(name: str) -> str:
    return "attention.tables.tables." + name[5:-7] if name.startswith("bias.") else ours(name)


@pytest.mark.parametrize("name", LAYERS)
def test_layer_equals_the_released_code(golden, name: str) -> None:
    arrays = golden(f"ffgt/{name}")
    config = arrays["config"]
    if not config["edge_bias"]:  # tables that its network owns and this layer does not read
        arrays = {key: value for key, value in arrays.items() if "bias.query" not in key and "bias.key" not in key}
    layer, batch = load(recorded_layer(config), arrays, in_layer), recorded_batch(arrays, config["task_token"])
    sizes = batch.ragged.sizes
    x = valid(arrays["in/x_padded"].double(), sizes).requires_grad_()
    assert torch.equal(arrays["in/token_mask"].sum(1), torch.tensor(sizes))
    if config["edge_bias"]:
        rows = edge_rows(batch, layer.attention.tables.types, "test")
        assert torch.equal(rows, blocks_of(arrays["in/edge_type_matrix"], sizes))
    if "in/distance_matrix" in arrays:
        hops = hop_rows(batch, config["max_hop"], "test")
        assert torch.equal(hops, blocks_of(arrays["in/distance_matrix"], sizes))

    h, e, _ = layer(x, None, batch)
    assert e is None
    close(h, arrays["out/x_valid"], "nodes")
    close(layer.attention(layer.norm_attention(x), None, batch), arrays["out/attention_valid"], "attention")
    (h * arrays["in/grad_seed.x_valid"]).sum().backward()
    expected = packed(arrays, "grad", in_layer)
    padded = expected.pop("in.x_padded")
    close(x.grad, valid(padded, sizes), "input")
    for parameter_name, parameter in layer.named_parameters():
        close(parameter.grad, expected.pop(parameter_name), parameter_name)
    assert not expected


def path(token: bool = False) -> GraphBatch:
    """0 -> 1 <-> 2 and a node alone; types 1, 2, 0."""
    hops = torch.tensor([[0, 1, 2, 255], [255, 0, 1, 255], [255, 1, 0, 255], [255, 255, 255, 0]], dtype=torch.uint8)
    batch = GraphBatch(
        Ragged.from_sizes([0, 4]),
        torch.tensor([[0, 1, 2], [1, 2, 1]]),
        edge_attr=torch.tensor([[1, 1], [2, 0], [0, 1]]),
        pairs=PairBlocks(hops.view(-1), (0, 4)),
    )
    return prepend_token(batch)[1] if token else batch


def test_relations_by_hand() -> None:
    rows = edge_rows(path(), EdgeTypes(3), "test").view(4, 4).tolist()
    assert rows == [[5, 1, 6, 6], [6, 5, 2, 6], [6, 0, 5, 6], [6, 6, 6, 5]]
    digits = edge_rows(path(), EdgeTypes(6, radix=3), "test").view(4, 4)
    assert (digits[0, 1], digits[1, 2], digits[2, 1]) == (4, 2, 3)
    assert hop_rows(path(), 1, "test").view(4, 4).tolist()[0] == [0, 1, 1, 3]

    after = edge_rows(path(token=True), EdgeTypes(3), "test")[1:].view(5, 5)
    assert after[0].tolist() == [5, 4, 4, 4, 4]
    assert after[:, 0].tolist() == [5, 4, 4, 4, 4]
    assert after[1:, 1:].tolist() == rows
    assert hop_rows(path(token=True), 1, "test")[1:].view(5, 5)[:, 0].tolist() == [0, 2, 2, 2, 2]


def test_released_rows_by_hand() -> None:
    rows = edge_rows(path(), EdgeTypes(3, released="vanilla"), "test").view(4, 4).tolist()
    assert rows == [[4, 4, 4, 4], [4, 5, 2, 0], [4, 0, 5, 0], [4, 0, 0, 5]]
    rows = edge_rows(path(), EdgeTypes(3, released="grpe", offset=2), "test").view(4, 4).tolist()
    assert rows == [[6, 3, 6, 6], [6, 6, 4, 6], [6, 2, 6, 6], [6, 6, 6, 6]]


def listed(batch: GraphBatch, cutoff: int) -> GraphBatch:
    """Neighbour lists in place of the blocks."""
    hops, first, row, col, hop = batch.pairs, 0, [], [], []
    for graph, size in enumerate(batch.ragged.sizes):
        block = hops.block(graph)
        i, j = ((block <= cutoff) | (block == 254)).nonzero(as_tuple=True)
        row, col, hop = [*row, i + first], [*col, j + first], [*hop, block[i, j]]
        first += size
    count = torch.bincount(torch.cat(row), minlength=first).cumsum(0)
    return batch.replace(
        pairs=None, hops=HopNeighbors(torch.cat([count.new_zeros(1), count]), torch.cat(col), torch.cat(hop))
    )


@EITHER
@pytest.mark.parametrize("token", [False, True])
def test_lists_give_what_blocks_give(kind: type, token: bool) -> None:
    """For focal heads; a hop table that tells no more hops apart than the lists hold."""
    batch = example_batch((9, 1, 14), edge_types=(4,))
    batch = prepend_token(batch)[1] if token else batch
    layer = kind(12, 3, focal=FocalSettings(focal_heads=3, focal_length=2, num_edge_types=4)).double()
    h = torch.randn(batch.num_nodes, 12, dtype=torch.float64)
    torch.testing.assert_close(layer(h, None, listed(batch, 2)), layer(h, None, batch))
    with pytest.raises(ValueError, match="give every head its max_hops"):
        kind(12, 3, focal=FocalSettings(focal_heads=1)).double()(h, None, listed(batch, 2))


def test_without_bias_and_focal_heads_it_is_the_transformer() -> None:
    plain, own, batch = Transformer(12, 3).double(), FFGT(12, 3, edge_bias=False).double(), example_batch()
    own.load_state_dict(plain.state_dict())
    torch.testing.assert_close(own(batch.x, None, batch), plain(batch.x, None, batch))
    assert set(own.required_transforms({"neighbors": "pairs", "focal_length": 1})) == {"ShortestPaths"}


@EITHER
def test_heads_see_what_they_should(kind: type) -> None:
    """One full head, two focal ones: zero beyond the reach and for pairs without a path, and only there."""
    batch = prepend_token(example_batch((12, 5)))[1]
    layer = kind(12, 3, focal=FocalSettings(focal_heads=2, focal_length=2)).double()
    h = torch.randn(19, 12, dtype=torch.float64)
    for graph, weights in enumerate(layer.attention_weights(h, None, batch)):
        hops = batch.pairs.block(graph)
        near = (hops <= 2) | (hops == 254)
        assert near.sum() < near.numel()
        torch.testing.assert_close(weights.sum(2), torch.ones_like(weights[..., 0]))
        assert (weights[0] > 0).all()
        assert torch.equal(weights[1:] > 0, near.expand(2, -1, -1))


def test_attention_weights_are_those_of_the_output() -> None:
    batch = example_batch((5, 3))
    layer = FFGT(12, 3, focal=FocalSettings(focal_heads=1)).double()
    value = layer.qkv(batch.x)[:, 24:].view(-1, 3, 4)
    mixed = [
        torch.einsum("hij,jhd->ihd", w, v)
        for w, v in zip(layer.attention_weights(batch.x, None, batch), value.split((5, 3)))
    ]
    torch.testing.assert_close(layer.out(torch.cat(mixed).view(-1, 12)), layer(batch.x, None, batch))


def gate_of(layer: FFGT | GRPE, batch: GraphBatch) -> list[Tensor]:
    """(H, n, n) C per graph, from the rows of the tables."""
    tables = layer.tables.tables
    log_gate = tables["gate_edge"][edge_rows(batch, layer.tables.types, "test")]
    if "gate_hop" in tables:
        log_gate = log_gate + tables["gate_hop"][hop_rows(batch, layer.tables.max_hop, "test")]
    squares = [n * n for n in batch.ragged.sizes]
    return [each.view(n, n, -1).permute(2, 0, 1).exp() for n, each in zip(batch.ragged.sizes, log_gate.split(squares))]


@EITHER
def test_the_gate_multiplies_the_weights_after_the_softmax(kind: type) -> None:
    batch = prepend_token(example_batch((9, 1, 6), edge_types=(4,)))[1]
    settings = FocalSettings(focal_heads=1, focal_length=2, num_edge_types=4, gate=True)
    layer = kind(12, 3, focal=settings).double()
    h = torch.randn(batch.num_nodes, 12, dtype=torch.float64)
    plain, at_start = layer.attention_weights(h, None, batch), layer(h, None, batch)
    layer.tables.gated = False
    torch.testing.assert_close(at_start, layer(h, None, batch))  # C = 1
    layer.tables.gated = True
    for name, table in layer.tables.tables.items():
        if name.startswith("gate"):
            torch.nn.init.normal_(table)
    gates = gate_of(layer, batch)
    for weights, gate, gated in zip(plain, gates, layer.attention_weights(h, None, batch)):
        torch.testing.assert_close(gated, weights * gate)
        assert (gate - 1).abs().max() > 0.1


@pytest.mark.parametrize("lists", [False, True])
def test_gated_values_and_gradients(lists: bool) -> None:
    """Of GRPE, whose relations have values as well, in blocks and lists; against dense matrices."""
    batch = example_batch((5, 3), edge_types=(4,))
    focal = FocalSettings(focal_heads=3, focal_length=2, num_edge_types=4, gate=True)
    layer = GRPE(12, 3, focal=focal).double()
    torch.nn.init.normal_(layer.tables.tables["gate_edge"])
    h = torch.randn(batch.num_nodes, 12, dtype=torch.float64)
    weights = layer.attention_weights(h, None, batch)
    relation = layer.tables(batch, "test")
    value, table = layer.qkv(h)[:, 24:].view(-1, 3, 4), relation.value[relation.index.long()]
    mixed = []
    for n, w, v, t in zip((5, 3), weights, value.split((5, 3)), table.split((25, 9))):
        mixed.append(torch.einsum("hij,ijhd->ihd", w, v[None] + t.view(n, n, 3, 4)))
    expected = layer.out(torch.cat(mixed).view(-1, 12))
    out = layer(h, None, listed(batch, 2) if lists else batch)
    torch.testing.assert_close(out, expected)
    seed = torch.randn_like(out)
    parameters = [table for name, table in layer.tables.tables.items() if name.startswith("gate")]
    ours = torch.autograd.grad((out * seed).sum(), parameters)
    torch.testing.assert_close(ours, torch.autograd.grad((expected * seed).sum(), parameters))


def test_a_gate_needs_tables() -> None:
    with pytest.raises(ValueError, match="edge_bias: false"):
        FFGT(12, 3, focal=FocalSettings(gate=True), edge_bias=False)


@EITHER
def test_tables_serve_all_layers_or_one(kind: type) -> None:
    for per_layer, copies in ((False, 1), (True, 3)):
        layers = torch.nn.ModuleList(kind(12, 3, focal=FocalSettings(tables_per_layer=per_layer)) for _ in range(3))
        tie_layers(layers)
        tables = 2 * 5 * 12 if kind is FFGT else 3 * (5 + 8) * 12
        assert sum(each.numel() for each in layers.parameters()) == 3 * (4 * 12 * 13) + copies * tables


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"focal_heads": 4}, "focal_heads must lie in 0 .. 3"),
        ({"focal_length": -1}, "focal_length"),
        ({"unreachable": "far"}, "unreachable must be"),
        ({"num_edge_types": 0}, "num_edge_types"),
        ({"heads": 5}, "multiple of heads"),
    ],
)
@EITHER
def test_bad_arguments_are_refused(kind: type, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        registry.construct(kind, {"dim": 12, "heads": 3, **arguments})


@EITHER
def test_bad_batches_are_refused(kind: type) -> None:
    batch, layer = example_batch((4, 3), edge_types=(7,)), kind(12, 3, focal=FocalSettings(num_edge_types=4)).double()
    with pytest.raises(ValueError, match=r"edge types 0 to 4 .* received 0 to 6"):
        layer(batch.x, None, batch)
    with pytest.raises(ValueError, match=r"reads types of edges"):
        layer(batch.x, None, example_batch((4, 3)))
    with pytest.raises(ValueError, match=r"reads hop distances"):
        layer(batch.x, None, example_batch((4, 3), pairs=False))
    with pytest.raises(ValueError, match="pairs or lists"):
        kind.required_transforms({"neighbors": "all", "focal_length": 1})
