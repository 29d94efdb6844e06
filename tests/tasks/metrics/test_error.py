"""Mean errors against scikit-learn and OGB's evaluator."""

from __future__ import annotations

import pytest
import sklearn.metrics as sk
import torch

from tests.tasks.metric_cases import metric, random_case


@pytest.mark.parametrize("seed", range(3))
def test_as_scikit_learn(seed):
    pred, true = random_case("regression", seed=seed)
    p, y = pred.numpy(), true.numpy()
    expected = {
        "mae": sk.mean_absolute_error(y, p),
        "mse": sk.mean_squared_error(y, p),
        "rmse": sk.root_mean_squared_error(y.ravel(), p.ravel()),
    }
    for name, value in expected.items():
        assert metric(name, "regression")(pred, true) == pytest.approx(value, abs=1e-12), name


def test_unknown_targets_do_not_count():
    pred, true = random_case("regression")
    p, y = pred.flatten(), true.flatten()
    known = torch.arange(len(y)) % 4 > 0
    for name in ("mae", "mse", "rmse"):
        expected = metric(name, "regression", 1)(p[known], y[known])
        assert metric(name, "regression")(pred, y.masked_fill(~known, torch.nan).view_as(true)) == expected


@pytest.mark.filterwarnings("ignore")
def test_rmse_as_ogb():
    evaluate = pytest.importorskip("ogb.graphproppred.evaluate")
    pred, true = (values[:, :1] for values in random_case("regression"))
    expected = evaluate.Evaluator("ogbg-molesol")._eval_rmse(true.numpy(), pred.numpy())["rmse"]
    assert metric("rmse", "regression", 1)(pred, true) == pytest.approx(expected, abs=1e-12)
