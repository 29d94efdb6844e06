"""The survey's layer against PyG's convolutions and dense attention, graph by graph."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GINConv

from graphbench.data.store import GraphStore
from graphbench.encoders.positional.graph_token import GraphToken
from graphbench.encoders.positional.proximity_bias import ProximityBias
from graphbench.layers.blocks.transformer_gnn import TransformerGNN
from graphbench.layers.sharing import tie_layers
from graphbench.structures import GraphBatch, Ragged
from graphbench.transforms.adjacency_powers import ProximityPowers
from tests.contract import alone, example_batch, shaken
from tests.joined import joined

SIZES = (6, 1, 11)


def peer_of(layer: TransformerGNN, gnn: str) -> nn.Module:
    if gnn == "GIN":
        return GINConv(layer.local.mlp)
    peer = GATConv(12, 3, heads=4).double()
    weights = layer.local.state_dict()
    named = {"bias": "bias", "lin.weight": "lin.weight", "att_src": "att_source", "att_dst": "att_target"}
    shapes = {name: value.shape for name, value in peer.state_dict().items()}
    peer.load_state_dict({name: weights[named[name]].view(shapes[name]) for name in shapes})
    return peer


def attention(layer: TransformerGNN, h: Tensor, bias: Tensor) -> Tensor:
    q, k, v = layer.attention.qkv(h).split(12, 1)
    heads = []
    for head in range(3):
        c = slice(4 * head, 4 * head + 4)
        heads.append(torch.softmax(q[:, c] @ k[:, c].t() / math.sqrt(4) + bias[:, :, head], 1) @ v[:, c])
    return layer.attention.out(torch.cat(heads, 1))


@pytest.mark.parametrize("gnn", ["GAT", "GIN"])
@pytest.mark.parametrize("position", ["before", "after", "beside"])
def test_the_layer_is_its_equations(gnn: str, position: Any) -> None:
    layer = shaken(TransformerGNN(12, 3, gnn=gnn, position=position, has_token=True).double()).eval()
    batch, peer = example_batch(SIZES), peer_of(layer, gnn)
    bias = torch.randn(batch.ragged.num_pairs, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    out, _, _ = layer(batch.x, batch.edge_attr, batch.with_state(pair_bias=bias))

    def passed(h: Tensor, edge_index: Tensor) -> Tensor:
        new = torch.relu(peer(h, edge_index))
        new[0] = 0  # the token
        return h + new

    expected = []
    for number, block in enumerate(bias.split([size * size for size in SIZES])):
        graph = alone(batch, number)
        h, edges, n = graph.x, graph.edge_index, graph.num_nodes
        h = passed(h, edges) if position == "before" else h
        x = layer.norm_attention(h + attention(layer, h, block.view(n, n, 3)))
        x = {"before": x, "after": passed(x, edges), "beside": x + passed(h, edges)}[position]
        ffn = layer.feed_forward
        expected.append(layer.norm_ffn(x + ffn.lin_out(nn.functional.gelu(ffn.lin_in(x)))))
    torch.testing.assert_close(out, torch.cat(expected))


@pytest.mark.parametrize(("position", "kept"), [("before", 1), ("after", 3), ("beside", 3)])
def test_message_passing_before_attention_is_in_the_first_layer(position: Any, kept: int) -> None:
    layers = nn.ModuleList(TransformerGNN(12, 3, gnn="GIN", position=position) for _ in range(3))
    tie_layers(layers)
    assert [layer.local is not None for layer in layers] == [number < kept for number in range(3)]


def test_without_message_passing_there_is_nothing_at_its_place() -> None:
    layers = [shaken(TransformerGNN(12, 3, position=where).double()) for where in ("before", "after", "beside")]
    for layer in layers:
        layer.load_state_dict(layers[0].state_dict())
    batch = example_batch(SIZES)
    outputs = [layer(batch.x, None, batch)[0] for layer in layers]
    assert torch.equal(outputs[0], outputs[1])
    assert torch.equal(outputs[0], outputs[2])


def test_an_unknown_position_is_named() -> None:
    with pytest.raises(ValueError, match="position must be one of before, after, beside; received 'above'"):
        TransformerGNN(12, 3, position="above")


def test_proximities_tell_graphs_apart_that_have_the_same_nodes() -> None:
    """Two rings, colours alternating and side by side: the token learns which is which, by the bias alone."""
    torch.manual_seed(0)
    ring = torch.stack([torch.arange(6), torch.arange(6).roll(-1)])
    edges = torch.cat([ring, ring.flip(0)], 1)
    powers = ProximityPowers(3)(GraphStore.from_arrays([6, 6], [12, 12], torch.cat([edges, edges], 1)))["powers"]
    batch = joined([GraphBatch(Ragged.from_sizes([6]), edges)] * 2)
    batch = batch.replace(pair_pe={"ProximityBias.powers": powers.double()})
    colours = torch.tensor([0, 1, 0, 1, 0, 1, 0, 0, 0, 1, 1, 1])
    parts = [nn.Embedding(2, 8), GraphToken(8), ProximityBias(2), TransformerGNN(8, 2), TransformerGNN(8, 2)]
    model = nn.ModuleList([*parts, nn.Linear(8, 1)]).double()

    def logits(biased: bool) -> Tensor:
        table, token, bias, *layers, out = model
        h, tokened = token(table(colours), batch)
        h, tokened = bias(h, tokened) if biased else (h, tokened)
        for layer in layers:
            h, _, tokened = layer(h, None, tokened)
        return out(h.index_select(0, tokened.ragged.ptr[:-1])).flatten()

    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    for _ in range(200):
        optimizer.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(logits(True), torch.tensor([1.0, 0.0]).double())
        loss.backward()
        optimizer.step()
    assert loss < 0.1
    blind = logits(False)
    torch.testing.assert_close(blind[0], blind[1])
