"""Kinds of task, and shapes of predictions and targets; messages for those that do not fit are in test_task.py."""

from __future__ import annotations

import pytest
import torch

from graphbench.contract import has_abstract_methods
from graphbench.tasks.loss import Loss
from graphbench.tasks.metric import Metric, StatisticMetric
from graphbench.tasks.targets import KINDS, align, kind_of
from graphbench.vocabulary import TASK_TYPES


@pytest.mark.parametrize(
    ("task_type", "out_dim", "kind"),
    [
        ("classification", 1, "binary"),
        ("classification", 2, "multiclass"),
        ("classification_binary", 1, "binary"),
        ("classification_multi", 2, "multiclass"),
        ("classification_multilabel", 1, "multilabel"),
        ("regression", 1, "regression"),
        ("subtoken_prediction", 5002, "subtoken"),
    ],
)
def test_kinds(task_type, out_dim, kind):
    assert kind_of(task_type, out_dim) == kind


@pytest.mark.parametrize(
    ("task_type", "out_dim", "message"),
    [
        ("classification_binary", 2, "received out_dim = 2"),
        ("classification_multi", 1, "received out_dim = 1"),
        ("regression", 0, "out_dim must be at least 1, received 0"),
        ("subtoken_prediction", 2, "3 words or more, received out_dim = 2"),
        ("subtokens", 3, "received 'subtokens'"),
    ],
)
def test_contradictory_kinds(task_type, out_dim, message):
    with pytest.raises(ValueError, match=message):
        kind_of(task_type, out_dim)


def test_every_kind_has_a_type() -> None:
    assert {kind for kinds in TASK_TYPES.values() for kind in kinds} == set(KINDS)
    widths = {"binary": 1, "subtoken": 5}
    for task_type, kinds in TASK_TYPES.items():
        assert [kind_of(task_type, widths.get(kind, 2)) for kind in kinds] == list(kinds)


@pytest.mark.parametrize("base", [Loss, Metric])
@pytest.mark.parametrize("kinds", [None, (), ("binary", "classification"), "binary"])
def test_a_class_without_kinds_is_refused(base, kinds):
    """A metric without any was for "<nothing> tasks" in the message of the task it met."""
    members = {"value": lambda self, pred, true, real=None: pred.sum()}
    with pytest.raises(TypeError, match=r"Mine: kinds must name .* some of 'binary', 'multiclass', .*; received"):
        type("Mine", (base,), members if kinds is None else {**members, "kinds": kinds})
    assert has_abstract_methods(type("Open", (base,), {}))  # what derives from it says so


def test_a_metric_says_which_values_are_better():
    """An error without a direction was maximized, and the worst epoch was the best."""
    members = {"value": lambda self, pred, true: pred.sum(), "kinds": ("binary",)}
    with pytest.raises(TypeError, match=r"Mine: maximize must say whether larger values are better"):
        type("Mine", (Metric,), members)
    assert not type("Error", (Metric,), {**members, "maximize": False}).maximize


def test_a_base_class_of_metrics_needs_no_kinds():
    assert StatisticMetric.kinds == ()


@pytest.mark.parametrize(
    ("kind", "out_dim", "pred", "true"),
    [
        ("binary", 1, (5,), (5, 1)),
        ("binary", 1, (5, 1), (5,)),
        ("multiclass", 3, (5, 3), (5, 1)),
        ("regression", 1, (5,), (5,)),
        ("regression", 2, (5, 2), (5, 2)),
    ],
)
def test_shapes_that_mean_the_same(kind, out_dim, pred, true):
    a, b = align(torch.zeros(pred), torch.zeros(true, dtype=torch.int64), kind, out_dim)
    assert a.shape == ((5, 3) if kind == "multiclass" else b.shape)
