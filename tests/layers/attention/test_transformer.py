"""Softmax attention layer against torch's own."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from graphbench.layers.attention.transformer import Transformer
from tests.contract import example_batch


def test_equals_torch_multihead_attention_graph_by_graph() -> None:
    theirs = nn.MultiheadAttention(12, 4, batch_first=True).double()
    ours = Transformer(12, 4).double()
    names = {"in_proj_weight": "qkv.weight", "in_proj_bias": "qkv.bias"}
    state = {names.get(name, name.replace("out_proj", "out")): value for name, value in theirs.state_dict().items()}
    ours.load_state_dict(state)
    batch = example_batch()
    expected = [theirs(part[None], part[None], part[None])[0][0] for part in batch.x.split(list(batch.ragged.sizes))]
    torch.testing.assert_close(ours(batch.x, None, batch), torch.cat(expected))


def test_initialisation_is_that_of_torch() -> None:
    torch.manual_seed(3)
    theirs, ours = nn.MultiheadAttention(64, 4), Transformer(64, 4)
    for a, b in ((theirs.in_proj_weight, ours.qkv.weight), (theirs.out_proj.weight, ours.out.weight)):
        assert a.shape == b.shape
        assert b.abs().max().item() == pytest.approx(a.abs().max().item(), rel=0.01)
    assert not ours.qkv.bias.any()
    assert not ours.out.bias.any()


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(ValueError, match="dim=10, heads=4"):
        Transformer(10, 4)


def test_dropout_keeps_the_expectation() -> None:
    layer, batch = Transformer(12, 4, dropout=0.3).double(), example_batch((30,))
    expected = layer.eval()(batch.x, None, batch)
    layer.train()
    mean = torch.stack([layer(batch.x, None, batch) for _ in range(2000)]).mean(0)
    assert (mean - expected).abs().max() < 0.05 * expected.abs().max()
