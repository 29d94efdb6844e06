"""The table of a sweep, from records written by hand: marks, tests, published values, and nothing dropped silently."""

from __future__ import annotations

import csv
import dataclasses
import math
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ttest_1samp, ttest_ind

from graphbench.errors import UserError
from graphbench.published.scales import METRICS
from graphbench.runs.aggregate import Mean
from graphbench.runs.record import Score
from graphbench.tables.significance import compare, holm, welch
from graphbench.tables.sweep_csv import long_csv
from graphbench.tables.sweep_layout import ROWS, Layout, details_table, main_tables
from graphbench.tables.sweep_notes import sweep_notes
from graphbench.tables.sweep_table import Cell
from graphbench.tables.text_table import latex, markdown
from tests.tables.hand_written import Sweep


@pytest.fixture
def sweep(tmp_path: Path) -> Sweep:
    return Sweep(tmp_path)


def _cell(sweep: Sweep, label: str, column: str = "Cora", baseline: str | None = None) -> Cell:
    return sweep.table(baseline).cells[label, column]


def test_measured_stands_above_published_in_its_scale_and_digits(sweep: Sweep) -> None:
    values = [0.80, 0.82, 0.84, 0.81, 0.83]
    sweep.runs("SGFormer", *values)
    sweep.publish("SGFormer", "84.5", "0.8")
    measured = f"{100 * np.mean(values):.1f} ± {100 * np.std(values, ddof=1):.1f}"
    assert sweep.rows_of() == [
        ["model", "", "Cora"],
        ["SGFormer", "measured", measured],
        ["", "published", "84.5 ± 0.8"],
        ["", "difference", "-2.5 (-3.1 sd)"],
        ["", "status", "below"],
    ]
    text = sweep.text()
    assert text.startswith(
        "mini: test accuracy (%) at the best validation epoch, mean ± sample standard deviation of 5 r"
    )
    assert "Paper, Table 7 (paper_table7.csv)" in text


@pytest.mark.parametrize(
    ("metric", "measured", "published", "std", "status", "deviations"),
    [
        ("accuracy_percent", 84.0, "84.5", "0.8", "reproduced", -0.625),
        ("accuracy_percent", 82.7, "84.5", "0.8", "reproduced", -2.25),  # exactly one deviation plus 1 point
        ("accuracy_percent", 82.69, "84.5", "0.8", "below", -2.2625),
        ("accuracy_percent", 86.31, "84.5", "0.8", "above", 2.2625),
        ("accuracy_percent", 83.5, "84.5", "", "reproduced", None),
        ("accuracy_percent", 83.49, "84.5", "", "below", None),
        ("accuracy_fraction", 0.871, "0.8664", "0.0011", "reproduced", 4.181818),
        ("accuracy_fraction", 0.8776, "0.8664", "0.0011", "above", 10.181818),
        ("mae", 0.2451, "0.2464", "0.0009", "reproduced", -1.444444),
        ("mae", 0.2500, "0.2464", "0.0009", "below", 4.0),  # larger is worse; a point is 1 % of the value
        ("mae", 0.2420, "0.2464", "0.0009", "above", -4.888889),
    ],
)
def test_the_rule_of_reproduction(
    metric: str, measured: float, published: str, std: str, status: str, deviations: float | None
) -> None:
    found = compare(METRICS[metric], measured, float(published), float(std) if std else None)
    assert (found.status, found.difference) == (status, pytest.approx(measured - float(published)))
    assert found.deviations == (None if deviations is None else pytest.approx(deviations, abs=1e-5))


def test_first_second_third_and_equals(sweep: Sweep) -> None:
    for label, value in (("a", 0.7), ("b", 0.9), ("c", 0.8), ("d", 0.8), ("e", 0.6), ("f", math.nan)):
        sweep.runs(label, value, value)
    ranks = {label: cell.rank for (label, _), cell in sweep.table().cells.items()}
    assert ranks == {"a": None, "b": 1, "c": 2, "d": 2, "e": None, "f": None}
    assert "Cora: a mean that is not a number has no rank" in sweep.text()
    assert [row[1].partition(" (")[2] for row in sweep.rows_of()[1:5]] == [
        "2 of 5)",
        "1st, 2 of 5)",
        "2nd, 2 of 5)",
        "2nd, 2 of 5)",
    ]


def test_the_best_error_is_the_smallest_and_the_last_is_never_marked(sweep: Sweep) -> None:
    sweep.runs("a", 0.3, 0.3, dataset="ZINC", metric="mae")
    sweep.runs("b", 0.2, 0.2, dataset="ZINC", metric="mae")
    sweep.runs("a", 0.5, 0.5)
    table = sweep.table()
    assert {key: cell.rank for key, cell in table.cells.items()} == {
        ("a", "ZINC"): None,
        ("b", "ZINC"): 1,
        ("a", "Cora"): None,  # alone
    }
    assert sweep.rows_of()[0] == ["model", "ZINC: mae (lower is better)", "Cora: accuracy"]
    assert sweep.rows_of()[2][2] == "", "a cell that the sweep does not have"


def test_welch_is_that_of_scipy() -> None:
    generator = np.random.default_rng(0)
    for n, m in ((5, 5), (3, 10), (2, 2)):
        ours, theirs = generator.normal(0.8, 0.01, n), generator.normal(0.79, 0.03, m)
        expected = ttest_ind(ours, theirs, equal_var=False).pvalue
        means = [Mean("test", "a", True, x.mean(), x.std(ddof=1), len(x)) for x in (ours, theirs)]
        assert welch(*means) == pytest.approx(expected, rel=1e-9)
    one, constant = Mean("test", "a", True, 0.8, None, 1), Mean("test", "a", True, 0.8, 0.0, 5)
    assert welch(one, constant) is None
    assert welch(constant, constant) is None
    assert welch(constant, Mean("test", "a", True, math.nan, math.nan, 5)) is None


def test_runs_on_the_same_splits_are_compared_in_pairs(sweep: Sweep) -> None:
    """Splits that are worth more than the models' difference; in any order, and only where all of them are the same."""
    gains = np.array([0.01, 0.012, 0.008, 0.011])
    splits = np.array([0.7, 0.9, 0.5, 0.8])

    def runs(label: str, values: np.ndarray, digests: str) -> None:
        folder = sweep.runs(label, seeds=4)
        for seed, (value, digest) in enumerate(zip(values, digests, strict=True)):
            sweep.record(folder, seed, value, inputs={f"split of seed {seed}": digest})

    runs("base", splits, "abcd")
    runs("better", (splits + gains)[::-1], "dcba")
    runs("elsewhere", splits + gains, "abce")
    runs("one", splits + gains, "aaaa")
    unpaired = ttest_ind(splits + gains, splits, equal_var=False).pvalue
    p_values = [_cell(sweep, label, baseline="base").p_value for label in ("better", "elsewhere", "one")]
    assert p_values == pytest.approx([ttest_1samp(gains, 0).pvalue, unpaired, unpaired], rel=1e-9)
    [note] = [note for note in sweep_notes(sweep.table("base"), ROWS) if "Welch" in note]
    assert "else Welch's, here for elsewhere (Cora), one (Cora)" in note


def test_the_baseline_is_tested_against_in_every_column(sweep: Sweep) -> None:
    good, bad = [0.90, 0.91, 0.92, 0.93, 0.94], [0.10, 0.11, 0.12, 0.13, 0.14]
    near = [0.11, 0.10, 0.13, 0.12, 0.15]
    sweep.runs("GCN", *bad)
    sweep.runs("ours", *good)
    sweep.runs("same", *near)
    sweep.runs("once", 0.5)
    sweep.runs("GCN", *bad, dataset="ZINC", metric="mae")
    sweep.runs("ours", *good, dataset="ZINC", metric="mae")
    rows = {row[0] or row[1]: row for row in sweep.rows_of("GCN")}
    against = [row[2:] for row in sweep.rows_of("GCN") if row[1] == "against GCN"]
    p = ttest_ind(near, bad, equal_var=False).pvalue
    assert against == [["p < 0.001 better", "p < 0.001 worse"], [f"p = {p:.3f}", ""], ["-", ""]]
    assert "GCN" in rows
    assert "better or worse where p < 0.05 after Holm's correction for 3 comparisons" in sweep.text("GCN")
    corrected = [_cell(sweep, label, baseline="GCN").corrected_p for label in ("same", "once")]
    assert corrected == [pytest.approx(p), None]  # the largest of three
    assert _cell(sweep, "GCN", baseline="GCN").p_value is None
    with pytest.raises(UserError, match=r"--baseline: unknown label of mini 'GNC'. Did you mean 'GCN'"):
        sweep.table("GNC")


def test_a_star_says_what_differs_where_no_row_does(sweep: Sweep) -> None:
    sweep.runs("GCN", 0.70, 0.71, 0.72)
    sweep.runs("ours", 0.90, 0.91, 0.92)
    sweep.runs("same", 0.70, 0.72, 0.71)
    table = sweep.table("GCN")
    [shown] = main_tables(table, Layout(rows=("measured",), bare=True))
    assert [[cell.text for cell in row] for row in shown.rows] == [
        ["GCN", "0.7100 ± 0.0100"],
        ["ours", "0.9100 ± 0.0100*"],
        ["same", "0.7100 ± 0.0100"],
    ]
    assert any(
        note.startswith("*: better or worse than GCN, p < 0.05 after Holm's correction for 2") for note in shown.notes
    )


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_holm_s_correction_is_the_step_down_procedure(count: int) -> None:
    """A hypothesis falls at level a while all smaller p-values do: p(k) < a / (m - k + 1)."""
    p_values = np.random.default_rng(count).random(count) ** 4
    corrected = holm(p_values.tolist())
    for level in (0.001, 0.01, 0.05, 0.3, 0.99):
        falls = np.zeros(count, dtype=bool)
        for rank, number in enumerate(np.argsort(p_values)):
            if p_values[number] >= level / (count - rank):
                break
            falls[number] = True
        assert (np.array(corrected) < level).tolist() == falls.tolist()


def test_what_is_missing_is_named(sweep: Sweep) -> None:
    folder = sweep.runs("half", 0.8, 0.82, 0.84)
    sweep.record(folder, 3, 0.1, status="failed", reason="loss is nan", scores=())
    sweep.record(folder, 7, 0.1, config_hash="older", ended="2026-01-01")
    sweep.runs("absent")
    sweep.runs("absent", dataset="CiteSeer")
    crashed = sweep.runs("crashed")
    sweep.record(crashed, 0, 0.1, status="failed", reason="out of memory")
    stopped = sweep.runs("stopped")
    sweep.record(stopped, 0, 0.1, status="failed", reason="out of memory")
    sweep.record(stopped, 1, 0.1, status="interrupted")
    sweep.runs("more", *[0.5] * 7)
    cells = {row[0]: row[1:] for row in sweep.rows_of()[1:]}
    assert cells == {
        "half": ["**0.8200 ± 0.0200** (1st, 3 of 5)", ""],
        "absent": ["not run", "not run"],
        "crashed": ["failed", ""],
        "stopped": ["unfinished", ""],
        "more": ["0.5000 ± 0.0000 (7 runs)", ""],
    }
    states = {cell.spec.label: cell.status for cell in sweep.table().cells.values()}
    assert [states[label] for label in ("absent", "crashed", "stopped")] == ["not run", "failed", "unfinished"], (
        "in CSV files, too"
    )
    text = sweep.text()
    assert "- not run: absent (Cora, CiteSeer).\n" in text
    assert "- not included, half, Cora: run 3 failed: loss is nan; run 7 other configuration; run 4 missing.\n" in text
    assert "- not included, crashed, Cora: run 0 failed: out of memory; runs 1, 2, 3, 4 missing.\n" in text
    assert _cell(sweep, "absent").status == "not run"


def test_not_published_and_not_in_the_sweep(sweep: Sweep) -> None:
    sweep.runs("SGFormer", 0.8, 0.8)
    sweep.runs("SGFormer", 0.5, 0.5, dataset="Actor")
    sweep.runs("MLP", 0.6, 0.6)
    sweep.runs("GCN", 0.7, 0.7)
    for model, mean in (("SGFormer", "84.5"), ("GCN", ""), ("GAT", "83.0"), ("JKNet", "")):
        sweep.publish(model, mean)
    rows = sweep.rows_of()
    assert rows[1:5] == [
        ["SGFormer", "measured", "**80.0 ± 0.0** (1st, 2 of 5)", "50.0 ± 0.0 (2 of 5)"],
        ["", "published", "84.5", "not published"],
        ["", "difference", "-4.5", ""],
        ["", "status", "below", ""],
    ]
    assert rows[5] == ["MLP", "measured", "60.0 ± 0.0 (2 of 5)", ""]
    assert rows[7] == ["", "published", "OOM", ""]
    text = sweep.text()
    assert "- not published in Paper, Table 7: SGFormer (Actor), MLP (Cora).\n" in text
    assert "- in Paper, Table 7, but not in this sweep: GAT.\n" in text
    assert _cell(sweep, "MLP").status == _cell(sweep, "GCN").status == "not published"


def test_the_published_metric_is_read_though_another_chose_the_epoch(sweep: Sweep) -> None:
    folder = sweep.runs("a", dataset="Deezer-Europe", seeds=1)
    scores = (Score("test", "accuracy", 0.66, True, 9),)
    sweep.record(folder, 0, 0.72, "Deezer-Europe", "auc", scores=scores)
    sweep.runs("b", 0.7, dataset="Deezer-Europe", metric="auc", seeds=1)
    sweep.publish("a", "67.1", "1.1", "deezer-europe")
    sweep.publish("b", "66.0", "", "deezer-europe")
    rows = sweep.rows_of()
    assert rows[1][2] == "66.0"
    assert rows[4][2] == "reproduced"
    assert rows[5][2] == "not comparable"
    text = sweep.text()
    assert "Deezer-Europe: epochs were chosen by auc on validation." in text
    assert "not comparable, the runs lack the published metric: b (Deezer-Europe)." in text


def test_a_column_without_published_values_takes_the_scale_of_its_neighbour(sweep: Sweep) -> None:
    sweep.runs("a", 0.81, seeds=1)
    sweep.runs("a", 0.77, dataset="Actor", seeds=1)
    sweep.runs("a", 0.3, dataset="ZINC", metric="mae", seeds=1)
    sweep.publish("a", "81.0")
    assert sweep.rows_of()[:2] == [
        ["model", "", "Cora: accuracy (%)", "Actor: accuracy (%)", "ZINC: mae (lower is better)"],
        ["a", "measured", "81.0", "77.0", "0.3000"],
    ]


def test_many_columns_are_spread_over_several_tables(sweep: Sweep) -> None:
    for number in range(7):
        sweep.runs("a", 0.5, 0.7, dataset=f"data{number}", seeds=2)
    sweep.runs("b", 0.4, 0.6, dataset="data6", seeds=2)
    text = sweep.text()
    first, second = text.split("mini, continued")
    assert re.findall(r"data\d", first.splitlines()[2]) == ["data0", "data1", "data2"]
    assert re.findall(r"data\d", second.splitlines()[2]) == ["data3", "data4", "data5", "data6"]
    assert "| b " not in first, "a model without any cell there"
    assert "- 1st" not in first
    assert "- 1st" in second


def test_measured_values_alone_are_one_group_without_a_word_for_the_row(sweep: Sweep) -> None:
    sweep.runs("GCN", 0.7, seeds=1)
    sweep.runs("GAT", 0.8, seeds=1)
    assert sweep.rows_of() == [["model", "Cora"], ["GCN", "0.7000"], ["GAT", "**0.8000** (1st)"]]
    alone = latex(main_tables(sweep.table()))
    assert r"\begin{tabular}{lr}" in alone
    assert alone.count(r"\midrule") == 1
    assert "measured &" not in alone
    tested = latex(main_tables(sweep.table("GCN")))
    assert tested.count(r"\midrule") == tested.count("measured &") == 2


def test_one_cell_has_one_entry_and_a_column_one_kind_of_number(sweep: Sweep) -> None:
    sweep.runs("a", 0.8)
    sweep.specs.append(dataclasses.replace(sweep.specs[0], records=Path("other"), where="s.yaml:9"))
    with pytest.raises(UserError, match=r"s.yaml:9: two entries for the cell 'a, Cora': a-Cora and other"):
        sweep.table()
    sweep.specs[1] = dataclasses.replace(sweep.specs[0], label="b", dataset="Actor")
    with pytest.raises(UserError, match=r"the column 'Cora' mixes Cora \('a'\) and Actor \('b'\)"):
        sweep.table()
    del sweep.specs[1]
    sweep.runs("b", 0.8, metric="auc")
    with pytest.raises(UserError, match="the column 'Cora' mixes the metrics accuracy, auc"):
        sweep.table()


def test_no_run_at_all_is_one_message(sweep: Sweep) -> None:
    sweep.runs("a")
    with pytest.raises(UserError, match=r"no finished run of mini: looked in .*a-Cora"):
        sweep.table()


def test_details_say_where_numbers_come_from(sweep: Sweep) -> None:
    folder = sweep.runs("a", 0.8, 0.9, seeds=2)
    sweep.record(folder, 1, 0.9, params=5678, time_per_epoch=None, peak_memory=None, scores=[
        Score("test", "zero_flow", 0.25, False, 9)
    ])  # fmt: skip
    lines = markdown([details_table(sweep.table())]).splitlines()
    head, row = ([cell.strip() for cell in lines[at].split("|")[1:-1]] for at in (2, 4))
    assert dict(zip(head, row, strict=True)) == {
        "model": "a",
        "column": "Cora",
        "configuration": "a-Cora",
        "hash": "now",
        "data set": "Cora",
        "split": "standard 5/2/2",
        "epoch chosen by": "accuracy",
        "val": "0.8500 ± 0.0707",
        "zero flow": "0.2500",
        "runs": "2",
        "parameters": "1,234 to 5,678",
        "s/epoch": "0.500",
        "peak memory": "1 MiB",
        "date": "2026-11-22",
        "commit": "01234567+",
        "hardware": "abacus, 2 cores",
    }


def test_csv_has_a_line_per_cell_unrounded(sweep: Sweep) -> None:
    sweep.runs('odd, "label"', 0.81, 0.8234567)
    sweep.runs("GCN", 0.7, 0.72, 0.74)
    sweep.runs("MLP")
    sweep.publish("GCN", "81.50", "0.40")
    table = sweep.table("GCN")
    lines = {line["label"]: line for line in csv.DictReader(long_csv(table).splitlines())}
    assert list(lines) == ['odd, "label"', "GCN", "MLP"]
    odd, gcn, mlp = lines.values()
    assert float(odd["mean"]) == pytest.approx(81.672835, abs=1e-9)
    assert (odd["n"], odd["n_wanted"], odd["rank"], odd["status"]) == ("2", "5", "1", "not published")
    assert float(odd["p_value"]) == pytest.approx(table.cells['odd, "label"', "Cora"].p_value)
    assert (gcn["published_mean"], gcn["published_std"], gcn["status"]) == ("81.50", "0.40", "below")
    assert float(gcn["difference_sd"]) == pytest.approx(-9.5 / 0.4)
    assert (gcn["metric"], gcn["direction"], gcn["runs"]) == ("accuracy_percent", "higher", "0 1 2")
    assert gcn["left_out"] == "3: missing; 4: missing"
    assert (mlp["mean"], mlp["n"], mlp["status"]) == ("", "0", "not run")


def test_runs_of_another_configuration_are_shown_but_not_judged(sweep: Sweep) -> None:
    sweep.runs("SGFormer", 0.80, 0.84)
    folder = sweep.runs("GCN", 0.85, 0.85, config_hash="today", settings={"optim.max_epoch": 500})
    sweep.runs("MLP", 0.7, 0.72)
    for name in ("SGFormer", "GCN"):
        sweep.publish(name, "82.0", "0.4")
    for seed in (0, 1):
        sweep.record(folder, seed, 0.85, settings={"optim.max_epoch": 15})
    table = sweep.table("SGFormer")
    gcn = table.cells["GCN", "Cora"]
    assert (gcn.stale, gcn.status, gcn.rank, gcn.comparison, gcn.p_value) == (True, "other configuration", *[None] * 3)
    assert gcn.differing == "optim.max_epoch 15 there and 500 here"
    assert table.cells["SGFormer", "Cora"].rank == 1, "a run that is not judged takes no place"
    assert ["GCN", "measured", "85.0 ± 0.0 (2 of 5, other configuration)"] in sweep.rows_of()
    # A run of today's configuration beside them counts, though it ended earlier.
    sweep.record(folder, 2, 0.83, config_hash="today", ended="2026-01-01T10:00:00+00:00")
    gcn = _cell(sweep, "GCN")
    assert (gcn.measured.n, gcn.status) == (1, "reproduced")
    assert gcn.result.left_out["0"] == "other configuration"
