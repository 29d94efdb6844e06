"""Sums of embeddings: the equation, gradients, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

from graphbench.ops.embedding_sum import embedding_sum
from tests.ops.ragged_inputs import assert_same, normal


def case(rows: int, sizes: list[int], width: int = 5) -> tuple[Callable[[str], Callable[..., Tensor]], list[Tensor]]:
    """``backend -> function of the tables``, and tables; the last categories of every table are not read."""
    index = torch.stack([torch.randint(max(size // 2, 1), (rows,)) for size in sizes], dim=1)

    def using(backend: str) -> Callable[..., Tensor]:
        return lambda *tables: embedding_sum(index.to(tables[0].device), tables, backend=backend)

    return using, [normal(size, width) for size in sizes]


@pytest.mark.parametrize(("rows", "sizes"), [(0, [3]), (1, [1]), (7, [4]), (40, [11, 1, 30])])
def test_equals_reference(rows: int, sizes: list[int]) -> None:
    using, tables = case(rows, sizes)
    assert_same(using("auto"), using("reference"), tables)


def test_gradient() -> None:
    using, tables = case(6, [3, 4])
    assert torch.autograd.gradcheck(using("cpu"), tables)


def test_wrong_arguments_are_refused() -> None:
    one, two = torch.ones(3, 2), torch.ones(3, 4)
    refused = partial(pytest.raises, ValueError)
    with refused(match=r"index must be \(N, 1\), one column per table, received \(2, 2\)"):
        embedding_sum(torch.zeros(2, 2, dtype=torch.int64), [one])
    with refused(match=r"tables must have one width, received \[\(3, 2\), \(3, 4\)\]"):
        embedding_sum(torch.zeros(2, 2, dtype=torch.int64), [one, two])
    with pytest.raises(IndexError):
        embedding_sum(torch.tensor([[3]]), [one])
