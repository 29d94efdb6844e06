"""What the profiler leaves behind, and that it changes nothing."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
import torch
from torch import nn

from graphbench.train.profiler import Profiler
from graphbench.train.step_parts import StepClock, each, layers_of, part, watch
from tests.train.tiny_run import TinyModel, tiny_loaders, tiny_settings, tiny_trainer


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(("steps", "epochs"), [(3, 8), (50, 4)], ids=["enough", "too few"])
def test_trace_and_table(tmp_path: Path, steps: int, epochs: int) -> None:
    model, settings = TinyModel(), tiny_settings(max_epoch=epochs)
    plain = tiny_trainer(tmp_path / "plain", settings, model=copy.deepcopy(model)).run()
    reporters = [Profiler(steps, model)]
    watched = tiny_trainer(tmp_path / "watched", settings, model=model, reporters=reporters).run()
    assert watched.scores == plain.scores
    folder = tmp_path / "watched" / "tiny" / "0" / "profile"
    trace = json.loads((folder / "trace.json").read_text())
    names = {event.get("name") for event in trace["traceEvents"]}
    assert "aten::addmm" in names or "aten::mm" in names
    assert {f"ProfilerStep#{step}" for step in (2, 3)} <= names
    assert {"forward", "backward", "optimiser", "00 first (Linear)"} <= names
    assert "Self CPU" in (folder / "operators.txt").read_text()
    lines = (folder / "parts.txt").read_text().splitlines()
    calls = {line[: line.index("  ", 4)].strip(): int(line.split()[-2]) for line in lines[1:]}
    layers = ["00 first (Linear)", "01 norm (BatchNorm1d)", "02 dropout (Dropout)", "03 last (Linear)"]
    assert list(calls) == ["data", "forward", *layers, "backward", "optimiser", "evaluation", "metrics"]
    steps_in_all = 5 * epochs
    assert calls["metrics"] == calls["evaluation"] == epochs
    assert {calls[name] for name in ("forward", *layers, "backward", "optimiser")} == {steps_in_all}
    assert calls["data"] == steps_in_all + epochs  # asking behind the last batch of an epoch
    with part("forward"):  # nobody watches any more
        model(tiny_loaders().train(0).__next__()[0])
    assert (folder / "parts.txt").read_text().splitlines() == lines


def test_layers_of_lists_are_told_apart_and_shares_are_of_the_parts() -> None:
    model = nn.ModuleDict({"encoder": nn.Linear(2, 2), "layers": nn.ModuleList([nn.ReLU(), nn.Tanh()])})
    found = [name for name, _ in layers_of(model)]
    assert found == ["00 encoder (Linear)", "01 layers.0 (ReLU)", "02 layers.1 (Tanh)"]
    clock = StepClock(torch.device("cpu"), model)
    stop = watch(clock)
    with part("forward"):
        model["encoder"](torch.ones(1, 2))
    assert list(each("data", [1, 2])) == [1, 2]
    stop()
    clock.seconds = {"forward": 3.0, "00 encoder (Linear)": 1.0, "data": 1.0}
    shares = {line.split("  ")[0] or line.split("  ")[1]: line for line in clock.table().splitlines()[1:]}
    assert "75.0%" in shares["forward"]
    assert "25.0%" in shares["00 encoder (Linear)"]
    assert clock.calls == {"forward": 1, "00 encoder (Linear)": 1, "data": 3}
