"""Softmax attention with a bias per pair of nodes, as in Graphormer (https://arxiv.org/abs/2106.05234)."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from graphbench.layers.attention.transformer import Transformer
from graphbench.registry import register
from graphbench.structures import GraphBatch


@register("BiasedTransformer")
class BiasedTransformer(Transformer):
    """Softmax attention with a bias per pair: :class:`Transformer` with ``state.pair_bias`` added to the scores.

    The bias is computed by an encoder.

    Equation::

        head_c = softmax(Q K^T / sqrt(d_k) + B_c) V

    B_c: column c of the bias, one entry per ordered pair (query, key) of a graph. Parameters, and outputs for a batch
    without a bias, are those of :class:`Transformer`.

    Shape:
        h (N, dim), pair_bias (sum n_g^2, heads) -> (N, dim).
    """

    capturable: ClassVar[bool] = True

    def pair_bias(self, batch: GraphBatch) -> Tensor | None:
        """(sum n_g^2, heads) bias from the batch's state, or None."""
        return batch.state.pair_bias
