"""Laplacian eigenvectors added to the node states, not concatenated: the encoding of FFGT's Vanilla transformer.

Zhu et al., https://arxiv.org/abs/2311.04653, after https://arxiv.org/abs/2206.08164.
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor
from torch.nn.functional import pad

from graphbench.encoders.contract import BatchEncoder
from graphbench.encoders.positional.lap_pe import LaplacianEncoder
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("AddLapPE")
class AddLapPE(LaplacianEncoder, BatchEncoder):
    r"""Laplacian positional encoding, added to the node states.

    h_i <- h_i + sum_k net( W [v_ki, lambda_k] ): the DeepSet of :class:`LaplacianEncoder`, as wide as the states.

    Args:
        dim: the first columns of ``h``, which it is added to; encodings named after this one follow them.
        layers: depth of ``net``; the first map counts.
        max_freqs: eigenpairs per graph.

    Shape:
        h (N, dim + c), eigvecs (N, max_freqs), eigvals (N, max_freqs) -> (N, dim + c)

    Differences from the paper: its tables say an encoding of 8 or 10 columns through a linear map; its released code
    has this, and its printed parameter counts contain it. Signs as in :class:`LaplacianEncoder`.
    """

    capturable: ClassVar[bool] = True

    def __init__(self, dim: FromContext[int], *, layers: int = 2, max_freqs: int = 8) -> None:
        super().__init__(dim, layers=layers, max_freqs=max_freqs)
        self.dim = dim

    def forward(self, h: Tensor, batch: GraphBatch) -> tuple[Tensor, GraphBatch]:
        """The states plus the encoding, and the batch as it came."""
        encoded = self.encode(batch)
        if h.shape[1] > self.dim:
            encoded = pad(encoded, (0, h.shape[1] - self.dim))
        return h + encoded, batch
