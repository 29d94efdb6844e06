"""Area under the ROC curve and average precision against scikit-learn and OGB's evaluator."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn.metrics as sk
import torch

from tests.tasks.metric_cases import metric, multiclass_case, random_case


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("ties", [False, True])
def test_as_scikit_learn(seed, ties):
    pred, true = random_case("binary", seed=seed, ties=ties)
    assert metric("auc", "binary")(pred, true) == pytest.approx(sk.roc_auc_score(true, pred[:, 0]), abs=1e-12)
    assert metric("ap", "binary")(pred, true) == pytest.approx(sk.average_precision_score(true, pred[:, 0]), abs=1e-12)
    pred, true = multiclass_case(seed, ties)
    probability, y = pred.softmax(1).numpy(), true.numpy()
    auc = sk.roc_auc_score(y, probability, multi_class="ovr", average="macro")
    assert metric("auc", "multiclass")(pred, true) == pytest.approx(auc, abs=1e-12)
    ap = np.mean([sk.average_precision_score(y == c, probability[:, c]) for c in range(4)])
    assert metric("ap", "multiclass")(pred, true) == pytest.approx(ap, abs=1e-12)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("ties", [False, True])
def test_multilabel_as_ogb(seed, ties):
    evaluate = pytest.importorskip("ogb.graphproppred.evaluate")
    pred, true = random_case("multilabel", seed=seed, ties=ties)
    true[:, 2] = true[:, 2].masked_fill(true[:, 2] == 1, 0.0)  # no positive
    evaluator = evaluate.Evaluator("ogbg-molpcba")
    auc = evaluator._eval_rocauc(true.numpy(), pred.numpy())["rocauc"]
    assert metric("auc", "multilabel")(pred, true) == pytest.approx(auc, abs=1e-12)
    ap = evaluator._eval_ap(true.numpy(), pred.numpy())["ap"]
    assert metric("ap", "multilabel")(pred, true) == pytest.approx(ap, abs=1e-12)


def test_where_all_scores_are_equal():
    """Half of the pairs are ordered right; precision is the fraction of positives."""
    pred, true = torch.zeros(4, 1), torch.tensor([1, 0, 0, 0])
    assert metric("auc", "binary")(pred, true) == 0.5
    assert metric("ap", "binary")(pred, true) == 0.25
