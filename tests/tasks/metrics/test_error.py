"""Mean errors against scikit-learn and OGB's evaluator."""

from __future__ import annotations

import pytest
import sklearn.metrics as sk

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


@pytest.mark.filterwarnings("ignore")
def test_rmse_as_ogb():
    evaluate = pytest.importorskip("ogb.graphproppred.evaluate")
    pred, true = (values[:, :1] for values in random_case("regression"))
    expected = evaluate.Evaluator("ogbg-molesol")._eval_rmse(true.numpy(), pred.numpy())["rmse"]
    assert metric("rmse", "regression", 1)(pred, true) == pytest.approx(expected, abs=1e-12)
