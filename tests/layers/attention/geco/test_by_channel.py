"""Maps with results channel by channel: equal to the plain ones, and laid out as promised."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from graphbench.layers.attention.geco.by_channel import by_channel, projected
from graphbench.layers.attention.geco.local_context import LocalContext
from graphbench.layers.attention.geco.node_order import arrange, random_order
from tests.contract import example_batch, shaken


@pytest.mark.parametrize("biased", [False, True])
def test_the_product_lies_channel_by_channel(biased: bool) -> None:
    x, lin = torch.randn(9, 5).double(), nn.Linear(5, 7, bias=biased).double()
    out = by_channel(x, lin.weight, lin.bias)
    assert out.t().is_contiguous()
    torch.testing.assert_close(out, lin(x))


@pytest.mark.parametrize("kind", ["propagation", "gat", "conv-4", "none"])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("ordered", [False, True])
def test_the_projection_is_the_same(kind: str, training: bool, ordered: bool) -> None:
    """Values and gradients, with the normalisation in the weights (evaluation) and without."""
    torch.manual_seed(0)
    batch = example_batch((40,), node_dim=6)
    order = random_order(batch.ragged) if ordered else None
    local = shaken(LocalContext(6, kind).double()).train(training)
    projection = nn.Linear(local.dim_out, 8).double()
    found = []
    for ours in (True, False):
        module = nn.ModuleList([copy.deepcopy(local), copy.deepcopy(projection)])
        h = batch.x.clone().requires_grad_()
        if ours:
            out = projected(module[0], module[1], h, batch, order)
            assert out.t().is_contiguous()
        else:
            out = module[1](arrange(module[0](h, batch, order), order))
        out.square().sum().backward()
        found.append([out, h.grad, *(each.grad for each in module.parameters())])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_under_autocast_nothing_is_folded() -> None:
    """What lies far from zero keeps its digits."""
    batch = example_batch((40,), node_dim=6)
    local, projection = LocalContext(6, "propagation").eval(), nn.Linear(12, 8)
    local.norm.running_mean.fill_(1000.0)
    h = batch.x.float() + 1000
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        out, expected = projected(local, projection, h, batch, None), projection(local(h, batch, None))
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out, expected, rtol=0.05, atol=0.05 * expected.abs().max().item())
