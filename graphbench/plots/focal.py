"""Score over focal length: Figure 3 of FFGT, and its Table 4 as curves.

One panel per data set (per p for generated SBM graphs), one line per attention; a point is the mean test score of the
seeds of one configuration at their best validation epochs, its bar their sample standard deviation. Everything is read
from the records of finished runs and their settings: ``focal_length`` of FFGT's or GRPE's section is the coordinate of
a point. Without focal heads it is at "full", left of all, with a dotted level through it. The published curves have no
printed numbers; none are drawn.
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

_MAX_COLUMNS = 4
"""Panels per row."""

_LINES = {"FFGTLayer": "Vanilla", "FFGT": "Vanilla", "GRPELayer": "GRPE", "GRPE": "GRPE"}
"""Names of the backbones by the layer that has the heads."""


@dataclass(frozen=True)
class Point:
    """The runs of one configuration.

    Attributes:
        panel: data set, and what it was generated with.
        metric: the selecting one.
        line: backbone, and local layers next to it.
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
    def position(self) -> str:
        """Position on the horizontal axis."""
        return "full" if self.length is None else str(self.length)


arguments = points.arguments


def make(options: argparse.Namespace) -> tuple[Figure, str]:
    """The figure and its name; prints all points.

    Raises:
        UserError: no finished run, or two configurations that stand for the same point.
    """
    found, left_out = points.read_points(options, read_point, "FFGT or GRPE")
    points.refuse_duplicates(
        found, lambda point: f"{point.line} with focal length {point.position} on {point.panel} ({point.metric})"
    )
    found.sort(key=lambda point: (point.panel, point.line, -1 if point.length is None else point.length))
    print(table(found))
    if left_out:
        print(f"left out, without a finished run or without such an attention: {', '.join(map(str, left_out))}")
    return draw(found), "focal"


def read_point(folder: Path) -> Point | None:
    """Point of a configuration; None where no run is finished or the model has no such attention.

    Raises:
        UserError: its settings are missing or damaged.
    """
    result = aggregate(folder)
    if not result.runs:
        return None
    settings = points.read_settings(folder, "gt.layer_type", "dataset.format")
    sublayers = str(settings["gt.layer_type"]).split("+")
    attention = next((name for name in sublayers if name in _LINES), None)
    if attention is None:
        return None
    focal_heads = settings.get(f"gt.{attention}.focal_heads")
    first = result.runs[0]
    return Point(
        panel=_panel_of(str(first.data.name), settings),
        metric=str(first.metric),
        line=" + ".join([_LINES[attention], *(name for name in sublayers if name not in (attention, "None"))]),
        length=int(settings.get(f"gt.{attention}.focal_length", 1)) if focal_heads else None,
        scores=points.test_scores(result),
        config=folder.resolve().name,
    )


def draw(found: Sequence[Point]) -> Figure:
    """A panel per data set."""
    panels = list(dict.fromkeys((point.panel, point.metric) for point in found))
    lines = list(dict.fromkeys(point.line for point in found))
    columns = min(len(panels), _MAX_COLUMNS)
    rows = -(-len(panels) // columns)
    figure = canvas.new_figure(max(canvas.COLUMN, 1.9 * columns), 1.9 * rows + 0.4)
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    for number, (axes, (panel, metric)) in enumerate(zip(grid, panels)):
        _draw_panel(axes, [point for point in found if (point.panel, point.metric) == (panel, metric)], lines)
        axes.set_title(panel)
        axes.set_xlabel("focal length")
        if number % columns == 0 or metric != panels[number - 1][1]:
            axes.set_ylabel(f"test {canvas.metric_name(metric)}")
    points.legend(figure, lines, columns)
    return figure


def table(found: Iterable[Point]) -> str:
    """Every point as Markdown."""
    names = ["data set", "backbone", "focal length", "metric", "test", "runs", "configuration"]
    rows = [
        [
            point.panel,
            point.line,
            point.position,
            point.metric,
            points.mean_text(point.scores),
            len(point.scores),
            point.config,
        ]
        for point in found
    ]
    return canvas.markdown(names, rows)


def _draw_panel(axes: Axes, found: Sequence[Point], lines: Sequence[str]) -> None:
    lengths = sorted({point.length for point in found if point.length is not None})
    full = (lengths[0] if lengths else 1) - 1  # coordinate of "full", left of the shortest
    for number, line in enumerate(lines):
        style = points.marked_line(number)
        of_line = [point for point in found if point.line == line]
        for connected in (
            [point for point in of_line if point.length is None],
            [point for point in of_line if point.length is not None],
        ):
            if not connected:
                continue
            xs = [full if point.length is None else point.length for point in connected]
            means, spreads = zip(*(points.mean_and_spread(point.scores) for point in connected))
            axes.errorbar(xs, means, spreads, capsize=1.5, elinewidth=0.7, **style)
            if connected[0].length is None:
                axes.axhline(means[0], color=style["color"], linestyle=(0, (1, 2)), linewidth=0.7, zorder=1)
    ticks = ([full] if any(point.length is None for point in found) else []) + lengths
    axes.set_xticks(ticks, ["full" if tick == full else str(tick) for tick in ticks])
    axes.margins(x=0.1)


def _panel_of(name: str, settings: Mapping[str, Any]) -> str:
    p = settings.get("dataset.SBM.p") if settings["dataset.format"] == "SBM" else None
    return name if p is None else f"{name}, p = {p:.2f}"
