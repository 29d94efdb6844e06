"""Wavelets as positions: WavePE of Ngo, Hy, Kondor, https://arxiv.org/abs/2302.08647."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from graphbench.encoders.contract import BatchEncoder
from graphbench.encoders.mlp import raw_norm
from graphbench.errors import ArgumentError, check_at_least
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("WavePE")
class WavePE(BatchEncoder):
    """Wavelet positional encoding, joined with the features by a linear map.

    h'_i = W [h_i | p_i] + b,  p_i = V norm(w_i) + c,  w_i the wavelets of node i (transform ``Wavelets``).

    Local layers may read p as ``state.stable_encoding`` (``equivstable: true`` of GatedGCN) and weigh an edge by the
    distance between its ends.

    Args:
        dim: the first columns of ``h``, which are mapped; encodings named after this one follow them.
        dim_pe: width of p.
        scales: scales of the wavelets.
        raw_norm_type: ``none`` or ``BatchNorm`` over the numbers of each scale.

    Shape:
        h (N, dim + c), wavelets (N, len(scales)) -> h' (N, dim + c), batch with ``state.stable_encoding`` (N, dim_pe)

    Differences from the released code: none known. Its learnable encoding of whole wavelets is not here.
    """

    capturable: ClassVar[bool] = True
    transform: ClassVar[str | None] = "Wavelets"
    supplies = "stable_encoding"

    def __init__(
        self, dim: FromContext[int], *, dim_pe: int = 16, scales: list[float], raw_norm_type: str = "BatchNorm"
    ) -> None:
        super().__init__()
        if not scales:
            raise ArgumentError("scales", "WavePE: scales must name at least one scale, received none")
        check_at_least(1, dim_pe=dim_pe)
        self.dim, self.num_scales = dim, len(scales)
        self.raw_norm = raw_norm("WavePE", raw_norm_type, self.num_scales)
        self.lin_position = nn.Linear(self.num_scales, dim_pe)
        self.lin = nn.Linear(dim + dim_pe, dim)

    def forward(self, h: Tensor, batch: GraphBatch) -> tuple[Tensor, GraphBatch]:
        """New node states (N, dim + c), and the batch with the encoding."""
        wavelets = self.encoding(batch, "wavelets", self.num_scales).to(h.dtype)
        if self.raw_norm is not None:
            wavelets = self.raw_norm(wavelets, batch)
        position = self.lin_position(wavelets)
        new = self.lin(torch.cat([h[:, : self.dim], position], dim=1))
        return torch.cat([new, h[:, self.dim :]], dim=1), batch.with_state(stable_encoding=position)
