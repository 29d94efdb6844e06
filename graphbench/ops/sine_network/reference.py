"""Networks of sines as they are written."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def sine_network(z: Tensor, hidden: Sequence[tuple[Tensor, Tensor]], out: Tensor, frequency: Tensor) -> Tensor:
    """See :func:`graphbench.ops.sine_network.sine_network`."""
    for weight, bias in hidden:
        z = torch.sin(frequency * (z @ weight.t() + bias))
    return z @ out.t()
