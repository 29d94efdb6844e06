"""The benchmark of one large graph, small."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphbench.benchmarks.large_graph import MODELS, measure, sampling_rates
from graphbench.data.large.generator import power_law


@pytest.mark.parametrize("model", MODELS)
def test_it_generates_trains_and_evaluates(model: str, tmp_path: Path) -> None:
    measured = measure(model, 400, 3000, tmp_path)
    assert all(0 <= measured[f"{split}_accuracy"] <= 1 for split in ("train", "val", "test"))
    assert measured["peak_mib"] >= measured["anonymous_mib"] > 0
    assert measured["batches"] >= 1


def test_the_rate_of_the_sampler(tmp_path: Path) -> None:
    assert sampling_rates(power_law(tmp_path, 400, 3000, 0))["sampled_edges_per_s"] > 0
