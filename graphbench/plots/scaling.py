"""Time and memory of a training step over the number of nodes: Figure 3 of SGFormer.

Random graphs of one mean degree, the whole graph in every step; each point is measured in a process of its own. A JSON
file next to the figure keeps what was measured: drawing again measures only what is missing there, and a run that was
interrupted goes on. A model is measured up to the size whose step is expected to take longer than ``--budget``, or
more memory than is free (on a GPU: to the size that runs out of it, which ``--memory_limit`` brings nearer); beyond it,
times are extrapolated from the last points and drawn hollow, memory is not.
Exponents p of time ~ N^p and memory ~ N^p are least-squares fits in logarithms over measured points only, those from
``--fit_from`` nodes where a model has three of them.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from graphbench.plots import canvas
from graphbench.plots.scaling_points import MODELS, QUANTITIES, Measurements, Point, measure_missing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZES = (10_000, 20_000, 40_000, 60_000, 80_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000)
_LABELS = {"seconds": "seconds per training step", "peak_mib": "peak memory (MiB)"}
_TAIL = 3
"""Measured points from whose slope larger ones are extrapolated."""

_HOLLOW: dict[str, Any] = {"marker": "o", "markersize": 3, "markerfacecolor": "white"}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the figure."""
    known, default = ", ".join(MODELS), ["sgformer", "softmax"]
    parser.add_argument(
        "--models", nargs="+", default=default, metavar="MODEL",
        help=f"{known}, or the name of an attention; default: {' '.join(default)}",
    )  # fmt: skip
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES), metavar="N", help="numbers of nodes")
    parser.add_argument("--degree", type=float, default=10.0, help="mean degree of the graphs; default: 10")
    parser.add_argument("--width", type=int, default=32, help="of the model; default: 32 (2 million nodes: 15 GiB)")
    parser.add_argument("--budget", type=float, default=100.0, help="seconds that a step may take; default: 100")
    parser.add_argument("--steps", type=int, default=5, help="per point, after a first; the median counts; default: 5")
    parser.add_argument("--memory_limit", type=float, metavar="GIB", help="that PyTorch may take on the GPU")
    parser.add_argument("--fit_from", type=int, default=100_000, metavar="N", help="default: 100000")


def make(options: argparse.Namespace) -> tuple[Figure, str]:
    """The figure and its name; prints all points and the exponents.

    Raises:
        UserError: an unknown model, impossible numbers, or a file next to the figure that holds something else.
    """
    out = options.out or Path("results", "figures", "scaling.png")
    measured = measure_missing(
        out.with_suffix(".json"),
        options.models,
        sorted(set(options.sizes)),
        degree=options.degree,
        width=options.width,
        budget=options.budget,
        steps=options.steps,
        memory_limit=options.memory_limit,
    )
    print(table(measured, options.models, options.sizes, options.fit_from))
    return draw(measured, options.models, options.sizes, options.fit_from), "scaling"


def exponent(points: Sequence[Point], quantity: str, fit_from: int) -> tuple[float, int] | None:
    """The fitted exponent and the number of nodes from which points were taken; None for fewer than two points."""
    large = [point for point in points if point.nodes >= fit_from]
    chosen = large if len(large) >= _TAIL else list(points)
    return (_slope(chosen, quantity), chosen[0].nodes) if len(chosen) > 1 else None


def extrapolated(points: Sequence[Point], sizes: Sequence[int]) -> dict[int, float]:
    """Sizes beyond the last measured one, and the seconds that the slope of the last points gives there."""
    if len(points) < 2:
        return {}
    last, slope = points[-1], _slope(points[-_TAIL:], "seconds")
    return {size: last.seconds * (size / last.nodes) ** slope for size in sorted(set(sizes)) if size > last.nodes}


def draw(measured: Measurements, models: Sequence[str], sizes: Sequence[int], fit_from: int) -> Figure:
    """Two panels, time and memory; filled dots are measured, hollow ones extrapolated."""
    figure = canvas.new_figure(2 * canvas.COLUMN, 2.6)
    for axes, quantity in zip(figure.subplots(1, 2), QUANTITIES, strict=True):
        hollow = False
        for number, model in enumerate(models):
            hollow |= _curve(axes, measured.points(model, sizes), model, number, sizes, quantity, fit_from)
        if hollow:
            axes.plot([], [], color="0.4", linestyle=":", label="extrapolated", **_HOLLOW)
        axes.set(xscale="log", yscale="log", xlabel="nodes", ylabel=_LABELS[quantity])
        for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            if high >= 10 * low:  # over a decade "6 x 10^2" and its like would fill the axis
                axis.set_minor_formatter("")
        axes.grid(color="0.9", linewidth=0.5)
        if axes.lines:  # none where no model could be measured
            axes.legend(frameon=False, handlelength=2.6)
    return figure


def table(measured: Measurements, models: Sequence[str], sizes: Sequence[int], fit_from: int) -> str:
    """Every point as Markdown, then exponents, the reason why a model stopped, and what it was measured on."""
    lines = ["| model | nodes | edges | seconds per step | peak MiB | |", "|---|---|---|---|---|---|"]
    notes = []
    for model in models:
        points = measured.points(model, sizes)
        for point in points:
            row = f"{point.nodes:,} | {point.edges:,} | {point.seconds:.3g} | {point.peak_mib:.0f} | measured"
            lines.append(f"| {_label(model)} | {row}, {point.steps} steps |")
        for size, seconds in extrapolated(points, sizes).items():
            lines.append(f"| {_label(model)} | {size:,} | | ({seconds:.3g}) | | extrapolated |")
        for quantity in QUANTITIES:
            fit = exponent(points, quantity, fit_from)
            if fit is not None:
                what = {"seconds": "time", "peak_mib": "memory"}[quantity]
                notes.append(f"{_label(model)}: {what} ~ N^{fit[0]:.2f}, measured points from {fit[1]:,} nodes")
        if model in measured.stopped and (not points or points[-1].nodes < max(sizes)):
            extent = f"beyond {points[-1].nodes:,} nodes" if points else "at all"
            notes.append(f"{_label(model)}: not measured {extent}: {measured.stopped[model]}")
    facts = measured.environment
    machine = facts.get("gpu") or f"{facts.get('cpu')}, {facts.get('threads')} thread(s)"
    settings = ", ".join(f"{name} {value}" for name, value in measured.settings.items())
    notes.append(f"{machine}; torch {facts.get('torch')}; commit {facts.get('commit')}; {settings}; {measured.date}")
    return "\n".join([*lines, "", *notes])


def _curve(
    axes: Axes,
    points: Sequence[Point],
    model: str,
    number: int,
    sizes: Sequence[int],
    quantity: str,
    fit_from: int,
) -> bool:
    """One model in one panel; True if part of it is extrapolated."""
    if not points:
        return False
    style = canvas.line_style(number)
    fit = exponent(points, quantity, fit_from)
    label = _label(model) + ("" if fit is None else f", $N^{{{fit[0]:.2f}}}$")
    nodes, values = [point.nodes for point in points], [point.value(quantity) for point in points]
    axes.plot(nodes, values, marker="o", markersize=3, label=label, zorder=3, **style)
    beyond = extrapolated(points, sizes) if quantity == "seconds" else {}
    if beyond:
        path = {nodes[-1]: values[-1], **beyond}
        axes.plot(*zip(*path.items()), color=style["color"], linestyle=":", linewidth=0.8, zorder=1)
        axes.plot(*zip(*beyond.items()), color=style["color"], linestyle="", zorder=2, **_HOLLOW)
    return bool(beyond)


def _slope(points: Sequence[Point], quantity: str) -> float:
    """Slope of the logarithms."""
    values = [max(point.value(quantity), 1e-9) for point in points]
    return float(np.polyfit(np.log([point.nodes for point in points]), np.log(values), 1)[0])


def _label(model: str) -> str:
    return MODELS[model].label if model in MODELS else model
