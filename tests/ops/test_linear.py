"""Linear maps: against the equation, and what is refused. The kernel: interpreted_linear.py."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from graphbench.layers.linear import Linear
from graphbench.ops.linear import linear, linear_parts
from tests.ops.ragged_inputs import assert_same, assert_within_budget, normal


def case(
    rows: int, act: str = "identity", bias: bool = True, device: str = "cpu", width: tuple[int, int] = (20, 37)
) -> tuple[Callable[[str], Callable[..., Tensor]], list[Tensor]]:
    """(backend -> function of the inputs, inputs)."""
    inputs = [normal(rows, width[0]), normal(width[1], width[0]), *([normal(width[1])] if bias else [])]
    inputs = [x.detach().to(device).requires_grad_() for x in inputs]
    return lambda backend: lambda *x: linear(*x, act=act, backend=backend), inputs


@pytest.mark.parametrize("rows", [0, 1, 33])
@pytest.mark.parametrize("act", ["identity", "relu"])
@pytest.mark.parametrize("bias", [True, False])
def test_equals_the_equation(rows: int, act: str, bias: bool) -> None:
    using, inputs = case(rows, act, bias)
    assert_same(using("cpu"), using("reference"), inputs)


def test_error_in_float32() -> None:
    using, inputs = case(33, "relu")
    assert_within_budget(using("cpu"), using("reference"), inputs)


def parts_case(device: str = "cpu") -> tuple[Callable[[str], Callable[..., Tensor]], list[Tensor]]:
    """(backend -> function of rows, weights and biases, these); the rows are read again."""
    shapes = [(33, 20), *[(7, 20)] * 3, *[(7,)] * 3]
    inputs = [torch.randn(shape, dtype=torch.float64).to(device).requires_grad_() for shape in shapes]

    def using(backend: str) -> Callable[..., Tensor]:
        def run(h: Tensor, *parameters: Tensor) -> Tensor:
            parts, rows = linear_parts(h, parameters[:3], parameters[3:], backend=backend)
            a, _unread, c = parts.unbind(1)
            return torch.cat([a, a * c, rows], dim=1)

        return run

    return using, inputs


def test_parts_equal_the_equation() -> None:
    using, inputs = parts_case()
    assert_same(using("cpu"), using("reference"), inputs)


def test_the_module_is_that_of_torch() -> None:
    torch.manual_seed(0)
    ours = Linear(5, 3)
    torch.manual_seed(0)
    theirs = nn.Linear(5, 3)
    for x in (torch.randn(4, 5), torch.randn(2, 4, 5)):
        assert torch.equal(ours(x), theirs(x))
    assert repr(ours) == repr(theirs)


def test_refused_arguments() -> None:
    h, weight = torch.ones(4, 5), torch.ones(3, 5)
    with pytest.raises(ValueError, match=r"received \(4, 5\) and \(5, 3\)"):
        linear(h, weight.t())
    with pytest.raises(ValueError, match=r"bias must be \(3,\), received \(4,\)"):
        linear(h, weight, torch.ones(4))
    with pytest.raises(ValueError, match=r"received \[\(2, 5\), \(3, 5\)\] and \(4, 5\)"):
        linear_parts(h, [weight, weight[:2]], [weight[:, 0]] * 2)
    with pytest.raises(ValueError, match=r"as many as weights, received \[\(3,\)\]"):
        linear_parts(h, [weight, weight], [weight[:, 0]])
    with pytest.raises(ValueError, match="received 'gelu'"):
        linear(h, weight, act="gelu")
