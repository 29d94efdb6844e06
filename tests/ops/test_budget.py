"""The error budget refuses what it is there to refuse: fewer digits in products, long sums one after the other."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import torch
from torch import Tensor

from graphbench.ops.segment import segment_sum
from graphbench.ops.softmax_attention import softmax_attention
from graphbench.structures import Ragged
from tests.ops.ragged_inputs import assert_within_budget, normal


def test_products_of_ten_bits() -> None:
    """As tensor cores multiply where TF32 is allowed."""
    ragged = Ragged.from_sizes([40, 7])
    reference = functools.partial(softmax_attention, ragged=ragged, backend="reference")

    def cut(x: Tensor) -> Tensor:
        if x.dtype == torch.float64:
            return x
        return x + ((x.view(torch.int32) & ~0x1FFF).view(torch.float32) - x).detach()

    inputs = [normal(47, 2, 8) for _ in range(3)]
    assert_within_budget(reference, reference, inputs)
    with pytest.raises(AssertionError, match="place 0"):
        assert_within_budget(lambda q, k, v: reference(cut(q), cut(k), v), reference, inputs)


def test_a_running_sum() -> None:
    ragged = Ragged.from_sizes([20000])
    reference = functools.partial(segment_sum, ragged=ragged, backend="reference")

    def running(x: Tensor) -> Tensor:
        total = torch.from_numpy(np.cumsum(x.detach().numpy(), axis=0, dtype=x.detach().numpy().dtype)[-1:])
        return reference(x) + (total - reference(x)).detach()

    x = (normal(20000, 4).detach() + 3).requires_grad_()
    with pytest.raises(AssertionError, match="place 0"):
        assert_within_budget(running, reference, [x])
