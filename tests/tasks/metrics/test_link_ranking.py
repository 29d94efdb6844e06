"""Reciprocal ranks among given candidates, against OGB's evaluator and by hand."""

from __future__ import annotations

import math

import pytest
import torch

from graphbench import registry


def _mrr():
    return registry.lookup("tasks/metrics", "mrr_candidates")("classification", 1)


def test_as_ogb() -> None:
    ogb = pytest.importorskip("ogb.linkproppred")
    generator = torch.Generator().manual_seed(0)
    scores = (torch.randn(50, 1001, generator=generator) * 20).round()  # with ties
    scores[:, 0] += 25
    given = {"y_pred_pos": scores[:, 0], "y_pred_neg": scores[:, 1:]}
    expected = ogb.Evaluator(name="ogbl-citation2").eval(given)["mrr_list"].mean()
    labels = torch.zeros(50, 1001, dtype=torch.long)
    labels[:, 0] = 1
    assert 0.01 < expected < 0.9
    assert _mrr()(scores.reshape(-1, 1), labels.reshape(-1)) == pytest.approx(float(expected), rel=1e-6)


def test_by_hand() -> None:
    #                    rank 2         rank 1.5      rank 1
    pred = torch.tensor([5.0, 7.0, 3.0, 2.0, 2.0, 1.0, 0.0])
    true = torch.tensor([1, 0, 0, 1, 0, 0, 1])
    assert _mrr()(pred, true) == pytest.approx((1 / 2 + 1 / 1.5 + 1) / 3)


@pytest.mark.parametrize(
    ("true", "why"), [([0, 0], "there is no linked pair"), ([0, 1], "the first row is a candidate")]
)
def test_no_value(true: list[int], why: str) -> None:
    metric = _mrr()
    assert math.isnan(metric(torch.zeros(2), torch.tensor(true)))
    assert metric.reason.startswith(why)


@pytest.mark.parametrize("fill", [0.0, torch.nan])
@pytest.mark.parametrize("rows", [0, 1, 2])
def test_degenerate_input(rows: int, fill: float) -> None:
    metric = _mrr()
    value = metric(torch.full((rows,), fill), torch.tensor([1, 0])[:rows])
    assert (value == (1 if rows == 1 else 1 / 1.5)) if rows and fill == 0 else math.isnan(value)


def test_statistics_are_means_over_the_graphs_that_have_one():
    ranking = registry.lookup("tasks/metrics", "mrr_filt")("classification", 1)
    values = torch.tensor([0.5, torch.nan, 1.0])
    assert ranking.compute_aligned(values, values, False) == 0.75
    assert math.isnan(ranking.compute_aligned(values[1:2], values[1:2], False))
    assert ranking.reason == "no graph has a true pair"
    assert math.isnan(ranking(torch.zeros(3, 1), torch.zeros(3)))
    assert "computed by the head" in ranking.reason
