"""Sweep files: which configurations with which settings make up a table.

::

    sweep:
      name: sgformer-table5
      seeds: 5                        # runs per entry, from the configuration's seed on; where the configuration has
                                      # run_multiple_splits, one run per split instead
      published: sgformer_table5      # optional: results/published/<this>.csv holds the published values
    groups:
      - configs: [../nodes/sgformer-cora-half.yaml]      # relative to this file
        label: SGFormer               # row of the table, for variants that have none of their own
        common: {dataset.split_mode: random}             # keys of every variant
        variants:                     # default: one variant without keys
          - {column: "10 %", name_tag: r10, dataset.split: [0.1, 0.25, 0.25], published: "train_ratio=10%"}
        grid: {optim.base_lr: [0.01, 0.001]}             # product with every variant; name_tag is made from the values

An entry is one variant on one configuration. Its keys are set as on the command line of main.py; three are the table's:
``label`` (row), ``column`` (default: the data set) and ``published`` (which published value stands beside it).
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from graphbench.config import Config, load_config
from graphbench.config.schema import SCHEMA
from graphbench.errors import UserError, unknown
from graphbench.sweeps.document import Placed, read_document
from graphbench.sweeps.search import Search, read_search

SWEEP_KEYS = ("name", "seeds", "published")
GROUP_KEYS = ("configs", "label", "common", "variants", "grid", "search")
TABLE_KEYS = ("label", "column", "published")


@dataclass(frozen=True)
class Entry:
    """One configuration with the settings of one variant: a cell of the table.

    Attributes:
        label: row.
        column: column; None: the data set.
        published: what ``split_or_setting`` of the published value contains; None: nothing in particular.
        file: the configuration's file.
        overrides: ``(KEY, VALUE, KEY, VALUE, ...)`` as on the command line of main.py.
        config: loaded with them.
        where: ``file:line`` of its variant.
        places: ``file:line`` of every key that the sweep sets.
    """

    label: str
    column: str | None
    published: str | None
    file: Path
    overrides: tuple[str, ...]
    config: Config
    where: str = ""
    places: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)

    @property
    def cell(self) -> str:
        """The row and, where it has one, the column."""
        return f"{self.label}, {self.column}" if self.column else self.label


@dataclass(frozen=True)
class Sweep:
    """What a sweep file says.

    Attributes:
        name: of the sweep.
        path: of its file.
        seeds: runs per entry whose configuration does not list splits.
        published: name of the table of published values, without ending.
        entries: in the order of the file.
        search: keys to be searched over (data only; nothing runs them yet).
    """

    name: str
    path: Path
    seeds: int
    published: str | None
    entries: tuple[Entry, ...]
    search: tuple[Search, ...] = ()

    def repeat(self, entry: Entry) -> int:
        """The number of seeds of an entry: 1 where it is repeated over splits."""
        return 1 if entry.config.tree.run_multiple_splits else self.seeds


def read_sweep(path: str | Path, overrides: Sequence[str] = ()) -> Sweep:
    """Reads a sweep file and loads the configuration of every entry.

    Args:
        path: the file.
        overrides: ``[key, value, ...]`` for all entries; they win over the keys of the sweep.

    Raises:
        UserError: anything unknown, missing, contradictory or set twice, with file and line.
    """
    path = Path(path)
    root = read_document(path).mapping("a sweep file", ("sweep", "groups"), ("sweep", "groups"))
    head = root["sweep"].mapping("sweep", SWEEP_KEYS, ("name", "seeds"))
    seeds = head["seeds"].value
    if type(seeds) is not int or seeds < 1:
        raise UserError(f"{head['seeds'].where}: seeds is a whole number from 1 on, received {seeds!r}.")
    entries: list[Entry] = []
    search: list[Search] = []
    for group in root["groups"].items("groups"):
        parts = group.mapping("a group", GROUP_KEYS, ("configs",))
        entries += _entries(path, group, parts, tuple(overrides))
        search += read_search(parts["search"]) if "search" in parts else ()
    _check_folders(entries)
    published = head["published"].text("published") if "published" in head else None
    return Sweep(head["name"].text("name"), path, seeds, published, tuple(entries), tuple(search))


def load_entry(file: Path, overrides: Sequence[str], places: Mapping[str, str]) -> Config:
    """Loads a configuration whose overrides come from a sweep file: errors name the lines there.

    Args:
        file: of the configuration.
        overrides: ``[key, value, ...]``.
        places: ``file:line`` of those that the sweep set; the others come from the command line.
    """
    try:
        config = load_config(file, overrides)
    except UserError as error:
        for key, value in zip(overrides[::2], overrides[1::2], strict=False):
            if key in places and _says_the_same(file, key, value, str(error)):
                raise UserError(str(error).replace("command line", places[key], 1)) from None
        raise
    return dataclasses.replace(config, origin={**config.origin, **places})


def _says_the_same(file: Path, key: str, value: str, message: str) -> bool:
    """Whether one key alone is to blame for a message."""
    try:
        load_config(file, [key, value])
    except UserError as error:
        return message.startswith("command line") and str(error) == message
    return False


def _entries(path: Path, group: Placed, parts: Mapping[str, Placed], overrides: tuple[str, ...]) -> Iterator[Entry]:
    common = _keys(parts["common"], "common") if "common" in parts else {}
    grid = list(_grid(parts["grid"])) if "grid" in parts else [{}]
    variants = parts["variants"].items("variants") if "variants" in parts else [Placed({}, group.where)]
    for name in parts["configs"].items("configs"):
        file = Path(os.path.normpath(path.parent / name.text("a configuration")))
        for variant in variants:
            own = variant.mapping("a variant")
            table = {key: own[key].text(key) for key in TABLE_KEYS if key in own}
            label = table.get("label") or (parts["label"].text("label") if "label" in parts else None)
            if label is None:
                raise UserError(f"{variant.where}: a variant needs a label (its row), or its group does.")
            keys = common | _keys(variant, "a variant", TABLE_KEYS)
            for point in grid:
                settings = keys | point
                if point:
                    settings["name_tag"] = _tag(keys.get("name_tag"), point, variant.where)
                own_overrides = tuple(text for key, value in settings.items() for text in (key, value.as_override()))
                given = set(overrides[::2])
                places = {key: value.where for key, value in settings.items() if key not in given}
                try:
                    config = load_entry(file, (*own_overrides, *overrides), places)
                except UserError as error:
                    place = name.where if f"{file}'" in str(error) else variant.where
                    raise UserError(
                        str(error) if str(path) in str(error) else f"{place}: entry '{label}': {error}"
                    ) from None
                yield Entry(
                    label + _suffix(point),
                    table.get("column"),
                    table.get("published"),
                    file,
                    (*own_overrides, *overrides),
                    config,
                    variant.where,
                    places,
                )


def _keys(section: Placed, what: str, table: Sequence[str] = ()) -> dict[str, Placed]:
    """The configuration keys of a section; ``table`` are those that are none."""
    found = {key: value for key, value in section.mapping(what).items() if key not in table}
    for key, value in found.items():
        if "." not in key and key not in SCHEMA:
            top = [each for each in SCHEMA if "." not in each]
            raise unknown(f"key of {what}", key, [*table, *top], value.where)
        if isinstance(value.value, dict):
            raise UserError(f"{value.where}: {what} has dotted keys ({key}.KEY: VALUE), received a mapping at '{key}'.")
    return found


def _grid(section: Placed) -> Iterator[dict[str, Placed]]:
    keys = _keys(section, "grid")
    for key, values in keys.items():
        texts = [each.as_override() for each in values.items(f"grid over {key}")]
        if len(set(texts)) < len(texts):
            raise UserError(f"{values.where}: grid over {key} has a value twice, received {texts}.")
    for point in itertools.product(*(values.value for values in keys.values())):
        yield dict(zip(keys, (Placed(each.value, keys[key].where) for key, each in zip(keys, point)), strict=True))


def _short(point: Mapping[str, Placed]) -> dict[str, str]:
    """The last parts of the keys where they are unambiguous, and the values."""
    last = [key.rpartition(".")[2] for key in point]
    unique = len(set(last)) == len(last)
    return {name if unique else key: point[key].as_override() for name, key in zip(last, point)}


def _tag(tag: Placed | None, point: Mapping[str, Placed], where: str) -> Placed:
    values = "_".join(f"{name}-{value}" for name, value in _short(point).items())
    values = re.sub(r"[^\w.+-]+", "-", values).strip("-")
    return Placed(f"{tag.value}_{values}" if tag and tag.value else values, where)


def _suffix(point: Mapping[str, Placed]) -> str:
    return f" ({', '.join(f'{name}={value}' for name, value in _short(point).items())})" if point else ""


def _check_folders(entries: Sequence[Entry]) -> None:
    first: dict[Path, Entry] = {}
    for entry in entries:
        folder = Path(entry.config.tree.out_dir, entry.config.name)
        other = first.setdefault(folder, entry)
        if other is not entry:
            raise UserError(
                f"{entry.where}: the entries '{other.cell}' and '{entry.cell}' share the run folder {folder}, "
                "which is named after the file and name_tag. Give one of them a name_tag of its own."
            )
