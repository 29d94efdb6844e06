"""Ranks of true pairs: means over graphs of what the head found out."""

from __future__ import annotations

from torch import Tensor

from graphbench.registry import register
from graphbench.tasks.metric import StatisticMetric

_HITS = ("hits@1", "hits@3", "hits@10")


@register(
    "mrr",
    *_HITS,
    *(f"{name}_filt" for name in ("mrr", *_HITS)),
    *(f"{name}_filt_self" for name in ("mrr", *_HITS)),
)
class LinkRanking(StatisticMetric):
    """Mean over graphs of the mean over true pairs of 1 / rank (``mrr``) or of [rank <= k] (``hits@k``).

    ``_filt``: ranks among targets that are not true themselves; ``_filt_self``: without the source, too. A graph
    without true pairs counts 0 without a suffix and not at all with one, as in the published numbers.

    Differences from GraphGPS:
        The mean runs over all graphs of a split. GraphGPS averages per batch and weights batches by their pairs.
    """

    kinds = ("binary",)

    def value(self, pred: Tensor, true: Tensor) -> Tensor:
        """Mean of (G,) statistics ``pred`` over the graphs that have one."""
        return self.mean(pred, "no graph has a true pair")
