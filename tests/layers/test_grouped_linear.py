"""Every group against a linear map of its own."""

from __future__ import annotations

import pytest
import torch

from graphbench.layers.grouped_linear import GroupedLinear


@pytest.mark.parametrize("bias", [True, False])
def test_every_group_is_mapped_by_itself(bias: bool) -> None:
    layer, x = GroupedLinear(3, 4, 5, bias=bias).double(), torch.randn(6, 3, 4, dtype=torch.float64)
    for group, (rows, weight) in enumerate(zip(x.unbind(1), layer.weight)):
        expected = rows @ weight if layer.bias is None else rows @ weight + layer.bias[group]
        torch.testing.assert_close(layer(x)[:, group], expected)
    assert layer(x[:0]).shape == (0, 3, 5)
