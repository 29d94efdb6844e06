"""Cases of test_sine_linear.py: the kernels run, on a GPU where there is one and interpreted elsewhere."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from graphbench.ops.sine_linear import gpu, sine_linear
from tests.ops.ragged_inputs import assert_same, assert_within_budget, normal

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several tiles of rows and columns."""
    monkeypatch.setattr(gpu, "ROWS", 16)
    monkeypatch.setattr(gpu, "COLUMNS", 16)


def inputs(rows: int) -> list[torch.Tensor]:
    shapes = [(rows, 5), (20, 5), (20,), (20,)]
    return [normal(*shape).detach().to(DEVICE).requires_grad_() for shape in shapes]


@pytest.mark.parametrize("rows", [0, 1, 40])
def test_equals_the_equation(rows: int) -> None:
    assert_same(partial(sine_linear, backend="gpu"), partial(sine_linear, backend="reference"), inputs(rows))


def test_error_in_float32() -> None:
    assert_within_budget(partial(sine_linear, backend="gpu"), partial(sine_linear, backend="reference"), inputs(40))
