"""What makes a measured mean doubtful."""

from __future__ import annotations

import dataclasses

from graphbench.runs.aggregate import Mean
from graphbench.runs.record import RunRecord, Score
from graphbench.tables.doubts import (
    APPROXIMATE,
    EARLY,
    EXPLANATIONS,
    SCATTERED,
    UNTRAINED,
    approximation_text,
    doubts,
)


def runs(*best_epochs: int, epochs: int = 100, train_auc: float = 0.9, count: int = 1000) -> list[RunRecord]:
    """Finished runs of a classification that were chosen at these epochs."""
    scores = (Score("train", "auc", train_auc, True, count), Score("test", "accuracy", 0.8, True, count))
    return [
        RunRecord("c", "0", seed, str(seed), status="finished", best_epoch=best, epochs=epochs, scores=scores)
        for seed, best in enumerate(best_epochs)
    ]


def mean(std: float | None = 0.01) -> Mean:
    """0.8, with this deviation."""
    return Mean("test", "accuracy", True, 0.8, std, 3)


def test_nothing_is_doubtful_about_a_usual_result() -> None:
    assert doubts(runs(40, 50, 60), mean(), bounded=True) == []
    assert doubts([], mean(None), bounded=True) == []


def test_half_of_the_runs_chosen_among_the_first_epochs_of_long_runs() -> None:
    assert doubts(runs(0, 4, 60, 70), mean(), bounded=True) == [EARLY]
    assert doubts(runs(0, 60, 70), mean(), bounded=True) == []
    assert doubts(runs(0, 0, 0, epochs=10), mean(), bounded=True) == []


def test_a_training_score_near_chance() -> None:
    assert doubts(runs(40, 50, train_auc=0.55), mean(), bounded=True) == [UNTRAINED]
    of_regression = [dataclasses.replace(run, scores=(Score("train", "r2", 0.05, True, 10),)) for run in runs(40, 50)]
    assert doubts(of_regression, mean(), bounded=False) == [UNTRAINED]


def test_runs_that_differ_by_more_than_sampling_explains() -> None:
    assert doubts(runs(40, 50, 60), mean(0.05), bounded=True) == [SCATTERED]  # sqrt(0.8 * 0.2 / 1000) is 0.013
    assert doubts(runs(40, 50, 60, count=100), mean(0.05), bounded=True) == []
    assert doubts(runs(40, 50, 60), mean(0.05), bounded=False) == []
    assert EXPLANATIONS.keys() == {EARLY, UNTRAINED, SCATTERED, APPROXIMATE}


def test_predictions_without_all_edges() -> None:
    for changes in ({"approximation": "predicted on 4 parts"}, {"settings": {"val.sampler": "random_node"}}):
        parts = [dataclasses.replace(run, **changes) for run in runs(40, 50)]
        assert doubts(parts, mean(), bounded=True) == [APPROXIMATE]
    exact = [dataclasses.replace(run, settings={"val.sampler": "blocks"}) for run in runs(40, 50)]
    assert doubts(exact, mean(), bounded=True) == []


def test_the_error_of_approximate_predictions() -> None:
    sampled = [
        dataclasses.replace(run, approximation="sampled", approximation_error={"test": {"accuracy": error}})
        for run, error in zip(runs(40, 50), (0.004, -0.0123), strict=True)
    ]
    assert approximation_text(sampled, "accuracy") == "error -0.012 at most, of 2 runs"
    assert approximation_text(sampled[:1], "accuracy") == "error +0.004"
    assert approximation_text(sampled, "auc") == approximation_text(runs(40), "accuracy") == ""
