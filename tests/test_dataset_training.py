"""Shipped configurations train for two epochs on every data set; the test of each declares which.

On the real raw files where they are kept, a few graphs of them; else on generated files of the published format.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from graphbench import run_inputs
from graphbench.config import load_config
from graphbench.data.card import DatasetCard
from graphbench.data.splits import Splits
from graphbench.experiment import run
from graphbench.factory.data import build_splits, read_data
from graphbench.runs.planned import planned_runs
from tests.dataset_case import TrainingCase, declared
from tests.paths import ROOT
from tests.real_data import shared_cache

GRAPHS = 24
"""Of every part, where the examples are graphs."""

SHORT = {
    "gt.layers": 1,
    "gnn.layers_mp": 1,
    "graphormer.num_layers": 1,
    "optim.max_epoch": 2,
    "optim.num_warmup_epochs": 0,
    "train.eval_period": 1,
    "run_multiple_splits": [],
    "accelerator": "cpu",
    "print": "file",
}


CASES: dict[str, TrainingCase] = declared("TRAINING_CASES")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if case.slow else ()) for name, case in CASES.items()]
)
def test_two_epochs(
    name: str,
    tmp_path: Path,
    data_root: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    case, data = CASES[name], tmp_path / "data"
    monkeypatch.setenv("GRAPHBENCH_DATA", str(data_root) if case.real else "")
    monkeypatch.setenv("GRAPHBENCH_CACHE", str(shared_cache(tmp_path_factory) if case.real else tmp_path / "cache"))
    if case.real is not None and not (data_root / case.real).is_dir():
        pytest.skip(f"no {case.real} in {data_root}")
    if case.write is not None:
        data.mkdir()
        case.write(data)
        check = DatasetCard.check  # columns and classes, but not how much there is
        monkeypatch.setattr(DatasetCard, "check", lambda card, *rest: check(card.replace(statistics={}), *rest))
    for module, attribute, value in case.replaced:
        monkeypatch.setattr(module, attribute, value)
    monkeypatch.setattr(run_inputs, "build_splits", partial(_few_graphs, build_splits))
    changed = SHORT | {"dataset.dir": data, "out_dir": tmp_path / "results"} | dict(case.overrides)
    overrides = [str(word).replace("{data}", str(data)) for pair in changed.items() for word in pair]
    assert run(load_config(ROOT / "configs" / case.config, overrides)) is not None
    (record,) = (tmp_path / "results").glob("*/*/record.json")
    content = json.loads(record.read_text())
    assert content["status"] == "finished"
    again = load_config(record.parent / "config.yaml")  # the run's own: the same data, split and settings
    made = run_inputs.run_inputs(again, read_data(again), planned_runs(again, 1)[0])
    assert (again.hash, made.identity.inputs) == (content["config_hash"], content["inputs"])
    epochs = [json.loads(line) for line in (record.parent / "val/stats.json").read_text().splitlines()]
    assert [epoch["epoch"] for epoch in epochs] == [0, 1]
    assert all(isinstance(epoch["loss"], float) for epoch in epochs)


def test_every_format_of_the_shipped_configurations_is_trained_on() -> None:
    def formats(files: Iterable[Path]) -> set[str]:
        configs = [load_config(file) for file in files]
        return {config.tree.dataset.format for config in configs if config.is_set("dataset.format")}

    shipped = formats((ROOT / "configs/_base_/data").glob("*.yaml"))
    assert len(shipped) > 10
    assert shipped <= formats(ROOT / "configs" / case.config for case in CASES.values())


def _few_graphs(splits: Callable[..., Splits], config: Any, loaded: Any, *arguments: Any, **named: Any) -> Splits:
    whole = splits(config, loaded, *arguments, **named)
    return (
        whole
        if loaded.card.transductive
        else replace(whole, **{name: part[:GRAPHS] for name, part in whole.parts().items()})
    )
