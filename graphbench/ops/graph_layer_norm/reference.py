"""Layer normalisation graph by graph."""

from __future__ import annotations

import torch
from torch import Tensor

from graphbench.structures import Ragged


def graph_layer_norm(h: Tensor, weight: Tensor, bias: Tensor, ragged: Ragged, eps: float) -> Tensor:
    """See :func:`graphbench.ops.graph_layer_norm.graph_layer_norm`."""
    blocks = [h.new_zeros(0, h.shape[1])]
    for rows in h.split(list(ragged.sizes)) if ragged.sizes else ():
        if rows.numel():
            centred = rows - rows.mean()
            blocks.append(centred / (centred.square().mean() + eps).sqrt() * weight + bias)
    return torch.cat(blocks)
