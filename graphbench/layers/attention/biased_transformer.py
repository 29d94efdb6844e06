"""Softmax attention with a bias per pair of nodes, as in Graphormer (https://arxiv.org/abs/2106.05234)."""

from __future__ import annotations

from torch import Tensor

from graphbench.layers.attention.transformer import Transformer
from graphbench.registry import register
from graphbench.structures import GraphBatch


@register("BiasedTransformer")
class BiasedTransformer(Transformer):
    """:class:`Transformer` whose scores get the ``pair_bias`` that an encoder left in the batch's state.

    Equation::

        head_c = softmax(Q K^T / sqrt(d_k) + B_c) V

    B_c: column c of the bias, one entry per ordered pair (query, key) of a graph. Without a bias in the batch this is
    :class:`Transformer`; the parameters are the same.

    Shape:
        h (N, dim), pair_bias (sum n_g^2, heads) -> (N, dim).
    """

    def pair_bias(self, batch: GraphBatch) -> Tensor | None:
        """The bias that an encoder computed, or None."""
        return batch.state.pair_bias
