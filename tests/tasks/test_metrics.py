"""Metrics against scikit-learn, scipy, OGB's evaluator, GraphGPS, and by hand."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics as sk
import torch

from graphbench import registry
from graphbench.tasks.metric import StatisticMetric
from graphbench.tasks.ranks import average_ranks, tie_bounds
from graphbench.tasks.subtokens import set_sizes

TASK_TYPES = {
    "binary": ("classification_binary", 1),
    "multiclass": ("classification_multi", 4),
    "multilabel": ("classification_multilabel", 4),
    "regression": ("regression", 3),
}


def metric(name, kind, out_dim=None, **arguments):
    task_type, width = TASK_TYPES[kind]
    return registry.lookup("tasks/metrics", name)(task_type=task_type, out_dim=out_dim or width, **arguments)


def random_case(kind, rows=60, seed=0, ties=False):
    generator = torch.Generator().manual_seed(seed)
    pred = torch.randn(rows, TASK_TYPES[kind][1], generator=generator, dtype=torch.float64)
    if ties:
        pred = (2 * pred).round() / 2
    if kind == "binary":
        return pred, torch.randint(0, 2, (rows,), generator=generator)
    if kind == "multiclass":
        return pred, torch.randint(0, 4, (rows,), generator=generator)
    if kind == "regression":
        return pred, (pred + torch.randn(rows, 3, generator=generator, dtype=torch.float64)).round(decimals=1)
    true = torch.randint(0, 2, (rows, 4), generator=generator).double()
    return pred, true.masked_fill(torch.rand(rows, 4, generator=generator) < 0.2, torch.nan)


# ---- scikit-learn, scipy, OGB ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("ties", [False, True])
def test_binary_equals_scikit_learn(seed, ties):
    pred, true = random_case("binary", seed=seed, ties=ties)
    score, y, label = pred[:, 0].numpy(), true.numpy(), (pred[:, 0] > 0).numpy().astype(int)
    expected = {
        "accuracy": sk.accuracy_score(y, label),
        "precision": sk.precision_score(y, label),
        "recall": sk.recall_score(y, label),
        "f1": sk.f1_score(y, label),
        "auc": sk.roc_auc_score(y, score),
        "ap": sk.average_precision_score(y, score),
        "accuracy-SBM": sk.balanced_accuracy_score(y, label),
    }
    for name, value in expected.items():
        assert metric(name, "binary")(pred, true) == pytest.approx(value, abs=1e-12), name


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("ties", [False, True])
def test_multiclass_equals_scikit_learn(seed, ties):
    pred, true = random_case("multiclass", seed=seed)
    if ties:  # probabilities are equal to the last bit only where whole rows repeat
        pred = pred[:20].repeat(3, 1)
    probability = pred.softmax(1)
    y, label = true.numpy(), pred.argmax(1).numpy()
    expected = {
        "accuracy": sk.accuracy_score(y, label),
        "precision": sk.precision_score(y, label, average="macro"),
        "recall": sk.recall_score(y, label, average="macro"),
        "f1": sk.f1_score(y, label, average="macro"),
        "auc": sk.roc_auc_score(y, probability.numpy(), multi_class="ovr", average="macro"),
        "ap": np.mean([sk.average_precision_score(y == c, probability[:, c].numpy()) for c in range(4)]),
        "accuracy-SBM": sk.balanced_accuracy_score(y, label),
    }
    for name, value in expected.items():
        assert metric(name, "multiclass")(pred, true) == pytest.approx(value, abs=1e-12), name


def test_macro_averages_run_over_classes_among_labels_or_predictions():
    pred = torch.eye(4)[[0, 0, 1, 2, 2]]
    true = torch.tensor([0, 1, 1, 0, 1])  # class 2 is only predicted, class 3 nowhere
    for name, function in (("f1", sk.f1_score), ("precision", sk.precision_score), ("recall", sk.recall_score)):
        expected = function(true, pred.argmax(1), average="macro", zero_division=0)
        assert metric(name, "multiclass")(pred, true) == pytest.approx(expected, abs=1e-12), name


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("ties", [False, True])
def test_multilabel_equals_ogb(seed, ties):
    evaluate = pytest.importorskip("ogb.graphproppred.evaluate")
    pred, true = random_case("multilabel", seed=seed, ties=ties)
    true[:, 2] = true[:, 2].masked_fill(true[:, 2] == 1, 0.0)  # no positive
    evaluator = evaluate.Evaluator("ogbg-molpcba")
    y, score = true.numpy(), pred.numpy()
    assert metric("auc", "multilabel")(pred, true) == pytest.approx(
        evaluator._eval_rocauc(y, score)["rocauc"], abs=1e-12
    )
    assert metric("ap", "multilabel")(pred, true) == pytest.approx(evaluator._eval_ap(y, score)["ap"], abs=1e-12)
    accuracy = evaluator._eval_acc(y, (score > 0).astype(float))["acc"]
    assert metric("accuracy", "multilabel")(pred, true) == pytest.approx(accuracy, abs=1e-12)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(3))
def test_regression_equals_scikit_learn_scipy_and_ogb(seed):
    evaluate = pytest.importorskip("ogb.graphproppred.evaluate")
    pred, true = random_case("regression", seed=seed)
    p, y = pred.numpy(), true.numpy()
    expected = {
        "mae": sk.mean_absolute_error(y, p),
        "mse": sk.mean_squared_error(y, p),
        "rmse": sk.root_mean_squared_error(y.ravel(), p.ravel()),
        "r2": sk.r2_score(y, p),
        "spearmanr": np.mean([scipy.stats.spearmanr(y[:, c], p[:, c]).statistic for c in range(3)]),
    }
    for name, value in expected.items():
        assert metric(name, "regression")(pred, true) == pytest.approx(value, abs=1e-12), name
    of_one_column = evaluate.Evaluator("ogbg-molesol")._eval_rmse(y[:, :1], p[:, :1])["rmse"]
    assert metric("rmse", "regression", 1)(pred[:, :1], true[:, :1]) == pytest.approx(of_one_column, abs=1e-12)


# ---- GraphGPS --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", range(4))
def test_accuracy_sbm_equals_graphgps(golden, case):
    recorded = golden("graphgps/metric_accuracy_sbm")
    true, label = recorded[f"in/true_{case}"], recorded[f"in/pred_{case}"]
    classes = int(torch.cat([true, label]).max()) + 1
    measured = metric("accuracy-SBM", "multiclass", max(classes, 2))(torch.eye(max(classes, 2))[label], true)
    assert measured == pytest.approx(float(recorded[f"out/acc_{case}"]), abs=1e-6)


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
        measured = metric(names[key], "multilabel")(recorded["in/logits"], recorded["in/true"])
        assert measured == pytest.approx(float(expected), abs=1e-6), key


# ---- by hand, and where there is no value ----------------------------------------------------------------------------


def test_ties_by_hand():
    first, last = tie_bounds(torch.tensor([[9.0, 7, 7, 2]]))
    assert first.tolist() == [[0, 1, 1, 3]]
    assert last.tolist() == [[0, 2, 2, 3]]
    assert average_ranks(torch.tensor([[7.0, 2, 7], [1, 1, 0]])).tolist() == [[1.5, 0, 1.5], [1.5, 1.5, 0]]
    assert tie_bounds(torch.zeros(2, 0))[0].shape == (2, 0)
    # All scores equal: half of the pairs are ordered right; precision is the share of positives.
    pred, true = torch.zeros(4, 1), torch.tensor([1, 0, 0, 0])
    assert metric("auc", "binary")(pred, true) == 0.5
    assert metric("ap", "binary")(pred, true) == 0.25


def test_threshold_is_a_probability():
    pred, true = torch.tensor([[0.0], [1.0], [2.0]]), torch.tensor([0, 0, 1])
    assert metric("accuracy", "binary")(pred, true) == pytest.approx(2 / 3)
    assert metric("accuracy", "binary", thresh=0.8)(pred, true) == 1.0  # sigmoid(1) = 0.73, sigmoid(2) = 0.88


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
        ("mae", "regression", torch.zeros(0, 3), torch.zeros(0, 3), "no rows"),
        ("accuracy", "multiclass", torch.full((4, 4), torch.nan), torch.zeros(4, dtype=torch.int64), "contain NaN"),
    ],
)
def test_no_value_is_nan_with_a_reason(name, kind, pred, true, reason):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        measure = metric(name, kind)
        assert math.isnan(measure(pred, true))
    assert reason in measure.reason


def test_a_number_clears_the_reason():
    measure = metric("auc", "binary")
    assert math.isnan(measure(torch.randn(2, 1), torch.ones(2)))
    assert measure(torch.tensor([[0.0], [1.0]]), torch.tensor([0, 1])) == 1.0
    assert measure.reason is None


def test_zero_where_scikit_learn_says_zero():
    nothing_predicted, true = -torch.ones(4, 1), torch.tensor([1, 0, 1, 0])
    assert metric("precision", "binary")(nothing_predicted, true) == 0.0
    assert metric("f1", "binary")(nothing_predicted, true) == 0.0


def test_columns_without_a_value_are_left_out():
    pred, true = random_case("regression")
    constant = true.clone()
    constant[:, 1] = 3.0
    for name in ("r2", "spearmanr"):
        expected = metric(name, "regression", 2)(pred[:, [0, 2]], true[:, [0, 2]])
        assert metric(name, "regression")(pred, constant) == pytest.approx(expected)


# ---- every registered metric -----------------------------------------------------------------------------------------

EVERY = [
    (name, kind)
    for name in registry.names("tasks/metrics")
    for kind in TASK_TYPES
    if kind in registry.lookup("tasks/metrics", name).kinds
    and not issubclass(registry.lookup("tasks/metrics", name), StatisticMetric)
    and not registry.lookup("tasks/metrics", name).needs_order  # test_candidate_ranking.py
]


@pytest.mark.parametrize(("name", "kind"), EVERY)
def test_every_metric_ignores_the_order_of_rows_and_moves_nothing(name, kind):
    pred, true = random_case(kind, ties=True)
    before = pred.clone(), true.clone()
    order = torch.randperm(len(pred))
    value = metric(name, kind)(pred, true)
    assert math.isfinite(value)
    assert isinstance(value, float)
    assert metric(name, kind)(pred[order], true[order]) == pytest.approx(value, abs=1e-12)
    assert torch.equal(pred, before[0])
    assert torch.equal(true.nan_to_num(9), before[1].nan_to_num(9))


@pytest.mark.parametrize(("name", "kind"), EVERY)
def test_every_metric_prefers_the_truth_in_its_direction(name, kind):
    pred, true = random_case(kind, rows=600)
    perfect = {
        "binary": lambda: 20.0 * true[:, None] - 10,
        "multiclass": lambda: torch.nn.functional.one_hot(true, 4) * 20.0,
        "multilabel": lambda: 20.0 * true.nan_to_num(0) - 10,
        "regression": lambda: true.clone(),
    }[kind]()
    measure = metric(name, kind)
    best, other = measure(perfect, true), measure(pred, true)
    assert best > other if measure.maximize else best < other
    assert best == pytest.approx(1.0 if measure.maximize else 0.0, abs=1e-12)


@pytest.mark.parametrize(("name", "kind"), EVERY)
def test_every_metric_survives_every_degenerate_input(name, kind):
    for rows in (0, 1, 2):
        for fill in (0.0, 1.0, torch.nan):
            pred = torch.zeros(rows, TASK_TYPES[kind][1])
            if kind == "multilabel":
                true = torch.full((rows, 4), fill)
            elif kind == "regression":
                true = torch.full((rows, 3), fill).nan_to_num(1.0)
            else:
                true = torch.full((rows,), int(fill == 1.0), dtype=torch.int64)
            measure = metric(name, kind)
            assert math.isfinite(measure(pred, true)) or measure.reason


@pytest.mark.parametrize("name", registry.names("tasks/metrics"))
def test_every_metric_refuses_other_kinds_of_task(name):
    kinds = registry.lookup("tasks/metrics", name).kinds
    other = next(kind for kind in TASK_TYPES if kind not in kinds)
    registered = registry.lookup("tasks/metrics", name).registered_name
    with pytest.raises(ValueError, match=f"the metric {registered} is for .*, this one is {other}"):
        metric(name, other)


# ---- sets of words, and statistics of heads --------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_subtokens_equal_ogb(seed):
    evaluate = pytest.importorskip("ogb.graphproppred.evaluate")
    generator = torch.Generator().manual_seed(seed)
    vocabulary, end = 8, 7  # 6 is the unknown word; 8 and above are words outside the vocabulary
    logits = torch.randn(40, 5, vocabulary, generator=generator)
    lengths = torch.randint(1, 9, (40,), generator=generator)
    words = torch.randint(0, 6, (40, 8), generator=generator)
    words[::5, 3] = 8
    words[::7, 4] = 9
    true = words.masked_fill(torch.arange(8) >= lengths[:, None], end)

    def spoken(row):  # as GraphGPS decodes predictions
        row = row.tolist()
        return [f"word{w}" if w != 6 else "__UNK__" for w in (row[: row.index(end)] if end in row else row)]

    reference = [[f"word{w}" for w in row.tolist() if w != end] for row in true]
    theirs = evaluate.Evaluator("ogbg-code2").eval(
        {"seq_ref": reference, "seq_pred": [spoken(row) for row in logits.argmax(2)]}
    )
    for name, key in (("f1", "F1"), ("precision", "precision"), ("recall", "recall")):
        measure = registry.lookup("tasks/metrics", name)("subtoken_prediction", vocabulary)
        assert measure(logits, true) == pytest.approx(theirs[key], abs=1e-12)
        assert measure(logits.argmax(2), true) == measure(logits, true)


def test_subtokens_by_hand():
    found, predicted, named = set_sizes(torch.tensor([[0, 1, 1, 5, 2]]), torch.tensor([[1, 7, 5, 5, 5]]), 6)
    assert (found.item(), predicted.item(), named.item()) == (1, 2, 2)
    # The unknown word stands for any word: it matches none. A prediction that ends at once is the empty set.
    assert [each.tolist() for each in set_sizes(torch.tensor([[4, 0], [5, 0]]), torch.tensor([[4, 5], [0, 5]]), 6)] == [
        [0, 0],
        [2, 0],
        [1, 1],
    ]


def test_micro_f1_equals_scikit_learn():
    pred, true = random_case("multiclass")
    expected = sk.f1_score(true, pred.argmax(1), average="micro")
    assert metric("f1-micro", "multiclass")(pred, true) == pytest.approx(expected, abs=1e-12)
    pred, true = random_case("multilabel")
    known = ~true.isnan()
    expected = sk.f1_score(true[known], pred[known] > 0)
    assert metric("f1-micro", "multilabel")(pred, true) == pytest.approx(expected, abs=1e-12)


def test_statistics_are_means_over_the_graphs_that_have_one():
    measure = metric("mrr_filt", "binary")
    values = torch.tensor([0.5, torch.nan, 1.0])
    assert measure.compute_aligned(values, values, False) == 0.75
    assert math.isnan(measure.compute_aligned(values[1:2], values[1:2], False))
    assert measure.reason == "no graph has a true pair"
    assert math.isnan(measure(torch.zeros(3, 1), torch.zeros(3)))
    assert "computed by the head" in measure.reason
