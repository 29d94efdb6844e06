"""``study.findings.granularity``: printed accuracies that no number of test examples can give."""

from __future__ import annotations

import numpy as np
import pytest

from graphbench.published.table import read_published
from study.findings.granularity import deviations, main, rest


def test_what_runs_can_give_is_never_refused() -> None:
    generator = np.random.default_rng(0)
    for _ in range(300):
        examples, runs, digits = int(generator.integers(2, 500)), int(generator.integers(2, 12)), generator.integers(3)
        right = generator.integers(examples // 2, examples + 1, runs)
        percent = 100 * right / examples
        for kind, ddof in (("sample", 1), ("population", 0)):
            mean, std = f"{percent.mean():.{digits}f}", f"{percent.std(ddof=ddof):.{digits}f}"
            assert kind in deviations(mean, std, examples, runs), (right, examples)


@pytest.mark.parametrize(
    ("mean", "std", "examples", "runs", "kinds"),
    [
        ("88.00", "2.45", 20, 10, ["population"]),  # four times 17 of 20, six times 18
        ("88.00", "2.45", 19, 10, []),
        ("80.50", "2.84", 20, 10, ["sample"]),
        ("71.20", "0.49", 411, 10, []),  # 71.192 and 71.217 are its neighbours
        ("71.20", "", 411, 10, []),
        ("50", "0", 3, 1, []),
        ("50.0", "0.0", 4, 2, ["sample", "population"]),
        ("87.5", "0.0", 4, 2, []),  # seven right answers in two runs: they differ
    ],
)
def test_printed_numbers(mean: str, std: str, examples: int, runs: int, kinds: list[str]) -> None:
    assert deviations(mean, std, examples, runs) == kinds


def test_sizes_are_rounded_down_and_the_rest_is_tested() -> None:
    row = next(row for row in read_published("sgformer_table5").rows if "train_ratio=40%" in row.setting)
    assert rest(row, 2708) == 2708 - 1083 - 677


def test_the_command_prints_cells_and_a_line_per_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gradformer_table1", "MUTAG", "--examples", "20", "--runs", "10"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "Gradformer, MUTAG: 88.00 ± 2.45: 10 runs on 20: population" in lines
    assert "GCN, 10 runs on 20: 0 of 1 cells possible" in lines
