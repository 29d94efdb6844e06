"""The kernels of softmax_attention against the reference, on a GPU where there is one and interpreted elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from graphbench.ops import gpu_launch
from graphbench.ops.softmax_attention import gpu, softmax_attention
from graphbench.structures import Ragged
from graphbench.structures.capacity import Capacity, CapacityRagged
from tests.ops.ragged_inputs import DEVICE, assert_rounded_gradients, assert_same, assert_within_budget
from tests.ops.test_softmax_attention import inputs_for


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several tiles from 17 rows on."""
    monkeypatch.setattr(
        gpu_launch,
        "blocks_on",
        lambda device, kernels: {size: dict.fromkeys((16, 32, 128), (16, 32, 4)) for size in (2, 4, 8)},
    )


def case(sizes: list[int], bias: bool) -> tuple[Callable[[str], Callable[..., Tensor]], list[Tensor]]:
    """``backend -> function``, and its inputs."""
    ragged = Ragged.from_sizes(sizes, DEVICE)
    inputs = [x.detach().to(DEVICE).requires_grad_() for x in inputs_for(ragged, bias=bias)]

    def using(backend: str) -> Callable[..., Tensor]:
        return lambda q, k, v, *b: softmax_attention(q, k, v, ragged, bias=b[0] if b else None, backend=backend)

    return using, inputs


@pytest.mark.parametrize("bias", [False, True], ids=["plain", "bias"])
def test_equals_reference(bias: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "fused", None)  # not through torch's kernel
    using, inputs = case([0, 17, 1, 3], bias)
    assert_same(using("gpu"), using("reference"), inputs)


@pytest.mark.parametrize("size", [17, 40], ids=["kernels", "fused"])
def test_parts_of_one_tensor(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "_LARGE", 32)
    ragged = Ragged.from_sizes([0, size, 1], DEVICE)
    qkv = torch.randn(ragged.num_rows, 3, 2, 20, dtype=torch.float64, device=DEVICE, requires_grad=True)

    def using(backend: str) -> Callable[..., Tensor]:
        return lambda x: softmax_attention(*x.unbind(1), ragged, packed=x, backend=backend)

    assert_same(using("gpu"), using("reference"), [qkv])


@pytest.mark.parametrize("bias", [False, True], ids=["plain", "bias"])
def test_error_in_float32(bias: bool) -> None:
    using, inputs = case([20, 3], bias)
    assert_within_budget(using("gpu"), using("reference"), inputs)


@pytest.mark.parametrize("level", [-1e9, -1e30])
def test_rows_whose_scores_are_all_far_from_zero(level: float) -> None:
    """The backward pass divides by the sum of exponentials, which beside such a score is less than a rounding."""
    using, (*inputs, bias) = case([20, 3], True)
    bias = torch.full_like(bias, level).requires_grad_()
    assert_within_budget(using("gpu"), using("reference"), [*inputs, bias])


@pytest.mark.parametrize("width", [20, 80])
def test_weights_of_both_passes_are_the_same(width: int) -> None:
    """Of scores of a range of 1,000, up to the rounding of the terms that these sum.

    The interpreter multiplies by BLAS, which may add the terms of a transposed tile in another order.
    """
    ragged = Ragged.from_sizes([20, 3], DEVICE)
    q, k, v = (x.detach().to(DEVICE) for x in inputs_for(ragged, d=width, e=width))

    def using(backend: str) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
        return lambda q, k, v: softmax_attention(q, k, v, ragged, backend=backend)

    inputs = [x.requires_grad_() for x in (100 * q, k, v)]
    (received,) = torch.autograd.grad(using("reference")(*inputs).sum(), v)
    largest = torch.einsum("ihd,jhd->ijh", inputs[0].detach().abs(), k.detach().abs()).max() / width**0.5
    assert_within_budget(using("gpu"), using("reference"), inputs, terms={3: largest * received})


def test_large_graphs_and_wide_heads_take_the_fused_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "_LARGE", 16)
    using, inputs = case([17, 3], True)
    assert_same(using("gpu"), using("reference"), inputs)
    monkeypatch.setattr(gpu, "_LARGE", 1024)
    monkeypatch.setattr(gpu, "WIDEST", 4)
    assert_same(using("gpu"), using("reference"), inputs)


def test_gradients_in_half_precision() -> None:
    """Of values far from zero: what of the output is rounded away is not small against differences of values."""
    using, inputs = case([20, 3], True)
    inputs[2] = inputs[2] + 100
    half = [x.detach().bfloat16().requires_grad_() for x in inputs]
    assert_rounded_gradients(using("gpu"), using("reference"), half)


def test_pairs_that_belong_to_no_graph_have_no_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A padded batch has room for more pairs than there are; memory that nobody writes is not what it returns."""
    ragged = CapacityRagged(torch.tensor([0, 17, 20, 24, 24], device=DEVICE), Capacity(2, 2, 24, 0, 17, pairs=400))
    parts = Ragged.from_sizes([17, 3, 4, 0], DEVICE)
    *inputs, bias = (x.detach().to(DEVICE).requires_grad_() for x in inputs_for(parts, bias=True))
    padded = torch.nn.functional.pad(bias.detach(), (0, 0, 0, 400 - len(bias))).requires_grad_()
    expected = softmax_attention(*inputs, parts, bias=bias, backend="reference")
    grad = torch.randn_like(expected)
    (wanted,) = torch.autograd.grad(expected, [bias], grad)
    out = softmax_attention(*inputs, ragged, bias=padded, backend="gpu")
    monkeypatch.setattr(torch, "empty_like", lambda x, **options: torch.full_like(x, float("nan"), **options))
    *_, given = torch.autograd.grad(out, [*inputs, padded], grad)
    torch.testing.assert_close(given, torch.nn.functional.pad(wanted, (0, 0, 0, 400 - len(bias))))


def test_nothing() -> None:
    using, inputs = case([0, 0], False)
    assert using("gpu")(*inputs).shape == (0, 3, 4)
