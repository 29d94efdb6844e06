"""What every registered metric must do, and where it has no value."""

from __future__ import annotations

import math
import warnings

import pytest
import torch

from graphbench import registry
from graphbench.tasks.metric import StatisticMetric
from graphbench.testing import check_metric
from graphbench.testing.targets import perfect_predictions
from tests.tasks.metric_cases import TASK_TYPES, metric, random_case

NAMES = [
    name
    for name in registry.names("tasks/metrics")
    if not issubclass(registry.lookup("tasks/metrics", name), StatisticMetric)
]


@pytest.mark.parametrize("name", NAMES)
def test_metric(name):
    check_metric(registry.lookup("tasks/metrics", name))


@pytest.mark.parametrize("name", NAMES)
def test_the_truth_has_no_error_or_all_right(name):
    component = registry.lookup("tasks/metrics", name)
    for kind in () if component.needs_order else component.kinds:
        true = random_case(kind, rows=600)[1]
        value = metric(name, kind)(perfect_predictions(kind, true, TASK_TYPES[kind][1]), true)
        assert value == pytest.approx(1.0 if component.maximize else 0.0, abs=1e-12)


@pytest.mark.parametrize("name", registry.names("tasks/metrics"))
def test_every_metric_refuses_other_kinds_of_task(name):
    kinds = registry.lookup("tasks/metrics", name).kinds
    other = next(kind for kind in TASK_TYPES if kind not in kinds)
    registered = registry.lookup("tasks/metrics", name).registered_name
    with pytest.raises(ValueError, match=f"the metric {registered} is for .*, this one is {other}"):
        metric(name, other)


@pytest.mark.parametrize(
    ("name", "kind", "pred", "true", "reason"),
    [
        ("auc", "binary", torch.randn(4, 1), torch.ones(4), "the labels are all alike"),
        ("ap", "binary", torch.randn(4, 1), torch.zeros(4), "the labels are all alike"),
        ("recall", "binary", torch.randn(4, 1), torch.zeros(4), "no label is positive"),
        ("f1", "binary", -torch.ones(4, 1), torch.zeros(4), "no label is positive"),
        ("auc", "multiclass", torch.randn(4, 4), torch.zeros(4, dtype=torch.int64), "no task has both"),
        ("auc", "multilabel", torch.randn(4, 4), torch.full((4, 4), torch.nan), "no task has both"),
        ("accuracy", "multilabel", torch.randn(4, 4), torch.full((4, 4), torch.nan), "all labels are missing"),
        ("r2", "regression", torch.randn(4, 3), torch.full((4, 3), 0.1), "the targets are constant"),
        ("r2", "regression", torch.randn(1, 3), torch.randn(1, 3), "the targets are constant"),
        ("spearmanr", "regression", torch.zeros(4, 3), torch.randn(4, 3), "the targets or the predictions"),
        ("r2", "regression", torch.randn(2, 3), torch.tensor([[1.0, 2, 3], [2, 3, torch.nan]]), "some targets are not"),
        ("spearmanr", "regression", torch.randn(2, 3), torch.tensor([[1.0, 2, 3], [2, 3, torch.nan]]), "some targets"),
        ("rmse", "regression", torch.randn(4, 3), torch.full((4, 3), torch.nan), "no target is known"),
        ("mae", "regression", torch.zeros(0, 3), torch.zeros(0, 3), "no rows"),
        ("accuracy", "multiclass", torch.full((4, 4), torch.nan), torch.zeros(4, dtype=torch.int64), "contain NaN"),
    ],
)
def test_no_value_is_nan_with_a_reason(name, kind, pred, true, reason):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        under_test = metric(name, kind)
        assert math.isnan(under_test(pred, true))
    assert reason in under_test.reason


def test_a_number_clears_the_reason():
    under_test = metric("auc", "binary")
    assert math.isnan(under_test(torch.randn(2, 1), torch.ones(2)))
    assert under_test(torch.tensor([[0.0], [1.0]]), torch.tensor([0, 1])) == 1.0
    assert under_test.reason is None
