"""Score and time over the number of attention layers, with and without self-loop: Figures 4 and 5 of SGFormer.

One panel per data set, one line per attention; a point is the mean test score of the seeds of one configuration at
their best validation epochs, its bar their sample standard deviation. Below, unless ``--scores_only``: seconds per
epoch, evaluation included. Everything is read from the records of finished runs and the configuration beside them:
``gt.layers`` says where a point stands, the attention in ``gt.layer_type`` and its ``self_loop`` on which line. The
published curves have no printed numbers; none are drawn.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from graphbench.errors import UserError
from graphbench.results.aggregate import aggregate
from scripts.plotting import canvas

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
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN_DIR", help="results/<config>, with all its seeds")
    parser.add_argument("--sweep", type=Path, metavar="FILE", help="take the entries of a file of configs/sweeps")
    parser.add_argument("--records", type=Path, metavar="DIR", help="where they lie; without --sweep: take all in it")
    parser.add_argument("--scores_only", action="store_true", help="no panels of time")


def make(options: argparse.Namespace) -> tuple[Figure, str]:
    """The figure and its name; prints all points.

    Raises:
        UserError: no finished run, or two configurations that stand for the same point.
    """
    folders = [*options.runs, *of_sweep(options.sweep, options.records)]
    if not folders:
        raise UserError("no runs: name folders of configurations, --sweep FILE, or a folder of folders as --records.")
    read = {folder: read_depth(folder) for folder in folders}
    found = [each for each in read.values() if each is not None]
    left_out = ", ".join(str(folder) for folder, each in read.items() if each is None)
    if not found:
        raise UserError(f"no finished run of a model with attention layers in {left_out}.")
    _refuse_twins(found)
    found.sort(key=lambda each: (each.dataset, each.line, each.layers))
    print(table(found))
    if left_out:
        print(f"left out, without a finished run or without attention: {left_out}")
    return draw(found, times=not options.scores_only), "layers"


def read_depth(folder: Path) -> Depth | None:
    """What a folder of a configuration says; None where no run is finished or the model has no attention.

    Raises:
        UserError: the configuration is missing or damaged.
    """
    result = aggregate(folder)
    if not result.runs:
        return None
    file = folder / "config.yaml"
    try:
        gt = yaml.safe_load(file.read_text(encoding="utf-8"))["gt"]
        kind, layers = str(gt["layer_type"]).partition("+")[2], int(gt["layers"])
    except (OSError, yaml.YAMLError, KeyError, TypeError, ValueError):
        raise UserError(f"{file}: missing, or not the configuration of a run.") from None
    if kind in ("", "None"):
        return None
    line = _LABELS.get(kind, kind)
    if gt.get(kind, {}).get("self_loop") is False:
        line += " without self-loop"
    first = result.runs[0]
    return Depth(
        dataset=str(first.data["name"]),
        metric=str(first.metric),
        line=line,
        layers=layers,
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
    handles, labels = _legend(figure, lines)
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(lines), 2 * columns), frameon=False)
    return figure


def table(found: Iterable[Depth]) -> str:
    """Every point as Markdown."""
    rows = ["| data set | attention | layers | metric | test | s/epoch | runs | configuration |", "|---" * 8 + "|"]
    for each in found:
        mean, spread = mean_and_spread(each.scores)
        score = f"{mean:.4f}" + (f" ± {spread:.4f}" if len(each.scores) > 1 else "")
        seconds = f"{mean_and_spread(each.seconds)[0]:.3g}"
        cells = (each.dataset, each.line, each.layers, each.metric, score, seconds, len(each.scores), each.config)
        rows.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(rows)


def _panel(axes: Axes, found: Sequence[Depth], lines: Sequence[str], kind: str) -> None:
    for number, line in enumerate(lines):
        points = sorted((each for each in found if each.line == line), key=lambda each: each.layers)
        if not points:
            continue
        shift = (number - (len(lines) - 1) / 2) * _SHIFT
        means, spreads = zip(*(mean_and_spread(getattr(each, kind)) for each in points))
        axes.errorbar(
            [each.layers + shift for each in points], means, spreads, capsize=1.5, elinewidth=0.7, **_looks(number)
        )
    axes.set_xticks(sorted({each.layers for each in found}))
    axes.margins(x=0.08)
    if kind == "seconds":
        axes.set_ylim(bottom=0)


def _legend(figure: Figure, lines: Sequence[str]) -> tuple[list, list[str]]:
    from matplotlib.lines import Line2D

    return [Line2D([], [], **_looks(number)) for number in range(len(lines))], list(lines)


def _looks(number: int) -> dict:
    color, dashes = canvas.COLORS[number % len(canvas.COLORS)], canvas.DASHES[number % len(canvas.DASHES)]
    return {"color": color, "linestyle": dashes, "marker": "o", "markersize": 2.5}


def mean_and_spread(values: Sequence[float]) -> tuple[float, float]:
    """Mean and sample standard deviation; a single run has none, an empty list no mean."""
    if not values:
        return float("nan"), 0.0
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def of_sweep(sweep: Path | None, records: Path | None) -> list[Path]:
    """Folders of the entries of a sweep, or all in a folder of records; none where neither is named."""
    if records is not None and not records.is_dir():
        raise UserError(f"--records: {records} is no folder.")
    if sweep is not None:
        from graphbench.sweeps import read_sweep

        configs = [each.config for each in read_sweep(sweep).entries]
        return [(records or Path(config.tree.out_dir)) / config.name for config in configs]
    return [] if records is None else sorted(each.parent for each in records.glob("*/config.yaml"))


def _refuse_twins(found: Sequence[Depth]) -> None:
    taken: dict[tuple[str, str, str, int], str] = {}
    for each in found:
        point = (each.dataset, each.metric, each.line, each.layers)
        if point in taken:
            raise UserError(
                f"{taken[point]} and {each.config} are both {each.line} with {each.layers} layers on {each.dataset}: "
                "name one of them."
            )
        taken[point] = each.config
