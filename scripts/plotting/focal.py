"""Score over focal length: Figure 3 of FFGT, and its Table 4 as curves.

One panel per data set (per p for generated SBM graphs), one line per attention; a point is the mean test score of the
seeds of one configuration at their best validation epochs, its bar their sample standard deviation. Everything is read
from the records of finished runs and the configuration beside them: ``focal_length`` of FFGT's or GRPE's section says
where a point stands. Without focal heads it stands at "full", left of all, with a dotted level through it. The
published curves have no printed numbers; none are drawn.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from graphbench.errors import UserError
from graphbench.results.aggregate import aggregate
from scripts.plotting import canvas
from scripts.plotting.layers import mean_and_spread, of_sweep

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


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN_DIR", help="results/<config>, with all its seeds")
    parser.add_argument("--sweep", type=Path, metavar="FILE", help="take the entries of a file of configs/sweeps")
    parser.add_argument("--records", type=Path, metavar="DIR", help="where they lie; without --sweep: take all in it")


def make(options: argparse.Namespace) -> tuple[Figure, str]:
    """The figure and its name; prints all points.

    Raises:
        UserError: no finished run, or two configurations that stand for the same point.
    """
    folders = [*options.runs, *of_sweep(options.sweep, options.records)]
    if not folders:
        raise UserError("no runs: name folders of configurations, --sweep FILE, or a folder of folders as --records.")
    read = {folder: read_point(folder) for folder in folders}
    found = [each for each in read.values() if each is not None]
    left_out = ", ".join(str(folder) for folder, each in read.items() if each is None)
    if not found:
        raise UserError(f"no finished run of FFGT or GRPE in {left_out}.")
    _refuse_twins(found)
    found.sort(key=lambda each: (each.panel, each.line, -1 if each.length is None else each.length))
    print(table(found))
    if left_out:
        print(f"left out, without a finished run or without such an attention: {left_out}")
    return draw(found), "focal"


def read_point(folder: Path) -> Point | None:
    """What a folder of a configuration says; None where no run is finished or the model has no such attention.

    Raises:
        UserError: the configuration is missing or damaged.
    """
    result = aggregate(folder)
    if not result.runs:
        return None
    file = folder / "config.yaml"
    try:
        tree = yaml.safe_load(file.read_text(encoding="utf-8"))
        parts = str(tree["gt"]["layer_type"]).split("+")
    except (OSError, yaml.YAMLError, KeyError, TypeError):
        raise UserError(f"{file}: missing, or not the configuration of a run.") from None
    kind = next((part for part in parts if part in _LINES), None)
    if kind is None:
        return None
    own = tree["gt"].get(kind) or {}
    first = result.runs[0]
    return Point(
        panel=_panel_of(str(first.data["name"]), tree["dataset"]),
        metric=str(first.metric),
        line=" + ".join([_LINES[kind], *(part for part in parts if part != kind and part != "None")]),
        length=int(own.get("focal_length", 1)) if own.get("focal_heads", 0) else None,
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
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], **_looks(number)) for number in range(len(lines))]
    figure.legend(handles, lines, loc="outside lower center", ncols=min(len(lines), 2 * columns), frameon=False)
    return figure


def table(found: Iterable[Point]) -> str:
    """Every point as Markdown."""
    rows = ["| data set | backbone | focal length | metric | test | runs | configuration |", "|---" * 7 + "|"]
    for each in found:
        mean, spread = mean_and_spread(each.scores)
        score = f"{mean:.4f}" + (f" ± {spread:.4f}" if len(each.scores) > 1 else "")
        cells = (each.panel, each.line, each.at, each.metric, score, len(each.scores), each.config)
        rows.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(rows)


def _draw_panel(axes: Axes, found: Sequence[Point], lines: Sequence[str]) -> None:
    lengths = sorted({each.length for each in found if each.length is not None})
    full = (lengths[0] if lengths else 1) - 1  # where "full" stands, beside the shortest
    for number, line in enumerate(lines):
        own = [each for each in found if each.line == line]
        for points in (
            [each for each in own if each.length is None],
            [each for each in own if each.length is not None],
        ):
            if not points:
                continue
            places = [full if each.length is None else each.length for each in points]
            means, spreads = zip(*(mean_and_spread(each.scores) for each in points))
            axes.errorbar(places, means, spreads, capsize=1.5, elinewidth=0.7, **_looks(number))
            if points[0].length is None:
                axes.axhline(means[0], color=_looks(number)["color"], linestyle=(0, (1, 2)), linewidth=0.7, zorder=1)
    ticks = ([full] if any(each.length is None for each in found) else []) + lengths
    axes.set_xticks(ticks, ["full" if tick == full else str(tick) for tick in ticks])
    axes.margins(x=0.1)


def _looks(number: int) -> dict[str, Any]:
    color, dashes = canvas.COLORS[number % len(canvas.COLORS)], canvas.DASHES[number % len(canvas.DASHES)]
    return {"color": color, "linestyle": dashes, "marker": "o", "markersize": 2.5}


def _panel_of(name: str, dataset: dict[str, Any]) -> str:
    p = (dataset.get("SBM") or {}).get("p") if dataset.get("format") == "SBM" else None
    return name if p is None else f"{name}, p = {p:.2f}"


def _refuse_twins(found: Sequence[Point]) -> None:
    taken: dict[tuple[str, str, str, str], str] = {}
    for each in found:
        point = (each.panel, each.metric, each.line, each.at)
        if point in taken:
            raise UserError(
                f"{taken[point]} and {each.config} are both {each.line} with focal length {each.at} on {each.panel}: "
                "name one of them."
            )
        taken[point] = each.config
