"""Order statistics with ties."""

from __future__ import annotations

import torch

from graphbench.tasks.ranks import average_ranks, tie_bounds


def test_ties_by_hand():
    first, last = tie_bounds(torch.tensor([[9.0, 7, 7, 2]]))
    assert first.tolist() == [[0, 1, 1, 3]]
    assert last.tolist() == [[0, 2, 2, 3]]
    assert average_ranks(torch.tensor([[7.0, 2, 7], [1, 1, 0]])).tolist() == [[1.5, 0, 1.5], [1.5, 1.5, 0]]
    assert tie_bounds(torch.zeros(2, 0))[0].shape == (2, 0)
