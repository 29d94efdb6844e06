"""The weights of pairs, up to a factor per row that the division by their sum removes."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

SLOPE = 0.2
"""Negative slope of GAT's leaky ReLU."""


def sigmoid(q_BHid: Tensor, k_BHjd: Tensor) -> Tensor:
    """(B, H, i, j) sigmoids of the products.

    Of large negative products all sigmoids of a row could vanish; a factor per row keeps the largest at a half or more.
    """
    logit = torch.nn.functional.logsigmoid(q_BHid @ k_BHjd.transpose(2, 3))
    return torch.exp(logit - logit.detach().amax(3, keepdim=True))


def additive(q_BHid: Tensor, k_BHjd: Tensor) -> Tensor:
    """(B, H, i, j) exponentials of the leaky sums, divided by the largest of the row."""
    q_BHi1, k_BH1j = q_BHid.sum(3, keepdim=True), k_BHjd.sum(3).unsqueeze(2)
    # The leaky ReLU grows, so the largest of a row is that of the largest key.
    top_BHi1 = leaky_relu(q_BHi1 + k_BH1j.amax(3, keepdim=True), SLOPE).detach()
    return torch.exp(leaky_relu(q_BHi1 + k_BH1j, SLOPE) - top_BHi1)


WEIGHTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"sigmoid": sigmoid, "additive": additive}
"""Weights by name: functions of (B, H, i, d) queries and (B, H, j, d) keys, all of them keys of the rows' graphs."""
