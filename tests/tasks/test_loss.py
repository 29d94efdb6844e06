"""What every registered loss must do, and losses against PyTorch."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from graphbench import registry
from graphbench.structures.capacity import RealRows


def _loss(name, task_type, out_dim, **arguments):
    return registry.lookup("tasks/losses", name)(task_type=task_type, out_dim=out_dim, **arguments)


@pytest.mark.parametrize("size_average", ["mean", "sum"])
def test_against_pytorch(size_average):
    logits, one = torch.randn(9, 4), torch.randn(9, 1)
    classes, bits, values = torch.randint(0, 4, (9,)), torch.randint(0, 2, (9,)), torch.randn(9, 4)
    arguments = {"size_average": size_average}
    how = {"reduction": size_average}

    def check(ours, expected):
        torch.testing.assert_close(ours, expected)

    check(
        _loss("cross_entropy", "classification", 4, **arguments)(logits, classes),
        F.cross_entropy(logits, classes, **how),
    )
    check(
        _loss("cross_entropy", "classification_binary", 1, **arguments)(one, bits[:, None]),
        F.binary_cross_entropy_with_logits(one[:, 0], bits.float(), **how),
    )
    check(_loss("mse", "regression", 4, **arguments)(logits, values), F.mse_loss(logits, values, **how))
    check(_loss("l1", "regression", 4, **arguments)(logits, values), F.l1_loss(logits, values, **how))
    check(_loss("smoothl1", "regression", 4, **arguments)(logits, values), F.smooth_l1_loss(logits, values, **how))


@pytest.mark.parametrize(
    ("name", "task_type", "out_dim"),
    [
        ("cross_entropy", "classification", 4),
        ("cross_entropy", "classification_binary", 1),
        ("cross_entropy", "classification_multilabel", 4),
        ("mse", "regression", 4),
        ("l1", "regression", 1),
        ("smoothl1", "regression", 4),
    ],
)
def test_rows_weighted_equally_give_the_mean(name, task_type, out_dim):
    """Its gradient, too; and a row of twice the weight counts as if it were there twice."""
    loss, pred = _loss(name, task_type, out_dim), torch.randn(7, out_dim, dtype=torch.float64, requires_grad=True)
    shape = (7,) if task_type == "classification" else (7, out_dim)
    true = torch.randn(shape, dtype=torch.float64) if task_type == "regression" else torch.randint(0, 2, shape)
    weighted, mean = loss.weighted(pred, true, torch.full((7,), 1 / 7, dtype=torch.float64)), loss(pred, true)
    torch.testing.assert_close(weighted, mean)
    torch.testing.assert_close(*(torch.autograd.grad(value, pred)[0] for value in (weighted, mean)))
    twice = torch.tensor([2, 1, 1, 1, 1, 1, 1], dtype=torch.float64) / 8
    torch.testing.assert_close(
        loss.weighted(pred, true, twice), loss(torch.cat([pred[:1], pred]), torch.cat([true[:1], true]))
    )
    assert float(loss.weighted(pred[:0], true[:0], twice[:0]).detach()) == 0


@pytest.mark.parametrize("name", ["mse", "l1", "smoothl1"])
def test_unknown_targets_do_not_count(name):
    """Nor in the gradient, nor in a padded batch."""
    pred, true, known = torch.randn(6, 3, requires_grad=True), torch.randn(6, 3), torch.arange(18).view(6, 3) % 4 > 0
    known[4], real = False, torch.arange(6) != 2
    loss, of_one = _loss(name, "regression", 3), _loss(name, "regression", 1)
    for rows in (None, RealRows(real)):
        counts = known if rows is None else known & real[:, None]
        ours = loss(pred, true.masked_fill(~known, torch.nan), rows)
        theirs = of_one(pred[counts], true[counts])
        torch.testing.assert_close(ours, theirs)
        torch.testing.assert_close(*(torch.autograd.grad(value, pred)[0] for value in (ours, theirs)))


def test_a_loss_of_all_rows_together_cannot_be_weighted():
    with pytest.raises(ValueError, match="the loss weighted_cross_entropy reads all rows of a batch together"):
        _loss("weighted_cross_entropy", "classification", 3).weighted(torch.zeros(1, 3), torch.zeros(1), torch.ones(1))


@pytest.mark.parametrize("name", ["cross_entropy", "weighted_cross_entropy", "mse", "l1", "smoothl1"])
def test_no_rows_give_zero(name):
    regression = name in ("mse", "l1", "smoothl1")
    loss = _loss(name, "regression" if regression else "classification", 3)
    true = torch.zeros(0, 3) if regression else torch.zeros(0, dtype=torch.int64)
    assert float(loss(torch.zeros(0, 3), true)) == 0


def test_half_precision_predictions_are_widened():
    pred, true = torch.full((4, 1), 1.0, dtype=torch.bfloat16), torch.full((4,), 1.001)
    assert float(_loss("l1", "regression", 1)(pred, true)) == pytest.approx(1e-3, rel=1e-3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: _loss("mse", "classification", 3), "mse is for regression tasks, this one is multiclass"),
        (lambda: _loss("cross_entropy", "regression", 1), "this one is regression"),
        (lambda: _loss("weighted_cross_entropy", "classification_multilabel", 3), "this one is multilabel"),
        (
            lambda: _loss("mse", "regression", 1, size_average="max"),
            "size_average must be one of mean, sum; received 'max'",
        ),
    ],
)
def test_wrong_values_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
