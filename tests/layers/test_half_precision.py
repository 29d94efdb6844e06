"""Random directions under the default types of Fabric's precisions."""

from __future__ import annotations

import pytest
import torch

from graphbench.layers.attention.performer import directions


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64], ids=str)
def test_directions_are_drawn_whatever_the_default_type(dtype: torch.dtype) -> None:
    before = torch.get_default_dtype()
    torch.manual_seed(3)
    expected = directions(5, 4)
    torch.manual_seed(3)
    torch.set_default_dtype(dtype)
    try:
        drawn = directions(5, 4)  # bf16-true sets it around the forward pass, where NodeFormer and Performer draw
    finally:
        torch.set_default_dtype(before)
    assert drawn.dtype == torch.promote_types(dtype, torch.float32)
    if dtype != torch.float64:
        assert torch.equal(drawn, expected)
