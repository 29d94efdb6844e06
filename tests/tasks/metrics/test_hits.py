"""Hits@k against OGB's evaluator and by hand."""

from __future__ import annotations

import math

import pytest
import torch

from graphbench import registry


def _hits(k: int):
    return registry.lookup("tasks/metrics", f"hits@{k}")("classification", 1)


@pytest.mark.parametrize(("k", "dataset"), [(20, "ogbl-ddi"), (50, "ogbl-collab"), (100, "ogbl-ppa")])
def test_as_ogb(k: int, dataset: str) -> None:
    ogb = pytest.importorskip("ogb.linkproppred")
    generator = torch.Generator().manual_seed(k)
    pred = (torch.randn(600, generator=generator) * 20).round()  # with ties
    true = (torch.rand(600, generator=generator) < 0.4).long()
    expected = ogb.Evaluator(name=dataset).eval({"y_pred_pos": pred[true == 1], "y_pred_neg": pred[true == 0]})
    assert 0 < expected[f"hits@{k}"] < 1
    assert _hits(k)(pred, true) == pytest.approx(expected[f"hits@{k}"])


def test_by_hand() -> None:
    negative = torch.arange(1.0, 31.0)  # the 20th best is 11
    pred = torch.cat([torch.tensor([11.0, 11.5, 40.0, 0.0]), negative])
    true = torch.cat([torch.ones(4), torch.zeros(30)]).long()
    assert _hits(20)(pred, true) == 0.5  # a tie is no hit


def test_too_few_unlinked_pairs() -> None:
    metric = _hits(50)
    pred, true = torch.arange(34.0), torch.cat([torch.ones(4), torch.zeros(30)]).long()
    assert math.isnan(metric(pred, true))  # OGB's evaluator says 1, whatever is predicted
    assert metric.reason == "there are 30 unlinked pairs, fewer than 50"
    assert _hits(20)(pred, true) == 0.0


def test_no_linked_pair() -> None:
    metric = _hits(20)
    assert math.isnan(metric(torch.zeros(30), torch.zeros(30).long()))
    assert metric.reason == "there is no linked pair"
