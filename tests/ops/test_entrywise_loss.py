"""Losses over entries against the equation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from graphbench.ops.entrywise_loss import KINDS, entrywise_loss
from graphbench.structures.unit_gradient import unit_gradient
from tests.ops.ragged_inputs import BACKEND, DEVICE, assert_same, assert_within_budget, of_kernels, set_kernels

CASES = list(itertools.product(KINDS, (True, False), (True, False), (True, False)))


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several steps of the program."""
    set_kernels(monkeypatch, "entrywise_loss", ENTRIES=16)


def case(
    kind: str, mean: bool, masked: bool, unknown: bool, shape: tuple[int, ...] = (9, 5)
) -> tuple[Callable[[str], Callable[[Tensor], Tensor]], list[Tensor]]:
    """(backend -> function of the predictions, predictions), targets of 0, 1, NaN where they may be unknown."""
    pred = 2 * torch.randn(shape, dtype=torch.float64)
    true = (torch.rand(shape) < 0.5).double() if kind == "bce" else torch.randn(shape, dtype=torch.float64)
    if unknown:
        true[torch.rand(shape) < 0.3] = torch.nan
    rows = torch.rand(shape[0]) < 0.6 if masked else None
    if rows is not None:
        true[~rows] = torch.inf  # padding may be anything
    true, rows = true.to(DEVICE), None if rows is None else rows.to(DEVICE)

    def using(backend: str) -> Callable[[Tensor], Tensor]:
        def loss(pred: Tensor) -> Tensor:
            options = {"mean": mean, "rows": rows, "unknown": unknown, "backend": backend}
            return entrywise_loss(pred, true.to(pred.dtype), kind, **options)

        return loss

    return using, [pred.to(DEVICE).requires_grad_()]


@pytest.mark.parametrize(("kind", "mean", "masked", "unknown"), CASES)
def test_equals_the_equation(kind: str, mean: bool, masked: bool, unknown: bool) -> None:
    using, inputs = case(kind, mean, masked, unknown)
    assert_same(using(BACKEND), using("reference"), inputs)


@pytest.mark.parametrize("kind", KINDS)
def test_error_in_float32(kind: str) -> None:
    using, inputs = case(kind, True, True, True, shape=(30, 4))
    assert_within_budget(using(BACKEND), using("reference"), inputs, draws=4)


@pytest.mark.parametrize("backend", [BACKEND, "reference"])
def test_nothing_that_counts(backend: str) -> None:
    """Neither rows nor targets: 0, and a gradient of 0 where there is one."""
    pred, true = torch.randn(3, 2, device=DEVICE), torch.full((3, 2), torch.nan, device=DEVICE)
    for known in ({"unknown": True}, {"rows": torch.zeros(3, dtype=torch.bool, device=DEVICE)}):
        rows = pred.clone().requires_grad_()
        loss = entrywise_loss(rows, true, "bce", **known, backend=backend)
        assert loss == 0
        if loss.requires_grad:
            assert not torch.autograd.grad(loss, rows)[0].any()
    assert entrywise_loss(pred[:0], true[:0], "l1", backend=backend) == 0


@pytest.mark.parametrize("backend", [BACKEND, "reference"])
def test_by_hand(backend: str) -> None:
    """d = 3, -1/2; logits far on the right and on the wrong side."""
    pred, true = torch.tensor([[3.0, -0.5]], device=DEVICE), torch.zeros(1, 2, device=DEVICE)
    found = {kind: entrywise_loss(pred, true, kind, mean=False, backend=backend).item() for kind in KINDS[:3]}
    assert found == {"mse": 9.25, "l1": 3.5, "smoothl1": 2.625}
    pred, true = torch.tensor([[30.0, -90.0]], device=DEVICE), torch.ones(1, 2, device=DEVICE)
    loss = [entrywise_loss(pred[:, i], true[:, i], "bce", backend=backend).item() for i in (0, 1)]
    assert loss == pytest.approx([math.exp(-30), 90.0], rel=1e-6)


def test_rows_that_are_every_other() -> None:
    pred, true, rows = torch.randn(9, 5), torch.randn(9, 5), torch.rand(18) < 0.6
    given = [x.to(DEVICE) for x in (pred, true)]
    both = (entrywise_loss(*given, "l1", rows=rows.to(DEVICE)[::2], backend=each) for each in (BACKEND, "reference"))
    torch.testing.assert_close(*both)


@of_kernels
def test_a_unit_gradient_is_not_multiplied() -> None:
    """The gradient of a training step is the one that the forward pass made; any other factor multiplies it."""
    using, (pred,) = case("mse", True, True, True)
    loss = using("gpu")(pred)
    unit = unit_gradient(loss.dtype, loss.device)
    made, again, twice = (
        torch.autograd.grad(loss, pred, factor, retain_graph=True)[0] for factor in (unit, unit, 2 * unit)
    )
    assert made.data_ptr() == again.data_ptr() != twice.data_ptr()
    assert torch.equal(2 * made, twice)


@of_kernels
def test_many_entries_take_torch_code(monkeypatch: pytest.MonkeyPatch) -> None:
    set_kernels(monkeypatch, "entrywise_loss", MOST=44, loss_and_gradient=None)
    using, inputs = case("bce", True, True, True)
    assert_same(using("gpu"), using("reference"), inputs)


def test_refused_arguments() -> None:
    x = torch.ones(3, 2)
    with pytest.raises(ValueError, match=r"received \(3, 2\) and \(3,\)"):
        entrywise_loss(x, x[:, 0], "l1")
    with pytest.raises(ValueError, match=r"rows must be \(3,\), received \(2,\)"):
        entrywise_loss(x, x, "l1", rows=torch.ones(2, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"'mse', 'l1', 'smoothl1', 'bce'.*received 'hinge'"):
        entrywise_loss(x, x, "hinge")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["bce", "mse", "l1", "smoothl1"])
def test_targets_may_be_whole_numbers(kind: str) -> None:
    pred, true = torch.randn(5, dtype=torch.float64), torch.tensor([0, 1, 1, 0, 1])
    found, expected = (entrywise_loss(pred, true, kind, backend=backend) for backend in ("cpu", "reference"))
    torch.testing.assert_close(found, expected)
