"""The kernels of blend against the reference, on a GPU where there is one and interpreted elsewhere."""

from __future__ import annotations

import pytest
import torch

from graphbench.ops.blend import gpu
from tests.ops.ragged_inputs import DEVICE, assert_same
from tests.ops.test_blend import case, within_budget


@pytest.fixture(autouse=True)
def _several_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "ENTRIES", 64)


@pytest.mark.parametrize("rows", [0, 1, 33])
def test_equals_reference(rows: int) -> None:
    using, inputs = case(rows, DEVICE)
    assert_same(using("gpu"), using("reference"), inputs)


def test_error_in_float32() -> None:
    within_budget("gpu", DEVICE)


def test_half_precision_takes_torch_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "forward", None)
    using, inputs = case(3, DEVICE)
    half = [x.detach().bfloat16() for x in inputs]
    assert torch.equal(using("gpu")(*half), using("cpu")(*half))
