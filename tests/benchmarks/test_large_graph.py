"""The benchmark of one large graph, small."""

from __future__ import annotations

from pathlib import Path

from graphbench.benchmarks.large_graph import measure


def test_it_generates_trains_and_evaluates(tmp_path: Path) -> None:
    measured = measure(400, 3000, 4, tmp_path)
    assert all(0 <= measured[f"{split}_accuracy"] <= 1 for split in ("train", "val", "test"))
    assert measured["peak_mib"] > 0
    assert measured["sampled_edges_per_s"] > 0
