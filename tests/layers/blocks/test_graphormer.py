"""Attention with a bias per pair: recorded layers of GraphGPS, and the bias itself."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from graphbench.layers.attention.biased_transformer import BiasedTransformer
from graphbench.layers.attention.transformer import Transformer
from graphbench.layers.blocks.graphormer import GraphormerLayer
from graphbench.layers.gps import GPSBlock
from graphbench.layers.local.gin import GINE
from tests.contract import example_batch
from tests.layers.recorded import batch_of, close, load, ours, packed


def flat_bias(arrays: dict[str, Any], sizes: tuple[int, ...], heads: int) -> Tensor:
    """Recorded (graphs * heads, n, n) -> (sum n_g^2, heads)."""
    blocks = arrays["in/attn_bias"].double().view(len(sizes), heads, *arrays["in/attn_bias"].shape[1:])
    return torch.cat([each[:, :n, :n].permute(1, 2, 0).flatten(0, 1) for each, n in zip(blocks, sizes, strict=True)])


def flat_gradient(arrays: dict[str, Any], sizes: tuple[int, ...], heads: int) -> Tensor:
    return flat_bias({"in/attn_bias": arrays["grad/in.attn_bias"]}, sizes, heads)


@pytest.mark.parametrize("name", ["graphormer_layer_bias", "graphormer_layer_nobias"])
def test_graphormer_layer_equals_graphgps(golden, name: str) -> None:
    arrays = golden(f"graphgps/{name}")
    heads = arrays["config"]["heads"]
    layer, batch = load(GraphormerLayer(arrays["config"]["dim"], heads), arrays), batch_of(arrays)
    bias = None
    if arrays["config"]["bias"]:
        bias = flat_bias(arrays, batch.ragged.sizes, heads).requires_grad_()
    h, e, after = layer(batch.x, None, batch if bias is None else batch.with_state(pair_bias=bias))
    assert e is None
    close(h, arrays["out/x"], "nodes")
    (h * arrays["in/grad_seed.x"]).sum().backward()
    expected = packed(arrays, "grad")
    for parameter_name, parameter in layer.named_parameters():
        close(parameter.grad, expected[parameter_name], parameter_name)
    close(batch.x.grad, expected["in.x"], "input")
    if bias is not None:
        assert after.state.pair_bias is bias
        close(bias.grad, flat_gradient(arrays, batch.ragged.sizes, heads), "bias")


@pytest.mark.parametrize("name", ["GINE_BiasedTransformer_layer", "None_BiasedTransformer_batch"])
def test_gps_block_with_biased_attention_equals_graphgps(golden, name: str) -> None:
    arrays = golden(f"graphgps/gpslayer_{name}")
    config = arrays["config"]
    dim, heads = config["dim"], config["heads"]
    local = GINE(dim, dim, dim_edge=dim, act=config["act"]) if config["local"] == "GINE" else None
    block = GPSBlock(dim, [local, BiasedTransformer(dim, heads)], act=config["act"], norm=config["norm"])

    def in_block(recorded: str) -> str:
        known = ours(recorded)
        for part, place in (("local.", "branches.0.part."), ("attention.", "branches.1.part.")):
            if known.startswith(part):
                return place + known.removeprefix(part)
        return known.replace("norm_local.", "branches.0.norm.").replace("norm_attention.", "branches.1.norm.")

    load(block, arrays, in_block)
    batch = batch_of(arrays)
    bias = flat_bias(arrays, batch.ragged.sizes, heads).requires_grad_()
    h, _, _ = block(batch.x, batch.edge_attr, batch.with_state(pair_bias=bias))
    close(h, arrays["out/x"], "nodes")
    (h * arrays["in/grad_seed.x"]).sum().backward()
    expected = packed(arrays, "grad", in_block)
    for parameter_name, parameter in block.named_parameters():
        if parameter_name in expected:
            close(parameter.grad, expected[parameter_name], parameter_name)
        else:
            assert parameter.grad is None, parameter_name
    close(bias.grad, flat_gradient(arrays, batch.ragged.sizes, heads), "bias")


def test_without_a_bias_it_is_the_transformer() -> None:
    plain, biased, batch = Transformer(12, 3).double(), BiasedTransformer(12, 3).double(), example_batch()
    biased.load_state_dict(plain.state_dict())
    assert torch.equal(plain(batch.x, None, batch), biased(batch.x, None, batch))


def test_a_bias_decides_who_is_seen() -> None:
    """A bias that leaves every node only itself makes attention a linear map of the node."""
    batch = example_batch((3, 2))
    alone = torch.cat([torch.eye(n).flatten() for n in batch.ragged.sizes]).log().clamp(min=-1e9)
    layer = BiasedTransformer(12, 3).double()
    biased = batch.with_state(pair_bias=alone[:, None].expand(-1, 3).double().contiguous())
    value = layer.qkv(batch.x)[:, 24:]
    torch.testing.assert_close(layer(batch.x, None, biased), layer.out(value))
    for weights, n in zip(layer.attention_weights(batch.x, None, biased), batch.ragged.sizes, strict=True):
        torch.testing.assert_close(weights, torch.eye(n, dtype=torch.float64).expand(3, n, n))


def test_a_bias_for_another_number_of_heads_is_refused() -> None:
    batch = example_batch((3, 2))
    with pytest.raises(ValueError, match=r"bias must be \(13, 3\).*received \(13, 4\)"):
        BiasedTransformer(12, 3)(batch.x.float(), None, batch.with_state(pair_bias=torch.zeros(13, 4)))


def test_dropouts_act_where_they_should() -> None:
    """Everything dropped after attention and the feed-forward part: the layer is the identity."""
    batch, layer = example_batch(), GraphormerLayer(12, 3, dropout=1.0, mlp_dropout=0.5).double().train()
    assert torch.equal(layer(batch.x, None, batch)[0], batch.x)
    layer = GraphormerLayer(12, 3, mlp_dropout=1.0).double().train()
    x = batch.x + layer.attention(layer.norm_attention(batch.x), None, batch)
    torch.testing.assert_close(layer(batch.x, None, batch)[0], x + layer.feed_forward.lin_out.bias)
