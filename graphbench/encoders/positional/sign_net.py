"""Laplacian eigenvectors through a sign-invariant network.

Lim et al., Sign and Basis Invariant Networks for Spectral Graph Representation Learning,
https://arxiv.org/abs/2202.13013, as used by GraphGPS, https://arxiv.org/abs/2205.12454.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from graphbench.encoders.contract import ColumnEncoder
from graphbench.encoders.mlp import NormedMLP, over_rows
from graphbench.errors import ArgumentError, check_at_least
from graphbench.layers.module_list import Modules
from graphbench.layers.norm import BatchNorm
from graphbench.ops.propagate import propagate
from graphbench.registry import register
from graphbench.structures import GraphBatch


@register("SignNet")
class SignNet(ColumnEncoder):
    r"""SignNet: Laplacian positional encoding that does not depend on the signs of eigenvectors.

    pe_i = rho( [phi(v_k) + phi(-v_k)]_i, k = 1 .. max_freqs ), v_k the k-th eigenvector.

    ``phi`` is a GIN on the graph whose input is one number per node; ``rho`` an MLP of the concatenated frequencies
    (``MLP``) or of the sum over those that the graph has (``DeepSet``). Missing frequencies are NaN in the batch and 0
    in ``phi``; with ``MLP`` they are not masked afterwards and contribute ``phi`` of zeros.

    Args:
        dim_pe: width of the encoding.
        model: ``MLP`` or ``DeepSet`` (case ignored).
        layers: layers of ``phi``, 2 or more.
        post_layers: linear maps of ``rho``, 1 or more.
        max_freqs: frequencies per node in the input.
        phi_hidden_dim: width inside ``phi`` and ``rho``.
        phi_out_dim: output width of ``phi`` per frequency.

    Shape:
        eigvecs (N, max_freqs) -> (N, dim_pe)

    Differences from the paper (GraphGPS's):
        Eigenvalues are not read, and ``dim_pe`` need not be ``max_freqs``. In training, BatchNorm inside ``phi`` takes
        its statistics for v and for -v separately, over nodes and frequencies, missing ones included.
    """

    capturable: ClassVar[bool] = True
    transform: ClassVar[str | None] = "LaplacianPE"

    def __init__(
        self,
        dim_pe: int,
        *,
        model: str = "MLP",
        layers: int = 3,
        post_layers: int = 1,
        max_freqs: int = 10,
        phi_hidden_dim: int = 64,
        phi_out_dim: int = 4,
    ) -> None:
        super().__init__()
        if model.lower() not in ("mlp", "deepset"):
            raise ArgumentError("model", f"SignNet: model must be MLP or DeepSet, received '{model}'")
        check_at_least(2, layers=layers)
        sizes = {"dim_pe": dim_pe, "max_freqs": max_freqs, "phi_hidden_dim": phi_hidden_dim, "phi_out_dim": phi_out_dim}
        check_at_least(1, post_layers=post_layers, **sizes)
        self.max_freqs = max_freqs
        self.sums = model.lower() == "deepset"
        self.phi = _GIN(phi_hidden_dim, phi_out_dim, layers)
        self.rho = NormedMLP(phi_out_dim * (1 if self.sums else max_freqs), phi_hidden_dim, dim_pe, post_layers)

    def forward(self, batch: GraphBatch) -> Tensor:
        """(N, dim_pe) encodings of the nodes."""
        eigvecs = self.encoding(batch, "eigvecs", self.max_freqs).to(self.rho.dtype)
        absent = torch.isnan(eigvecs)
        v = eigvecs.masked_fill(absent, 0.0).unsqueeze(2)
        h = self.phi(v, batch) + self.phi(-v, batch)  # (N, max_freqs, phi_out_dim)
        h = h.masked_fill(absent.unsqueeze(2), 0.0).sum(1) if self.sums else h.flatten(1)
        return self.rho(h, batch)


class _GIN(nn.Module):
    """h' = MLP(h_i + sum of h_j over edges j -> i), a BatchNorm between layers; h is (N, max_freqs, width)."""

    def __init__(self, hidden: int, dim: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            NormedMLP(1 if i == 0 else hidden, hidden, dim if i == layers - 1 else hidden, 2) for i in range(layers)
        )
        self.norms: Modules[BatchNorm] = Modules(BatchNorm(hidden) for _ in range(layers - 1))

    def forward(self, h: Tensor, batch: GraphBatch) -> Tensor:
        adjacency = batch.adjacency()
        norms = iter(self.norms)
        for i, layer in enumerate(self.layers):
            if i:
                h = over_rows(next(norms), h, batch)
            h = layer(h + propagate(adjacency, h), batch)
        return h
