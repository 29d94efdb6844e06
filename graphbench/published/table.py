"""Published tables, one number per line: ``results/published/<table>.csv``.

The numbers are the papers' claims, with the digits and on the scale of print; ``results/published/README.md`` describes
the columns and says what is doubtful about single cells.
"""

from __future__ import annotations

import csv
import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from graphbench import shipped
from graphbench.errors import UserError, unknown
from graphbench.published.scales import METRICS, OUR_DATASETS, Scale

FOLDER = shipped.root() / "results" / "published"
COLUMNS = (
    "paper",
    "table",
    "model",
    "dataset",
    "split_or_setting",
    "metric",
    "direction",
    "mean",
    "std",
    "n_runs",
    "params",
    "note",
)
DIRECTIONS = {"higher": True, "lower": False}


@dataclass(frozen=True)
class PublishedRow:
    """One published number.

    Attributes:
        paper: short name of the method the paper presents.
        table: number of the table in the paper.
        model: row of the table, as printed.
        dataset: name in the spelling that all published tables share.
        setting: ``key=value;key=value``; empty: the standard split of the benchmark.
        metric: a key of :data:`METRICS`, which has its scale.
        mean: digits as printed; empty where the cell is.
        std: digits as printed; empty where none is printed.
        n_runs: number of runs, where the paper says it for this row.
        params: number of parameters, as printed.
        note: doubts, origin, why a cell is empty.
    """

    paper: str
    table: str
    model: str
    dataset: str
    setting: str
    metric: str
    mean: str
    std: str
    n_runs: int | None
    params: str
    note: str

    @property
    def scale(self) -> Scale:
        """Direction, unit and our name of its metric."""
        return METRICS[self.metric]

    @property
    def card(self) -> str:
        """Name of its data set on our card, up to case."""
        return OUR_DATASETS.get((self.paper, self.dataset), self.dataset)

    @property
    def digits(self) -> int:
        """Decimals of the mean."""
        return len(self.mean.partition(".")[2])

    @property
    def printed(self) -> str:
        """``84.5 ± 0.8``; ``OOM``, ``OOT`` or ``-`` where the paper has no number."""
        if not self.mean:
            return self.note[:3] if self.note.startswith(("OOM", "OOT")) else "-"
        return self.mean + (f" ± {self.std}" if self.std else "")

    @property
    def settings(self) -> dict[str, str]:
        """The setting by key."""
        return dict(part.split("=", 1) for part in self.setting.split(";") if part)

    @functools.cached_property
    def selectors(self) -> dict[str, str]:
        """Arguments that :meth:`PublishedTable.find` takes: setting, model, data set and metric."""
        return {"model": self.model, "dataset": self.dataset, "metric": self.metric, **self.settings}


@dataclass(frozen=True)
class PublishedTable:
    """One table of one paper.

    Attributes:
        name: name of the file, without ending.
        rows: rows in the order of the file.
        file: path of the file, for readers.
    """

    name: str
    rows: tuple[PublishedRow, ...]
    file: str

    @property
    def title(self) -> str:
        """``SGFormer, Table 2``."""
        return f"{self.rows[0].paper}, Table {self.rows[0].table}"

    @functools.cached_property
    def models(self) -> tuple[str, ...]:
        """Models in the order of the paper."""
        return tuple(dict.fromkeys(row.model for row in self.rows))

    def find(
        self, label: str, dataset: str, selector: str | None = None, where: str | None = None
    ) -> PublishedRow | None:
        """The number that a test score of ours is compared with.

        Args:
            label: model; one that the table does not have is left open if ``selector`` is given.
            dataset: name on our card.
            selector: ``key=value;...`` that its setting must contain; ``model``, ``dataset`` and ``metric`` (as
                printed) are keys, too.
            where: ``file:line`` for messages.

        Returns:
            The row; None where the paper has none.

        Raises:
            UserError: ``selector`` has a key or value that is nowhere in the table, or several rows fit.
        """
        asked = self._parse(selector or "", where)
        if "model" not in asked and label in self.models:
            asked["model"] = label
        elif "model" not in asked and not selector:
            return None
        matches = [
            row
            for row in self.rows
            if row.scale.comparable
            and ("dataset" in asked or row.card.casefold() == dataset.casefold())
            and asked.items() <= row.selectors.items()
        ]
        if len(matches) > 1 and not selector:  # the plain result, not that of a footnote
            matches = [row for row in matches if not row.setting] or matches
        if len(matches) > 1:
            raise UserError(
                (f"{where}: " if where else "")
                + f"{len(matches)} values of the published table {self.name} fit '{label}' on {dataset}"
                + (f" with '{selector}'" if selector else "")
                + '. Say which one by `published: "key=value;..."`: '
                + ", ".join(f"model={row.model};{row.setting or f'metric={row.metric}'}" for row in matches[:6])
                + (", ..." if len(matches) > 6 else ".")
            )
        return matches[0] if matches else None

    @functools.cached_property
    def _known(self) -> frozenset[tuple[str, str]]:
        return frozenset(pair for row in self.rows for pair in row.selectors.items())

    def _parse(self, selector: str, where: str | None) -> dict[str, str]:
        known = self._known
        asked: dict[str, str] = {}
        for part in filter(None, (part.strip() for part in selector.split(";"))):
            key, _, value = (word.strip() for word in part.partition("="))
            if (key, value) not in known:
                raise unknown(
                    f"part of the published table {self.name}", part, map("=".join, known), where, listed=self.file
                )
            asked[key] = value
        return asked


def names(folder: Path = FOLDER) -> list[str]:
    """Names of all published tables."""
    return sorted(path.stem for path in folder.glob("*.csv"))


def read_published(name: str, folder: Path = FOLDER, where: str | None = None) -> PublishedTable:
    """Reads one published table.

    Args:
        name: name of the file, without ending.
        folder: folder of the files.
        where: ``file:line`` of the name, for messages.

    Raises:
        UserError: no such table, or a line that is not as the columns say.
    """
    path = folder / f"{name}.csv"
    if name not in names(folder):
        raise unknown("published table", name, names(folder), where, listed="graphbench list sweeps")
    rows: dict[tuple[str, ...], PublishedRow] = {}
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.reader(file)
        header = tuple(next(reader, ()))
        if header != COLUMNS:
            raise UserError(f"{path}:1: columns are {','.join(COLUMNS)}, received {','.join(header)}.")
        for cells in reader:
            row = _row(cells, f"{path}:{reader.line_num}")
            key = (row.model, row.dataset, row.setting, row.metric)
            if key in rows:
                raise UserError(f"{path}:{reader.line_num}: a second value for {', '.join(filter(None, key))}.")
            rows[key] = row
    if not rows or len({(row.paper, row.table) for row in rows.values()}) > 1:
        raise UserError(f"{path}: holds exactly one table of one paper.")
    shown = f"results/published/{path.name}" if folder == FOLDER else str(path)
    return PublishedTable(name, tuple(rows.values()), shown)


def _row(cells: Sequence[str], where: str) -> PublishedRow:
    if len(cells) != len(COLUMNS):
        raise UserError(f"{where}: {len(COLUMNS)} columns, received {len(cells)}.")
    cell = dict(zip(COLUMNS, cells, strict=True))
    if cell["metric"] not in METRICS:
        raise unknown("published metric", cell["metric"], METRICS, where)
    if DIRECTIONS.get(cell["direction"]) is not METRICS[cell["metric"]].maximize:
        allowed = "higher" if METRICS[cell["metric"]].maximize else "lower"
        raise UserError(f"{where}: direction of {cell['metric']} is {allowed}, received '{cell['direction']}'.")
    for column, pattern, what in (
        ("paper", r".+", "not empty"),
        ("table", r"\d+", "a number"),
        ("model", r".+", "not empty"),
        ("dataset", r".+", "not empty"),
        ("split_or_setting", r"([^=;]+=[^;]+(;[^=;]+=[^;]+)*)?", "key=value;key=value or empty"),
        ("mean", r"(-?\d+(\.\d+)?)?", "a number or empty"),
        ("std", r"(\d+(\.\d+)?)?" if cell["mean"] else "", "a number or empty, empty without a mean"),
        ("n_runs", r"([1-9]\d*)?", "a count or empty"),
        ("note", r".*" if cell["mean"] else r".+", "not empty without a mean"),
    ):
        if not re.fullmatch(pattern, cell[column]):
            raise UserError(f"{where}: {column} is {what}, received '{cell[column]}'.")
    return PublishedRow(
        paper=cell["paper"],
        table=cell["table"],
        model=cell["model"],
        dataset=cell["dataset"],
        setting=cell["split_or_setting"],
        metric=cell["metric"],
        mean=cell["mean"],
        std=cell["std"],
        n_runs=int(cell["n_runs"]) if cell["n_runs"] else None,
        params=cell["params"],
        note=cell["note"],
    )
