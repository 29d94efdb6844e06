"""Calibration: coverage of sets and intervals, likelihood after scaling, whose examples it takes, and the command."""

from __future__ import annotations

import csv
import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import graphbench
from graphbench.console import main
from graphbench.errors import UserError
from graphbench.predict.calibration import Calibration
from graphbench.predict.held_out import held_out
from graphbench.predict.predictions import Predictions
from graphbench.run_inputs import read_finished
from tests.predict.test_predict import trained  # noqa: F401  the same two runs per task


def _drawn(rows: int, classes: int, seed: int, factor: float) -> tuple[Predictions, torch.Tensor]:
    """Outputs of two models that are ``factor`` times too sure, and classes drawn as they should be."""
    draw = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, classes, generator=draw, dtype=torch.float64)
    y = torch.multinomial(logits.softmax(1), 1, generator=draw).squeeze(1)
    return Predictions("classification_multi", factor * torch.stack([logits, logits]), torch.arange(rows)), y


@pytest.mark.parametrize("factor", [0.25, 1.0, 6.0])
def test_the_temperature_undoes_what_makes_outputs_too_sure(factor: float) -> None:
    calibration = Calibration.measured(*_drawn(8000, 4, 0, factor))
    assert calibration.temperature == pytest.approx(factor, rel=0.1)
    new, y = _drawn(4000, 4, 1, factor)

    def surprise(predictions: Predictions) -> float:
        return -float(predictions.probability.gather(1, y[:, None]).log().mean())

    if factor != 1.0:
        assert surprise(calibration.of(new)) < surprise(new) - 0.01
    assert torch.equal(calibration.of(new).label, new.label)


@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_sets_hold_the_class_as_often_as_promised(coverage: float) -> None:
    hits, sizes = [], []
    for seed in range(60):  # the promise is one over draws of the examples: 60 calibrations, 200 new rows each
        calibration = Calibration.measured(*_drawn(200, 5, seed, 3.0), coverage)
        new, y = _drawn(200, 5, 1000 + seed, 3.0)
        sets = calibration.of(new).prediction_set
        hits.append(float(sets.gather(1, y[:, None]).double().mean()))
        sizes.append(float(sets.sum(1).double().mean()))
    # Of n = 100 examples the coverage has mean in [c, c + 1 / 101] and deviation sqrt(c (1 - c) / 102).
    error = np.sqrt(coverage * (1 - coverage) * (1 / 102 + 1 / 200) / 60)
    assert coverage - 4 * error < np.mean(hits) < coverage + 1 / 101 + 4 * error
    assert 0 < np.mean(sizes) < 5


def test_intervals_are_the_smallest_rank_that_suffices() -> None:
    values = torch.zeros(1, 9, 2)
    y = torch.stack([torch.arange(1.0, 10.0), -10 * torch.arange(1.0, 10.0)], 1)
    y[8, 1] = float("nan")
    predictions = Predictions("regression", values, torch.arange(9))
    assert Calibration.measured(predictions, y, 0.5).threshold.tolist() == [5.0, 50.0]
    with pytest.raises(UserError, match=r"coverage 0.9 needs 9 examples with known targets or more, there are 8\."):
        Calibration.measured(predictions, y, 0.9)
    low, high = Calibration.measured(predictions, y[:, :1].expand(9, 2), 0.9).of(predictions).interval
    assert (low.tolist()[0], high.tolist()[0]) == ([-9.0, -9.0], [9.0, 9.0])


def test_labels_get_a_temperature_and_what_does_not_fit_is_refused() -> None:
    draw = torch.Generator().manual_seed(0)
    logits = torch.randn(4000, 3, generator=draw)
    y = (torch.rand(4000, 3, generator=draw) < logits.sigmoid()).float()
    y[0] = float("nan")
    predictions = Predictions("classification_multilabel", 4 * logits[None], torch.arange(4000))
    calibration = Calibration.measured(predictions, y)
    assert calibration.temperature == pytest.approx(4, rel=0.15)
    scaled = calibration.of(predictions)
    assert calibration.summary == f"temperature {calibration.temperature:.3g}; no sets, which are for one class per row"
    assert list(scaled.columns()) == ["graph", *(f"{what}_{k}" for what in ("label", "probability") for k in range(3))]
    with pytest.raises(ValueError, match="with one class per row"):
        _ = scaled.prediction_set
    with pytest.raises(ValueError, match="calibrated regression"):
        _ = scaled.interval
    classes, targets = _drawn(20, 3, 0, 1.0)
    for wrong, message in ((targets[:-1], "19 targets for 20"), (targets + 1, "must be classes 0 .. 2")):
        with pytest.raises(UserError, match=message):
            Calibration.measured(classes, wrong)
    with pytest.raises(UserError, match="between 0 and 1, received 1"):
        Calibration.measured(classes, targets, 1.0)


def test_validation_is_what_no_run_was_trained_on(trained: Any) -> None:  # noqa: F811
    task_type, graphs, _ = trained
    model = graphbench.load_run("results/rings")
    split = json.loads(Path("split.json").read_text())
    predictions, note = held_out(model)
    assert not note
    assert sorted(set(predictions.graph.tolist())) == split["val"]
    assert predictions.y is not None
    assert len(predictions.y) == len(predictions.graph)
    by_hand = graphbench.load_run("results/rings").calibrate(graphs, coverage=0.5)
    again = Calibration.measured(model.predict(graphs), torch.cat([graph.y.reshape(-1) for graph in graphs]), 0.5)
    assert by_hand.temperature == again.temperature
    assert torch.equal(by_hand.threshold, again.threshold)
    assert (by_hand.temperature == 1) == (task_type == "regression")


@pytest.mark.parametrize("trained", ["graph regression"], indirect=True)
def test_too_few_in_common_are_told_as_such(trained: Any) -> None:  # noqa: F811
    keys = "dataset.split_mode random dataset.split_file '' dataset.split [0.4,0.3,0.3] name_tag apart num_threads 1"
    line = graphbench.run(graphbench.load_config("rings.yaml", shlex.split(keys)), repeat=2)
    model = graphbench.load_run(line["run_dir"])
    first, second = (set(read_finished(folder).splits.val.tolist()) for folder in model.folders)
    common, each = len(first & second), len(first)
    assert 0 < common < each, "another seed would have to be chosen"
    message = (
        rf"there are {common}\. Only {common} of a run's {each} validation examples validate all 2 runs: name one run"
    )
    with pytest.raises(UserError, match=message):
        model.calibrate(coverage=0.99)
    classes, targets = _drawn(12, 3, 0, 1.0)
    with pytest.raises(UserError, match=r"9 examples .* besides the half of all 12 that gives .*, there are 6\."):
        Calibration.measured(classes, targets)


def test_the_command_adds_sets_or_intervals(
    trained: Any,  # noqa: F811
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    task_type, _, source = trained
    data = f"{source.name}:test_rings"
    command = ["predict", "results/rings", data, "--out", str(tmp_path / "a.csv"), "--coverage", "0.5"]
    assert main([*command, "--calibrate", "validation"]) == 0
    gives = "intervals, without a temperature," if task_type == "regression" else r"temperature \S+; sets"
    assert re.search(rf"calibrated on \d+ examples: {gives} that hold 50 % of new targets\n", capsys.readouterr().out)
    rows = list(csv.DictReader((tmp_path / "a.csv").read_text().splitlines()))
    if task_type == "regression":
        assert all(float(row["lower_0"]) < float(row["value_0"]) < float(row["upper_0"]) for row in rows)
    else:
        assert {row[f"set_{k}"] for row in rows for k in (0, 1)} <= {"0", "1"}
    assert main([*command, "--calibrate", data]) == 0
    assert main([*command, "--calibrate", data, "--coverage", "0.9999"]) == 2
