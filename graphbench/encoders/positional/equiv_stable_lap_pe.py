"""Laplacian eigenvectors for layers that only use distances between encodings.

Wang et al., Equivariant and Stable Positional Encoding for More Powerful Graph Neural Networks,
https://openreview.net/forum?id=e95i1IHcWj, as used by GraphGPS, https://arxiv.org/abs/2205.12454.
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from graphbench.encoders.contract import BatchEncoder
from graphbench.encoders.mlp import raw_norm
from graphbench.errors import check_at_least
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("EquivStableLapPE")
class EquivStableLapPE(BatchEncoder):
    """Linear map of Laplacian eigenvectors, for layers that keep positions apart from states.

    p_i = W [v_1i, v_2i, ...] + b, v_k the k-th eigenvector; frequencies that a graph does not have are 0.

    The node features stay as they are and keep their full width; local layers read p as ``state.stable_encoding`` and
    weigh an edge by the distance between its ends.

    Args:
        dim: width of the encoding.
        max_freqs: frequencies per node in the input.
        raw_norm_type: ``none`` or ``BatchNorm``, applied to each frequency over nodes.

    Shape:
        h (N, d), eigvecs (N, max_freqs) -> h, batch with ``state.stable_encoding`` (N, dim)

    Differences from the paper (GraphGPS's): the layers do not update the encoding, and W mixes frequencies, so that its
        distances depend on the arbitrary signs of eigenvectors; signs are not drawn anew in training.
    """

    capturable: ClassVar[bool] = True
    transform: ClassVar[str | None] = "LaplacianPE"
    supplies = "stable_encoding"
    gates_local_layers = True

    def __init__(self, dim: FromContext[int], *, max_freqs: int = 10, raw_norm_type: str = "none") -> None:
        super().__init__()
        check_at_least(1, dim=dim, max_freqs=max_freqs)
        self.max_freqs = max_freqs
        self.raw_norm = raw_norm("EquivStableLapPE", raw_norm_type, max_freqs)
        self.lin = nn.Linear(max_freqs, dim)

    def forward(self, h: Tensor, batch: GraphBatch) -> tuple[Tensor, GraphBatch]:
        """``h`` as it came, and the batch with the encoding."""
        eigvecs = self.encoding(batch, "eigvecs", self.max_freqs).to(self.lin.weight.dtype)
        eigvecs = eigvecs.nan_to_num(0.0)
        if self.raw_norm is not None:
            eigvecs = self.raw_norm(eigvecs, batch)
        return h, batch.with_state(stable_encoding=self.lin(eigvecs))
