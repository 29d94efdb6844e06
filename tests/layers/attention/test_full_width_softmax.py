"""Softmax in SGFormer's place, against its dense formulas."""

from __future__ import annotations

import pytest
import torch

from graphbench.errors import ArgumentError
from graphbench.layers.attention.full_width_softmax import FullWidthSoftmax
from tests.contract import alone, example_batch

SIZES = (9, 4)


@pytest.mark.parametrize("norm", ["frobenius", "scaled"])
@pytest.mark.parametrize("use_weight", [True, False])
def test_equals_the_dense_formula(norm: str, use_weight: bool) -> None:
    layer = FullWidthSoftmax(12, 3, norm=norm, use_weight=use_weight).double()
    batch = example_batch(SIZES)
    expected = []
    for number in range(2):
        h = alone(batch, number).x
        q, k = layer.q(h).view(-1, 3, 12), layer.k(h).view(-1, 3, 12)
        v = h.unsqueeze(1).expand_as(q) if layer.v is None else layer.v(h).view(-1, 3, 12)
        scores = torch.einsum("ihd,jhd->hij", q, k)
        scores = scores / (q.norm() * k.norm()) if norm == "frobenius" else scores / 12**0.5
        expected.append(torch.einsum("hij,jhd->ihd", scores.softmax(2), v).mean(1))
    torch.testing.assert_close(layer(batch.x, None, batch), torch.cat(expected), rtol=1e-11, atol=1e-12)


def test_norm_is_one_of_two() -> None:
    with pytest.raises(ArgumentError, match="norm must be one of frobenius, scaled; received 'l2'"):
        FullWidthSoftmax(6, 1, norm="l2")  # type: ignore[arg-type]
