"""One tensor for several consumers."""

from __future__ import annotations

import pytest
import torch

from graphbench.ops.fan_out import fan_out
from tests.ops.ragged_inputs import BACKEND, DEVICE


def test_on_the_host_it_is_the_tensor_itself() -> None:
    x = torch.ones(2)
    assert all(y is x for y in fan_out(x, 4))


@pytest.mark.parametrize(("uses", "read"), [(3, 3), (4, 4), (4, 3), (4, 1), (4, 0), (5, 5)])
def test_gradient_is_the_sum(uses: int, read: int) -> None:
    x = torch.randn(70, 20, dtype=torch.float64, device=DEVICE, requires_grad=True)
    weights = torch.randn(read, 20, 70, dtype=torch.float64, device=DEVICE)
    copies = fan_out(x, uses, backend=BACKEND)
    assert len(copies) == uses
    loss = sum(((y.t() * weight).sum() for y, weight in zip(copies, weights, strict=False)), x.sum())
    (grad,) = torch.autograd.grad(loss, x)
    torch.testing.assert_close(grad, 1 + weights.sum(0).t(), rtol=1e-13, atol=1e-13)
