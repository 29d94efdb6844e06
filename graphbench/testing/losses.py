"""The contract of losses, for a class of your own: ``check_loss(MyLoss)`` in a test of yours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from graphbench.structures.capacity import RealRows
from graphbench.tasks.loss import Loss
from graphbench.testing.checks import assert_close, require, same
from graphbench.testing.suite import require_kind, run_checks
from graphbench.testing.targets import check_each, of_every_kind, random_case

ROWS = 8


def check_loss(component: type[Loss], /, *, context: Mapping[str, Any] | None = None, **arguments: Any) -> list[str]:
    """Checks of a loss, on random predictions and targets of every kind of task that it is for.

    One finite number, the same the next time, with nothing written to; gradients are those of finite differences; the
    order of rows does not matter; fewer than ``least_rows`` rows give 0; unknown targets (NaN) do not count, or show as
    NaN; of a loss that is ``row_wise`` the mean (sum) is one over rows; of one that is ``capturable`` padding does not
    count.

    Args:
        component: the class, registered or not.
        context: ``task_type``, ``out_dim`` and ``size_average`` of a run, whose kind of task is the only one then.
        arguments: of the constructor.

    Returns:
        Names of the checks.

    Raises:
        AssertionError: what fails, a line for each check.
        TypeError: no class of a loss.
    """
    require_kind("check_loss", component)
    made = of_every_kind(component, context or {}, arguments)
    left_out = {"reduction": not component.row_wise, "padding": component.capturable is False}
    names = [name for name in CHECKS if not left_out.get(name)]
    return run_checks(component, {name: partial(check_each, CHECKS[name], made) for name in names})


def check_value(loss: Loss) -> None:
    """A finite number, and the same after another call."""
    pred, true = random_case(loss.kind, ROWS, out_dim=loss.out_dim)
    before = pred.clone(), true.clone()
    value = loss(pred, true)
    require(bool(value.isfinite()), f"the loss of random predictions is {value}")
    require(same(pred, before[0]) and same(true, before[1]), "predictions or targets were modified")
    loss(pred[:3], true[:3])
    require(torch.equal(loss(pred, true), value), "the same predictions have another loss after another call")


def check_gradients(loss: Loss) -> None:
    """Gradients are those of finite differences."""
    pred, true = random_case(loss.kind, ROWS, out_dim=loss.out_dim)
    pred.requires_grad_()
    require(loss(pred, true).requires_grad, "the loss does not depend on the predictions: are they detached?")
    try:
        torch.autograd.gradcheck(lambda p: loss(p, true), (pred,))
    except RuntimeError as error:
        raise AssertionError(f"gradients are not those of finite differences: {error}") from error


def check_order(loss: Loss) -> None:
    """The order of rows does not matter."""
    pred, true = random_case(loss.kind, ROWS, out_dim=loss.out_dim)
    assert_close(loss(pred.flip(0), true.flip(0)), loss(pred, true), 1e-12, "the loss depends on the order of rows")


def check_reduction(loss: Loss) -> None:
    """Every row twice has the same mean, or twice the sum; a row of twice the weight counts as two rows."""
    pred, true = random_case(loss.kind, ROWS, out_dim=loss.out_dim)
    true = true.nan_to_num()
    value, twice = loss(pred, true), loss(torch.cat([pred, pred]), torch.cat([true, true]))
    of_mean = loss.size_average == "mean"
    assert_close(twice, value if of_mean else 2 * value, 1e-10, f"no {loss.size_average} over rows, each there twice")
    weight = torch.ones(ROWS, dtype=pred.dtype)
    weight[0] = 2
    weight /= ROWS + 1 if of_mean else 1
    repeated, of_rows = _with_gradient(loss, torch.cat([pred[:1], pred]), torch.cat([true[:1], true]))
    of_rows[1] += of_rows[0]
    pred.requires_grad_()
    weighted = loss.weighted(pred, true, weight)
    assert_close(weighted.detach(), repeated, 1e-10, "a row of twice the weight and a row that is there twice differ")
    assert_close(torch.autograd.grad(weighted, pred)[0], of_rows[1:], 1e-10, "gradients of weighted rows")


def check_few_rows(loss: Loss) -> None:
    """Fewer than ``least_rows`` rows give loss 0 and gradient 0."""
    for rows in range(loss.least_rows):
        pred, true = random_case(loss.kind, rows, out_dim=loss.out_dim)
        value, gradient = _with_gradient(loss, pred, true)
        said = (
            f"{rows} rows have the loss {value.item()}, not 0 (least_rows = {loss.least_rows}; Loss.reduce does that)"
        )
        require(value.item() == 0 and not gradient.any(), said)


def check_unknown(loss: Loss) -> None:
    """Unknown targets (NaN) do not count, or show as NaN: a finite loss does not depend on their predictions."""
    pred, true = random_case(loss.kind, ROWS, out_dim=loss.out_dim)
    if not true.is_floating_point():
        return
    unknown = (torch.arange(true.numel()) % 3 == 0).view_as(true)
    true = true.masked_fill(unknown, torch.nan)
    value, gradient = _with_gradient(loss, pred, true)
    if value.isfinite():
        counts = gradient[unknown].any() or loss(pred + unknown, true) != value
        require(not counts, "unknown targets (NaN) count: the loss depends on the predictions for them")


def check_padding(loss: Loss) -> None:
    """Rows that ``real`` leaves out do not count, whatever they hold."""
    pred, true = random_case(loss.kind, ROWS, out_dim=loss.out_dim)
    real = torch.arange(2 * ROWS) % 2 == 0
    padded, labels = (torch.zeros(2 * ROWS, *each.shape[1:], dtype=each.dtype) for each in (pred, true))
    padded[~real], padded[real], labels[real] = 1e4, pred, true
    value, gradient = _with_gradient(loss, padded, labels, RealRows(real))
    expected, of_real = _with_gradient(loss, pred, true)
    assert_close(value, expected, 1e-10, "padding counts (capturable)")
    assert_close(gradient[real], of_real, 1e-10, "gradients of a padded batch (capturable)")
    require(not gradient[~real].any(), "padding has a gradient (capturable)")


def _with_gradient(loss: Loss, pred: Tensor, true: Tensor, *real: RealRows) -> tuple[Tensor, Tensor]:
    """The loss and its gradient, zeros where it does not depend on the predictions."""
    pred = pred.clone().requires_grad_()
    value = loss(pred, true, *real)
    if not value.requires_grad:
        return value, torch.zeros_like(pred)
    return value.detach(), torch.autograd.grad(value, pred)[0]


CHECKS: Mapping[str, Callable[[Loss], None]] = {
    "value": check_value,
    "gradients": check_gradients,
    "order": check_order,
    "reduction": check_reduction,
    "few_rows": check_few_rows,
    "unknown": check_unknown,
    "padding": check_padding,
}
