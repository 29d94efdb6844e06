"""Attention limited to nodes within some hops, by heads ("Mask-1", "Mask-n"): a survey, https://arxiv.org/abs/2202.08455."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from graphbench.encoders.contract import BatchEncoder
from graphbench.errors import ArgumentError
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch
from graphbench.structures.pairs import TOKEN

_HIDDEN = -1e4
"""exp of it is 0 in every floating type, and every node sees itself."""


@register("HopMask")
class HopMask(BatchEncoder):
    r"""Attention bias that hides nodes further away than a head sees.

    .. math:: b_{ijc} = 0 \text{ where } d_{ij} \le k_c, \text{ else } -10^4

    d: hops from i to j (transform ``ShortestPaths``); a bias that is there stays where nothing is hidden. A graph
    token, inserted by an encoder named before this one, sees all nodes and is seen by all.

    Args:
        heads: H, of the attention that reads the bias (``graphormer.num_heads``).
        hops: k, one number for all heads or one per head.

    Shape:
        h as it came; ``state.pair_bias`` (sum n_g^2, H).

    Differences from the released code: a score that happens to be 0 is not hidden.
    """

    capturable: ClassVar[bool] = True
    transform: ClassVar[str | None] = "ShortestPaths"
    supplies = "pair_bias"

    limits: Tensor

    def __init__(self, heads: FromContext[int], *, hops: list[int] = [1]) -> None:  # noqa: B006 - read only
        super().__init__()
        if len(hops) not in (1, heads) or min(hops) < 0:
            raise ArgumentError("hops", f"hops must be one number or {heads}, each 0 or more, received {list(hops)}")
        limits = torch.tensor([*hops] * (heads // len(hops)), dtype=torch.uint8)
        self.register_buffer("limits", limits, persistent=False)

    def forward(self, h: Tensor, batch: GraphBatch) -> tuple[Tensor, GraphBatch]:
        """The states as they came, and the batch with the bias."""
        if batch.pairs is None:
            raise ValueError("HopMask reads hop distances (batch.pairs), which its transform computes")
        distance = batch.pairs.distance.unsqueeze(1)
        hidden = (distance > self.limits) & (distance != TOKEN)
        before = batch.state.pair_bias
        bias = h.new_zeros(hidden.shape) if before is None else before
        return h, batch.with_state(pair_bias=bias.masked_fill(hidden, _HIDDEN))
