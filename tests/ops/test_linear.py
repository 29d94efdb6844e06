"""Linear maps: against the equation, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from graphbench.layers.linear import Linear
from graphbench.ops.linear import cpu, linear, linear_and_rows, linear_parts
from graphbench.structures.late_sums import Shares, late_sums
from tests.ops.ragged_inputs import (
    BACKEND,
    DEVICE,
    KERNELS,
    SMALL_MAPS,
    assert_same,
    assert_within_budget,
    normal,
    of_kernels,
    set_kernels,
)

if KERNELS:
    from graphbench.ops import gpu_shares
    from graphbench.ops.linear import gpu


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several tiles of rows, columns in and columns out, and several shares where many rows are cut into shares."""
    set_kernels(monkeypatch, "linear", **SMALL_MAPS)


def case(
    rows: int, act: str = "identity", bias: bool = True, width: tuple[int, int] = (20, 37)
) -> tuple[Callable[[str], Callable[..., Tensor]], list[Tensor]]:
    """(backend -> function of the inputs, inputs)."""
    inputs = [normal(rows, width[0]), normal(width[1], width[0]), *([normal(width[1])] if bias else [])]
    inputs = [x.detach().to(DEVICE).requires_grad_() for x in inputs]
    return lambda backend: lambda *x: linear(*x, act=act, backend=backend), inputs


@pytest.mark.parametrize("rows", [0, 1, 33])
@pytest.mark.parametrize("act", ["identity", "relu"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("few", [2048, 0] if KERNELS else [2048])
def test_equals_the_equation(rows: int, act: str, bias: bool, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    set_kernels(monkeypatch, "linear", FEW=few)
    using, inputs = case(rows, act, bias)
    assert_same(using(BACKEND), using("reference"), inputs)


def test_relu_has_no_slope_at_zero() -> None:
    """As rows of zeros meet it before a bias is learned."""
    using, inputs = case(3, "relu", bias=False)
    inputs[0] = torch.zeros_like(inputs[0]).requires_grad_()
    for backend in (BACKEND, "reference"):
        assert not torch.autograd.grad(using(backend)(*inputs).sum(), inputs[0])[0].any()


@pytest.mark.parametrize("few", [2048, 0] if KERNELS else [2048])
def test_error_in_float32(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    set_kernels(monkeypatch, "linear", FEW=few)
    using, inputs = case(33, "relu")
    assert_within_budget(using(BACKEND), using("reference"), inputs)


@pytest.mark.parametrize("few", [2048, 0] if KERNELS else [2048])
def test_parts_equal_the_equation(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows are read again; interpreted ones lie on the CPU, where torch's own map would be taken."""
    set_kernels(monkeypatch, "linear", FEW=few)
    monkeypatch.setattr(cpu, "in_one_piece", lambda h: not KERNELS)
    shapes = [(33, 20), *[(7, 20)] * 3, *[(7,)] * 3]
    inputs = [torch.randn(shape, dtype=torch.float64).to(DEVICE).requires_grad_() for shape in shapes]

    def using(backend: str) -> Callable[..., Tensor]:
        def run(h: Tensor, *parameters: Tensor) -> Tensor:
            parts, rows = linear_parts(h, parameters[:3], parameters[3:], backend=backend)
            a, _unread, c = parts.unbind(1)
            return torch.cat([a, a * c, rows], dim=1)

        return run

    assert_same(using(BACKEND), using("reference"), inputs)


@of_kernels
def test_parts_of_wider_rows_and_no_gradient_of_rows() -> None:
    _using, (h, *others) = case(33, "relu")
    wide = torch.cat([h, h], dim=1).detach()

    def of(backend: str) -> Callable[..., Tensor]:
        def run(weight: Tensor, bias: Tensor) -> Tensor:
            out = linear(wide[:, 20:], weight, bias, act="relu", backend=backend)
            return torch.cat([out, out], dim=1)[:, 20:50]

        return run

    assert_same(of("gpu"), of("reference"), others)


@of_kernels
@pytest.mark.parametrize("limit", ["LARGEST", "MANY"])
def test_large_weights_and_many_odd_rows_take_the_products_of_torch(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_kernels(monkeypatch, "linear", **{limit: 20}, linear_forward=None, linear_backward=None)
    using, inputs = case(33, "relu")
    assert torch.equal(using("gpu")(*inputs), cpu.linear_and_rows(*inputs, True)[0])
    assert_same(using("gpu"), using("reference"), inputs)


@of_kernels
@pytest.mark.parametrize("bias", [True, False])
def test_many_rows_take_the_product_of_torch_forward(bias: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    set_kernels(monkeypatch, "linear", FORWARD_MOST=20, linear_forward=None)
    using, inputs = case(33, "relu", bias)
    assert_same(using("gpu"), using("reference"), inputs)


@pytest.mark.parametrize("few", [2048, 0] if KERNELS else [2048])
def test_rows_handed_on_add_their_gradient(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    set_kernels(monkeypatch, "linear", FEW=few)
    _using, inputs = case(33, "relu", width=(20, 20))

    def of(backend: str) -> Callable[..., Tensor]:
        def run(h: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
            out, rows = linear_and_rows(h, weight, bias, act="relu", backend=backend)
            return out * rows

        return run

    assert_same(of(BACKEND), of("reference"), inputs)


class _Maps(nn.Module):
    """A map that is used twice, one of another width, two maps as one product, and a bias with a hook."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.twice, self.a, self.b, self.watched = (nn.Linear(20, 20, dtype=torch.float64) for _ in range(4))
        self.wide = nn.Linear(20, 37, bias=False, dtype=torch.float64)
        self.seen: list[Tensor] = []
        self.watched.bias.register_hook(self.seen.append)

    def forward(self, h: Tensor) -> Tensor:
        for lin in (self.twice, self.twice, self.watched):
            h = linear(h, lin.weight, lin.bias, act="relu", backend=BACKEND) + h
        parts, h = linear_parts(h, [self.a.weight, self.b.weight], [self.a.bias, self.b.bias], backend=BACKEND)
        return (parts.square().sum(1) + h).sum() + linear(h, self.wide.weight, backend=BACKEND).square().sum()


@of_kernels
def test_sums_left_for_the_end_of_a_backward_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two passes whose gradients are added up, equal to those that sum at once."""
    set_kernels(monkeypatch, "linear", FEW=0)
    monkeypatch.setattr(gpu_shares, "MOST", 2)
    monkeypatch.setattr(cpu, "in_one_piece", lambda h: False)
    add_up, calls = gpu.add_up, []

    def counted(left: Sequence[Shares]) -> list[list[Tensor]]:
        calls.append(len(left))
        return add_up(left)

    monkeypatch.setattr(gpu, "add_up", counted)
    rows = [torch.randn(33, 20, dtype=torch.float64, device=DEVICE) for _ in range(2)]
    at_once, late = _Maps().to(DEVICE), _Maps().to(DEVICE)
    for h in rows:
        at_once(h).backward()
    calls.clear()
    for h in rows:
        loss = late(h)
        with late_sums(loss):
            loss.backward()
    # The map of a bias with a hook is added up at once.
    assert calls == [1, 4] * 2
    assert len(late.seen) == len(at_once.seen) == 2
    for here, there in zip(late.parameters(), at_once.parameters(), strict=True):
        assert here.grad is not None
        torch.testing.assert_close(here.grad, there.grad, rtol=1e-13, atol=1e-13)


class _PassInside(torch.autograd.Function):
    """A map whose backward pass computes it again and differentiates that."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(h, weight)
        with torch.no_grad():
            return linear(h, weight, backend=BACKEND)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        inputs = [x.detach().requires_grad_() for x in ctx.saved_tensors]
        with torch.enable_grad():
            out = linear(*inputs, backend=BACKEND)
        return torch.autograd.grad(out, inputs, grad)


@of_kernels
def test_a_pass_inside_of_a_backward_pass_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    set_kernels(monkeypatch, "linear", FEW=0)
    _using, inputs = case(33, bias=False)
    loss = _PassInside.apply(*inputs).sum()
    with late_sums(loss):
        loss.backward()
    expected = torch.autograd.grad(linear(*inputs, backend="reference").sum(), inputs)
    for x, there in zip(inputs, expected, strict=True):
        torch.testing.assert_close(x.grad, there, rtol=1e-12, atol=1e-12)


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
