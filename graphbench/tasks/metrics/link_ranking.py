"""Ranks of true pairs: among all nodes of their graph, as the head computed them, or among given candidates."""

from __future__ import annotations

import torch
from torch import Tensor

from graphbench.registry import register
from graphbench.tasks.metric import Metric, StatisticMetric, Undefined, to_double


@register(
    "mrr",
    "hits@1",
    "hits@3",
    "hits@10",
    "mrr_filt",
    "hits@1_filt",
    "hits@3_filt",
    "hits@10_filt",
    "mrr_filt_self",
    "hits@1_filt_self",
    "hits@3_filt_self",
    "hits@10_filt_self",
)
class LinkRanking(StatisticMetric):
    """Mean reciprocal rank and hits@k of linked pairs, averaged over the pairs of a graph, then over graphs.

    Mean over graphs of the mean over true pairs of 1 / rank (``mrr``) or of [rank <= k] (``hits@k``).

    ``_filt``: ranks among targets that are not true themselves; ``_filt_self``: without the source, too. A graph
    without true pairs counts 0 without a suffix and not at all with one, as in the published numbers.

    Differences from GraphGPS:
        The mean runs over all graphs of a split. GraphGPS averages per batch and weights batches by their pairs.
    """

    maximize = True
    kinds = ("binary",)

    def value(self, pred: Tensor, true: Tensor) -> Tensor:
        """Mean of (G,) statistics ``pred`` over the graphs that have one."""
        return self.mean(pred, "no graph has a true pair")


@register("mrr_candidates")
class CandidateMRR(Metric):
    """Mean reciprocal rank of every linked pair among itself and the unlinked pairs of the rows that follow it.

    The ``mrr`` of the Open Graph Benchmark (ogbl-citation2: 1,000 candidates per link, which the data set gives). The
    rank counts, from 1, the candidates that score higher; those that score the same count one half each. Any number
    of candidates per link is allowed; a link without any has rank 1.

    Attributes:
        needs_order: rows belong together by their order, which no other metric reads.
    """

    maximize = True
    kinds = ("binary",)
    needs_order = True

    def value(self, pred: Tensor, true: Tensor) -> Tensor:
        """The metric from aligned tensors."""
        linked = true == 1
        first = linked.nonzero().squeeze(1)
        if not first.numel():
            raise Undefined("there is no linked pair")
        if not bool(linked[0]):
            raise Undefined("the first row is a candidate, and candidates belong to the linked pair before them")
        link = linked.cumsum(0) - 1
        score = pred[first][link]
        # Ranks count from 1, of which the link's own row, scoring the same, gives one half.
        ahead = (pred > score).to(torch.float32) + 0.5 * (pred == score).to(torch.float32)
        rank = to_double(torch.full_like(pred[first], 0.5)).index_add_(0, link, to_double(ahead))
        return (1 / rank).mean()
