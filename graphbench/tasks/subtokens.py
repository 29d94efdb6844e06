"""Sequences of words as sets: how many words are predicted, true, and both."""

from __future__ import annotations

import torch
from torch import Tensor


def set_sizes(pred: Tensor, true: Tensor, out_dim: int) -> tuple[Tensor, Tensor, Tensor]:
    """Sizes of the sets that a predicted and a true sequence of words make, row by row.

    A prediction ends before its first word V - 1. The unknown word V - 2 matches nothing: it stands for any word.

    Args:
        pred: (R, P, V) logits or (R, P) int64 words.
        true: (R, L) int64 words; see :mod:`graphbench.tasks.targets`.
        out_dim: size V of the vocabulary.

    Returns:
        (R,) int64 three times: words in both, words predicted, true words.

    Example:
        With V = 6 the prediction 0 1 1 5 2 is the set {0, 1}, the target 1 7 5 5 5 the set {1, 7}: 1, 2, 2.
    """
    end, unknown = out_dim - 1, out_dim - 2
    words = pred.argmax(2) if pred.dim() == 3 else pred
    before_end = (words == end).cumsum(1) == 0
    common = torch.zeros(len(words), dtype=torch.int64, device=words.device)
    predicted = common
    for position in range(words.shape[1]):  # a handful: ogbg-code2 predicts 5
        word = words[:, position : position + 1]
        repeated = ((words[:, :position] == word) & before_end[:, :position]).any(1)
        new = before_end[:, position] & ~repeated
        predicted = predicted + new
        common = common + (new & (word[:, 0] != unknown) & (true == word).any(1))
    ordered = true.masked_fill(true == end, -1).sort(1).values
    first = torch.ones_like(ordered, dtype=torch.bool)
    first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    return common, predicted, (first & (ordered >= 0)).sum(1)
