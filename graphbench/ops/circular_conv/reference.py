"""Circular convolution as a loop over graphs, each with its circulant matrix for every channel."""

from __future__ import annotations

import torch
from torch import Tensor

from graphbench.structures import Ragged


def circular_conv(u: Tensor, filters: Tensor, gate: Tensor | None, ragged: Ragged) -> Tensor:
    """See :func:`graphbench.ops.circular_conv.circular_conv`."""
    sizes = ragged.distinct_sizes
    taps = dict(zip(sizes, filters.split(list(sizes)) if sizes else ()))
    blocks = [u.new_zeros(0, u.shape[1])]
    for u_id in u.split(list(ragged.sizes)) if ragged.sizes else ():
        position = torch.arange(len(u_id), device=u.device)
        if len(u_id):
            circulant_tid = taps[len(u_id)][(position[:, None] - position) % len(u_id)]
            blocks.append(torch.einsum("tid,id->td", circulant_tid, u_id))
    out = torch.cat(blocks)
    return out if gate is None else gate * out
