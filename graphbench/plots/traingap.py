"""Train-test gap over epochs: Figure 3 of SFi-Former.

    gap(epoch) = train - test   for metrics that are better when larger
                 test - train   for those that are better when smaller (errors, the loss)

so that a larger gap is always more over-fitting. One line per configuration: the mean over its seeds, with a band from
the smallest to the largest; one panel per data set. Training metrics are those of the training passes, with dropout
and with parameters that change during the epoch, as everywhere in stats.json.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from graphbench.errors import UserError, unknown
from graphbench.plots import canvas
from graphbench.runs.aggregate import aggregate
from graphbench.runs.history import read_curve
from graphbench.runs.record import RunRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


MAX_MARKED = 30
"""Up to so many epochs are marked by dots, to tell evaluated epochs from the line between them."""


@dataclass(frozen=True)
class Gap:
    """The gap of one configuration.

    Attributes:
        label: name of the configuration.
        dataset: name of the data set.
        metric: metric that it is the gap of.
        maximize: True when larger is better.
        epochs: (E,) epochs that every run has evaluated.
        train: (runs, E) training metric.
        test: (runs, E) test metric.
    """

    label: str
    dataset: str
    metric: str
    maximize: bool
    epochs: np.ndarray
    train: np.ndarray
    test: np.ndarray

    @property
    def values(self) -> np.ndarray:
        """(runs, E); larger is more over-fitting."""
        return self.train - self.test if self.maximize else self.test - self.train


def arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the figure."""
    parser.add_argument(
        "runs",
        nargs="+",
        type=Path,
        metavar="RUN_DIR",
        help="results/<config> (all its seeds) or results/<config>/<seed>",
    )
    parser.add_argument(
        "--metric", help="a metric of stats.json, or loss; default: the one that selects the best epoch"
    )


def make(options: argparse.Namespace) -> tuple[Figure, str]:
    """The figure and its name; prints the gaps after the last epoch.

    Raises:
        UserError: no finished run, or no such metric.
    """
    gaps = [read_gap(path, options.metric) for path in options.runs]
    names = [gap.label for gap in gaps]
    for number, path in enumerate(options.runs):
        if names.count(gaps[number].label) > 1:
            gaps[number] = dataclasses.replace(gaps[number], label=str(path))
    figure = draw(gaps)
    print(table(gaps))
    return figure, "-".join(["traingap", *dict.fromkeys(gap.dataset.replace("/", "-") for gap in gaps)])


def read_gap(path: Path, metric: str | None = None) -> Gap:
    """The gap of a configuration from the files of its finished runs.

    Args:
        path: folder of a configuration, or of one run.
        metric: name of the metric in stats.json; default: the selecting one.

    Raises:
        UserError: there is no finished run, the metric is unknown, or the runs share no epoch.
    """
    is_run = (path / "record.json").is_file()
    result = aggregate(path.resolve().parent, only=[path.resolve().name]) if is_run else aggregate(path)
    if not result.runs:
        reasons = "; ".join(f"run {run_id} {reason.rstrip('.')}" for run_id, reason in result.left_out.items())
        raise UserError(f"{path}: no finished run ({reasons or 'no record.json below it'}).")
    folders = [path if is_run else path / run.run_id for run in result.runs]
    record = result.runs[0]
    name = metric or str(record.metric)
    maximize = _direction(record, name, path)
    files = [folder / split / "stats.json" for folder in folders for split in ("train", "test")]
    missing = next((file for file in files if not file.is_file()), None)
    if missing is not None:
        raise UserError(f"{missing}: missing.")
    curves = [
        (read_curve(folder, "train", name, run), read_curve(folder, "test", name, run))
        for folder, run in zip(folders, result.runs, strict=True)
    ]
    epochs = sorted(set.intersection(*(train.keys() & test.keys() for train, test in curves)))
    if not epochs:
        raise UserError(f"{path}: no epoch has {name} of both training and test in every run.")
    train, test = (np.array([[run[split][epoch] for epoch in epochs] for run in curves]) for split in (0, 1))
    return Gap(record.config, str(record.data.name), name, maximize, np.array(epochs), train, test)


def draw(gaps: Sequence[Gap]) -> Figure:
    """One panel per data set and metric, a line for each configuration."""
    panels: dict[tuple[str, str, bool], list[Gap]] = {}
    for gap in gaps:
        panels.setdefault((gap.dataset, gap.metric, gap.maximize), []).append(gap)
    width = canvas.COLUMN if len(panels) == 1 else 0.8 * canvas.COLUMN * len(panels)
    figure = canvas.new_figure(width, 2.4)
    for axes, (key, lines) in zip(np.atleast_1d(figure.subplots(1, len(panels))), panels.items(), strict=True):
        _panel(axes, *key, lines)
    return figure


def table(gaps: Sequence[Gap]) -> str:
    """Gaps after the last common epoch, as Markdown."""
    rows = []
    for gap in gaps:
        means = [_mean(values[:, -1]) for values in (gap.train, gap.test, gap.values)]
        rows.append([gap.label, gap.dataset, gap.metric, gap.epochs[-1], *means, len(gap.values)])
    return canvas.markdown(["configuration", "data set", "metric", "epoch", "train", "test", "gap", "runs"], rows)


def _panel(axes: Axes, dataset: str, metric: str, maximize: bool, gaps: Sequence[Gap]) -> None:
    for number, gap in enumerate(gaps):
        style = canvas.line_style(number)
        values = gap.values
        epochs = gap.epochs
        marker = "o" if len(epochs) <= MAX_MARKED else ""
        axes.plot(epochs, values.mean(0), label=gap.label, zorder=3, marker=marker, markersize=2.5, **style)
        if len(values) > 1:
            low, high = values.min(0), values.max(0)
            axes.fill_between(epochs, low, high, color=style["color"], alpha=0.18, linewidth=0, zorder=2)
    axes.axhline(0.0, color="0.6", linewidth=0.6, zorder=1)
    axes.set_title(dataset)
    axes.set_xlabel("epoch")
    canvas.whole_numbers(axes.xaxis)
    difference = "train minus test" if maximize else "test minus train"
    axes.set_ylabel(f"{difference}\n{canvas.metric_name(metric)}")
    axes.margins(x=0.02)
    axes.locator_params(axis="x", integer=True)
    axes.legend(frameon=False, handlelength=3.2)


def _direction(record: RunRecord, name: str, path: Path) -> bool:
    train, test = ({s.name: s.maximize for s in record.scores if s.split == split} for split in ("train", "test"))
    if name not in train or name not in test:
        raise unknown("metric", name, train.keys() & test.keys(), where=f"{path}")
    return test[name]


def _mean(values: np.ndarray) -> str:
    spread = f" ± {values.std(ddof=1):.4f}" if len(values) > 1 else ""
    mean = float(values.mean())
    return "-" if math.isnan(mean) else f"{mean:.4f}{spread}"
