"""Rows of a truncated singular value decomposition: GECO, https://arxiv.org/abs/2406.12059, Appendix B.1."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from graphbench.encoders.contract import ColumnEncoder
from graphbench.encoders.mlp import raw_norm
from graphbench.errors import check_at_least
from graphbench.ops.segment import segment_flip
from graphbench.registry import register
from graphbench.structures import GraphBatch


@register("SVDPE")
class SVDPE(ColumnEncoder):
    """Positional encoding by a truncated singular value decomposition.

    pe_i = W u_i + b, u_i the row of node i in a truncated singular value decomposition.

    Args:
        dim_pe: width of the encoding.
        rank: numbers per node in the input.
        raw_norm_type: ``none`` or ``BatchNorm`` over the numbers of each singular value.

    Shape:
        vectors (N, rank) -> (N, dim_pe)

    Differences from the paper: it appends u_i as it is. Signs of singular vectors are arbitrary, so that training
    draws them anew in every step, one per graph and column, as for Laplacian eigenvectors.
    """

    capturable: ClassVar[bool] = True
    transform: ClassVar[str | None] = "TruncatedSVD"

    def __init__(self, dim_pe: int, *, rank: int = 8, raw_norm_type: str = "none") -> None:
        super().__init__()
        check_at_least(1, dim_pe=dim_pe, rank=rank)
        self.rank = rank
        self.raw_norm = raw_norm("SVDPE", raw_norm_type, rank)
        self.lin = nn.Linear(rank, dim_pe)

    def forward(self, batch: GraphBatch) -> Tensor:
        """(N, dim_pe) encodings of the nodes."""
        rows = self.encoding(batch, "vectors", self.rank).to(self.lin.weight.dtype)
        if self.training:
            coin = torch.randint(0, 2, (batch.num_graphs, self.rank), device=batch.device)
            rows = segment_flip(rows, coin, batch.ragged)
        if self.raw_norm is not None:
            rows = self.raw_norm(rows, batch)
        return self.lin(rows)
