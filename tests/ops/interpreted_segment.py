"""The kernels of segment against the reference, on a GPU where there is one and interpreted elsewhere."""

from __future__ import annotations

import pytest
import torch

from graphbench.ops.segment import gpu, segment_mean, segment_sum
from graphbench.structures import Ragged
from tests.ops.ragged_inputs import AWKWARD, DEVICE, assert_same, assert_within_budget, normal
from tests.ops.test_segment import signs

EVERY = pytest.mark.parametrize("operator", [segment_sum, segment_mean], ids=lambda each: each.__name__)


@EVERY
@pytest.mark.parametrize("sizes", [AWKWARD["mixed"], AWKWARD["empty_graphs"], AWKWARD["no_graphs"], [70]], ids=str)
@pytest.mark.parametrize("shape", [(), (80,), (2, 3)], ids=str)
def test_equals_reference(operator, sizes: list[int], shape: tuple[int, ...]) -> None:
    ragged = Ragged.from_sizes(sizes, DEVICE)
    x = normal(ragged.num_rows, *shape).detach().to(DEVICE).requires_grad_()
    both = (lambda x, backend=backend: operator(x, ragged, backend=backend) for backend in ("gpu", "reference"))
    assert_same(*both, [x])


@EVERY
def test_error_in_float32(operator) -> None:
    ragged = Ragged.from_sizes([gpu.LARGEST, 3, 444, 0, 64], DEVICE)
    x = (normal(ragged.num_rows, 4).detach().to(DEVICE) + 3).requires_grad_()
    both = (lambda x, backend=backend: operator(x, ragged, backend=backend) for backend in ("gpu", "reference"))
    assert_within_budget(*both, [x])


def test_parts_of_wider_rows_and_large_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    ragged, wide = Ragged.from_sizes([40, 3], DEVICE), normal(43, 9).detach().to(DEVICE)
    expected = segment_sum(wide[:, 2:7], ragged, backend="reference")
    torch.testing.assert_close(segment_sum(wide[:, 2:7], ragged, backend="gpu"), expected)
    monkeypatch.setattr(gpu, "LARGEST", 39)
    monkeypatch.setattr(gpu, "sum_rows", None)
    torch.testing.assert_close(segment_sum(wide[:, 2:7], ragged, backend="gpu"), expected)


def test_half_precision_sums_in_float32() -> None:
    ragged = Ragged.from_sizes([500], DEVICE)
    x = torch.full((500, 2), 1.0078125, device=DEVICE, dtype=torch.bfloat16)
    assert segment_mean(x, ragged, backend="gpu").tolist() == [[1.0078125] * 2]


def test_signs() -> None:
    signs("gpu", DEVICE)
