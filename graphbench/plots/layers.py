"""Score and time over the number of attention layers, with and without self-loop: Figures 4 and 5 of SGFormer.

One panel per data set, one line per attention; a point is the mean test score of the seeds of one configuration at
their best validation epochs, its bar their sample standard deviation. Below, unless ``--scores_only``: seconds per
epoch, evaluation included. Everything is read from the records of finished runs and their settings:
``gt.layers`` says where a point stands, the attention in ``gt.layer_type`` and its ``self_loop`` on which line. The
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

_WIDEST = 4
"""Panels beside each other."""

_LABELS = {"Transformer": "softmax attention"}
_SHIFT = 0.06
"""Between lines, in layers, so that their bars do not hide each other."""


@dataclass(frozen=True)
class Depth:
    """The runs of one configuration.

    Attributes:
        dataset: name of the data set.
        metric: the selecting one.
        line: attention, and whether it has no self-loop.
        layers: attention layers.
        scores: test metric of every run.
        seconds: per epoch of every run.
        config: name of the configuration.
    """

    dataset: str
    metric: str
    line: str
    layers: int
    scores: tuple[float, ...]
    seconds: tuple[float, ...]
    config: str


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    points.arguments(parser)
    parser.add_argument("--scores_only", action="store_true", help="no panels of time")


def make(options: argparse.Namespace) -> tuple[Figure, str]:
    """The figure and its name; prints all points.

    Raises:
        UserError: no finished run, or two configurations that stand for the same point.
    """
    found, left_out = points.read_points(options, read_depth, "a model with attention layers")
    points.refuse_twins(
        found,
        lambda each: (each.dataset, each.metric, each.line, each.layers),
        lambda each: f"{each.line} with {each.layers} layers on {each.dataset}",
    )
    found.sort(key=lambda each: (each.dataset, each.line, each.layers))
    print(table(found))
    if left_out:
        print(f"left out, without a finished run or without attention: {', '.join(map(str, left_out))}")
    return draw(found, times=not options.scores_only), "layers"


def read_depth(folder: Path) -> Depth | None:
    """What a folder of a configuration says; None where no run is finished or the model has no attention.

    Raises:
        UserError: the configuration is missing or damaged.
    """
    result = aggregate(folder)
    if not result.runs:
        return None
    settings = points.read_settings(folder, "gt.layer_type", "gt.layers")
    kind = str(settings["gt.layer_type"]).partition("+")[2]
    if kind in ("", "None"):
        return None
    line = _LABELS.get(kind, kind)
    if settings.get(f"gt.{kind}.self_loop") is False:
        line += " without self-loop"
    first = result.runs[0]
    return Depth(
        dataset=str(first.data["name"]),
        metric=str(first.metric),
        line=line,
        layers=int(settings["gt.layers"]),
        scores=tuple(score for each in result.runs if (score := each.score("test")) is not None),
        seconds=tuple(each.time_per_epoch for each in result.runs if each.time_per_epoch is not None),
        config=folder.resolve().name,
    )


def draw(found: Sequence[Depth], times: bool = True) -> Figure:
    """A column per data set: scores, and below them times."""
    datasets = list(dict.fromkeys((each.dataset, each.metric) for each in found))
    lines = list(dict.fromkeys(each.line for each in sorted(found, key=lambda each: each.line)))
    columns = min(len(datasets), _WIDEST)
    blocks = -(-len(datasets) // columns)
    kinds = ("scores", "seconds") if times else ("scores",)
    width = max(canvas.COLUMN, 1.75 * columns)
    heights = [1.7 if kind == "scores" else 1.2 for kind in kinds] * blocks
    figure = canvas.new_figure(width, sum(heights) + 0.5)
    grid = figure.subplots(len(heights), columns, squeeze=False, height_ratios=heights)
    for number in range(blocks * columns):
        top, column = number // columns * len(kinds), number % columns
        for below, kind in enumerate(kinds):
            axes = grid[top + below][column]
            if number >= len(datasets):
                axes.set_visible(False)
                continue
            dataset, metric = datasets[number]
            _panel(axes, [each for each in found if (each.dataset, each.metric) == (dataset, metric)], lines, kind)
            if kind == "scores":
                axes.set_title(dataset)
            if column == 0 or (kind == "scores" and metric != datasets[number - 1][1]):
                axes.set_ylabel(f"test {canvas.in_words(metric)}" if kind == "scores" else "s per epoch")
            if below == len(kinds) - 1:
                axes.set_xlabel("attention layers")
            else:
                axes.tick_params(labelbottom=False)
    points.legend(figure, lines, columns)
    return figure


def table(found: Iterable[Depth]) -> str:
    """Every point as Markdown."""
    names = ["data set", "attention", "layers", "metric", "test", "s/epoch", "runs", "configuration"]
    rows = []
    for each in found:
        seconds = f"{points.mean_and_spread(each.seconds)[0]:.3g}"
        score, runs = points.in_table(each.scores), len(each.scores)
        rows.append([each.dataset, each.line, each.layers, each.metric, score, seconds, runs, each.config])
    return points.markdown(names, rows)


def _panel(axes: Axes, found: Sequence[Depth], lines: Sequence[str], kind: str) -> None:
    for number, line in enumerate(lines):
        own = sorted((each for each in found if each.line == line), key=lambda each: each.layers)
        if not own:
            continue
        shift = (number - (len(lines) - 1) / 2) * _SHIFT
        means, spreads = zip(*(points.mean_and_spread(getattr(each, kind)) for each in own))
        axes.errorbar(
            [each.layers + shift for each in own], means, spreads, capsize=1.5, elinewidth=0.7, **points.looks(number)
        )
    axes.set_xticks(sorted({each.layers for each in found}))
    axes.margins(x=0.08)
    if kind == "seconds":
        axes.set_ylim(bottom=0)
