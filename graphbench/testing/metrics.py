"""The contract of metrics, for a class of your own: ``check_metric(MyMetric)`` in a test of yours."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from graphbench.tasks.metric import Metric
from graphbench.testing.checks import require, same
from graphbench.testing.suite import require_kind, run_checks
from graphbench.testing.targets import check_each, of_every_kind, perfect_predictions, random_case

_ROWS = 600
"""Rows of a check: hits@100 has no value with fewer than 100 negative ones."""


def check_metric(
    component: type[Metric], /, *, context: Mapping[str, Any] | None = None, **arguments: Any
) -> list[str]:
    """Checks of a metric, on random predictions and targets of every kind of task that it is for.

    One finite number, the same the next time, with nothing written to; the order of rows does not matter; the truth is
    better than chance in the direction that ``maximize`` declares; float32 predictions have the value of float64 ones;
    where there is none (no rows, one class, unknown targets) it is NaN with a reason. Of a metric that ``needs_order``
    only the last, since random rows are in none.

    Args:
        component: the class, registered or not.
        context: ``task_type``, ``out_dim`` and ``thresh`` of a run, whose kind of task is the only one then.
        arguments: of the constructor.

    Returns:
        Names of the checks.

    Raises:
        AssertionError: what fails, a line for each check.
        TypeError: no class of a metric.
    """
    require_kind("check_metric", component)
    made = of_every_kind(component, context or {}, arguments)
    names = ["degenerate"] if component.needs_order else list(CHECKS)  # random rows are in no order
    return run_checks(component, {name: partial(check_each, CHECKS[name], made) for name in names})


def check_value(metric: Metric) -> None:
    """A finite number, and the same after another call: nothing is kept from call to call."""
    pred, true = random_case(metric.kind, _ROWS, ties=True, out_dim=metric.out_dim)
    before = pred.clone(), true.clone()
    value = metric(pred, true)
    require(isinstance(value, float), f"the value is an object of {type(value).__name__}, not a float")
    require(math.isfinite(value), f"the value of random predictions is {value} ({metric.reason})")
    require(same(pred, before[0]) and same(true, before[1]), "predictions or targets were modified")
    metric(pred[:10], true[:10])
    again = metric(pred, true)
    require(again == value, f"the same predictions have the value {value}, and {again} after another call")


def check_order(metric: Metric) -> None:
    """The order of rows does not matter."""
    pred, true = random_case(metric.kind, _ROWS, ties=True, out_dim=metric.out_dim)
    order = torch.randperm(len(pred), generator=torch.Generator().manual_seed(0))
    value, shuffled = metric(pred, true), metric(pred[order], true[order])
    require(
        math.isclose(value, shuffled, rel_tol=1e-9, abs_tol=1e-12), f"rows in another order: {shuffled}, not {value}"
    )


def check_direction(metric: Metric) -> None:
    """The truth is better than chance: larger where ``maximize`` says so, else smaller."""
    pred, true = random_case(metric.kind, _ROWS, out_dim=metric.out_dim)
    best, chance = metric(perfect_predictions(metric.kind, true, metric.out_dim), true), metric(pred, true)
    better = best > chance if metric.maximize else best < chance
    require(better, f"the truth has {best}, random predictions {chance}, and maximize = {metric.maximize}")


def check_precision(metric: Metric) -> None:
    """Predictions in float32, as a model makes them, have the value that they have in float64."""
    pred, true = random_case(metric.kind, _ROWS, ties=True, out_dim=metric.out_dim)
    single, double = metric(pred.float(), true), metric(pred, true)
    require(math.isclose(single, double, rel_tol=1e-5, abs_tol=1e-6), f"{single} in float32, {double} in float64")


def check_degenerate(metric: Metric) -> None:
    """Few rows, labels all alike and unknown targets: a number, or NaN and a reason."""
    for rows in (0, 1, 2):
        for fill in (0.0, 1.0, math.nan):
            pred, true = random_case(metric.kind, rows, out_dim=metric.out_dim)
            true = torch.full_like(true, fill if true.is_floating_point() else int(fill == 1.0))
            value = metric(torch.zeros_like(pred), true)
            known = math.isfinite(value) or bool(metric.reason)
            require(known, f"{value} without a reason (Undefined) for {rows} rows whose targets are all {fill}")


CHECKS: Mapping[str, Callable[[Metric], None]] = {
    "value": check_value,
    "order": check_order,
    "direction": check_direction,
    "precision": check_precision,
    "degenerate": check_degenerate,
}
