"""Proximity-enhanced attention ("PMA"): GraphiT's idea as a survey has it, https://arxiv.org/abs/2202.08455."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from graphbench.encoders.contract import BatchEncoder
from graphbench.errors import check_at_least
from graphbench.layers.all_pairs import all_pairs
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("ProximityBias")
class ProximityBias(BatchEncoder):
    r"""Attention bias per head: a learned mix of the powers of the normalised adjacency.

    .. math:: b_{ijc} = \sum_{k=1}^{K} w_{kc} \, (\hat A^k)_{ij}

    :math:`\hat A`: :class:`~graphbench.transforms.adjacency_powers.ProximityPowers`. Pairs with a graph token, inserted
    by an encoder named before this one, count as 1 in every power.

    Args:
        heads: columns of the bias (``graphormer.num_heads``).
        hops: K.

    Shape:
        h as it came; ``state.pair_bias`` (sum n_g^2, heads).

    Differences from the released code: none known.
    """

    transform: ClassVar[str | None] = "ProximityPowers"
    supplies = "pair_bias"

    def __init__(self, heads: FromContext[int], *, hops: int = 3) -> None:
        super().__init__()
        check_at_least(1, hops=hops)
        self.weight = nn.Parameter(torch.randn(hops, heads))

    def forward(self, h: Tensor, batch: GraphBatch) -> tuple[Tensor, GraphBatch]:
        """The states as they came, and the batch with the bias."""
        powers = batch.pair_pe.get("ProximityBias.powers")
        if powers is None or powers.shape[1] != len(self.weight):
            received = "none" if powers is None else f"{powers.shape[1]}"
            raise ValueError(f"ProximityBias reads {len(self.weight)} proximities of all pairs, received {received}")
        pairs = batch.derived(all_pairs)
        # Every node but a token is near itself: the self loop.
        token = powers[:, 0].index_select(0, pairs.of_node) == 0
        with_token = token.index_select(0, pairs.query) | token.index_select(0, pairs.key)
        bias = powers.to(self.weight.dtype).masked_fill(with_token.unsqueeze(1), 1.0) @ self.weight
        before = batch.state.pair_bias
        return h, batch.with_state(pair_bias=bias if before is None else before + bias)
