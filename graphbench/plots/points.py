"""Figures whose points are configurations: finding their runs, drawing and listing them."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from graphbench.errors import UserError
from graphbench.plots import canvas
from graphbench.runs.aggregate import Aggregate
from graphbench.runs.records import PACKED, own_record_sources, record_source, tell_selection

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Point(Protocol):
    """The runs of one configuration."""

    @property
    def config(self) -> str:
        """Name of the configuration."""


_Point = TypeVar("_Point", bound=Point)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options that name the runs of a figure."""
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN_DIR", help="results/<config>, with all its seeds")
    parser.add_argument("--sweep", type=Path, metavar="FILE", help="take the entries of a sweep file (or shipped name)")
    parser.add_argument(
        "--records", type=Path, metavar="RECORDS", help="their folder, or .jsonl; without --sweep: all in it"
    )


def read_points(
    options: argparse.Namespace, read: Callable[[Path], _Point | None], what: str
) -> tuple[list[_Point], list[Path]]:
    """The points of the folders that the command names, and the folders that have none.

    Args:
        options: options of :func:`arguments`.
        read: the point of a folder; None where there is none.
        what: models that have a point, for the message.

    Raises:
        UserError: no folder, or no point.
    """
    folders = [*options.runs, *_of_sweep(options.sweep, options.records)]
    if not folders:
        raise UserError("no runs: name folders of configurations, --sweep FILE, or a folder of folders as --records.")
    by_folder = {folder: read(folder) for folder in folders}
    left_out = [folder for folder, point in by_folder.items() if point is None]
    points = [point for point in by_folder.values() if point is not None]
    if not points:
        raise UserError(f"no finished run of {what} in {', '.join(map(str, left_out))}.")
    return points, left_out


def read_settings(folder: Path, *keys: str) -> dict[str, Any]:
    """The settings of a configuration by dotted key.

    Args:
        folder: folder of its runs, or ``<name>.jsonl/<config>``.
        keys: keys that must be there.

    Raises:
        UserError: they are not known, or a key is missing.
    """
    settings = record_source(folder).settings()
    missing = [key for key in keys if key not in settings]
    if missing:
        raise UserError(f"{folder}: no {', '.join(missing)} in the configuration of its runs.")
    return settings


def refuse_duplicates(points: Iterable[_Point], describe: Callable[[_Point], str]) -> None:
    """Refuses two configurations for one point.

    Args:
        points: all of them.
        describe: the point in words.

    Raises:
        UserError: two have the same description.
    """
    configs: dict[str, str] = {}
    for point in points:
        description = describe(point)
        if description in configs:
            raise UserError(f"{configs[description]} and {point.config} are both {description}: name one of them.")
        configs[description] = point.config


def test_scores(result: Aggregate) -> tuple[float, ...]:
    """Test value of the selecting metric of every run that has one."""
    scores = [run.score("test") for run in result.runs]
    return tuple(score for score in scores if score is not None)


def mean_and_spread(values: Sequence[float]) -> tuple[float, float]:
    """Mean and sample standard deviation; a single run has none, an empty list no mean."""
    if not values:
        return float("nan"), 0.0
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def mean_text(values: Sequence[float]) -> str:
    """Mean and spread as text."""
    mean, spread = mean_and_spread(values)
    return f"{mean:.4f}" + (f" ± {spread:.4f}" if len(values) > 1 else "")


def marked_line(number: int) -> dict[str, Any]:
    """Style of the line with this number, with a dot per point."""
    return {**canvas.line_style(number), "marker": "o", "markersize": 2.5}


def legend(figure: Figure, lines: Sequence[str], columns: int) -> None:
    """Draws one legend for all panels, below them."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], **marked_line(number)) for number in range(len(lines))]
    figure.legend(handles, lines, loc="outside lower center", ncols=min(len(lines), 2 * columns), frameon=False)


def _of_sweep(sweep: Path | None, records: Path | None) -> list[Path]:
    """Folders of the entries of a sweep, or all in a folder of records; none where neither is named."""
    if records is not None and not records.is_dir() and not (records.suffix == PACKED and records.is_file()):
        raise UserError(f"--records: {records} is no folder and no packed records.")
    if sweep is not None:
        from graphbench.sweeps import read_sweep

        configs = [entry.config for entry in read_sweep(sweep).entries]
        return [records / config.name if records else config.folder for config in configs]
    if records is None:
        return []
    sources, packed = own_record_sources(records)
    tell_selection([], packed)
    return [source.path for source in sources]
