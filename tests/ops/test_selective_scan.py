"""The selective scan: by hand, against the loop, in float32, block by block, refused shapes."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from graphbench.ops.selective_scan import cpu, selective_scan
from graphbench.structures import Ragged
from tests.ops.ragged_inputs import AWKWARD, assert_same, assert_within_budget, normal

SMALL = {name: sizes for name, sizes in AWKWARD.items() if sum(sizes) < 500}


def inputs_for(rows: int, channels: int = 3, states: int = 2) -> list[Tensor]:
    delta = torch.rand(rows, channels, dtype=torch.float64, requires_grad=True)
    a = (-torch.rand(channels, states, dtype=torch.float64)).requires_grad_()
    return [normal(rows, channels), delta, a, normal(rows, states), normal(rows, states), normal(channels)]


def call(ragged: Ragged, backend: str) -> Any:
    return lambda *tensors: selective_scan(*tensors, ragged, backend=backend)


def test_by_hand() -> None:
    """A decay of 1/2, inputs 1, 1 | 4: states 1, 1.5 | 4; c doubles, d adds a tenth of the input."""
    ragged = Ragged.from_sizes([2, 1])
    x, one = torch.tensor([[1.0], [1.0], [4.0]]), torch.ones(3, 1)
    a, d = torch.tensor([[-math.log(2)]]), torch.tensor([0.1])
    for backend in ("reference", "cpu"):
        out = selective_scan(x, one, a, one, 2 * one, d, ragged, backend=backend)
        torch.testing.assert_close(out, torch.tensor([[2.1], [3.1], [8.4]]))


@pytest.mark.parametrize("sizes", SMALL.values(), ids=SMALL)
def test_equals_the_loop(sizes: list[int]) -> None:
    ragged = Ragged.from_sizes(sizes)
    assert_same(call(ragged, "cpu"), call(ragged, "reference"), inputs_for(sum(sizes)))


def test_one_long_graph_equals_the_loop() -> None:
    ragged = Ragged.from_sizes([2, 300, 1])
    assert_same(call(ragged, "cpu"), call(ragged, "reference"), inputs_for(303))


def test_blocks_of_channels_equal_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "_BLOCK", 20)
    ragged = Ragged.from_sizes([4, 0, 5])
    assert_same(call(ragged, "cpu"), call(ragged, "reference"), inputs_for(9, channels=5))


def test_gradcheck() -> None:
    ragged = Ragged.from_sizes([3, 0, 4])
    assert torch.autograd.gradcheck(call(ragged, "cpu"), inputs_for(7))


@pytest.mark.parametrize("name", ["mixed", "equal"])
def test_error_in_float32(name: str) -> None:
    ragged = Ragged.from_sizes(AWKWARD[name])
    assert_within_budget(call(ragged, "cpu"), call(ragged, "reference"), inputs_for(sum(AWKWARD[name])))


def test_a_graph_with_nan_stays_alone() -> None:
    ragged = Ragged.from_sizes([3, 4])
    tensors = [tensor.detach() for tensor in inputs_for(7)]
    expected = selective_scan(*tensors, ragged)
    tensors[0][1] = torch.nan
    assert torch.equal(selective_scan(*tensors, ragged)[3:], expected[3:])


def test_wrong_shapes_are_named() -> None:
    ragged, tensors = Ragged.from_sizes([3, 4]), inputs_for(7)
    for place, name in enumerate(("x", "delta", "a", "b", "c", "d")[1:], 1):
        wrong = list(tensors)
        wrong[place] = torch.zeros(5, 5, 5)
        with pytest.raises(ValueError, match=rf"^{name} must be \(.*received \(5, 5, 5\)"):
            selective_scan(*wrong, ragged)
    with pytest.raises(ValueError, match="backend"):
        selective_scan(*tensors, ragged, backend="tpu")
