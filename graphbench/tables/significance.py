"""Comparison of two means: measured with published, and Welch's t-test of one model against another."""

from __future__ import annotations

from dataclasses import dataclass

from graphbench.published.scales import Scale
from graphbench.runs.aggregate import Mean

SIGNIFICANT = 0.05


@dataclass(frozen=True)
class Comparison:
    """A measured mean compared with a published one, in the published scale.

    Attributes:
        difference: measured minus published.
        deviations: difference in published standard deviations; None without one.
        status: ``reproduced``: the two differ by at most one published standard deviation plus 1 point; ``below``,
            ``above``: worse, better than that.
    """

    difference: float
    deviations: float | None
    status: str


def compare(scale: Scale, measured: float, published: float, std: float | None) -> Comparison:
    """Compares a measured mean with a published one, both in the published scale."""
    difference = measured - published
    tolerance = (std or 0.0) + scale.point(published)
    if abs(difference) <= tolerance * (1 + 1e-9):
        status = "reproduced"
    else:
        status = "above" if (difference > 0) == scale.maximize else "below"
    return Comparison(difference, difference / std if std else None, status)


def welch(ours: Mean, theirs: Mean) -> float | None:
    """p-value of the two-sided Welch t-test; None with fewer than two runs on a side, or without any deviation."""
    from scipy.stats import ttest_ind_from_stats

    if ours.std is None or theirs.std is None or not ours.std + theirs.std > 0:  # not: NaN as well
        return None
    result = ttest_ind_from_stats(ours.mean, ours.std, ours.n, theirs.mean, theirs.std, theirs.n, equal_var=False)
    return float(result.pvalue)
