"""Mixtures against the equation."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from graphbench.ops.blend import blend
from tests.ops.ragged_inputs import BACKEND, DEVICE, assert_same, assert_within_budget, of_kernels, set_kernels


@pytest.fixture(autouse=True)
def _several_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    set_kernels(monkeypatch, "blend", ENTRIES=64)


def case(rows: int) -> tuple[Callable[[str], Callable[..., Tensor]], list[Tensor]]:
    """(backend -> function of the inputs, inputs)."""
    inputs = [*torch.randn(2, rows, 3, 5, dtype=torch.float64), torch.tensor(0.7, dtype=torch.float64)]
    return lambda backend: lambda *x: blend(*x, backend=backend), [x.to(DEVICE).requires_grad_() for x in inputs]


@pytest.mark.parametrize("rows", [0, 1, 33])
def test_equals_the_equation(rows: int) -> None:
    using, inputs = case(rows)
    assert_same(using(BACKEND), using("reference"), inputs)


def test_error_in_float32() -> None:
    """The gradient of gamma is a sum that cancels: its terms are ``g (b - a) / (1 + gamma)^2``."""
    using, inputs = case(33)
    a, b, gamma = (x.detach() for x in inputs)
    terms = (b - a).abs().sum() / (1 + gamma) ** 2  # the weights of the loss are at most 1
    assert_within_budget(using(BACKEND), using("reference"), inputs, draws=4, terms={3: terms})


def test_error_of_a_small_proportion() -> None:
    using, inputs = case(33)
    a, b = (x.detach().requires_grad_() for x in inputs[:2])

    def mixed(backend: str) -> Callable[..., Tensor]:
        return lambda a, b: using(backend)(a, b, torch.tensor(1e-6, dtype=a.dtype, device=DEVICE))

    assert_within_budget(mixed(BACKEND), mixed("reference"), [a, b])


@of_kernels
def test_half_precision_takes_torch_code(monkeypatch: pytest.MonkeyPatch) -> None:
    set_kernels(monkeypatch, "blend", blend_forward=None)
    using, inputs = case(3)
    half = [x.detach().bfloat16() for x in inputs]
    assert torch.equal(using("gpu")(*half), using("cpu")(*half))


def test_refused_arguments() -> None:
    x = torch.ones(3, 2)
    with pytest.raises(ValueError, match=r"received \(3, 2\), \(3, 2\) and \(1,\)"):
        blend(x, x, torch.ones(1))
    with pytest.raises(ValueError, match=r"received \(3, 2\), \(3,\) and \(\)"):
        blend(x, x[:, 0], torch.ones(()))
