"""Notes below a sweep's table: whatever the numbers of a column do not share is named."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from graphbench.sweeps.cells import CellSpec
from tests.tables.hand_written import Sweep


@pytest.fixture
def sweep(tmp_path: Path) -> Sweep:
    return Sweep(tmp_path)


def test_numbers_of_one_column_that_are_not_of_one_kind_are_noted(sweep: Sweep) -> None:
    for label, mode, content in (("a", "standard", "01"), ("b", "random", "01"), ("c", "standard", "ab")):
        folder = sweep.runs(label, seeds=1)
        sweep.record(folder, 0, 0.8, data={"split_mode": mode, "fingerprint": content * 8})
    text = sweep.text()
    assert "- Cora, not the same split: a, c: standard 5/2/2; b: random 5/2/2.\n" in text
    assert "- Cora, not the same data: a, b: 01010101; c: abababab.\n" in text


def test_two_metrics_behind_one_published_are_named(sweep: Sweep) -> None:
    """PATTERN and CLUSTER: plain accuracy, which Gradformer's release selects by, beside the class-weighted one."""
    for label, metric in (("a", "accuracy"), ("b", "accuracy-SBM")):
        sweep.runs(label, 0.7, 0.8, metric=metric, seeds=2)
        sweep.publish(label, "75.0")
    assert "- Cora, not the same metric: a: accuracy; b: accuracy-SBM.\n" in sweep.text()


def test_the_same_splits_are_no_difference_where_older_records_do_not_count_them(sweep: Sweep) -> None:
    for label, indices, more in (("a", (0, 1), {}), ("b", (0, 1), {"split_count": 2}), ("c", (0, 2), {})):
        folder = sweep.runs(label, seeds=2, column="d" if label == "c" else "Cora")
        for index in indices:
            sweep.record(folder, index, 0.8, data={"split_index": index, **more})
    assert "not the same split" not in sweep.text()
    sweep.specs[-1] = dataclasses.replace(sweep.specs[-1], column="Cora")
    shown = "a, b: standard, 2 splits, 5/2/2; c: standard, 2 splits, 5/2/2"
    assert f"- Cora, not the same split: {shown}.\n" in sweep.text()


def test_runs_of_several_versions_of_the_code_are_named(sweep: Sweep) -> None:
    for label, commits in (("a", "11"), ("b", "12"), ("c", "22")):
        folder = sweep.runs(label, seeds=2)
        for seed, commit in enumerate(commits):
            sweep.record(folder, seed, 0.8, environment={"git_commit": commit * 8, "git_dirty": label == "c"})
    text = sweep.text()
    assert "- runs of several commits in one mean: b (Cora).\n" in text
    assert "- uncommitted changes in the code of at least one run: c (Cora).\n" in text


def test_cells_with_searched_settings_are_named(sweep: Sweep) -> None:
    sweep.runs("a", 0.8, seeds=1)
    assert "search" not in sweep.text()
    for label, name in (("b", "gcn-cora-best"), ("c", "sign-cora-searched")):
        folder = sweep.folder / name
        sweep.record(folder, 0, 0.8)
        sweep.specs.append(CellSpec(label, "Cora", "Cora", folder, ("0",)))
    assert (
        "- settings chosen by a search on validation, those of other cells as they are: b (Cora), c (Cora).\n"
        in sweep.text()
    )


def test_fewer_runs_than_the_paper_has_are_named(sweep: Sweep) -> None:
    for label, count in (("a", 5), ("b", 2)):
        sweep.runs(label, *[0.8] * count, seeds=count)
        sweep.publish(label, "80.0", "1.0")
    assert "- fewer runs than in Paper, Table 7: b, Cora (2 of 5).\n" in sweep.text()


def test_rows_with_other_examples_under_the_name_of_one_split_are_noted(sweep: Sweep) -> None:
    for label, digest in (("a", "01"), ("b", "01"), ("c", "ab")):
        sweep.record(sweep.runs(label, seeds=1), 0, 0.8, inputs={"split 3": digest, "data": "f"})
    assert "- Cora, not the same examples: split 3 differs between rows.\n" in sweep.text()
