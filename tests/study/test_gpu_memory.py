"""``study.findings.gpu_memory``: every model takes its step, a cell says what happened, and a GPU is needed."""

from __future__ import annotations

import json
import subprocess
import types

import pytest
import torch

from graphbench.structures import GraphBatch, Ragged
from study.findings import gpu_memory

SMALL = gpu_memory._Graph(nodes=300, edges=3000, features=5, classes=3)


@pytest.mark.parametrize("model", gpu_memory.MODELS)
def test_every_model_takes_a_step(model: str) -> None:
    assert gpu_memory.one_step(model, SMALL, torch.device("cpu")) > 0


def test_distances_are_there_without_a_search() -> None:
    batch = gpu_memory.with_distances(GraphBatch(ragged=Ragged.from_sizes([3]), edge_index=torch.zeros(2, 0).long()))
    assert batch.pairs is not None
    assert batch.pairs.distance.tolist() == [1] * 9
    assert batch.pairs.distance.dtype == torch.uint8


def test_without_a_gpu_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu_memory.main([]) == 2
    assert capsys.readouterr().err == "error: this measures the memory of a GPU, and PyTorch sees none here.\n"


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "init", lambda: None)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "a GPU")
    properties = types.SimpleNamespace(total_memory=80 * 2**30)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)


@pytest.mark.usefixtures("gpu")
def test_cells_become_a_table_and_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def run(command: list[str], **_: object) -> types.SimpleNamespace:
        model = command[-2]
        if model == "GPS":
            raise subprocess.TimeoutExpired(command, 1)
        out = {"SAN": '{"out_of_memory": true}', "GECO": '{"peak_mib": 1234.5}'}.get(model, "")
        return types.SimpleNamespace(returncode=int(not out), stdout=f"noise\n{out}\n", stderr="a\nwrong key")

    monkeypatch.setattr(gpu_memory.subprocess, "run", run)
    models = ["SAN", "GECO", "GPS", "Graphormer"]
    assert gpu_memory.main(["--models", *models, "--graphs", "Flickr"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:6] == [
        "| model | Flickr |",
        "|---|---|",
        "| SAN | out of memory |",
        "| GECO | 1,234 MiB |",
        "| GPS | error: not within 120 s |",
        "| Graphormer | error: wrong key |",
    ]
    found = {cell["model"]: cell.get("out_of_memory") for cell in json.loads(lines[-1])["cells"]}
    assert found == {"SAN": True, "GECO": False, "GPS": None, "Graphormer": None}


@pytest.mark.usefixtures("gpu")
def test_a_step_that_does_not_fit_is_a_result(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def step(*_: object) -> float:
        raise error

    monkeypatch.setattr(gpu_memory, "one_step", step)
    error: Exception = torch.OutOfMemoryError("CUDA out of memory.")
    assert gpu_memory.main(["--cell", "SAN", "Flickr"]) == 0
    assert json.loads(capsys.readouterr().out) == {"out_of_memory": True}
    error = ValueError("another")
    with pytest.raises(ValueError, match="another"):
        gpu_memory.main(["--cell", "SAN", "Flickr"])


@pytest.mark.usefixtures("gpu")
def test_a_name_that_nobody_knows(capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu_memory.main(["--graphs", "Flikr"]) == 2
    assert "command line: unknown name 'Flikr'. Did you mean 'Flickr'?" in capsys.readouterr().err
