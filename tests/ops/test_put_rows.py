"""Rows of several tensors, written to where a number on the device says."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from graphbench.ops.put_rows import put_rows
from tests.ops.ragged_inputs import BACKEND, DEVICE

ENDS = 5, 300
"""Rows that count, of both levels."""


def tensors(rows: int) -> tuple[list[Tensor], list[Tensor], list[int]]:
    """Sources and targets of several types and widths, those of wide rows in pieces; parts of other tensors."""
    generator = torch.Generator().manual_seed(0)
    wide = torch.randn(rows, 2, 45, generator=generator)
    sources = [
        torch.randn(1, generator=generator),
        wide[:, 0],
        torch.randint(9, (rows,), generator=generator),
        torch.rand(rows, 3, generator=generator) < 0.5,
        torch.randn(rows, 2, 3, generator=generator, dtype=torch.float64),
    ]
    levels = [0, *[1] * (len(sources) - 1)]
    targets = [
        torch.full((ENDS[level] + 1, *source.shape[1:]), 7).to(source)
        for source, level in zip(sources, levels, strict=True)
    ]
    return [each.to(DEVICE) for each in sources], [each.to(DEVICE) for each in targets], levels


@pytest.mark.parametrize("rows", [1, 40, 200])
@pytest.mark.parametrize("place", [(0, 0), (3, 60), (4, 250), (5, 300)])
def test_rows_lie_where_they_belong(place: tuple[int, int], rows: int) -> None:
    """Those behind the end are lost, and nothing else is changed."""
    sources, targets, levels = tensors(rows)
    before = [each.clone() for each in targets]
    places = torch.tensor([9, *place], device=DEVICE)
    put_rows(places, sources, targets, [level + 1 for level in levels], backend=BACKEND)
    put_rows(places, sources, before, [level + 1 for level in levels], backend="reference")
    for target, expected in zip(targets, before, strict=True):
        assert torch.equal(target[:-1], expected[:-1])


def test_nothing_to_put() -> None:
    sources, targets, levels = tensors(0)
    before = [each.clone() for each in targets[1:]]
    put_rows(torch.zeros(2, dtype=torch.int64, device=DEVICE), sources[1:], targets[1:], levels[1:], backend=BACKEND)
    assert all(torch.equal(target, expected) for target, expected in zip(targets[1:], before, strict=True))
