"""Losses over entries against the equation. The kernel: interpreted_entrywise_loss.py."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from graphbench.ops.entrywise_loss import KINDS, entrywise_loss
from tests.ops.ragged_inputs import assert_same, assert_within_budget

CASES = list(itertools.product(KINDS, (True, False), (True, False), (True, False)))


def case(
    kind: str, mean: bool, masked: bool, unknown: bool, device: str = "cpu", shape: tuple[int, ...] = (9, 5)
) -> tuple[Callable[[str], Callable[[Tensor], Tensor]], list[Tensor]]:
    """(backend -> function of the predictions, predictions), targets of 0, 1, NaN where they may be unknown."""
    pred = 2 * torch.randn(shape, dtype=torch.float64)
    true = (torch.rand(shape) < 0.5).double() if kind == "bce" else torch.randn(shape, dtype=torch.float64)
    if unknown:
        true[torch.rand(shape) < 0.3] = torch.nan
    rows = torch.rand(shape[0]) < 0.6 if masked else None
    if rows is not None:
        true[~rows] = torch.inf  # padding may be anything
    true, rows = true.to(device), None if rows is None else rows.to(device)

    def using(backend: str) -> Callable[[Tensor], Tensor]:
        def loss(pred: Tensor) -> Tensor:
            options = {"mean": mean, "rows": rows, "unknown": unknown, "backend": backend}
            return entrywise_loss(pred, true.to(pred.dtype), kind, **options)

        return loss

    return using, [pred.to(device).requires_grad_()]


@pytest.mark.parametrize(("kind", "mean", "masked", "unknown"), CASES)
def test_equals_the_equation(kind: str, mean: bool, masked: bool, unknown: bool) -> None:
    using, inputs = case(kind, mean, masked, unknown)
    assert_same(using("cpu"), using("reference"), inputs)


@pytest.mark.parametrize("kind", KINDS)
def test_error_in_float32(kind: str) -> None:
    using, inputs = case(kind, True, True, True, shape=(30, 4))
    assert_within_budget(using("cpu"), using("reference"), inputs, draws=4)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_nothing_that_counts(backend: str) -> None:
    nothing(backend, "cpu")


def nothing(backend: str, device: str) -> None:
    """Neither rows nor targets: 0, and a gradient of 0 where there is one."""
    pred, true = torch.randn(3, 2, device=device), torch.full((3, 2), torch.nan, device=device)
    for known in ({"unknown": True}, {"rows": torch.zeros(3, dtype=torch.bool, device=device)}):
        rows = pred.clone().requires_grad_()
        loss = entrywise_loss(rows, true, "bce", **known, backend=backend)
        assert loss == 0
        if loss.requires_grad:
            assert not torch.autograd.grad(loss, rows)[0].any()
    assert entrywise_loss(pred[:0], true[:0], "l1", backend=backend) == 0


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_by_hand(backend: str) -> None:
    by_hand(backend, "cpu")


def by_hand(backend: str, device: str) -> None:
    """d = 3, -1/2; logits far on the right and on the wrong side."""
    pred, true = torch.tensor([[3.0, -0.5]], device=device), torch.zeros(1, 2, device=device)
    found = {kind: entrywise_loss(pred, true, kind, mean=False, backend=backend).item() for kind in KINDS[:3]}
    assert found == {"mse": 9.25, "l1": 3.5, "smoothl1": 2.625}
    pred, true = torch.tensor([[30.0, -90.0]], device=device), torch.ones(1, 2, device=device)
    loss = [entrywise_loss(pred[:, i], true[:, i], "bce", backend=backend).item() for i in (0, 1)]
    assert loss == pytest.approx([math.exp(-30), 90.0], rel=1e-6)


def test_refused_arguments() -> None:
    x = torch.ones(3, 2)
    with pytest.raises(ValueError, match=r"received \(3, 2\) and \(3,\)"):
        entrywise_loss(x, x[:, 0], "l1")
    with pytest.raises(ValueError, match=r"rows must be \(3,\), received \(2,\)"):
        entrywise_loss(x, x, "l1", rows=torch.ones(2, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"'mse', 'l1', 'smoothl1', 'bce'.*received 'hinge'"):
        entrywise_loss(x, x, "hinge")  # type: ignore[arg-type]
