"""Models compared over several data sets: mean ranks, Friedman's test, Nemenyi's critical difference.

Demšar, Statistical Comparisons of Classifiers over Multiple Data Sets, JMLR 7 (2006), sections 3.2.2 and 3.2.4. With
``k`` models on ``N`` data sets and ``q`` the upper 5 % point of the studentised range, divided by the root of 2::

    CD = q(k) sqrt(k (k + 1) / (6 N))

Two models whose mean ranks differ by less than CD are not told apart by these data sets.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

ALPHA = 0.05
MIN_MODELS = 3
MIN_DATASETS = 4


@dataclass(frozen=True)
class MeanRanks:
    """Ranks of ``k`` models on ``N`` data sets.

    Attributes:
        models: the best mean rank first.
        ranks: mean rank of each; 1 is best, equals share the mean of their ranks.
        datasets: data sets that all models have a score on.
        p_value: p value of Friedman's test: all models are alike.
        critical_difference: critical difference of Nemenyi's test at 5 %.
        left_out: models and data sets without a complete row or column, with what is missing.
    """

    models: tuple[str, ...]
    ranks: tuple[float, ...]
    datasets: tuple[str, ...]
    p_value: float
    critical_difference: float
    left_out: tuple[str, ...] = ()

    @property
    def groups(self) -> list[tuple[int, int]]:
        """Largest runs of models that are not told apart, as first and last position; single models are none."""
        groups: list[tuple[int, int]] = []
        for first, rank in enumerate(self.ranks):
            last = max(i for i, other in enumerate(self.ranks) if other - rank <= self.critical_difference)
            if last > first and (not groups or last > groups[-1][1]):
                groups.append((first, last))
        return groups


def mean_ranks(scores: Mapping[str, Mapping[str, float]], maximize: Mapping[str, bool]) -> MeanRanks | None:
    """Mean ranks of the models that have been run on the same data sets; None where there are too few of either.

    Where the table has gaps, the model or data set that lacks the largest share of its scores is left out, until there
    are none.

    Args:
        scores: model -> data set -> score.
        maximize: data set -> True where larger is better.
    """
    models, datasets, left_out = _complete(scores, list(maximize))
    if len(models) < MIN_MODELS or len(datasets) < MIN_DATASETS:
        return None
    from scipy.stats import chi2, rankdata, studentized_range

    worse = np.array([[(-1 if maximize[name] else 1) * scores[model][name] for name in datasets] for model in models])
    ranks = rankdata(worse, axis=0)
    means = ranks.mean(1)
    k, n = ranks.shape
    # Friedman's statistic from the variance of the ranks: without ties 12 n / (k (k + 1)) sum (mean - (k + 1) / 2)^2.
    spread = ((ranks - (k + 1) / 2) ** 2).sum() / (n * (k - 1))
    p_value = float(chi2.sf(n * ((means - (k + 1) / 2) ** 2).sum() / spread, k - 1)) if spread > 0 else 1.0
    q = float(studentized_range.ppf(1 - ALPHA, k, np.inf)) / math.sqrt(2)
    order = sorted(range(k), key=lambda row: (means[row], models[row]))
    return MeanRanks(
        models=tuple(models[row] for row in order),
        ranks=tuple(float(means[row]) for row in order),
        datasets=tuple(datasets),
        p_value=p_value,
        critical_difference=q * math.sqrt(k * (k + 1) / (6 * n)),
        left_out=tuple(left_out),
    )


def _complete(
    scores: Mapping[str, Mapping[str, float]], columns: Sequence[str]
) -> tuple[list[str], list[str], list[str]]:
    """Rows and columns without gaps, and what was left out for that."""
    models, datasets, left_out = list(scores), list(columns), []
    while models and datasets:
        values = [[scores[model].get(name, math.nan) for name in datasets] for model in models]
        present = np.isfinite(values)
        if present.all():
            break
        of_models, of_datasets = 1 - present.mean(1), 1 - present.mean(0)
        if of_models.max() >= of_datasets.max():
            row = int(of_models.argmax())
            lacking = [name for name, there in zip(datasets, present[row], strict=True) if not there]
            left_out.append(f"{models.pop(row)} (not run on {', '.join(lacking)})")
        else:
            column = int(of_datasets.argmax())
            lacking = [model for model, there in zip(models, present[:, column], strict=True) if not there]
            left_out.append(f"{datasets.pop(column)} (not run: {', '.join(lacking)})")
    return models, datasets, left_out
