"""Score and time over the number of attention layers, with and without self-loop: Figures 4 and 5 of SGFormer.

One panel per data set, one line per attention; a point is the mean test score of the seeds of one configuration at
their best validation epochs, its bar their sample standard deviation. Below, unless ``--scores_only``: seconds per
epoch, evaluation included. Everything is read from the records of finished runs and their settings:
``gt.layers`` is the coordinate of a point, the attention in ``gt.layer_type`` and its ``self_loop`` are its line. The
published curves have no printed numbers; none are drawn.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from graphbench.plots import canvas, points
from graphbench.runs.aggregate import aggregate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MAX_COLUMNS = 4
"""Panels per row."""

_LABELS = {"Transformer": "softmax attention"}
_SHIFT = 0.06
"""Between lines, in layers, so that their bars do not hide each other."""
_ROOM = 0.5
"""Beside the first and the last number of layers."""


@dataclass(frozen=True)
class Depth:
    """The runs of one configuration.

    Attributes:
        dataset: name of the data set.
        metric: the selecting one.
        line: attention, and whether it has no self-loop.
        layers: attention layers.
        scores: test metric of every run.
        seconds: seconds per epoch of every run.
        config: name of the configuration.
    """

    dataset: str
    metric: str
    line: str
    layers: int
    scores: tuple[float, ...]
    seconds: tuple[float, ...]
    config: str

    def values(self, quantity: str) -> tuple[float, ...]:
        """Values of every run: ``scores`` or ``seconds``."""
        return {"scores": self.scores, "seconds": self.seconds}[quantity]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the figure."""
    points.arguments(parser)
    parser.add_argument("--scores_only", action="store_true", help="no panels of time")


def make(options: argparse.Namespace) -> tuple[Figure, str]:
    """The figure and its name; prints all points.

    Raises:
        UserError: no finished run, or two configurations that stand for the same point.
    """
    depths, left_out = points.read_points(options, read_depth, "a model with attention layers")
    points.refuse_duplicates(
        depths, lambda depth: f"{depth.line} with {depth.layers} layers on {depth.dataset} ({depth.metric})"
    )
    depths.sort(key=lambda depth: (depth.dataset, depth.line, depth.layers))
    print(table(depths))
    if left_out:
        print(f"left out, without a finished run or without attention: {', '.join(map(str, left_out))}")
    return draw(depths, times=not options.scores_only), "layers"


def read_depth(folder: Path) -> Depth | None:
    """Point of a configuration; None where no run is finished or the model has no attention.

    Raises:
        UserError: its settings are missing or damaged.
    """
    result = aggregate(folder)
    if not result.runs:
        return None
    settings = points.read_settings(folder, "gt.layer_type", "gt.layers")
    attention = str(settings["gt.layer_type"]).partition("+")[2]
    if attention in ("", "None"):
        return None
    line = _LABELS.get(attention, attention)
    if settings.get(f"gt.{attention}.self_loop") is False:
        line += " without self-loop"
    first = result.runs[0]
    return Depth(
        dataset=str(first.data.name),
        metric=str(first.metric),
        line=line,
        layers=int(settings["gt.layers"]),
        scores=points.test_scores(result),
        seconds=tuple(run.time_per_epoch for run in result.runs if run.time_per_epoch is not None),
        config=folder.resolve().name,
    )


def draw(depths: Sequence[Depth], times: bool = True) -> Figure:
    """A column per data set: scores, and below them times."""
    datasets = list(dict.fromkeys((depth.dataset, depth.metric) for depth in depths))
    lines = sorted({depth.line for depth in depths})
    columns = min(len(datasets), _MAX_COLUMNS)
    blocks = -(-len(datasets) // columns)
    quantities = ("scores", "seconds") if times else ("scores",)
    width = max(canvas.COLUMN, 1.75 * columns)
    heights = [1.7 if quantity == "scores" else 1.2 for quantity in quantities] * blocks
    figure = canvas.new_figure(width, sum(heights) + 0.5)
    grid = figure.subplots(len(heights), columns, squeeze=False, height_ratios=heights)
    for number in range(blocks * columns):
        top, column = number // columns * len(quantities), number % columns
        for below, quantity in enumerate(quantities):
            axes = grid[top + below][column]
            if number >= len(datasets):
                axes.set_visible(False)
                continue
            dataset, metric = datasets[number]
            members = [depth for depth in depths if (depth.dataset, depth.metric) == (dataset, metric)]
            _draw_panel(axes, members, lines, quantity)
            if quantity == "scores":
                axes.set_title(dataset)
            if column == 0 or (quantity == "scores" and metric != datasets[number - 1][1]):
                axes.set_ylabel(f"test {canvas.metric_name(metric)}" if quantity == "scores" else "s per epoch")
            if below == len(quantities) - 1:
                axes.set_xlabel("attention layers")
            else:
                axes.tick_params(labelbottom=False)
    points.legend(figure, lines, columns)
    return figure


def table(depths: Iterable[Depth]) -> str:
    """Every point as Markdown."""
    names = ["data set", "attention", "layers", "metric", "test", "s/epoch", "runs", "configuration"]
    rows = []
    for depth in depths:
        seconds = f"{points.mean_and_spread(depth.seconds)[0]:.3g}"
        score, runs = points.mean_text(depth.scores), len(depth.scores)
        rows.append([depth.dataset, depth.line, depth.layers, depth.metric, score, seconds, runs, depth.config])
    return canvas.markdown(names, rows)


def _draw_panel(axes: Axes, depths: Sequence[Depth], lines: Sequence[str], quantity: str) -> None:
    for number, line in enumerate(lines):
        of_line = sorted((depth for depth in depths if depth.line == line), key=lambda depth: depth.layers)
        if not of_line:
            continue
        shift = (number - (len(lines) - 1) / 2) * _SHIFT
        xs = [depth.layers + shift for depth in of_line]
        means, spreads = zip(*(points.mean_and_spread(depth.values(quantity)) for depth in of_line))
        axes.errorbar(xs, means, spreads, capsize=1.5, elinewidth=0.7, **points.marked_line(number))
    layers = sorted({depth.layers for depth in depths})
    axes.set_xticks(layers)
    axes.set_xlim(layers[0] - _ROOM, layers[-1] + _ROOM)
    if quantity == "seconds":
        axes.set_ylim(bottom=0)
