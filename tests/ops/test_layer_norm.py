"""Layer normalisation of rows against the equation."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from graphbench.ops.layer_norm import cpu, layer_norm
from graphbench.structures.late_sums import late_sums
from tests.ops.ragged_inputs import (
    BACKEND,
    DEVICE,
    assert_same,
    assert_within_budget,
    normal,
    of_kernels,
    set_kernels,
)


@pytest.fixture(autouse=True)
def _small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several tiles, and three programs that share the rows of a backward pass."""
    set_kernels(monkeypatch, "layer_norm", ENTRIES=128, PROGRAMS=3)


def case(rows: int, width: int = 20, added: bool = True) -> tuple[Callable[[str], Callable], list[Tensor]]:
    """(backend -> function of the inputs, inputs): among the rows one that is constant."""
    inputs = [normal(rows, width), normal(width), normal(width), *([normal(rows, width)] if added else [])]
    inputs = [x.detach().to(DEVICE) for x in inputs]
    if rows > 2:
        for x in inputs[::3]:
            x[1] = 0.25
    for x in inputs:
        x.requires_grad_()

    def using(backend: str) -> Callable[..., Tensor]:
        def run(h: Tensor, weight: Tensor, bias: Tensor, added: Tensor | None = None) -> Tensor:
            return layer_norm(h, weight, bias, added=added, backend=backend)

        return run

    return using, inputs


@pytest.mark.parametrize("rows", [0, 1, 33])
@pytest.mark.parametrize("added", [True, False])
def test_equals_the_equation(rows: int, added: bool) -> None:
    using, inputs = case(rows, added=added)
    assert_same(using(BACKEND), using("reference"), inputs)


@pytest.mark.parametrize("width", [1, 5, 64, 100])
def test_widths(width: int) -> None:
    using, inputs = case(7, width)
    assert_same(using(BACKEND), using("reference"), inputs)


def test_error_in_float32() -> None:
    using, inputs = case(33)
    assert_within_budget(using(BACKEND), using("reference"), inputs)


@of_kernels
def test_rows_far_from_zero_and_of_any_size() -> None:
    """Their digits are those that h has; torch's gradients on a CPU have fewer where the mean is 1e3 deviations."""
    using, (h, *others) = case(33, added=False)
    for scale, shift in ((1.0, 1e3), (1e-3, 0.0), (1e15, 0.0)):
        moved = (scale * h.detach() + shift).requires_grad_()
        assert_within_budget(using(BACKEND), using("reference"), [moved, *others])


@of_kernels
@pytest.mark.parametrize("constant", [1.7e5, 3e30])
def test_constant_rows_far_from_zero_have_no_variance(constant: float) -> None:
    h = torch.full((3, 20), constant, device=DEVICE)
    weight, bias = torch.ones(20, device=DEVICE), torch.arange(20.0, device=DEVICE)
    out = layer_norm(h, weight, bias, backend="gpu")
    torch.testing.assert_close(out, bias.expand(3, 20), rtol=0, atol=1e-2)


@of_kernels
def test_a_part_of_wider_rows_and_rows_that_are_too_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    using, (h, weight, bias, added) = case(33)
    wide = torch.cat([h, added], dim=1).detach().requires_grad_()

    def of(backend: str) -> Callable[..., Tensor]:
        return lambda wide, *others: using(backend)(wide[:, :20], *others, wide[:, 20:])

    assert_same(of("gpu"), of("reference"), [wide, weight, bias])
    set_kernels(monkeypatch, "layer_norm", WIDEST=19, layer_norm_forward=None)
    assert_same(of("gpu"), of("reference"), [wide, weight, bias])


@of_kernels
@pytest.mark.parametrize("p", [0.25, 0.5])
def test_dropout_is_the_same_in_both_passes(p: float) -> None:
    _using, (h, weight, bias, added) = case(60)
    out = layer_norm(h, weight, bias, added=added, added_dropout=p, backend="gpu")
    of_h, of_added = torch.autograd.grad(out.square().sum(), [h, added], retain_graph=True)
    factors = (of_added / of_h).detach()
    factors[1] = factors[2]  # a constant row has no gradient
    kept = factors > 0.5 / (1 - p)
    torch.testing.assert_close(factors, kept.double() / (1 - p), rtol=1e-6, atol=1e-6)
    assert 0.5 * p < 1 - kept.double().mean() < min(1.0, 1.5 * p)
    rest = torch.arange(60, device=out.device) != 1
    expected = cpu.layer_norm(h + added * factors, weight, bias, None, 0.0, 1e-5)
    torch.testing.assert_close(out[rest], expected[rest], rtol=1e-6, atol=1e-6)
    again = layer_norm(h, weight, bias, added=added, added_dropout=p, backend="gpu")
    assert not torch.equal(out, again)


@of_kernels
def test_gradients_left_for_the_end_of_the_backward_pass() -> None:
    using, inputs = case(33)
    expected = torch.autograd.grad(using("reference")(*inputs).square().sum(), inputs)
    loss = using("gpu")(*inputs).square().sum()
    with late_sums(loss):
        loss.backward()
    for x, there in zip(inputs, expected, strict=True):
        torch.testing.assert_close(x.grad, there, rtol=1e-12, atol=1e-12)


def test_gradcheck() -> None:
    _using, inputs = case(4, 3)
    for backend in ("cpu", "reference"):
        assert torch.autograd.gradcheck(
            lambda h, weight, bias, added, backend=backend: layer_norm(h, weight, bias, added=added, backend=backend),
            [torch.randn_like(x, device="cpu").requires_grad_() for x in inputs],
        )


def test_refused_arguments() -> None:
    h, d = torch.ones(4, 5), torch.ones(5)
    with pytest.raises(ValueError, match=r"received \(4, 5\), \(4,\) and \(5,\)"):
        layer_norm(h, d[:4], d)
    with pytest.raises(ValueError, match=r"added must be \(4, 5\) as h, received \(5, 4\)"):
        layer_norm(h, d, d, added=h.t())
    with pytest.raises(ValueError, match=r"\[0, 1\], received 1.5"):
        layer_norm(h, d, d, added_dropout=1.5)
