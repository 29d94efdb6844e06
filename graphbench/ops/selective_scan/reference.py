"""The recurrence as a loop over graphs and rows."""

from __future__ import annotations

import torch
from torch import Tensor

from graphbench.structures import Ragged


def selective_scan(x: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, d: Tensor, ragged: Ragged) -> Tensor:
    """See :func:`graphbench.ops.selective_scan.selective_scan`."""
    rows = [x.new_zeros(0, x.shape[1])]
    first = 0
    for size in ragged.sizes:
        state = torch.zeros_like(a)
        for t in range(first, first + size):
            state = torch.exp(delta[t, :, None] * a) * state + (delta[t] * x[t])[:, None] * b[t]
            rows.append((state @ c[t] + d * x[t])[None])
        first += size
    return torch.cat(rows)
