"""The task: what it logs, and what it says about predictions and targets that do not fit."""

from __future__ import annotations

import math

import pytest
import torch

from graphbench.errors import UserError
from graphbench.structures import DataInfo
from graphbench.tasks.losses.cross_entropy import CrossEntropy
from graphbench.tasks.losses.regression import AbsoluteError
from graphbench.tasks.task import LOGGED, Task, logged_metrics
from tests.tasks.metric_cases import metric


def _info(task_type, out_dim, metric):
    return DataInfo("x", "graph", task_type, 1, 0, out_dim, metric, True)


def test_selecting_metric_first_then_those_of_the_kind():
    assert logged_metrics(_info("classification_multilabel", 10, "ap")) == ["ap", "accuracy", "auc"]
    assert logged_metrics(_info("regression", 1, "mae"))[0] == "mae"
    assert logged_metrics(_info("classification", 1, "ap"))[0] == "ap"
    assert len(logged_metrics(_info("classification", 7, "accuracy"))) == len(LOGGED["multiclass"])


@pytest.mark.parametrize("kind", LOGGED)
def test_every_logged_metric_exists(kind):
    task_type, out_dim = {
        "binary": ("classification", 1),
        "multiclass": ("classification", 3),
        "multilabel": ("classification_multilabel", 3),
        "regression": ("regression", 3),
        "subtoken": ("subtoken_prediction", 6),
    }[kind]
    loss = AbsoluteError(task_type, out_dim) if kind == "regression" else CrossEntropy(task_type, out_dim)
    task = Task(loss, LOGGED[kind], task_type, out_dim)
    pred = torch.randn(30, 5, out_dim) if kind == "subtoken" else torch.randn(30, out_dim)
    true = {
        "binary": torch.randint(0, 2, (30,)),
        "multiclass": torch.randint(0, 3, (30,)),
        "multilabel": torch.randint(0, 2, (30, 3)).float(),
        "regression": torch.randn(30, 3),
        "subtoken": torch.randint(0, 6, (30, 5)),
    }[kind]
    scores = task.evaluate(pred.requires_grad_(), true)
    assert list(scores) == ["loss", *LOGGED[kind]]
    assert all(type(value) is float and math.isfinite(value) for value in scores.values())
    assert scores["loss"] == pytest.approx(float(task.loss(pred, true).detach()))
    assert task.loss(pred, true).requires_grad
    assert task.undefined == {}
    first = LOGGED[kind][0]
    assert task.evaluate(pred, true, only=[first]) == {"loss": scores["loss"], first: scores[first]}
    assert task.maximize(first) is (kind != "regression")


def test_undefined_metrics_are_named_with_their_reason():
    task = Task(CrossEntropy("classification", 1), ["accuracy", "auc"], "classification", 1)
    scores = task.evaluate(torch.zeros(3, 1), torch.ones(3))
    assert math.isnan(scores["auc"])
    assert task.undefined == {"auc": "the labels are all alike"}
    task.evaluate(torch.zeros(2, 1), torch.tensor([0, 1]))
    assert task.undefined == {}


def test_unknown_and_unfitting_metrics():
    loss = CrossEntropy("classification", 3)
    with pytest.raises(UserError, match=r"unknown name in tasks/metrics 'acuracy'\. Did you mean 'accuracy'"):
        Task(loss, ["acuracy"], "classification", 3)
    with pytest.raises(ValueError, match="mae is for regression"):
        Task(loss, ["mae"], "classification", 3)


@pytest.mark.parametrize(
    ("task_type", "out_dim", "pred", "true", "message"),
    [
        ("classification", 3, torch.zeros(4, 2), torch.zeros(4).long(), r"\(rows, 3\); received predictions \(4, 2\)"),
        ("classification", 3, torch.zeros(4, 3), torch.zeros(5).long(), r"many rows.*\(4, 3\) and targets \(5,\)"),
        ("classification", 3, torch.zeros(4, 3), torch.zeros(4, 2).long(), r"\(rows, 1\).*targets \(4, 2\)"),
        ("classification", 3, torch.zeros(4, 3), torch.zeros(4), "whole numbers"),
        ("classification", 3, torch.zeros(4, 3), torch.tensor([0, 1, 2, 3]), r"3 classes \(labels 0 to 2\).* 0 to 3"),
        ("classification", 3, torch.zeros(2, 3), torch.tensor([-1, 0]), "received labels -1 to 0"),
        ("classification", 1, torch.zeros(2, 1), torch.tensor([0, 2]), "must be 0 or 1, received 2"),
        ("classification_multilabel", 2, torch.zeros(1, 2), torch.tensor([[0.5, 1]]), "NaN where.*received 0.5"),
        ("classification_multilabel", 2, torch.zeros(3, 2), torch.zeros(3), r"\(rows, 2\).*targets \(3,\)"),
        ("regression", 2, torch.zeros(3), torch.zeros(3, 2), r"predictions must have shape \(rows, 2\)"),
    ],
)
def test_what_does_not_fit_is_named_on_both_sides(task_type, out_dim, pred, true, message):
    if task_type == "regression":
        task = Task(AbsoluteError(task_type, out_dim), ["mae"], task_type, out_dim)
    else:
        task = Task(CrossEntropy(task_type, out_dim), ["accuracy"], task_type, out_dim)
    with pytest.raises(ValueError, match=message):
        task.loss(pred, true)
    with pytest.raises(ValueError, match=message):
        task.evaluate(pred, true)
    if "predictions" not in message and "many rows" not in message:
        with pytest.raises(ValueError, match=message):
            task.check_targets(true)


WORDS = ("subtoken_prediction", 6)


@pytest.mark.parametrize(
    ("pred", "true", "message"),
    [
        (torch.zeros(4, 2, 5), torch.zeros(4, 2).long(), r"\(rows, positions, 6\); received predictions \(4, 2, 5\)"),
        (torch.zeros(4, 2, 6), torch.zeros(4, 1).long(), r"\(rows, 2 or more\).*targets \(4, 1\)"),
        (torch.zeros(4, 2, 6), torch.zeros(4, 2), "whole numbers"),
        (torch.zeros(4, 2, 6), torch.full((4, 2), -1), "numbered from 0, received -1"),
    ],
)
def test_sequences_that_do_not_fit(pred, true, message):
    task = Task(CrossEntropy(*WORDS), ["f1"], *WORDS)
    with pytest.raises(ValueError, match=message):
        task.loss(pred, true)


def test_sequences_are_kept_as_words_and_targets_may_name_words_outside_the_vocabulary():
    task = Task(CrossEntropy(*WORDS), ["f1"], *WORDS)
    pred, true = torch.randn(7, 2, 6), torch.randint(0, 9, (7, 4))
    task.check_targets(true)
    kept = task.keep(pred)
    assert kept.shape == (7, 2)
    assert not kept.is_floating_point()
    in_parts = task.evaluate([kept[:3], kept[3:]], [true[:3], true[3:]], loss=False)
    assert in_parts == task.evaluate(pred, true, loss=False)
    same = torch.randn(3, 1)
    assert Task(AbsoluteError("regression", 1), ["mae"], "regression", 1).keep(same).equal(same)


def test_nothing_asked_nothing_joined():
    task = Task(CrossEntropy("classification", 1), ["accuracy", "mrr"], "classification", 1)
    assert task.evaluate([object(), object()], [object(), object()], [], loss=False) == {}  # joining these would raise


def test_statistics_become_metrics_where_they_were_computed():
    task = Task(CrossEntropy("classification", 1), ["mrr", "accuracy"], "classification", 1)
    pred, true = torch.randn(4, 1), torch.tensor([0, 1, 1, 0])
    assert set(task.evaluate(pred, true)) == {"loss", "accuracy"}  # a training pass
    statistics = {"mrr": torch.tensor([0.5, 0.0]), "hits@1_filt": torch.tensor([torch.nan, 1.0])}
    scores = task.evaluate(pred, true, statistics=statistics)
    assert set(scores) == {"loss", "accuracy", "mrr", "hits@1_filt"}
    assert (scores["mrr"], scores["hits@1_filt"]) == (0.25, 1.0)
    assert task.evaluate(pred, true, ["mrr"], loss=False, statistics=statistics) == {"mrr": 0.25}
    assert task.maximize("hits@1_filt")
    spoiled = task.evaluate(torch.full((4, 1), torch.nan), true, statistics=statistics)
    assert math.isnan(spoiled["mrr"])
    assert "NaN" in task.undefined["mrr"]


def test_statistics_that_are_no_metric_are_means_over_the_graphs_that_have_a_number():
    task = Task(CrossEntropy("classification", 1), ["accuracy", "mrr"], "classification", 1)
    pred, true = torch.randn(4, 1), torch.tensor([0, 1, 1, 0])
    zero_flow = torch.tensor([0.25, torch.nan, 0.75])
    statistics = {"mrr": torch.tensor([0.5, 0.0]), "zero_flow": zero_flow, "other": torch.tensor([torch.nan])}
    scores = task.evaluate(pred, true, statistics=statistics)
    assert list(scores) == ["loss", "accuracy", "mrr", "zero_flow", "other"]
    assert (scores["mrr"], scores["zero_flow"]) == (0.25, 0.5)
    assert math.isnan(scores["other"])
    assert task.undefined == {"other": "no graph has a number"}
    # They cost nothing: epochs in which few metrics are computed have them as well.
    assert task.evaluate([object()], [object()], [], loss=False, statistics={"zero_flow": zero_flow}) == {
        "zero_flow": 0.5
    }
    assert list(task.evaluate(pred, true, ["accuracy"], loss=False, statistics=statistics)) == [
        "accuracy", "zero_flow", "other"
    ]  # fmt: skip
    assert task.maximize("zero_flow") is False
    # The name of a metric stays that of the metric.
    assert task.evaluate(pred, true, statistics={"accuracy": zero_flow})["accuracy"] == scores["accuracy"]


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel", "regression"])
def test_logged_metrics_equal_graphgps(golden, kind):
    recorded = golden(f"graphgps/metric_{kind}")
    pred = recorded.get("in/pred", recorded.get("in/score", recorded.get("in/logits")))
    out_dim = 1 if pred.dim() == 1 else pred.shape[1]
    pred = pred.double().logit() if kind == "binary" else pred  # recorded as probabilities
    for name, expected in zip(recorded["config"]["keys"], recorded["out/stats"], strict=True):
        assert metric(name, kind, out_dim)(pred, recorded["in/true"]) == pytest.approx(float(expected), abs=2e-6), name


def test_ogb_evaluators_equal_graphgps(golden):
    recorded = golden("graphgps/metric_ogb")
    names = {"acc": "accuracy", "ap": "ap", "rocauc": "auc"}
    for key, expected in zip(recorded["config"]["keys"], recorded["out/stats"], strict=True):
        value = metric(names[key], "multilabel")(recorded["in/logits"], recorded["in/true"])
        assert value == pytest.approx(float(expected), abs=1e-6), key
