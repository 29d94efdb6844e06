"""The feed-forward part and the dropout module."""

from __future__ import annotations

import pytest
import torch

from graphbench.layers.dropout import Dropout
from graphbench.layers.feed_forward import FeedForward


def test_equation_and_size() -> None:
    layer, h = FeedForward(6, act="gelu", dropout=0.5).eval(), torch.randn(4, 6)
    expected = layer.lin_out(torch.nn.functional.gelu(layer.lin_in(h)))
    torch.testing.assert_close(layer(h), expected)
    assert sum(p.numel() for p in layer.parameters()) == 6 * 12 + 12 + 12 * 6 + 6


def test_dropout_acts_twice_in_training() -> None:
    layer = FeedForward(200, dropout=0.5)
    dropped = (layer(torch.randn(50, 200)) == 0).float().mean().item()
    assert dropped == pytest.approx(0.5, abs=0.03)
    seen = []
    layer.lin_out.register_forward_pre_hook(lambda _m, args: seen.append((args[0] == 0).float().mean().item()))
    layer(torch.randn(50, 200))
    assert seen[0] == pytest.approx(0.75, abs=0.03)  # relu and dropout


def test_the_result_may_be_dropped_with_a_probability_of_its_own() -> None:
    h = torch.randn(50, 200)
    assert not FeedForward(200, dropout_out=1.0)(h).any()
    assert not (FeedForward(200, dropout=0.5, dropout_out=0.0)(h) == 0).any()
    assert FeedForward(200, expansion=1).lin_in.out_features == 200


def test_dropout_module_is_the_identity_in_evaluation() -> None:
    x = torch.randn(5, 3)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x


@pytest.mark.parametrize("p", [-0.1, 1.5])
def test_dropout_refuses_impossible_probabilities(p: float) -> None:
    with pytest.raises(ValueError, match=str(p)):
        Dropout(p)
