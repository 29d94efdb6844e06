"""Activations by name."""

from __future__ import annotations

import pytest
import torch

from graphbench.layers.activation import ACTIVATIONS, activation


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_name_builds_a_new_module(name: str) -> None:
    assert activation(name) is not activation(name)
    assert activation(name)(torch.tensor([-1.0, 2.0])).isfinite().all()


@pytest.mark.parametrize(
    ("name", "at_minus_one"), [("relu", 0.0), ("lrelu_01", -0.1), ("lrelu_025", -0.25), ("swish", -0.26894143)]
)
def test_values(name: str, at_minus_one: float) -> None:
    assert activation(name)(torch.tensor(-1.0)).item() == pytest.approx(at_minus_one)


def test_unknown_name() -> None:
    with pytest.raises(ValueError, match="received 'gleu', did you mean 'gelu'"):
        activation("gleu")
