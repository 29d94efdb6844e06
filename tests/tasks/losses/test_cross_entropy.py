"""Cross entropies against GraphGPS, PyTorch and hand computation."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from graphbench.errors import ArgumentError
from graphbench.structures.capacity import RealRows
from graphbench.tasks.losses.cross_entropy import CrossEntropy, WeightedCrossEntropy


@pytest.mark.parametrize("case", ["0", "1", "2", "binary"])
def test_weighted_cross_entropy_equals_graphgps(golden, case):
    recorded = golden("graphgps/loss_weighted_cross_entropy")
    logits = recorded[f"in/logits_{case}"].requires_grad_()
    true = recorded[f"in/true_{case}"]
    if case == "binary":
        loss = WeightedCrossEntropy("classification", 1)(logits[:, None], true)
    else:
        loss = WeightedCrossEntropy("classification_multi", logits.shape[1])(logits, true)
    loss.backward()
    torch.testing.assert_close(loss.detach(), recorded[f"out/loss_{case}"], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(logits.grad, recorded[f"grad/logits_{case}"], rtol=1e-5, atol=1e-7)


def test_multilabel_cross_entropy_equals_graphgps(golden):
    recorded = golden("graphgps/metric_multilabel")
    logits = recorded["in/logits"].requires_grad_()
    loss = CrossEntropy("classification_multilabel", 7)(logits, recorded["in/true"])
    loss.backward()
    assert recorded["in/true"].isnan().any()
    torch.testing.assert_close(loss.detach(), recorded["out/loss"], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(logits.grad, recorded["grad/logits"].float(), rtol=1e-5, atol=1e-7)


def test_weighted_by_hand():
    # Three rows of class 0 and one of class 1: weights 1/4 and 3/4, so both classes count alike.
    loss = WeightedCrossEntropy("classification_multi", 3)
    logits = torch.zeros(4, 3)
    true = torch.tensor([0, 0, 0, 1])
    assert float(loss(logits, true)) == pytest.approx(math.log(3))
    total = WeightedCrossEntropy("classification_multi", 3, size_average="sum")
    assert float(total(logits, true)) == pytest.approx(1.5 * math.log(3))


def test_a_batch_of_one_class_has_weighted_loss_zero():
    logits = torch.randn(5, 3, requires_grad=True)
    loss = WeightedCrossEntropy("classification_multi", 3)(logits, torch.ones(5, dtype=torch.int64))
    loss.backward()
    assert float(loss.detach()) == 0
    assert torch.equal(logits.grad, torch.zeros(5, 3))


def test_missing_labels_have_no_gradient_and_all_missing_is_zero():
    loss = CrossEntropy("classification_multilabel", 2)
    logits = torch.randn(3, 2, requires_grad=True)
    true = torch.tensor([[1.0, torch.nan], [0.0, 1.0], [torch.nan, torch.nan]])
    loss(logits, true).backward()
    assert torch.equal(logits.grad == 0, true.isnan())
    logits.grad = None
    nothing = loss(logits, torch.full((3, 2), torch.nan))
    nothing.backward()
    assert float(nothing.detach()) == 0
    assert torch.equal(logits.grad, torch.zeros(3, 2))


def test_subtokens_are_the_mean_over_positions_of_cross_entropies():
    pred, true = torch.randn(9, 5, 7, requires_grad=True), torch.randint(0, 10, (9, 8))
    loss = CrossEntropy("subtoken_prediction", 7)(pred, true)
    word = torch.where(true >= 7, 5, true)  # outside the vocabulary: the unknown word
    expected = sum(F.cross_entropy(pred[:, position], word[:, position]) for position in range(5)) / 5
    torch.testing.assert_close(loss, expected)
    assert float(CrossEntropy("subtoken_prediction", 7)(pred[:0], true[:0]).detach()) == 0


@pytest.mark.parametrize("classes", [2, 7, 15, 16, 40])
def test_losses_of_training_and_evaluation_are_the_formula_for_few_and_many_classes(classes):
    logits = torch.randn(33, classes, dtype=torch.float64)
    true = torch.randint(classes, (33,))
    expected = -logits.log_softmax(1)[torch.arange(33), true].mean()
    loss = CrossEntropy("classification_multi", classes)
    torch.testing.assert_close(loss(logits, true), expected)
    torch.testing.assert_close(loss(logits.requires_grad_(), true).detach(), expected)


TARGETS = {
    "multiclass": ("classification_multi", 3, torch.tensor([0, 2, 1, 1, 0])),
    "binary": ("classification", 1, torch.tensor([0.0, 1.0, 1.0, 0.0, 1.0])),
    "multilabel": ("classification_multilabel", 3, torch.tensor([[0.0, 1.0, torch.nan]] * 4 + [[1.0, 0.0, 1.0]])),
}


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weight", [(), (2.0, 0.5, 3.0), (4.0,)])
@pytest.mark.parametrize("size_average", ["mean", "sum"])
@pytest.mark.parametrize("kind", TARGETS)
def test_class_weights_and_label_smoothing_are_pytorchs(kind, size_average, weight, smoothing):
    task_type, columns, true = TARGETS[kind]
    if len(weight) not in (0, columns, 1 if kind != "multiclass" else columns):
        with pytest.raises(
            ArgumentError, match=f"the length of class_weight is .* in this task, received {len(weight)}"
        ):
            CrossEntropy(task_type, columns, class_weight=weight)
        return
    made = CrossEntropy(task_type, columns, size_average, class_weight=weight, label_smoothing=smoothing)
    pred = torch.randn(5, columns, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    known = torch.tensor(weight, dtype=torch.float64) if weight else None
    if kind == "multiclass":
        expected = F.cross_entropy(pred, true, known, reduction=size_average, label_smoothing=smoothing)
    else:
        counted = ~true.isnan()
        smooth = ((1 - smoothing) * true.double() + smoothing / 2).view(5, columns)[counted.view(5, columns)]
        of_entry = None if known is None else known.expand(5, columns)[counted.view(5, columns)]
        logits = pred[counted.view(5, columns)]
        expected = F.binary_cross_entropy_with_logits(logits, smooth, pos_weight=of_entry, reduction=size_average)
    loss = made(pred, true)
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=1e-12)
    [ours], [theirs] = (torch.autograd.grad(each, pred, retain_graph=True) for each in (loss, expected))
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    # Rows of padding, with numbers that nobody may read, change nothing.
    real = RealRows(torch.tensor([True] * 5 + [False] * 2))
    padded = torch.cat([pred, torch.full((2, columns), torch.inf, dtype=pred.dtype)])
    again = made(padded, torch.cat([true, true[:2]]), real)
    torch.testing.assert_close(again, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(torch.autograd.grad(again, pred)[0], theirs, rtol=1e-12, atol=1e-12)
    if made.row_wise and kind != "multilabel":
        rows = torch.full((5,), 1 / 5 if size_average == "mean" else 1.0, dtype=torch.float64)
        torch.testing.assert_close(made.weighted(pred, true, rows), expected, rtol=1e-12, atol=1e-12)
    assert made.row_wise is (kind != "multiclass" or not weight)


def test_class_weights_and_label_smoothing_out_of_range():
    for given, told in (
        ({"class_weight": (-1.0,)}, "class_weight must be at least 0"),
        ({"label_smoothing": 1.0}, r"label_smoothing must lie in \[0, 1\)"),
    ):
        with pytest.raises(ArgumentError, match=told):
            CrossEntropy("classification", 1, **given)
    with pytest.raises(ArgumentError, match="subtokens have neither"):
        CrossEntropy("subtoken_prediction", 7, label_smoothing=0.1)
