"""``plots.py scaling``: points are measured in processes of their own, kept, fitted, not mixed with others."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from scripts.plots import main as plots
from scripts.plotting import canvas, scaling, scaling_points
from scripts.plotting.scaling_points import Measurements, Point, measure_missing

SETTINGS = {"degree": 4.0, "width": 16, "steps": 1}
ARGUMENTS = ["scaling", "--degree", "4", "--width", "16", "--steps", "1"]


def _curve(model: str, sizes: list[int], power: float, seconds: float = 1e-5) -> list[Point]:
    return [Point(model, n, 10 * n, seconds * n**power, 3e-3 * n, 3) for n in sizes]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SGFormer at two sizes; softmax attention at one, because no step is as short as its budget."""
    path = tmp_path_factory.mktemp("scaling") / "figure.json"
    measure_missing(path, ["sgformer"], [256, 512], budget=60.0, **SETTINGS)
    measure_missing(path, ["softmax"], [256, 512], budget=1e-6, **SETTINGS)
    return path


def test_every_point_is_measured_and_kept(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Measurements.read(file)
    assert [(each.model, each.nodes) for each in found.all_points] == [
        ("sgformer", 256),
        ("sgformer", 512),
        ("softmax", 256),
    ]
    for each in found.all_points:
        assert abs(each.edges - 4 * each.nodes) < 10 * (4 * each.nodes) ** 0.5
        assert each.seconds > 0
        assert each.peak_mib > 0
        assert each.steps == 1
    assert set(found.stopped) == {"softmax"}
    assert "--budget is 1e-06 s" in found.stopped["softmax"]
    assert found.environment["torch"]
    monkeypatch.setattr(scaling_points.subprocess, "run", lambda *_, **__: pytest.fail("measured again"))
    again = measure_missing(file, ["softmax", "sgformer"], [256, 512], budget=1e-6, **SETTINGS)
    assert again.all_points == found.all_points


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


def test_what_would_take_too_long_or_too_much_memory_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    points = _curve("m", [1000, 2000], 2.0)
    assert scaling_points._too_large(points, 4000, 200.0) is None
    assert "at 4,000 nodes would take about 160 s, --budget is 100 s" in scaling_points._too_large(points, 4000, 100.0)
    assert scaling_points._too_large(points[:1], 2000, 41.0) is None, "of one point at most a square is known"
    assert scaling_points._too_large(points[:1], 2000, 39.0) is not None
    assert scaling_points._too_large([], 10**9, 1.0) is None
    greedy = [replace(each, seconds=1.0, peak_mib=2.0**10 * each.nodes) for each in points]
    assert "MiB, free are" in scaling_points._too_large(greedy, 10**7, 1e9)


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


@pytest.mark.slow
def test_a_size_that_fails_stops_its_model_only() -> None:
    """Chebyshev was never an attention: the process ends with the message of the configuration."""
    point, why = scaling_points._measure("Chebyshev", 64, 4.0, 16, 10.0, 1)
    assert point is None
    assert "unknown name in gt.layer_type 'Chebyshev'" in why


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
