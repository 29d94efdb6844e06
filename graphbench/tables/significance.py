"""Comparison of two means: measured with published, and t-tests of one model against another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from graphbench.published.scales import Scale
from graphbench.runs.aggregate import Mean
from graphbench.runs.record import RunRecord

SIGNIFICANT = 0.05

Verdict = Literal["reproduced", "below", "above"]
"""Measured beside published: they differ by at most one published standard deviation plus 1 point; worse, better."""


@dataclass(frozen=True)
class Comparison:
    """A measured mean compared with a published one, in the published scale.

    Attributes:
        difference: measured minus published.
        deviations: difference in published standard deviations; None without one.
        status: what that says.
    """

    difference: float
    deviations: float | None
    status: Verdict


def compare(scale: Scale, measured: float, published: float, std: float | None) -> Comparison:
    """Compares a measured mean with a published one, both in the published scale."""
    difference = measured - published
    tolerance = (std or 0.0) + scale.point(published)
    status: Verdict
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


def paired(ours: Sequence[RunRecord], theirs: Sequence[RunRecord], metric: str) -> float | None:
    """p-value of the two-sided paired t-test on test scores, over runs with the same examples for testing and training.

    What a split is worth is the same for both models and leaves their differences; :func:`welch` counts it as noise.

    Args:
        ours: finished runs of a model.
        theirs: those of another one.
        metric: name of the score.

    Returns:
        None where runs do not come in pairs, all have one split, or no difference deviates from the others.
    """
    here, there = _by_split(ours, metric), _by_split(theirs, metric)
    if len(here) != len(ours) or len(there) != len(theirs) or here.keys() != there.keys() or len(here) < 2:
        return None
    differences = [here[split] - there[split] for split in here]
    if len(set(differences)) == 1:
        return None
    from scipy.stats import ttest_1samp

    p_value = float(ttest_1samp(differences, 0.0).pvalue)
    return None if math.isnan(p_value) else p_value


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values corrected for their number, by Holm's step-down procedure (Scand. J. Statist. 6, 1979).

    Where nothing differs, one of them falls below 0.05 with a probability of at most 0.05, however the tests depend on
    each other.
    """
    corrected, least = [0.0] * len(p_values), 0.0
    for rank, number in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        least = corrected[number] = max(least, min(1.0, (len(p_values) - rank) * p_values[number]))
    return corrected


def _by_split(runs: Sequence[RunRecord], metric: str) -> dict[frozenset[str], float]:
    """Test scores by the digests of the split; of runs that share one, or do not know theirs, a single one."""
    scores = {}
    for run in runs:
        split = frozenset(digest for name, digest in run.inputs.items() if name.startswith("split "))
        score = run.score("test", metric)
        if split and score is not None:
            scores[split] = score
    return scores
