"""Laplacian eigenvectors, encoded as a set of (eigenvector entry, eigenvalue) pairs.

Kreuzer et al., Rethinking Graph Transformers with Spectral Attention, https://arxiv.org/abs/2106.03893, as used by
GraphGPS, https://arxiv.org/abs/2205.12454.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from graphbench.encoders.contract import ColumnEncoder, PositionalEncoder
from graphbench.encoders.mlp import ReLUStack, raw_norm, relu_linear
from graphbench.errors import ArgumentError, check_at_least
from graphbench.ops.eigen_pairs import eigen_pairs, sum_present
from graphbench.ops.segment import segment_flip
from graphbench.registry import register
from graphbench.structures import GraphBatch


class LaplacianEncoder(PositionalEncoder):
    r"""pe_i = post( sum_k net( W [v_ki, lambda_k] ) ), v_k the k-th eigenvector and lambda_k its eigenvalue.

    ``net`` reads the pairs of one node: ``DeepSet`` is an MLP of single pairs (ReLU after every map), ``Transformer``
    attention between them (PyTorch's encoder layer: post-norm, ReLU, feed-forward width 2048, dropout 0.1).
    Frequencies that a small graph does not have are NaN in the input and masked in attention and sum.

    ``Linear`` is another encoding (Gradformer's): pe_i = W [v_1i, v_2i, ...] + b, absent frequencies 0.

    Args:
        dim_pe: width of the encoding.
        model: ``DeepSet``, ``Transformer`` or ``Linear`` (case ignored).
        layers: depth of ``net``; for DeepSet the first map counts.
        n_heads: attention heads (Transformer only); must divide ``dim_pe``.
        post_layers: linear maps after the sum (or after W), each with a ReLU.
        raw_norm_type: ``none`` or ``BatchNorm``, applied to each frequency over nodes and both entries (``Linear``: the
            eigenvector's).
        max_freqs: frequencies per node in the input.

    Shape:
        eigvecs (N, max_freqs), eigvals (N, max_freqs) -> (N, dim_pe)

    Differences from the paper:
        An eigenvector's sign is arbitrary, so training draws it anew in every step. We draw one sign per graph and
        frequency; GraphGPS draws one per frequency, common to all graphs of a batch.
    """

    transform: ClassVar[str | None] = "LaplacianPE"

    def __init__(
        self,
        dim_pe: int,
        *,
        model: str = "DeepSet",
        layers: int = 3,
        n_heads: int = 4,
        post_layers: int = 0,
        raw_norm_type: str = "none",
        max_freqs: int = 10,
    ) -> None:
        super().__init__()
        network = model.lower()
        if network not in ("deepset", "transformer", "linear"):
            raise ArgumentError("model", f"LapPE: model must be DeepSet, Transformer or Linear, received '{model}'")
        check_at_least(1, dim_pe=dim_pe, layers=layers, max_freqs=max_freqs)
        check_at_least(0, post_layers=post_layers)
        if network == "transformer" and dim_pe % n_heads:
            raise ArgumentError(
                ("n_heads", "dim_pe"), f"LapPE: n_heads must divide dim_pe, received {n_heads} and {dim_pe}"
            )
        self.max_freqs = max_freqs
        self.raw_norm = raw_norm("LapPE", raw_norm_type, max_freqs)
        self.mlp: ReLUStack | None = None
        self.by_frequency = network == "linear"
        if self.by_frequency:
            self.lin_in = nn.Linear(max_freqs, dim_pe)
        elif network == "deepset":
            self.lin_in = nn.Linear(2, dim_pe if layers == 1 else 2 * dim_pe)
            self.mlp = ReLUStack(2 * dim_pe, dim_pe, layers - 1)
        else:
            self.lin_in = nn.Linear(2, dim_pe)
        attention_layers = layers if network == "transformer" else 0
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(dim_pe, n_heads, batch_first=True) for _ in range(attention_layers)
        )
        self.post_mlp = ReLUStack(dim_pe, dim_pe, post_layers)

    def encode(self, batch: GraphBatch) -> Tensor:
        """(N, dim_pe) encodings of the nodes."""
        dtype = self.lin_in.weight.dtype
        eigvecs = self.encoding(batch, "eigvecs", self.max_freqs).to(dtype)
        if self.by_frequency:
            return self._by_frequency(eigvecs, batch)
        eigvals = self.encoding(batch, "eigvals", self.max_freqs).to(dtype)
        pairs, present = eigen_pairs(eigvecs, eigvals, batch.ragged, flip=self.training)
        if self.raw_norm is not None:
            pairs = self.raw_norm(pairs, batch)
        h = self.lin_in(pairs) if self.mlp is None else self.mlp(relu_linear(pairs, self.lin_in))
        if len(h) and len(self.layers):  # PyTorch's layer refuses to attend over no node at all
            absent = present == 0
            for layer in self.layers:
                h = layer(h, src_key_padding_mask=absent)
        return self.post_mlp(sum_present(h, present))

    def _by_frequency(self, eigvecs: Tensor, batch: GraphBatch) -> Tensor:
        absent = torch.isnan(eigvecs)
        if self.training:
            coin = torch.randint(0, 2, (batch.num_graphs, self.max_freqs), device=batch.device)
            eigvecs = segment_flip(eigvecs, coin, batch.ragged)
        eigvecs = eigvecs.masked_fill(absent, 0.0)
        if self.raw_norm is not None:
            eigvecs = self.raw_norm(eigvecs, batch)
        return self.post_mlp(self.lin_in(eigvecs))


@register("LapPE")
class LapPE(LaplacianEncoder, ColumnEncoder):
    """Laplacian positional encoding, concatenated with the features: :class:`LaplacianEncoder`."""

    capturable: ClassVar[bool] = True

    def forward(self, batch: GraphBatch) -> Tensor:
        """(N, dim_pe) encodings of the nodes."""
        return self.encode(batch)
