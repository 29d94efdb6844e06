"""What figures have in common whose points are configurations: finding their runs, drawing and listing them."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Hashable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from graphbench.errors import UserError
from graphbench.plots import canvas
from graphbench.runs.records import PACKED, record_source, record_sources

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Point(Protocol):
    """The runs of one configuration."""

    config: str


_Point = TypeVar("_Point", bound=Point)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Which runs a figure is about."""
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN_DIR", help="results/<config>, with all its seeds")
    parser.add_argument("--sweep", type=Path, metavar="FILE", help="take the entries of a file of configs/sweeps")
    parser.add_argument(
        "--records", type=Path, metavar="RECORDS", help="their folder, or .jsonl; without --sweep: all in it"
    )


def read_points(
    options: argparse.Namespace, read: Callable[[Path], _Point | None], kind: str
) -> tuple[list[_Point], list[Path]]:
    """The points of the folders that the command names, and the folders that have none.

    Args:
        options: of :func:`arguments`.
        read: the point of a folder; None where there is none.
        kind: what a folder needs to have one, for the message.

    Raises:
        UserError: no folder, or no point.
    """
    folders = [*options.runs, *_of_sweep(options.sweep, options.records)]
    if not folders:
        raise UserError("no runs: name folders of configurations, --sweep FILE, or a folder of folders as --records.")
    found = {folder: read(folder) for folder in folders}
    left_out = [folder for folder, each in found.items() if each is None]
    points = [each for each in found.values() if each is not None]
    if not points:
        raise UserError(f"no finished run of {kind} in {', '.join(map(str, left_out))}.")
    return points, left_out


def read_settings(folder: Path, *keys: str) -> dict[str, Any]:
    """The settings of a configuration by dotted key.

    Args:
        folder: of its runs, or ``<name>.jsonl/<config>``.
        keys: that must be there.

    Raises:
        UserError: they are not known, or a key is missing.
    """
    settings = record_source(folder).settings()
    missing = [key for key in keys if key not in settings]
    if missing:
        raise UserError(f"{folder}: no {', '.join(missing)} in the configuration of its runs.")
    return settings


def refuse_twins(points: Iterable[_Point], place: Callable[[_Point], Hashable], says: Callable[[_Point], str]) -> None:
    """Refuses two configurations that stand in the same place.

    Args:
        points: all of them.
        place: where a point stands.
        says: the place in words.

    Raises:
        UserError: two of them do.
    """
    taken: dict[Hashable, str] = {}
    for each in points:
        if place(each) in taken:
            raise UserError(f"{taken[place(each)]} and {each.config} are both {says(each)}: name one of them.")
        taken[place(each)] = each.config


def mean_and_spread(values: Sequence[float]) -> tuple[float, float]:
    """Mean and sample standard deviation; a single run has none, an empty list no mean."""
    if not values:
        return float("nan"), 0.0
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def in_table(values: Sequence[float]) -> str:
    """Mean and spread as text."""
    mean, spread = mean_and_spread(values)
    return f"{mean:.4f}" + (f" ± {spread:.4f}" if len(values) > 1 else "")


def markdown(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table of points."""
    lines = ["| " + " | ".join(names) + " |", "|---" * len(names) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(map(str, cells)) + " |" for cells in rows)])


def looks(number: int) -> dict[str, Any]:
    """Of the line with this number."""
    color, dashes = canvas.COLORS[number % len(canvas.COLORS)], canvas.DASHES[number % len(canvas.DASHES)]
    return {"color": color, "linestyle": dashes, "marker": "o", "markersize": 2.5}


def legend(figure: Figure, lines: Sequence[str], columns: int) -> None:
    """One for all panels, below them."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], **looks(number)) for number in range(len(lines))]
    figure.legend(handles, lines, loc="outside lower center", ncols=min(len(lines), 2 * columns), frameon=False)


def _of_sweep(sweep: Path | None, records: Path | None) -> list[Path]:
    """Folders of the entries of a sweep, or all in a folder of records; none where neither is named."""
    if records is not None and not records.is_dir() and not (records.suffix == PACKED and records.is_file()):
        raise UserError(f"--records: {records} is no folder and no packed records.")
    if sweep is not None:
        from graphbench.sweeps import read_sweep

        configs = [each.config for each in read_sweep(sweep).entries]
        return [(records or Path(config.tree.out_dir)) / config.name for config in configs]
    return [] if records is None else [source.path for source in record_sources(records)]
