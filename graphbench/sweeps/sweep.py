"""Sweep files: the configurations and settings that make up a table.

::

    sweep:
      name: sgformer-table5
      seeds: 5                        # runs per entry, from the configuration's seed on; where the configuration has
                                      # run_multiple_splits, one run per split instead
      published: sgformer_table5      # optional: results/published/<this>.csv has the published values; or a file.csv
    groups:
      - configs: [../nodes/sgformer-cora-half.yaml]      # relative to this file, or names of shipped ones
        label: SGFormer               # row of the table, for variants that have none of their own
        common: {dataset.split_mode: random}             # keys of every variant; a variant's own win
        variants:                     # default: one variant without keys
          - {column: "10 %", name_tag: r10, dataset.split: [0.1, 0.25, 0.25],
             published: "model=SGFormer;train_ratio=10%"}
        grid: {optim.base_lr: [0.01, 0.001]}             # product with every variant; name_tag is made from the values
        search: {gnn.dropout: {low: 0.0, high: 0.5}}     # with trials: every entry becomes a search (search.py)

An entry is one variant on one configuration. Its keys are set as behind ``graphbench train``; three are the table's:
``label`` (row), ``column`` (default: the data set) and ``published`` (which published value it is compared with).
Keys that must be equal take their value together, in a grid or a search: ``"gt.dim_hidden, gnn.dim_inner": [32, 64]``.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphbench import shipped
from graphbench.config import Config, load_config
from graphbench.errors import UserError, neighbour, unknown
from graphbench.published.table import PublishedTable, read_published
from graphbench.sweeps.dependencies import linked
from graphbench.sweeps.document import LocatedValue, read_document
from graphbench.sweeps.grid import config_keys, grid_points, label_suffix, with_grid_point
from graphbench.sweeps.search import PRUNERS, SearchDimension, read_search
from graphbench.sweeps.slurm_settings import SlurmSettings, read_slurm

SWEEP_KEYS = ("name", "seeds", "published", "reduced", "trials", "pruner", "slurm")
GROUP_KEYS = ("configs", "label", "common", "variants", "grid", "search")
TABLE_KEYS = ("label", "column", "published")


@dataclass(frozen=True)
class Entry:
    """One configuration with the settings of one variant: a cell of the table.

    Attributes:
        label: row.
        column: column; None: the data set.
        published: text that ``split_or_setting`` of the published value contains; None: nothing in particular.
        file: the configuration's file.
        overrides: ``(KEY, VALUE, KEY, VALUE, ...)`` as behind ``graphbench train``.
        config: loaded with them.
        where: ``file:line`` of its variant.
        origins: ``file:line`` of every key that the sweep sets.
        search: keys that its group searches over.
        base: run folder of the entry that it builds on; None: it builds on none of the sweep.
        point: its values of the grid, as in the label; empty: there is none.
    """

    label: str
    column: str | None
    published: str | None
    file: Path
    overrides: tuple[str, ...]
    config: Config
    where: str
    origins: Mapping[str, str]
    search: tuple[SearchDimension, ...] = ()
    base: Path | None = None
    point: str = ""

    @property
    def grid_label(self) -> str:
        """The label that all points of its grid have in common."""
        return self.label.removesuffix(self.point)

    @property
    def folder(self) -> Path:
        """Folder of its runs."""
        return self.config.folder

    @property
    def cell(self) -> str:
        """The row and, where it has one, the column."""
        return f"{self.label}, {self.column}" if self.column else self.label

    def value(self, key: str) -> Any:
        """The value of a key; None where its components have no such key."""
        try:
            return self.config.value(key)
        except KeyError:
            return None


@dataclass(frozen=True)
class Sweep:
    """A sweep file, read and checked.

    Attributes:
        name: name of the sweep.
        path: path of its file.
        seeds: runs per entry whose configuration does not list splits.
        published: the table of published values; None: none is named.
        reduced: whether its experiments are smaller than the published ones, which stand beside them unjudged.
        entries: entries in the order of the file.
        trials: trials of each search; None: searches are not run.
        pruner: pruner of the searches, one of :data:`~graphbench.sweeps.search.PRUNERS`.
        slurm: resources of a job on a cluster.
    """

    name: str
    path: Path
    seeds: int
    published: PublishedTable | None
    entries: tuple[Entry, ...]
    trials: int | None = None
    pruner: str = "median"
    slurm: SlurmSettings = field(default_factory=SlurmSettings)
    reduced: bool = False

    @functools.cached_property
    def varied_keys(self) -> tuple[str, ...]:
        """Keys that it sets and in which its entries differ; the name made of them is none."""
        keys = dict.fromkeys(key for entry in self.entries for key in entry.overrides[::2] if key != "name_tag")
        return tuple(key for key in keys if len({str(entry.value(key)) for entry in self.entries}) > 1)

    def repeat(self, entry: Entry) -> int:
        """The number of seeds of an entry: 1 where it is repeated over splits."""
        return 1 if entry.config.tree.run_multiple_splits else self.seeds


def read_sweep(path: str | Path, overrides: Sequence[str] = ()) -> Sweep:
    """Reads a sweep file and loads the configuration of every entry.

    Args:
        path: the file, or the name of a shipped one (:func:`graphbench.shipped.configuration`).
        overrides: ``[key, value, ...]`` for all entries; they win over the keys of the sweep.

    Raises:
        UserError: anything unknown, missing, contradictory or set twice, with file and line.
    """
    path = shipped.configuration(path)
    document = read_document(path)
    if isinstance(document.value, dict) and document.value and not document.value.keys() & {"sweep", "groups"}:
        raise UserError(f"{document.where}: this file is one configuration: it is one for graphbench train.")
    root = document.mapping("a sweep file", ("sweep", "groups"), ("sweep", "groups"))
    head = root["sweep"].mapping("sweep", SWEEP_KEYS, ("name", "seeds"))
    seeds = _count(head["seeds"], "seeds")
    entries: list[Entry] = []
    for group in root["groups"].items("groups"):
        entries += _entries(path.parent, group, tuple(overrides))
    _check_folders(entries)
    entries = linked(entries, lambda entry, keys: load_config(entry.file, keys, places=entry.origins), overrides)
    published = _published(head["published"], path.parent) if "published" in head else None
    trials = _count(head["trials"], "trials") if "trials" in head else None
    pruner = head["pruner"].value if "pruner" in head else PRUNERS[0]
    if pruner not in PRUNERS:
        raise unknown("pruner", pruner, PRUNERS, head["pruner"].where)
    slurm = read_slurm(head["slurm"]) if "slurm" in head else SlurmSettings()
    reduced = head["reduced"].value if "reduced" in head else False
    if not isinstance(reduced, bool):
        raise UserError(f"{head['reduced'].where}: reduced is true or false, received {reduced!r}.")
    return Sweep(head["name"].text("name"), path, seeds, published, tuple(entries), trials, pruner, slurm, reduced)


def _published(name: LocatedValue, folder: Path) -> PublishedTable:
    """A table of results/published by its name, or a file of the same columns, relative to the sweep's."""
    text = name.text("published")
    if not text.endswith(".csv"):
        return read_published(text, where=name.where)
    path = folder / text
    if not path.is_file():
        raise UserError(f"{name.where}: there is no file {path} (published).{neighbour(path, '*.csv')}")
    return read_published(path.stem, path.parent, name.where)


def _count(number: LocatedValue, what: str) -> int:
    if type(number.value) is not int or number.value < 1:
        raise UserError(f"{number.where}: {what} is a whole number from 1 on, received {number.value!r}.")
    return number.value


def _entries(folder: Path, group: LocatedValue, overrides: tuple[str, ...]) -> Iterator[Entry]:
    """One entry per configuration, variant and point of the grid, in this order."""
    parts = group.mapping("a group", GROUP_KEYS, ("configs",))
    label = parts["label"].text("label") if "label" in parts else None
    common = config_keys(parts["common"], "common") if "common" in parts else {}
    points = list(grid_points(parts["grid"])) if "grid" in parts else [{}]
    search = tuple(read_search(parts["search"], fixed=overrides[::2])) if "search" in parts else ()
    variants = parts["variants"].items("variants") if "variants" in parts else [LocatedValue({}, group.where)]
    for config in parts["configs"].items("configs"):
        for variant in variants:
            for point in points:
                yield _entry(folder, config, label, common, variant, point, search, overrides)


def _entry(
    folder: Path,
    config: LocatedValue,
    group_label: str | None,
    common: Mapping[str, LocatedValue],
    variant: LocatedValue,
    point: Mapping[str, LocatedValue],
    search: tuple[SearchDimension, ...],
    command_line: tuple[str, ...],
) -> Entry:
    values = variant.mapping("a variant")
    label, column, published = (values[key].text(key) if key in values else None for key in TABLE_KEYS)
    label = label or group_label
    if label is None:
        raise UserError(f"{variant.where}: a variant needs a label (its row), or its group does.")
    keys = {**common, **config_keys(variant, "a variant", TABLE_KEYS)}
    settings = with_grid_point(keys, point, variant.where)
    overrides = (*(text for key, value in settings.items() for text in (key, value.as_override())), *command_line)
    origins = {key: value.where for key, value in settings.items() if key not in command_line[::2]}
    file, loaded = _load(folder, config, overrides, origins)
    if search:  # the keys must exist and take such values
        examples = (text for dimension in search for key in dimension.keys for text in (key, dimension.example))
        search_origins = {key: dimension.where for dimension in search for key in dimension.keys}
        _load(folder, config, (*overrides, *examples), {**origins, **search_origins})
    return Entry(
        label=label + label_suffix(point),
        column=column,
        published=published,
        file=file,
        overrides=overrides,
        config=loaded,
        where=variant.where,
        origins=origins,
        search=search,
        point=label_suffix(point),
    )


def _load(
    folder: Path, name: LocatedValue, overrides: tuple[str, ...], origins: Mapping[str, str]
) -> tuple[Path, Config]:
    """The file of this name, and its configuration."""
    file = Path(os.path.normpath(shipped.beside(folder, name.text("a configuration"))))
    try:
        return file, load_config(file, overrides, places=origins)
    except UserError as error:
        missing = str(error).startswith("no such")
        raise UserError(f"{name.where}: {error}" if missing else str(error)) from None


def _check_folders(entries: Sequence[Entry]) -> None:
    first: dict[Path, Entry] = {}
    for entry in entries:
        other = first.setdefault(entry.folder, entry)
        if other is not entry:
            raise UserError(
                f"{entry.where}: the entries '{other.cell}' and '{entry.cell}' share the run folder {entry.folder}, "
                "which is named after the file and name_tag. Give one of them a name_tag of its own."
            )
