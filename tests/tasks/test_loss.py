"""What every registered loss must do, and losses against PyTorch."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from graphbench import registry
from graphbench.structures.capacity import RealRows
from graphbench.testing import check_loss


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


@pytest.mark.parametrize("size_average", ["mean", "sum"])
@pytest.mark.parametrize("name", registry.names("tasks/losses"))
def test_loss(name, size_average):
    check_loss(registry.lookup("tasks/losses", name), size_average=size_average)


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
