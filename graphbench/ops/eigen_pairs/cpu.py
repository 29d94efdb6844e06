"""Pairs and their sum by torch's operations, on every device."""

from __future__ import annotations

import torch
from torch import Tensor

from graphbench.ops.segment import segment_flip
from graphbench.structures import Ragged


@torch.no_grad()
def eigen_pairs(eigvecs: Tensor, eigvals: Tensor, ragged: Ragged, flip: bool) -> tuple[Tensor, Tensor]:
    """See :func:`graphbench.ops.eigen_pairs.eigen_pairs`."""
    absent = torch.isnan(eigvecs)
    if flip:
        coin = torch.randint(0, 2, (ragged.num_graphs, eigvecs.shape[1]), device=eigvecs.device)
        eigvecs = segment_flip(eigvecs, coin, ragged)
    pairs = torch.stack([eigvecs, eigvals], dim=2).masked_fill(absent[:, :, None], 0.0)
    return pairs, (~absent).to(eigvecs.dtype)


def sum_present(x: Tensor, present: Tensor) -> Tensor:
    """See :func:`graphbench.ops.eigen_pairs.sum_present`; one product on a device, where launches count."""
    device = x.device.type
    if device == "cpu" or torch.is_autocast_enabled(device):
        return x.masked_fill((present == 0)[:, :, None], 0.0).sum(1)
    return torch.bmm(present[:, None].to(x.dtype), x).squeeze(1)
