"""Kinds of task, and shapes of predictions and targets; messages for those that do not fit are in test_task.py."""

from __future__ import annotations

import pytest
import torch

from graphbench.tasks.targets import align, kind_of


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
