"""Coefficient of determination and rank correlation against scikit-learn and scipy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics as sk

from tests.tasks.metric_cases import metric, random_case


@pytest.mark.parametrize("seed", range(3))
def test_as_scikit_learn_and_scipy(seed):
    pred, true = random_case("regression", seed=seed)
    p, y = pred.numpy(), true.numpy()
    assert metric("r2", "regression")(pred, true) == pytest.approx(sk.r2_score(y, p), abs=1e-12)
    spearman = np.mean([scipy.stats.spearmanr(y[:, c], p[:, c]).statistic for c in range(3)])
    assert metric("spearmanr", "regression")(pred, true) == pytest.approx(spearman, abs=1e-12)


def test_columns_without_a_value_are_left_out():
    pred, true = random_case("regression")
    constant = true.clone()
    constant[:, 1] = 3.0
    for name in ("r2", "spearmanr"):
        expected = metric(name, "regression", 2)(pred[:, [0, 2]], true[:, [0, 2]])
        assert metric(name, "regression")(pred, constant) == pytest.approx(expected)
