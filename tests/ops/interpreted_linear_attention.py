"""The kernels of linear_attention against the reference, on a GPU where there is one and interpreted elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from graphbench.ops.linear_attention import gpu, linear_attention
from graphbench.structures import Ragged
from tests.ops.ragged_inputs import DEVICE, assert_same, assert_within_budget, normal, values_and_gradients

NORMS = pytest.mark.parametrize("norm", ["frobenius", "l2"])
BASES = pytest.mark.parametrize("base", ["self", "uniform", "none"])


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several tiles, chunks and blocks of columns from 33 rows and 17 columns on."""
    small = dict.fromkeys((4, 8), dict.fromkeys((64, 128, 256), (16, 16, 4)))
    monkeypatch.setattr(gpu, "blocks_on", lambda device, kernels: small)
    monkeypatch.setattr(gpu, "CHUNK", 32)


def inputs_for(ragged: Ragged, d: int, e: int, heads: int = 2, value_heads: int = 2) -> list[Tensor]:
    widths = ((heads, d), (heads, d), (value_heads, e))
    return [normal(ragged.num_rows, *width).detach().to(DEVICE).requires_grad_() for width in widths]


def call(ragged: Ragged, norm: str, base: str, backend: str = "gpu") -> Callable[..., Tensor]:
    return lambda q, k, v: linear_attention(q, k, v, ragged, norm=norm, base=base, backend=backend)  # type: ignore[arg-type]


@BASES
@NORMS
@pytest.mark.parametrize("value_heads", [2, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_equals_reference(value_heads: int, norm: str, base: str, small_blocks: None) -> None:
    """In float64, signs that cancel and floors that hold included (base none)."""
    ragged = Ragged.from_sizes([0, 35, 1, 2], DEVICE)
    inputs = inputs_for(ragged, 5, 18, value_heads=value_heads)
    if base != "none":  # a denominator near zero, which two nodes may have, amplifies rounding
        inputs[:2] = [(x.detach().abs() + 0.1).requires_grad_() for x in inputs[:2]]
    assert_same(call(ragged, norm, base), call(ragged, norm, base, "reference"), inputs)


def test_the_floor_holds_somewhere(small_blocks: None) -> None:
    """Keys that nearly cancel: the denominators of most rows are at their floor."""
    ragged = Ragged.from_sizes([40], DEVICE)
    q, k, v = inputs_for(ragged, 5, 4)
    with torch.no_grad():
        k[20:] = -k[:20] + 1e-3 * k[20:]
    for norm in ("frobenius", "l2"):
        assert_same(call(ragged, norm, "none"), call(ragged, norm, "none", "reference"), [q, k, v])


def test_default_blocks_and_a_width_that_is_no_power_of_two() -> None:
    ragged = Ragged.from_sizes([70, 3], DEVICE)
    inputs = inputs_for(ragged, 68, 20, heads=1, value_heads=1)
    assert_same(call(ragged, "frobenius", "self"), call(ragged, "frobenius", "self", "reference"), inputs)


@pytest.mark.parametrize("offset", [0.0, 10.0])
@NORMS
def test_error_in_float32(offset: float, norm: str) -> None:
    """Values far from zero too: their mean must not drown what attention adds."""
    ragged = Ragged.from_sizes([400], DEVICE)
    q, k, v = inputs_for(ragged, 6, 5, heads=1, value_heads=1)
    v = (v.detach() + offset).requires_grad_()
    assert_within_budget(call(ragged, norm, "self"), call(ragged, norm, "self", "reference"), [q, k, v])


@pytest.mark.parametrize("base", ["self", pytest.param("none", marks=pytest.mark.exhaustive)])
def test_half_precision(base: str, small_blocks: None) -> None:
    """Read and written in bfloat16, computed as in float32."""
    ragged = Ragged.from_sizes([20, 7], DEVICE)
    half = [x.detach().abs().bfloat16().requires_grad_() for x in inputs_for(ragged, 6, 5)]
    single = [x.detach().float().requires_grad_() for x in half]
    attend = call(ragged, "frobenius", base)
    arriving = torch.cos(torch.arange(27 * 2 * 5)).view(27, 2, 5).to(DEVICE, torch.bfloat16)
    found, expected = (
        [out := attend(*inputs), *torch.autograd.grad(out, inputs, arriving.to(out.dtype))] for inputs in (half, single)
    )
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == torch.bfloat16
        torch.testing.assert_close(a, b.bfloat16())


@NORMS
def test_zeros_have_finite_gradients(norm: str, small_blocks: None) -> None:
    ragged = Ragged.from_sizes([4, 2], DEVICE)
    q, k, v = inputs_for(ragged, 3, 4)
    q = torch.zeros_like(q, requires_grad=True)
    for base, expected in (("self", v), ("none", torch.zeros_like(v))):
        out, *grads = values_and_gradients(call(ragged, norm, base), [q, k, v])
        torch.testing.assert_close(out, expected.detach(), rtol=0, atol=1e-15)
        assert all(x.isfinite().all() for x in grads)


def test_graphs_do_not_mix_and_views_are_read_right(small_blocks: None) -> None:
    sizes = [20, 9, 3]
    ragged = Ragged.from_sizes(sizes, DEVICE)
    joint = normal(32, 2, 24).detach().to(DEVICE)
    views = [joint[..., :5], joint[..., 5:10], joint[..., 10:]]
    together = linear_attention(*views, ragged, backend="gpu")
    for graph, size in enumerate(sizes):
        rows = slice(sum(sizes[:graph]), sum(sizes[: graph + 1]))
        alone = linear_attention(*(x[rows].clone() for x in views), Ragged.from_sizes([size], DEVICE), backend="gpu")
        torch.testing.assert_close(together[rows], alone, rtol=0, atol=1e-14)


@pytest.mark.parametrize("sizes", [[], [0, 0]], ids=["no_graphs", "empty_graphs"])
def test_nothing_to_do(sizes: list[int]) -> None:
    ragged = Ragged.from_sizes(sizes, DEVICE)
    for each in values_and_gradients(call(ragged, "frobenius", "self"), inputs_for(ragged, 5, 4)):
        assert each.numel() == 0


def test_autocast_changes_nothing(small_blocks: None) -> None:
    ragged = Ragged.from_sizes([33, 2], DEVICE)
    inputs = [x.detach().float().requires_grad_() for x in inputs_for(ragged, 4, 4)]
    plain = values_and_gradients(call(ragged, "l2", "none"), inputs)
    with torch.autocast(DEVICE, torch.bfloat16):
        cast = values_and_gradients(call(ragged, "l2", "none"), inputs)
    assert all(torch.equal(a, b) for a, b in zip(plain, cast, strict=True))


def test_heads_wider_than_the_accumulators() -> None:
    """They take the torch code, on any device."""
    ragged = Ragged.from_sizes([5, 2], DEVICE)
    assert_same(
        call(ragged, "frobenius", "self"), call(ragged, "frobenius", "self", "reference"), inputs_for(ragged, 260, 4)
    )
