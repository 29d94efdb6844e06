"""Layer normalisation of graphs: the equation on awkward sizes, accuracy, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from graphbench.ops.graph_layer_norm import graph_layer_norm
from graphbench.structures import Ragged
from tests.ops.ragged_inputs import AWKWARD, assert_same, assert_within_budget, normal


def case(
    sizes: list[int], width: int = 5, device: str = "cpu"
) -> tuple[Callable[[str], Callable[..., Tensor]], list[Tensor]]:
    """``backend -> function``, and its inputs; values lie far from zero."""
    ragged = Ragged.from_sizes(sizes, device)
    inputs = [3 + normal(ragged.num_rows, width), normal(width), normal(width)]

    def using(backend: str) -> Callable[..., Tensor]:
        return lambda h, weight, bias: graph_layer_norm(h, weight, bias, ragged, backend=backend)

    return using, [x.detach().to(device).requires_grad_() for x in inputs]


@pytest.mark.parametrize("sizes", AWKWARD.values(), ids=AWKWARD)
def test_equals_reference(sizes: list[int]) -> None:
    using, inputs = case(sizes)
    assert_same(using("auto"), using("reference"), inputs)


def test_error_in_float32() -> None:
    using, inputs = case([70, 3, 12], 20)
    assert_within_budget(using("cpu"), using("reference"), inputs)


def test_gradient() -> None:
    using, inputs = case([4, 0, 2], 3)
    assert torch.autograd.gradcheck(using("cpu"), inputs)


def test_wrong_arguments_are_refused() -> None:
    ragged, h = Ragged.from_sizes([2]), torch.ones(2, 3)
    with pytest.raises(ValueError, match=r"h must be \(2, d\), received \(1, 3\)"):
        graph_layer_norm(h[:1], h[0], h[0], ragged)
    with pytest.raises(ValueError, match=r"weight and bias must be \(3,\), received \(2,\) and \(3,\)"):
        graph_layer_norm(h, h[0, :2], h[0], ragged)
