"""Hits of the Open Graph Benchmark: linked pairs above the k-th best unlinked pair."""

from __future__ import annotations

from torch import Tensor

from graphbench.registry import register
from graphbench.tasks.metric import Metric, Undefined, to_double


class _Hits(Metric):
    """Fraction of the positive rows that score strictly above the k-th best negative row.

    All pairs of a split compete with each other. With fewer than k negative rows it has no value; OGB's evaluator gives
    1 then, whatever the predictions are. The ``hits@1``, ``hits@3`` and ``hits@10`` of PCQM-Contact are
    another measure: ranks inside every graph.
    """

    maximize = True
    kinds = ("binary",)
    k: int

    def value(self, pred: Tensor, true: Tensor) -> Tensor:
        """The metric from aligned tensors."""
        positive, negative = pred[true == 1], pred[true == 0]
        if not len(positive):
            raise Undefined("there is no linked pair")
        if len(negative) < self.k:
            raise Undefined(f"there are {len(negative)} unlinked pairs, fewer than {self.k}")
        return to_double(positive > negative.topk(self.k).values[-1]).mean()


@register("hits@20")
class Hits20(_Hits):
    """Hits@20 (ogbl-ddi)."""

    k = 20


@register("hits@50")
class Hits50(_Hits):
    """Hits@50 (ogbl-collab)."""

    k = 50


@register("hits@100")
class Hits100(_Hits):
    """Hits@100 (ogbl-ppa)."""

    k = 100
