"""Networks of sines layer by layer."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F


def sine_network(z: Tensor, hidden: Sequence[tuple[Tensor, Tensor]], out: Tensor, frequency: Tensor) -> Tensor:
    """See :func:`graphbench.ops.sine_network.sine_network`."""
    for weight, bias in hidden:
        z = torch.sin(frequency * F.linear(z, weight, bias))
    return F.linear(z, out)
