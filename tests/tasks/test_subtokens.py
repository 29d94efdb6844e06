"""Sets of words by hand; against OGB's evaluator in metrics/test_precision_recall.py."""

from __future__ import annotations

import torch

from graphbench.tasks.subtokens import set_sizes


def test_sizes_by_hand():
    common, predicted, named = set_sizes(torch.tensor([[0, 1, 1, 5, 2]]), torch.tensor([[1, 7, 5, 5, 5]]), 6)
    assert (common.item(), predicted.item(), named.item()) == (1, 2, 2)


def test_the_unknown_word_matches_none_and_a_prediction_may_end_at_once():
    sizes = set_sizes(torch.tensor([[4, 0], [5, 0]]), torch.tensor([[4, 5], [0, 5]]), 6)
    assert [size.tolist() for size in sizes] == [[0, 0], [2, 0], [1, 1]]
