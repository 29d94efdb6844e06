"""Sequences of words as sets: numbers of words that are predicted, true, and both."""

from __future__ import annotations

import torch
from torch import Tensor


def set_sizes(pred: Tensor, true: Tensor, out_dim: int) -> tuple[Tensor, Tensor, Tensor]:
    """Sizes of the sets of words of a predicted and a true sequence, row by row.

    A prediction ends before its first word V - 1. The unknown word V - 2 represents many words and matches none.

    Args:
        pred: (R, P, V) logits or (R, P) int64 words.
        true: (R, L) int64 words; see :mod:`graphbench.tasks.targets`.
        out_dim: size V of the vocabulary.

    Returns:
        (R,) int64 each: words in both sets, predicted words, true words.

    Example:
        With V = 6 the prediction 0 1 1 5 2 is the set {0, 1}, the target 1 7 5 5 5 the set {1, 7}: 1, 2, 2.
    """
    end = out_dim - 1
    unknown = out_dim - 2
    words = pred.argmax(2) if pred.dim() == 3 else pred
    before_end = (words == end).cumsum(1) == 0
    both = torch.zeros(len(words), dtype=torch.int64, device=words.device)
    predicted = torch.zeros_like(both)
    for position in range(words.shape[1]):  # a handful: ogbg-code2 predicts 5
        word = words[:, position : position + 1]
        repeated = ((words[:, :position] == word) & before_end[:, :position]).any(1)
        new = before_end[:, position] & ~repeated
        predicted = predicted + new
        both = both + (new & (word[:, 0] != unknown) & (true == word).any(1))
    ordered = true.masked_fill(true == end, -1).sort(1).values
    distinct = torch.ones_like(ordered, dtype=torch.bool)
    distinct[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    return both, predicted, (distinct & (ordered >= 0)).sum(1)
