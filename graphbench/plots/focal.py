"""Score over focal length: Figure 3 of FFGT, and its Table 4 as curves.

One panel per data set (per p for generated SBM graphs), one line per attention; a point is the mean test score of the
seeds of one configuration at their best validation epochs, its bar their sample standard deviation. Everything is read
from the records of finished runs and their settings: ``focal_length`` of FFGT's or GRPE's section says
where a point stands. Without focal heads it stands at "full", left of all, with a dotted level through it. The
published curves have no printed numbers; none are drawn.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphbench.plots import canvas, points
from graphbench.runs.aggregate import aggregate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDEST = 4
"""Panels beside each other."""

_LINES = {"FFGTLayer": "Vanilla", "FFGT": "Vanilla", "GRPELayer": "GRPE", "GRPE": "GRPE"}
"""Names of the backbones by the layer that has the heads."""


@dataclass(frozen=True)
class Point:
    """The runs of one configuration.

    Attributes:
        panel: data set, and what it was generated with.
        metric: the selecting one.
        line: backbone, and local layers beside it.
        length: focal length; None without focal heads.
        scores: test metric of every run.
        config: name of the configuration.
    """

    panel: str
    metric: str
    line: str
    length: int | None
    scores: tuple[float, ...]
    config: str

    @property
    def at(self) -> str:
        """Where it stands."""
        return "full" if self.length is None else str(self.length)


arguments = points.arguments


def make(options: argparse.Namespace) -> tuple[Figure, str]:
    """The figure and its name; prints all points.

    Raises:
        UserError: no finished run, or two configurations that stand for the same point.
    """
    found, left_out = points.read_points(options, read_point, "FFGT or GRPE")
    points.refuse_twins(
        found,
        lambda each: (each.panel, each.metric, each.line, each.at),
        lambda each: f"{each.line} with focal length {each.at} on {each.panel}",
    )
    found.sort(key=lambda each: (each.panel, each.line, -1 if each.length is None else each.length))
    print(table(found))
    if left_out:
        print(f"left out, without a finished run or without such an attention: {', '.join(map(str, left_out))}")
    return draw(found), "focal"


def read_point(folder: Path) -> Point | None:
    """What a folder of a configuration says; None where no run is finished or the model has no such attention.

    Raises:
        UserError: the configuration is missing or damaged.
    """
    result = aggregate(folder)
    if not result.runs:
        return None
    settings = points.read_settings(folder, "gt.layer_type", "dataset.format")
    parts = str(settings["gt.layer_type"]).split("+")
    kind = next((part for part in parts if part in _LINES), None)
    if kind is None:
        return None
    first = result.runs[0]
    return Point(
        panel=_panel_of(str(first.data["name"]), settings),
        metric=str(first.metric),
        line=" + ".join([_LINES[kind], *(part for part in parts if part != kind and part != "None")]),
        length=int(settings.get(f"gt.{kind}.focal_length", 1)) if settings.get(f"gt.{kind}.focal_heads") else None,
        scores=tuple(score for each in result.runs if (score := each.score("test")) is not None),
        config=folder.resolve().name,
    )


def draw(found: Sequence[Point]) -> Figure:
    """A panel per data set."""
    panels = list(dict.fromkeys((each.panel, each.metric) for each in found))
    lines = list(dict.fromkeys(each.line for each in found))
    columns = min(len(panels), _WIDEST)
    rows = -(-len(panels) // columns)
    figure = canvas.new_figure(max(canvas.COLUMN, 1.9 * columns), 1.9 * rows + 0.4)
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    for number, (axes, (panel, metric)) in enumerate(zip(grid, panels)):
        _draw_panel(axes, [each for each in found if (each.panel, each.metric) == (panel, metric)], lines)
        axes.set_title(panel)
        axes.set_xlabel("focal length")
        if number % columns == 0 or metric != panels[number - 1][1]:
            axes.set_ylabel(f"test {canvas.in_words(metric)}")
    points.legend(figure, lines, columns)
    return figure


def table(found: Iterable[Point]) -> str:
    """Every point as Markdown."""
    names = ["data set", "backbone", "focal length", "metric", "test", "runs", "configuration"]
    rows = [
        [each.panel, each.line, each.at, each.metric, points.in_table(each.scores), len(each.scores), each.config]
        for each in found
    ]
    return points.markdown(names, rows)


def _draw_panel(axes: Axes, found: Sequence[Point], lines: Sequence[str]) -> None:
    lengths = sorted({each.length for each in found if each.length is not None})
    full = (lengths[0] if lengths else 1) - 1  # where "full" stands, beside the shortest
    for number, line in enumerate(lines):
        own = [each for each in found if each.line == line]
        for joined in (
            [each for each in own if each.length is None],
            [each for each in own if each.length is not None],
        ):
            if not joined:
                continue
            places = [full if each.length is None else each.length for each in joined]
            means, spreads = zip(*(points.mean_and_spread(each.scores) for each in joined))
            axes.errorbar(places, means, spreads, capsize=1.5, elinewidth=0.7, **points.looks(number))
            if joined[0].length is None:
                axes.axhline(
                    means[0], color=points.looks(number)["color"], linestyle=(0, (1, 2)), linewidth=0.7, zorder=1
                )
    ticks = ([full] if any(each.length is None for each in found) else []) + lengths
    axes.set_xticks(ticks, ["full" if tick == full else str(tick) for tick in ticks])
    axes.margins(x=0.1)


def _panel_of(name: str, settings: Mapping[str, Any]) -> str:
    p = settings.get("dataset.SBM.p") if settings["dataset.format"] == "SBM" else None
    return name if p is None else f"{name}, p = {p:.2f}"
