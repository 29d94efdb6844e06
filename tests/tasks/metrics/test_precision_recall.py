"""Precision, recall and F1 against scikit-learn and, for sets of words, OGB's evaluator."""

from __future__ import annotations

import pytest
import sklearn.metrics as sk
import torch

from graphbench import registry
from tests.tasks.metric_cases import metric, multiclass_case, random_case

PEERS = {"precision": sk.precision_score, "recall": sk.recall_score, "f1": sk.f1_score}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("name", PEERS)
def test_as_scikit_learn(name, seed, ties):
    pred, true = random_case("binary", seed=seed, ties=ties)
    expected = PEERS[name](true, (pred[:, 0] > 0).long())
    assert metric(name, "binary")(pred, true) == pytest.approx(expected, abs=1e-12)
    pred, true = multiclass_case(seed, ties)
    expected = PEERS[name](true, pred.argmax(1), average="macro")
    assert metric(name, "multiclass")(pred, true) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("kind", ["binary", "multiclass"])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_macro_f1_is_scikit_learns_for_two_classes_too(kind, share):
    pred, true = random_case("binary") if kind == "binary" else multiclass_case(0, ties=False)
    pred, true = pred[:30], (torch.arange(30) < 30 * share).long()
    labels = (pred[:, 0] > 0).long() if kind == "binary" else pred.argmax(1)
    expected = sk.f1_score(true, labels, average="macro")
    assert metric("f1-macro", kind)(pred, true) == pytest.approx(expected, abs=1e-12)


def test_macro_averages_run_over_classes_among_labels_or_predictions():
    pred = torch.eye(4)[[0, 0, 1, 2, 2]]
    true = torch.tensor([0, 1, 1, 0, 1])  # class 2 is only predicted, class 3 nowhere
    for name, function in PEERS.items():
        expected = function(true, pred.argmax(1), average="macro", zero_division=0)
        assert metric(name, "multiclass")(pred, true) == pytest.approx(expected, abs=1e-12), name


def test_zero_where_scikit_learn_says_zero():
    nothing_predicted, true = -torch.ones(4, 1), torch.tensor([1, 0, 1, 0])
    assert metric("precision", "binary")(nothing_predicted, true) == 0.0
    assert metric("f1", "binary")(nothing_predicted, true) == 0.0


def test_micro_f1_equals_scikit_learn():
    pred, true = random_case("multiclass")
    expected = sk.f1_score(true, pred.argmax(1), average="micro")
    assert metric("f1-micro", "multiclass")(pred, true) == pytest.approx(expected, abs=1e-12)
    pred, true = random_case("multilabel")
    known = ~true.isnan()
    expected = sk.f1_score(true[known], pred[known] > 0)
    assert metric("f1-micro", "multilabel")(pred, true) == pytest.approx(expected, abs=1e-12)


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

    def words_before_end(row):  # as GraphGPS decodes predictions
        row = row.tolist()
        return [f"word{w}" if w != 6 else "__UNK__" for w in (row[: row.index(end)] if end in row else row)]

    reference = [[f"word{w}" for w in row.tolist() if w != end] for row in true]
    theirs = evaluate.Evaluator("ogbg-code2").eval(
        {"seq_ref": reference, "seq_pred": [words_before_end(row) for row in logits.argmax(2)]}
    )
    for name, key in (("f1", "F1"), ("precision", "precision"), ("recall", "recall")):
        ours = registry.lookup("tasks/metrics", name)("subtoken_prediction", vocabulary)
        assert ours(logits, true) == pytest.approx(theirs[key], abs=1e-12)
        assert ours(logits.argmax(2), true) == ours(logits, true)
