"""The plan for large graphs, from tiny fractions of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from graphbench.benchmarks import out_of_core, scaled_data
from graphbench.benchmarks.out_of_core import fit, foretold, write
from graphbench.benchmarks.scaled_data import DATA
from graphbench.data.large import arrays


def test_the_model_has_no_negative_part_and_weighs_relative_errors() -> None:
    a, b = fit([1, 10, 100], [3 + 2 * n for n in (1, 10, 100)])
    assert (a, b) == pytest.approx((3, 2))
    a, b = fit([1, 2, 3], [5, 4, 3])  # a falling line has no place in it
    assert b == 0
    assert 3 <= a <= 5


def test_memory_of_the_model_is_exact_where_it_holds() -> None:
    """16 bytes per node above 100 MiB, 1 KiB per sampled edge more in training, 2 in prediction."""

    def fraction(nodes: int, sampled: int, above: float = 100.0) -> dict[str, float]:
        kept = above + 16 * nodes / 2**20
        per_edge = {"train_mib": kept + sampled / 2**10, "predict_mib": kept + sampled / 2**9}
        return {"nodes": nodes, "sampled_edges": sampled, "convert_mib": kept, "sort_mib": kept, **per_edge}

    whole = fraction(10**8, 10**6)
    expected = {stage: whole[f"{stage}_mib"] for stage in ("convert", "sort", "train", "predict")}
    assert out_of_core.memory([fraction(10**5, 3000, 60.0), fraction(10**6, 9000)], 1e8, 1e6) == pytest.approx(expected)


def test_fractions_are_measured_and_the_page_foretells_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, small in {"BATCH": 50, "FAN_OUT": (3, 2), "DIM": 8}.items():
        monkeypatch.setattr(scaled_data, name, small)
    monkeypatch.setattr(arrays, "IN_MEMORY", arrays.IN_MEMORY)  # restored afterwards
    measured = {data: [] for data in DATA}
    for scale in (100_000.0, 60_000.0, 50_000.0):
        for data, measure in DATA.items():
            folder = tmp_path / f"{data}-{scale:g}"
            folder.mkdir()
            measured[data].append(measure(scale, folder))
    for each in measured["papers"]:
        assert each["nodes"] == round(out_of_core.NODES / each["scale"])
        assert each["listed_edges"] < each["edges"] <= 2 * each["listed_edges"]
        assert each["converted_bytes"] >= 512 * each["nodes"] + 8 * each["edges"]
    assert_goes_on(tmp_path / "papers-50000", measured["papers"][-1])
    for name, file in {"PAGE": "page.md", "PLOT": "plot.svg", "NUMBERS": "numbers.json"}.items():
        monkeypatch.setattr(out_of_core, name, tmp_path / file)
    out_of_core.PAGE.write_text("# By hand\n\n## Measured\n\nold\n")
    write(measured)
    page = out_of_core.PAGE.read_text()
    assert page.startswith("# By hand\n\n## Measured\n\n`python scripts/bench.py out_of_core` on ")
    assert "old" not in page
    assert "| papers: conversion of the archive (once) | " in page
    assert "<svg" in out_of_core.PLOT.read_text()
    assert json.loads(out_of_core.NUMBERS.read_text())["measured"] == measured
    assert {case.peer_name for case in foretold(measured)} == {"measured", "model of smaller fractions"}


def assert_goes_on(folder: Path, ended: dict[str, float]) -> None:
    """A process that was ended while it predicted: what was measured before stays as it is, data too."""
    stages, archive = folder / "stages.json", folder / "ogb/ogbn_papers100M/raw/data.npz"
    stages.write_text(json.dumps({name: fact for name, fact in ended.items() if not name.startswith("predict")}))
    written = archive.stat().st_mtime_ns
    found = DATA["papers"](50_000.0, folder)
    assert found.keys() == ended.keys()
    assert {name for name in found if found[name] != ended[name]} <= {"predict_s", "predict_cpu_s", "predict_mib"}
    assert archive.stat().st_mtime_ns == written
