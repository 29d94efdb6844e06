"""Configurations of the report: run records below some folders, averaged, with the published value of a sweep file.

Every number comes from :mod:`graphbench.runs`, the same code that writes the tables.
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from graphbench import shipped
from graphbench.errors import UserError
from graphbench.published.table import PublishedRow
from graphbench.report.markup import findable
from graphbench.runs.aggregate import Aggregate, aggregate
from graphbench.runs.records import PACKED, own_record_sources, tell_selection
from graphbench.sweeps import Sweep, read_sweep
from graphbench.sweeps.cells import CellSpec
from graphbench.tables.model_names import model_name
from graphbench.tables.provenance import Provenance
from graphbench.tables.sweep_table import Cell, sweep_table

SWEEPS = shipped.root() / "configs" / "sweeps"


@dataclass(frozen=True)
class Configuration:
    """The runs of one configuration.

    Attributes:
        name: path below the folder that the command names; unique on a page.
        folder: folder of its runs, or ``<name>.jsonl/<config>`` of packed records.
        result: mean and deviation over the finished runs, and what is left out with its reason.
        label: row of a table, from a sweep file; empty: no sweep names it.
        source: title of the paper's table, where that has a value.
        cell: measured compared with published, in the scale of the paper; None: no sweep names it.
    """

    name: str
    folder: Path
    result: Aggregate
    label: str = ""
    source: str = ""
    cell: Cell | None = None

    @property
    def published(self) -> PublishedRow | None:
        """Value in the paper."""
        return self.cell.published if self.cell else None

    @property
    def dataset(self) -> str:
        """Name on its card; empty without a finished run."""
        return (self.result.runs[0].data.name or "unnamed data") if self.result.runs else ""

    @property
    def group(self) -> str:
        """The folder that holds it, below the one that the command names: a sweep, or empty."""
        return self.name.rpartition("/")[0]

    @property
    def model(self) -> str:
        """Row of a sweep's table, else its name without the data set."""
        return self.label or model_name(self.result.config, self.dataset)

    @property
    def findable(self) -> str:
        """Attributes that the filters of the page read."""
        status = self.cell.status if self.cell else ""
        words = (self.name, self.label, self.dataset, *self.protocol, status)
        return findable(words, [self.dataset], [self.group], [status])

    @property
    def run_ids(self) -> tuple[str, ...]:
        """Folder names of the finished runs."""
        return tuple(run.run_id for run in self.result.runs)

    @functools.cached_property
    def facts(self) -> Provenance:
        """Size, time, date, commits."""
        return Provenance.of(self.result.runs)

    @property
    def protocol(self) -> tuple[str, str]:
        """Split, with the column of the sweep's table, and metric: numbers can be compared where both are equal.

        A column of its own says what the split does not: another generator, another preparation of the data.
        """
        column = self.cell.spec.column if self.cell and self.cell.spec.column != self.dataset else ""
        metric, selected_by = str(self.result.metric), str(self.result.selected_by)
        chosen = "" if selected_by == metric else f", epochs chosen by {selected_by}"
        return "; ".join(filter(None, [*self.facts.split, column])), metric + chosen


@dataclass(frozen=True)
class Board:
    """One data set.

    Attributes:
        dataset: name of the data set.
        rows: configurations with a finished run: by split and metric, the best mean first.
        ranks: name of a configuration -> 1, 2 or 3 among those of the same split and metric.
    """

    dataset: str
    rows: tuple[Configuration, ...]
    ranks: dict[str, int]


def gather(roots: Sequence[Path], sweeps: Sequence[Path] = ()) -> list[Configuration]:
    """Reads all records below ``roots``.

    Args:
        roots: folders at any height: of a run, a configuration, or many of them; or packed records.
        sweeps: sweep files that name published values; besides, ``configs/sweeps/<name>.yaml`` is looked into for
            records in ``<name>/<configuration>`` or ``<name>.jsonl``.

    Raises:
        UserError: nothing there, or a sweep file that cannot be read.
    """
    folders: dict[Path, str] = {}
    left_out: list[Path] = []
    for root in roots:
        sources, packed = own_record_sources(root)
        left_out += packed
        for folder in (source.path for source in sources):
            inside = folder.relative_to(root).as_posix() if folder.is_relative_to(root) else "."
            folders.setdefault(folder, folder.name if inside == "." else inside.replace(f"{PACKED}/", "/"))
    if not folders:
        raise UserError(f"no record.json below {', '.join(map(str, roots))}.")
    tell_selection(roots, left_out)
    count = Counter(folders.values())
    names = {folder: str(folder) if count[name] > 1 else name for folder, name in folders.items()}
    configurations = [_configuration(name, folder, named=folder in roots) for folder, name in names.items()]
    explicit = [read_sweep(path) for path in sweeps]
    return _without_copies([_with_published(configuration, explicit) for configuration in configurations])


def boards(configurations: Sequence[Configuration]) -> list[Board]:
    """Finished configurations by data set; ranks as in the tables: equals share one, the last has none."""
    finished = [configuration for configuration in configurations if configuration.result.runs]
    if not finished:
        return []
    specs = [
        CellSpec(
            row.name,
            " | ".join((row.dataset, *row.protocol)),
            row.dataset,
            row.folder,
            row.run_ids,
            config_hash=row.result.runs[0].config_hash,
        )
        for row in finished
    ]
    ranks = {cell.spec.label: cell.rank for cell in sweep_table("report", specs).cells.values() if cell.rank}
    groups: dict[str, list[Configuration]] = {}
    for row in sorted(finished, key=_order):
        groups.setdefault(row.dataset, []).append(row)
    return [
        Board(dataset, tuple(rows), {row.name: ranks[row.name] for row in rows if row.name in ranks})
        for dataset, rows in sorted(groups.items(), key=lambda item: item[0].casefold())
    ]


def _configuration(name: str, folder: Path, *, named: bool) -> Configuration:
    """Records that are JSON but of another form, and those of applied models, are left out with a reason.

    Args:
        name: on the page.
        folder: of the runs.
        named: asked for by its folder, so that an applied model has a row, too.
    """
    try:
        configuration = Configuration(name, folder, aggregate(folder))
        if configuration.result.inference_note and not named:
            return Configuration(name, folder, _left_out(folder, configuration.result.inference_note))
        if configuration.result.runs:
            _ = (configuration.dataset, configuration.protocol, configuration.facts.cells())
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        reason = f"its records hold something else than ours do ({type(error).__name__}: {error})"
        configuration = Configuration(name, folder, _left_out(folder, reason))
    return configuration


def _without_copies(configurations: Sequence[Configuration]) -> list[Configuration]:
    """Runs that lie in several folders count once, where a sweep names them; the other folders are left out."""
    first: dict[tuple[object, ...], Configuration] = {}
    keys = [_made_when(configuration) for configuration in configurations]
    for key, configuration in sorted(
        zip(keys, configurations, strict=True), key=lambda pair: pair[1].published is None
    ):
        first.setdefault(key, configuration)
    return [
        configuration
        if first[key] is configuration
        else replace(configuration, result=_left_out(configuration.folder, f"the same runs as {first[key].name}"))
        for key, configuration in zip(keys, configurations, strict=True)
    ]


def _made_when(configuration: Configuration) -> tuple[object, ...]:
    """Key that no two sets of runs share: begin and end of each; the name, where there are none."""
    times = [(run.config, run.run_id, run.config_hash, run.started, run.ended) for run in configuration.result.runs]
    return tuple(times) or (configuration.name,)


def _left_out(folder: Path, reason: str) -> Aggregate:
    return Aggregate(folder.name, None, (), (), {"all": reason})


def _order(configuration: Configuration) -> tuple[Any, ...]:
    test = configuration.result.mean("test")
    worse = math.inf if test is None or math.isnan(test.mean) else -test.mean if test.maximize else test.mean
    split, metric = configuration.protocol
    sizes = [int(part) if part.isdigit() else -1 for part in re.split(r"(\d+)", split)]
    return (configuration.dataset, metric, sizes, split, worse, configuration.name)


def _with_published(configuration: Configuration, explicit: Sequence[Sweep]) -> Configuration:
    """Configuration with label and published value of the first sweep that has it and its data set."""
    shipped = SWEEPS / f"{configuration.folder.parent.name.removesuffix(PACKED)}.yaml"
    for sweep in [*explicit, *([_sweep(shipped)] if shipped.is_file() else [])]:
        for entry in sweep.entries:
            if not configuration.result.runs or entry.config.name != configuration.folder.name:
                continue
            table = sweep.published
            spec = CellSpec.of_entry(sweep, entry, dataset=configuration.dataset, records=configuration.folder)
            (cell,) = sweep_table(sweep.name, [spec], published=table).cells.values()
            source = table.title if table and cell.published else ""
            # Of the runs those that the cell is of: a later one of other settings may lie beside them.
            return replace(configuration, label=entry.label, source=source, cell=cell, result=cell.result)
    return configuration


_sweep = functools.cache(read_sweep)
