"""Accuracy and balanced accuracy against scikit-learn, OGB's evaluator and GraphGPS."""

from __future__ import annotations

import pytest
import sklearn.metrics as sk
import torch

from tests.tasks.metric_cases import metric, multiclass_case, random_case


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("ties", [False, True])
def test_as_scikit_learn(seed, ties):
    pred, true = random_case("binary", seed=seed, ties=ties)
    label = (pred[:, 0] > 0).long()
    assert metric("accuracy", "binary")(pred, true) == pytest.approx(sk.accuracy_score(true, label), abs=1e-12)
    balanced = sk.balanced_accuracy_score(true, label)
    assert metric("accuracy-SBM", "binary")(pred, true) == pytest.approx(balanced, abs=1e-12)
    pred, true = multiclass_case(seed, ties)
    label = pred.argmax(1)
    assert metric("accuracy", "multiclass")(pred, true) == pytest.approx(sk.accuracy_score(true, label), abs=1e-12)
    balanced = sk.balanced_accuracy_score(true, label)
    assert metric("accuracy-SBM", "multiclass")(pred, true) == pytest.approx(balanced, abs=1e-12)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(3))
def test_multilabel_as_ogb(seed):
    evaluate = pytest.importorskip("ogb.graphproppred.evaluate")
    pred, true = random_case("multilabel", seed=seed)
    expected = evaluate.Evaluator("ogbg-molpcba")._eval_acc(true.numpy(), (pred.numpy() > 0).astype(float))["acc"]
    assert metric("accuracy", "multilabel")(pred, true) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("case", range(4))
def test_accuracy_sbm_equals_graphgps(golden, case):
    recorded = golden("graphgps/metric_accuracy_sbm")
    true, label = recorded[f"in/true_{case}"], recorded[f"in/pred_{case}"]
    classes = int(torch.cat([true, label]).max()) + 1
    value = metric("accuracy-SBM", "multiclass", max(classes, 2))(torch.eye(max(classes, 2))[label], true)
    assert value == pytest.approx(float(recorded[f"out/acc_{case}"]), abs=1e-6)


def test_threshold_is_a_probability():
    pred, true = torch.tensor([[0.0], [1.0], [2.0]]), torch.tensor([0, 0, 1])
    assert metric("accuracy", "binary")(pred, true) == pytest.approx(2 / 3)
    assert metric("accuracy", "binary", thresh=0.8)(pred, true) == 1.0  # sigmoid(1) = 0.73, sigmoid(2) = 0.88
