"""Networks of sines: gradients, and what is refused. The kernels: interpreted_sine_network.py."""

from __future__ import annotations

import pytest
import torch

from tests.ops.sine_networks import call, parameters


def test_gradient() -> None:
    z = torch.randn(5, 3, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda *values: call(z, *values), parameters(3, 4, 2, 6))


def test_wrong_arguments_are_refused() -> None:
    z, values = torch.ones(2, 3), [x.float() for x in parameters(3, 4, 2, 6)]
    with pytest.raises(ValueError, match=r"hidden layers must have shapes \[\(\(4, 5\), \(4,\)\), .* received"):
        call(torch.ones(2, 5), *values)
    with pytest.raises(ValueError, match="z gets no gradient from backend gpu, received a tensor that requires one"):
        call(z.requires_grad_(), *values, backend="gpu")
