"""``plots.py scaling``: points are measured in processes of their own, kept, fitted, not mixed with others."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import math
import shutil
import subprocess
import sys
import types
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("matplotlib")

from graphbench.plots import canvas, scaling, scaling_points, training_step
from graphbench.plots.cli import main as plots
from graphbench.plots.scaling_points import Measurements, Point, measure_missing

SETTINGS = {"degree": 4.0, "width": 16, "steps": 1}
ARGUMENTS = ["scaling", "--degree", "4", "--width", "16", "--steps", "1"]


def _curve(model: str, sizes: list[int], power: float, seconds: float = 1e-5) -> list[Point]:
    return [Point(model, n, 10 * n, seconds * n**power, 3e-3 * n, 3) for n in sizes]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SGFormer at two sizes; softmax attention at one, because no step is as short as its budget.

    The first in a process of its own, the others, to save its start, in this one.
    """
    path = tmp_path_factory.mktemp("scaling") / "figure.json"
    measure_missing(path, ["sgformer"], [256], budget=60.0, **SETTINGS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scaling_points.subprocess, "run", _run_here)
        measure_missing(path, ["sgformer"], [256, 512], budget=60.0, **SETTINGS)
        measure_missing(path, ["softmax"], [256, 512], budget=1e-6, **SETTINGS)
    return path


_run = subprocess.run


def _run_here(command: list[str], **options: Any) -> Any:
    """``python -m graphbench.plots.training_step ARGUMENTS`` in this process; git in its own."""
    if command[0] != sys.executable:
        return _run(command, **options)
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.chdir(options["cwd"]):
        training_step.main(command[3:])
    return types.SimpleNamespace(returncode=0, stdout=out.getvalue(), stderr="")


@pytest.mark.slow
def test_every_point_is_measured_and_kept(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = Measurements.read(file)
    assert [(point.model, point.nodes) for point in measured.all_points] == [
        ("sgformer", 256),
        ("sgformer", 512),
        ("softmax", 256),
    ]
    for point in measured.all_points:
        assert abs(point.edges - 4 * point.nodes) < 10 * (4 * point.nodes) ** 0.5
        assert point.seconds > 0
        assert point.steps == 1
    assert measured.all_points[0].peak_mib > 0  # later ones have memory that the test session had already
    assert set(measured.stopped) == {"softmax"}
    assert "--budget is 1e-06 s" in measured.stopped["softmax"]
    assert measured.environment["torch"]
    monkeypatch.setattr(scaling_points.subprocess, "run", lambda *_, **__: pytest.fail("measured again"))
    again = measure_missing(file, ["softmax", "sgformer"], [256, 512], budget=1e-6, **SETTINGS)
    assert again.all_points == measured.all_points


def test_the_figure_shows_measured_points_filled_and_others_hollow(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(file, tmp_path / "again.json")
    sizes = ["--sizes", "256", "512", "--budget", "1e-6"]
    assert plots([*ARGUMENTS, *sizes, "--out", str(tmp_path / "again.png")]) == 0
    printed = capsys.readouterr().out
    assert (tmp_path / "again.png").stat().st_size > 10_000
    assert "| SGFormer | 512 | " in printed
    assert "| softmax attention | 256 | " in printed
    assert "| softmax attention | 512 | " not in printed, "one point has no slope"
    assert "SGFormer: time ~ N^" in printed
    assert "softmax attention: time" not in printed

    points = [*_curve("sgformer", [100, 200, 400, 800], 1.0), *_curve("softmax", [100, 200], 2.0)]
    measured = Measurements({}, {}, "2026-11-22", points, {"softmax": "too slow"})
    with canvas.style():
        time, memory = scaling.draw(measured, ["sgformer", "softmax"], [100, 200, 400, 800], 200).axes
    assert (time.get_xscale(), time.get_yscale(), memory.get_yscale()) == ("log", "log", "log")
    filled = {tuple(line.get_xdata()) for line in time.lines if line.get_markerfacecolor() != "white"}
    hollow = {tuple(line.get_xdata()) for line in time.lines if line.get_markerfacecolor() == "white"}
    assert {(100, 200, 400, 800), (100, 200)} <= filled
    assert (400, 800) in hollow
    assert not any(line.get_markerfacecolor() == "white" for line in memory.lines), "memory is not extrapolated"
    legend = [text.get_text() for text in time.get_legend().get_texts()]
    assert legend == ["SGFormer, $N^{1.00}$", "softmax attention, $N^{2.00}$", "extrapolated"]
    table = scaling.table(measured, ["sgformer", "softmax"], [100, 200, 400, 800], 200)
    assert "| softmax attention | 800 | | (6.4) | | extrapolated |" in table
    assert "softmax attention: not measured beyond 200 nodes: too slow" in table


def test_an_axis_within_a_decade_has_numbers() -> None:
    points = [Point("sgformer", nodes, 10 * nodes, 1e-5 * nodes, mib, 3) for nodes, mib in ((200, 26.0), (400, 33.0))]
    with canvas.style():
        figure = scaling.draw(Measurements({}, {}, "2026-11-22", points, {}), ["sgformer"], [200, 400], 200)
        figure.draw_without_rendering()
    for axis in (figure.axes[0].xaxis, figure.axes[1].yaxis):
        low, high = axis.get_view_interval()
        ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
        assert any(tick.label1.get_text() for tick in ticks if low <= tick.get_loc() <= high)


def test_exponents_come_from_large_measured_points() -> None:
    points = [Point("m", n, 0, 1.0 + n / 1e3, 5.0 + n, 1) for n in (10, 100_000, 200_000, 400_000)]
    power, first = scaling.exponent(points, "seconds", 100_000)
    assert first == 100_000
    expected = np.polyfit(np.log([1e5, 2e5, 4e5]), np.log([101, 201, 401]), 1)[0]
    assert power == pytest.approx(expected, abs=1e-12)
    assert scaling.exponent(points, "seconds", 200_000)[1] == 10, "two points are too few to leave the others out"
    assert scaling.exponent(points[:1], "seconds", 10) is None
    assert scaling.extrapolated(points, [400_000]) == {}
    beyond = scaling.extrapolated(_curve("m", [10, 20, 40], 2.0), [40, 80, 160])
    assert beyond == pytest.approx({80: 1e-5 * 80**2, 160: 1e-5 * 160**2})


def test_what_would_take_too_long_or_too_much_memory_is_not_tried() -> None:
    points = _curve("m", [1000, 2000], 2.0)
    too_large = functools.partial(scaling_points._too_large, free=1000.0)
    assert too_large(points, 4000, 200.0) is None
    assert "at 4,000 nodes would take about 160 s, --budget is 100 s" in too_large(points, 4000, 100.0)
    assert too_large(points[:1], 2000, 41.0) is None, "of one point at most a square is known"
    assert too_large(points[:1], 2000, 39.0) is not None
    assert too_large([], 10**9, 1.0) is None
    greedy = [replace(point, seconds=1.0, peak_mib=0.25 * point.nodes) for point in points]
    assert too_large(greedy, 3000, 1e9) is None
    assert "would take about 1,000 MiB, free are 1,000 MiB" in too_large(greedy, 4000, 1e9)


def test_a_larger_budget_goes_on_where_a_smaller_one_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def measure(model: str, nodes: int, *_: float) -> tuple[Point, None]:
        asked.append(nodes)
        return _curve(model, [nodes], 2.0)[0], None

    monkeypatch.setattr(scaling_points, "_measure", measure)
    sizes = [1000, 2000, 4000, 8000]
    first = measure_missing(tmp_path / "f.json", ["softmax"], sizes, budget=50.0, **SETTINGS)
    assert asked == [1000, 2000]
    assert list(first.stopped) == ["softmax"]
    measure_missing(tmp_path / "f.json", ["softmax"], sizes, budget=45.0, **SETTINGS)
    assert asked == [1000, 2000]
    found = measure_missing(tmp_path / "f.json", ["softmax"], sizes, budget=200.0, **SETTINGS)
    assert asked == [1000, 2000, 4000]
    replace(found, stopped={"softmax": f"{scaling_points._ENDED} 9"}, all_points=found.all_points[:2]).write(
        tmp_path / "f.json"
    )
    measure_missing(tmp_path / "f.json", ["softmax"], sizes, budget=200.0, **SETTINGS)
    assert asked == [1000, 2000, 4000, 4000], "what was killed is tried again"


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """A GPU of 80 GiB whose processes hold 4 bytes per pair of nodes ("dense") or 1 KiB per node; their commands."""
    commands: list[list[str]] = []

    def run(command: list[str], **_: object) -> types.SimpleNamespace:
        commands.append(command)
        nodes = int(command[command.index("dataset.ErdosRenyi.nodes") + 1])
        limit = float(command[command.index("--memory_limit") + 1]) if "--memory_limit" in command else 80.0
        mib = nodes * (4 * nodes if "--whole_matrix" in command else 1024) / 2**20
        if mib > limit * 1024:
            return types.SimpleNamespace(
                returncode=training_step.OUT_OF_MEMORY, stdout="", stderr="out of memory: CUDA"
            )
        point = {"nodes": nodes, "edges": 4 * nodes, "seconds": 1e-6 * nodes, "peak_mib": mib, "steps": 1}
        return types.SimpleNamespace(returncode=0, stdout=json.dumps(point), stderr="")

    monkeypatch.setattr(scaling_points.subprocess, "run", run)
    facts = dict.fromkeys([*scaling_points._MACHINE_KEYS, "git_commit", "git_dirty"])
    monkeypatch.setattr(scaling_points, "environment", lambda _: facts | {"gpu": "a GPU", "packages": {}})
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    properties = types.SimpleNamespace(total_memory=80 * 2**30)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    return commands


@pytest.mark.slow
def test_on_a_gpu_sizes_are_tried_until_one_does_not_fit(
    gpu: list[list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scaling_points.psutil, "virtual_memory", lambda: pytest.fail("asked for the host's memory"))
    asked = [*ARGUMENTS, "--sizes", "10000", "40000", "80000", "160000", "--models", "sgformer", "dense"]
    file = tmp_path / "limited.json"
    assert plots([*asked, "--memory_limit", "16", "--out", str(file.with_suffix(".png"))]) == 0
    found = Measurements.read(file)
    assert [(point.model, point.nodes) for point in found.all_points if point.model == "dense"] == [
        ("dense", 10_000),
        ("dense", 40_000),
    ]
    assert found.out_of_memory == {"sgformer": math.inf, "dense": 80_000}
    assert found.settings["memory limit in GiB"] == 16.0
    held = "dense softmax attention: not measured beyond 40,000 nodes: out of memory at 80,000 nodes"
    assert f"{held}, with a limit of 16 GiB" in capsys.readouterr().out
    assert {("--whole_matrix" in command) for command in gpu if "GCN+SGFormer" in command} == {False}

    count = len(gpu)
    assert plots([*asked, "--memory_limit", "16", "--budget", "200", "--out", str(file.with_suffix(".png"))]) == 0
    assert len(gpu) == count, "a longer time gives no more memory"
    assert plots([*asked, "--out", str(tmp_path / "whole.png")]) == 0
    assert Measurements.read(tmp_path / "whole.json").out_of_memory["dense"] == 160_000
    assert "out of memory at 160,000 nodes\n" in capsys.readouterr().out, "no limit"
    first = ["--sizes", "160000", "--models", "dense", "--out", str(tmp_path / "first.png")]
    assert plots([*ARGUMENTS, *first]) == 0
    assert "dense softmax attention: not measured at all: out of memory at" in capsys.readouterr().out


def test_a_limit_that_cannot_be(gpu: list[list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def refused(limit: str) -> str:
        assert plots([*ARGUMENTS, "--memory_limit", limit, "--out", str(tmp_path / "a.png")]) == 2
        assert not gpu
        return capsys.readouterr().err

    assert "--memory_limit must be above 0 and at most 80.0 (GiB), received 81" in refused("81")
    assert "received -1" in refused("-1")


def test_a_limit_without_a_gpu(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert plots([*ARGUMENTS, "--memory_limit", "16", "--out", str(tmp_path / "a.png")]) == 2
    assert "--memory_limit is for a GPU, and PyTorch sees none here" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="memory is limited on a GPU only, and the device is cpu"):
        training_step.limit_memory(torch.device("cpu"), 16.0)


def test_the_limit_is_a_fraction_of_the_gpu(gpu: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    fractions = []
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", lambda fraction, _: fractions.append(fraction))
    training_step.limit_memory(torch.device("cuda"), 16.0)
    assert fractions == [0.2]
    with pytest.raises(SystemExit, match=r"the GPU has 80\.0 GiB, and the limit is 90 GiB"):
        training_step.limit_memory(torch.device("cuda"), 90.0)


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA out of memory. Tried\nmore"), MemoryError("no")])
def test_a_process_without_enough_memory_says_so(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure(*_: object) -> None:
        raise error

    monkeypatch.setattr(training_step, "measure", measure)
    with pytest.raises(SystemExit) as ended:
        training_step.main(["1", "1.0", "a.yaml", "gt.layers", "1"])
    assert ended.value.code == training_step.OUT_OF_MEMORY
    assert capsys.readouterr().err.splitlines()[-1].startswith("out of memory: ")
    error = ValueError("something else")
    with pytest.raises(ValueError, match="something else"):
        training_step.main(["1", "1.0", "a.yaml"])


def test_dense_attention_holds_its_weights() -> None:
    """What autograd keeps of it has N x N numbers; the fused kernel's has none."""
    largest = []
    for inside in (training_step.whole_matrix(), contextlib.nullcontext()):
        rows = [torch.randn(1, 1, 600, 8, requires_grad=True) for _ in range(3)]
        kept: list[int] = []
        save = torch.autograd.graph.saved_tensors_hooks(lambda x, kept=kept: kept.append(x.numel()) or x, lambda x: x)
        with inside, save:
            F.scaled_dot_product_attention(*rows)
        largest.append(max(kept))
    assert largest[0] == 600 * 600
    assert largest[1] < 600 * 600


@pytest.mark.slow
def test_a_size_that_fails_stops_its_model_only() -> None:
    """Chebyshev was never an attention: the process ends with the message of the configuration."""
    point, reason = scaling_points._measure("Chebyshev", 64, 4.0, 16, 10.0, 1, None)
    assert point is None
    assert "unknown name in gt.layer_type 'Chebyshev'" in reason


def test_what_scaling_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str], file: Path) -> None:
    def refused(*arguments: str) -> str:
        assert plots(["scaling", "--out", str(tmp_path / "a.png"), *arguments]) == 2
        return capsys.readouterr().err

    assert "unknown name in --models 'SGFormr'. Did you mean 'SGFormer'" in refused("--models", "SGFormr")
    assert "--sizes must be 16 or more and above --degree, received 4 and 10" in refused("--sizes", "4", "100")
    assert "--budget must be above 0, received -1" in refused("--budget", "-1")
    (tmp_path / "a.json").write_text("[]")
    assert "no measurements of this figure" in refused()
    shutil.copy(file, tmp_path / "a.json")
    assert "was measured with {'mean degree': 4.0, 'width': 16}, asked for is" in refused("--width", "32")
    content = json.loads(file.read_text())
    content["environment"]["cpu"] = "an abacus"
    (tmp_path / "a.json").write_text(json.dumps(content))
    message = refused("--degree", "4", "--width", "16", "--sizes", "1024")
    assert "points of two machines do not belong in one figure (cpu an abacus there" in message
    assert plots([*ARGUMENTS, "--models", "sgformer", "--sizes", "256", "512", "--out", str(tmp_path / "a.svg")]) == 0
