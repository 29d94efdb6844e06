"""Layer normalisation of graphs: the equation on awkward sizes, accuracy, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from graphbench.ops.graph_layer_norm import graph_layer_norm
from graphbench.structures import Ragged
from tests.ops.ragged_inputs import (
    AWKWARD,
    BACKEND,
    DEVICE,
    assert_same,
    assert_within_budget,
    normal,
    of_kernels,
    set_kernels,
)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several tiles from 9 rows on."""
    set_kernels(monkeypatch, "graph_layer_norm", ENTRIES=256)


def case(sizes: list[int], width: int = 20) -> tuple[Callable[[str], Callable[..., Tensor]], list[Tensor]]:
    """``backend -> function``, and its inputs; values lie far from zero."""
    ragged = Ragged.from_sizes(sizes, DEVICE)
    inputs = [3 + normal(ragged.num_rows, width), normal(width), normal(width)]

    def using(backend: str) -> Callable[..., Tensor]:
        return lambda h, weight, bias: graph_layer_norm(h, weight, bias, ragged, backend=backend)

    return using, [x.detach().to(DEVICE).requires_grad_() for x in inputs]


@pytest.mark.parametrize("sizes", AWKWARD.values(), ids=AWKWARD)
def test_equals_reference(sizes: list[int]) -> None:
    using, inputs = case(sizes)
    assert_same(using(BACKEND), using("reference"), inputs)


def test_error_in_float32() -> None:
    using, inputs = case([70, 3, 12])
    assert_within_budget(using(BACKEND), using("reference"), inputs)


def test_parameters_that_are_one_number() -> None:
    using, (h, weight, bias) = case([9, 3])

    def expanded(backend: str) -> Callable[..., Tensor]:
        return lambda h, weight, bias: using(backend)(h, weight.expand(20), bias.expand(20))

    one = [x.detach()[:1].requires_grad_() for x in (weight, bias)]
    assert_same(expanded(BACKEND), expanded("reference"), [h, *one])


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_computed_in_single(kind: torch.dtype) -> None:
    """Of values whose squares are beyond fp16."""
    using, (h, weight, bias) = case([9, 3])
    half = [x.detach().to(kind) for x in (300 * h, weight, bias)]
    out, truth = using(BACKEND)(*half), using("reference")(*(x.double() for x in half))
    assert out.dtype == kind
    assert (out - truth).abs().max() <= torch.finfo(kind).eps * truth.abs().max()


@of_kernels
def test_a_constant_far_from_zero_has_no_variance() -> None:
    using, (_, weight, bias) = case([37, 3])
    h = torch.full((40, 20), 123.456, device=DEVICE)
    out = using("gpu")(h, weight.float(), bias.float())
    assert torch.equal(out, bias.float().expand_as(out))


@of_kernels
def test_large_graphs_take_the_torch_code(monkeypatch: pytest.MonkeyPatch) -> None:
    set_kernels(monkeypatch, "graph_layer_norm", LARGEST=16, graph_layer_norm_forward=None)
    using, inputs = case([17, 3])
    assert_same(using("gpu"), using("reference"), inputs)


def test_gradient() -> None:
    using, inputs = case([4, 0, 2], 3)
    assert torch.autograd.gradcheck(using("cpu"), inputs)


def test_wrong_arguments_are_refused() -> None:
    ragged, h = Ragged.from_sizes([2]), torch.ones(2, 3)
    with pytest.raises(ValueError, match=r"h must be \(2, d\), received \(1, 3\)"):
        graph_layer_norm(h[:1], h[0], h[0], ragged)
    with pytest.raises(ValueError, match=r"weight and bias must be \(3,\), received \(2,\) and \(3,\)"):
        graph_layer_norm(h, h[0, :2], h[0], ragged)
