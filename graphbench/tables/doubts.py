"""Reasons to doubt a measured mean, from the records of its runs: what a table marks and explains in a footnote."""

from __future__ import annotations

from collections.abc import Sequence

from graphbench.runs.aggregate import Mean
from graphbench.runs.record import RunRecord, Score

EARLY, UNTRAINED, SCATTERED, APPROXIMATE = "early", "untrained", "scattered", "approximate"
FIRST_EPOCHS = 5
SHORTEST_RUN = 20
CHANCE = {"auc": 0.6, "r2": 0.1}
"""Metric of every kind of classification or regression -> up to which training value nothing was learnt."""
APPROXIMATIONS = ("random_node", "cluster", "neighbor")
"""Values of val.sampler; records from before 2026-11-24 do not name an approximation, but have their settings."""
SAMPLING = 3.0
LEAST_SPREAD = 0.02

EXPLANATIONS = {
    EARLY: f"early: at least half of the runs were chosen in their first {FIRST_EPOCHS} epochs, so that later training "
    "only lost on validation.",
    UNTRAINED: "untrained: at the chosen epochs even the training examples are predicted hardly better than by chance "
    f"(mean training AUC below {CHANCE['auc']}, for regression R2 below {CHANCE['r2']}).",
    SCATTERED: f"scattered: the runs differ by more than {SAMPLING:g} times what the number of test examples explains "
    f"(and by {100 * LEAST_SPREAD:g} points or more).",
    APPROXIMATE: "approximate: validation and test were predicted without some of the edges (val.sampler), see "
    "the records; error: how far that took the metric (of a share: 0.01 is a point) from its value on exact ones.",
}


def doubts(runs: Sequence[RunRecord], measured: Mean, *, bounded: bool) -> list[str]:
    """Keys of :data:`EXPLANATIONS` that hold for a mean.

    Args:
        runs: the finished runs.
        measured: mean of the runs on test, as in the records.
        bounded: whether it lies between 0 and 1.
    """
    found = []
    long = [run for run in runs if run.epochs >= SHORTEST_RUN and run.best_epoch is not None]
    early = sum(run.best_epoch < FIRST_EPOCHS for run in long if run.best_epoch is not None)
    if early and 2 * early >= len(runs):
        found.append(EARLY)
    for name, chance in CHANCE.items():
        values = [score.value for run in runs for score in _scores(run, "train", name)]
        if values and sum(values) / len(values) < chance:
            found.append(UNTRAINED)
    if any(run.approximation or run.settings.get("val.sampler") in APPROXIMATIONS for run in runs):
        found.append(APPROXIMATE)
    counts = [score.count for run in runs for score in _scores(run, "test", measured.name)]
    if bounded and measured.std is not None and counts:
        variance = max(measured.mean * (1 - measured.mean), 0.0) / max(min(counts), 1)
        if measured.std > max(SAMPLING * variance**0.5, LEAST_SPREAD):
            found.append(SCATTERED)
    return found


def approximation_text(runs: Sequence[RunRecord], name: str) -> str:
    """Distance of a metric on test from that of exact predictions, in the unit of the records; empty where unknown.

    Args:
        runs: the finished runs.
        name: name of the metric.
    """
    errors = [run.approximation_error.get("test", {}).get(name) for run in runs if run.approximation]
    known = [error for error in errors if error is not None]
    if not known:
        return ""
    worst = max(known, key=abs)
    return f"error {worst:+.2g}" + (f" at most, of {len(known)} runs" if len(errors) > 1 else "")


def _scores(run: RunRecord, split: str, name: str) -> list[Score]:
    return [score for score in run.scores if (score.split, score.name) == (split, name)]
