"""Order statistics with ties."""

from __future__ import annotations

import pytest
import torch

from graphbench.tasks.ranks import Descending, average_ranks, tie_bounds


def test_ties_by_hand():
    first, last = tie_bounds(torch.tensor([[9.0, 7, 7, 2]]))
    assert first.tolist() == [[0, 1, 1, 3]]
    assert last.tolist() == [[0, 2, 2, 3]]
    assert average_ranks(torch.tensor([[7.0, 2, 7], [1, 1, 0]])).tolist() == [[1.5, 0, 1.5], [1.5, 1.5, 0]]
    assert tie_bounds(torch.zeros(2, 0))[0].shape == (2, 0)


@pytest.mark.parametrize("steps", [0, 2])
def test_descending_is_pytorchs_order_and_counts_flags_by_value(steps: int):
    """The order among equal values, too, which numpy would change: sums over rows are rounded in it."""
    values = torch.randn(3, 500, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    if steps:
        values = (values * steps).round() / steps
    rows = Descending.of(values)
    ordered, order = values.sort(dim=1, descending=True)
    assert torch.equal(rows.order, order)
    assert (rows.bounds is None) is (steps == 0)
    flags = (torch.arange(1500).view(3, 500) % 3 == 0).long()
    for found, compare in ((rows.above(flags), torch.gt), (rows.up_to(flags), torch.ge)):
        reaches = compare(ordered[:, None, :], ordered[:, :, None])
        assert torch.equal(found, (reaches * flags[:, None, :]).sum(2))
