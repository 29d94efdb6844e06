"""Mean ranks and the critical difference, against Demšar's published example and SciPy's test."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import friedmanchisquare

from graphbench.tables.mean_ranks import MeanRanks, mean_ranks

# AUC of C4.5 without and with tuning of m, of cf, of both: Table 6 of Demšar (2006).
C45 = {
    "C4.5": (0.763, 0.599, 0.954, 0.628, 0.882, 0.936, 0.661, 0.583, 0.775, 1.000, 0.940, 0.619, 0.972, 0.957),
    "m": (0.768, 0.591, 0.971, 0.661, 0.888, 0.931, 0.668, 0.583, 0.838, 1.000, 0.962, 0.666, 0.981, 0.978),
    "cf": (0.771, 0.590, 0.968, 0.654, 0.886, 0.916, 0.609, 0.563, 0.866, 1.000, 0.965, 0.614, 0.9751, 0.946),
    "m+cf": (0.798, 0.569, 0.967, 0.657, 0.898, 0.931, 0.685, 0.625, 0.875, 1.000, 0.962, 0.669, 0.975, 0.970),
}


def _scores(table: dict[str, tuple[float, ...]]) -> dict[str, dict[str, float]]:
    return {model: {f"set {i}": value for i, value in enumerate(row)} for model, row in table.items()}


def test_the_example_of_the_paper() -> None:
    result = mean_ranks(_scores(C45), {f"set {i}": True for i in range(14)})
    assert result is not None
    assert result.models == ("m+cf", "m", "cf", "C4.5")
    np.testing.assert_allclose(result.ranks, (1.964, 2.0, 2.893, 3.143), atol=5e-4)
    assert round(result.critical_difference, 2) == 1.25
    assert result.groups == [(0, 3)]  # 3.143 - 1.964 < 1.25
    assert result.left_out == ()


def test_friedman_with_ties_and_errors_is_that_of_scipy() -> None:
    values = np.random.default_rng(0).integers(0, 4, (5, 8)).astype(float)
    table = {f"model {i}": tuple(row) for i, row in enumerate(values)}
    for maximize in (True, False):
        result = mean_ranks(_scores(table), {f"set {i}": maximize for i in range(8)})
        assert result is not None
        assert result.p_value == pytest.approx(friedmanchisquare(*values).pvalue, rel=1e-9)
        best = (-1 if maximize else 1) * values
        assert result.models[0] == f"model {np.argmin([np.mean(_ranks(best)[i]) for i in range(5)])}"


def _ranks(values: np.ndarray) -> np.ndarray:
    """The definition: how many are smaller, and half of the equals."""
    smaller = (values[None] < values[:, None]).sum(1)
    return smaller + ((values[None] == values[:, None]).sum(1) + 1) / 2


def test_gaps_are_left_out_and_named() -> None:
    scores = _scores({"a": (0.9,) * 5, "b": (0.8,) * 5, "c": (0.7,) * 5, "d": (0.6,) * 5})
    scores["late"] = {"set 0": 0.5}
    del scores["d"]["set 4"]
    scores["c"]["set 4"] = math.nan
    result = mean_ranks(scores, {f"set {i}": True for i in range(5)})
    assert result is not None
    assert result.models == ("a", "b", "c", "d")
    assert result.ranks == (1, 2, 3, 4)
    assert result.left_out == ("late (not run on set 1, set 2, set 3, set 4)", "set 4 (not run: c, d)")
    assert mean_ranks({name: scores[name] for name in "ab"}, {"set 0": True}) is None


def test_groups_are_the_largest_runs_within_the_difference() -> None:
    ranks = MeanRanks(tuple("abcde"), (1.0, 1.5, 2.2, 4.0, 4.1), (), 0.0, 1.0)
    assert ranks.groups == [(0, 1), (1, 2), (3, 4)]
