"""Two sources of numbers, published tables and run records; both give a mean with its spread."""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from graphbench.errors import UserError, unknown
from graphbench.published.table import PublishedRow, PublishedTable, read_published
from graphbench.runs.aggregate import Aggregate, Mean, aggregate
from graphbench.runs.identity import RunIdentity
from graphbench.runs.records import PACKED
from graphbench.runs.summary import format_mean
from graphbench.tables.significance import welch
from study.shipped_sweeps import SWEEPS, shipped_sweep

SIZES = {"k": 1e3, "M": 1e6}
DERIVED = ("gap", "params")


@dataclass(frozen=True)
class Quantity:
    """A number that a rule compares.

    Attributes:
        name: its origin, for the reader.
        mean: arithmetic mean.
        std: sample standard deviation, or that printed; None: none.
        n: runs; None where the paper does not say.
        maximize: True when larger is better.
        point: one point: 0.01 of a fraction, 1 of a percentage, 1 % of anything else.
        shown: as text.
        runs: the same for a Welch test; None for what is printed.
    """

    name: str
    mean: float
    std: float | None
    n: int | None
    maximize: bool
    point: float
    shown: str
    runs: Mean | None = None

    def beats(self, other: Quantity) -> bool:
        """Whether the mean alone is better."""
        return self.mean > other.mean if self.maximize else self.mean < other.mean

    def p_value(self, other: Quantity) -> float | None:
        """Of Welch's test; None without runs on both sides, or without spread."""
        return welch(self.runs, other.runs) if self.runs and other.runs else None


Source = Callable[[str], "Quantity | None"]
"""A reference as written in the file of claims -> its quantity; None where there is none (yet)."""


def published(reference: str) -> Quantity | None:
    """A cell of a published table: ``TABLE: key=value; key=value``, keys as in the tables, or ``model``, ``dataset``...

    ``metric=params`` is the size printed in that line.

    Raises:
        UserError: no such table, or not exactly one line.
    """
    name, _, rest = reference.partition(":")
    asked = dict(_pair(part, reference) for part in rest.split(";") if part.strip())
    size = asked.get("metric") == "params" and asked.pop("metric")
    rows = [row for row in _table(name.strip()).rows if asked.items() <= _keys(row).items()]
    if size:
        rows = [row for row in rows if row.params][:1]
    if len(rows) > 1:  # the plain result, not that of a footnote
        rows = [row for row in rows if not row.setting] or rows
    if len(rows) != 1:
        raise UserError(f"'{reference}' fits {len(rows)} lines of results/published/{name.strip()}.csv, not one.")
    row = rows[0]
    settings = [f"{key} {value}" for key, value in asked.items() if key not in ("model", "dataset", "metric")]
    where = ", ".join([row.model, *([row.dataset] if "dataset" in asked else []), *settings])
    if size:
        digits = row.params.replace(",", "")
        value = float(digits.rstrip("kM")) * SIZES.get(digits[-1], 1.0)
        return Quantity(f"{where}, parameters", value, None, None, False, 0.01 * value, row.params)
    if not row.mean:
        return None
    mean = float(row.mean)
    std = float(row.std) if row.std else None
    return Quantity(where, mean, std, row.n_runs, row.scale.maximize, row.scale.point(mean), row.printed)


def cells(table: str, sets: tuple[str, ...] = ()) -> dict[tuple[str, ...], dict[str, Quantity]]:
    """A published table by column (data set, metric, setting), then by model; footnotes are left out.

    Args:
        table: its name.
        sets: data sets; none: all.
    """
    rows = [row for row in _table(table).rows if row.mean and (not sets or row.dataset in sets)]
    plain = {(row.dataset, row.metric) for row in rows if not row.setting}
    columns: dict[tuple[str, ...], dict[str, Quantity]] = {}
    for row in rows:
        if row.setting and (row.dataset, row.metric) in plain:
            continue
        mean = float(row.mean)
        std = float(row.std) if row.std else None
        column = columns.setdefault((row.dataset, row.metric, row.setting), {})
        column[row.model] = Quantity(
            row.model, mean, std, row.n_runs, row.scale.maximize, row.scale.point(mean), row.printed
        )
    return columns


def measured(root: Path) -> Source:
    """Records below a folder: ``TABLE/CONFIGURATION`` (``TABLE.jsonl`` where packed), ``@`` and a metric of test.

    Runs of another configuration than that of the sweep ``TABLE`` today are none, as the tables do not judge them.
    Default: the metric that selected the epochs. ``@gap`` is training minus test of that metric, the other way round
    for errors, at the best epoch; ``@params`` the number of parameters.
    """

    def find(reference: str) -> Quantity | None:
        name, _, metric = reference.partition("@")
        table, _, config = name.partition("/")
        packed = root / f"{table}{PACKED}"
        today = _today(table).get(config) if packed.is_file() else None
        result = _aggregate(packed / config if packed.is_file() else root / name, today)
        mean = _derived(result, metric) if metric in DERIVED else result.mean("test", metric or None)
        if mean is None:
            return None
        shown = f"{mean.mean:,.0f}" if metric == "params" else format_mean(mean)
        path = f"`{name}`" + (f" ({metric})" if metric else "")
        bounded = metric in DERIVED or mean.maximize
        return Quantity(
            path,
            mean.mean,
            mean.std,
            mean.n,
            mean.maximize,
            0.01 if bounded else 0.01 * abs(mean.mean),
            f"{shown} (n = {mean.n})",
            mean,
        )

    return find


def _derived(result: Aggregate, what: str) -> Mean | None:
    if not result.runs or result.metric is None:
        return None
    if what == "params":
        values = [float(run.params) for run in result.runs if run.params is not None]
    else:
        sign = 1.0 if result.runs[0].maximize else -1.0
        pairs = [(run.score("train"), run.score("test")) for run in result.runs]
        values = [sign * (train - test) for train, test in pairs if train is not None and test is not None]
    if not values or not all(map(math.isfinite, values)):
        return None
    std = statistics.stdev(values) if len(values) > 1 else None
    return Mean("test", what, False, statistics.fmean(values), std, len(values))


def _pair(text: str, reference: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise UserError(f"'{reference}': a part is key=value, received '{text.strip()}'.")
    return key.strip(), value.strip()


def _keys(row: PublishedRow) -> dict[str, str]:
    return {"model": row.model, "dataset": row.dataset, "metric": row.metric, **row.settings}


@functools.cache
def _table(name: str) -> PublishedTable:
    return read_published(name)


@functools.cache
def _aggregate(folder: Path, config_hash: str | None) -> Aggregate:
    return aggregate(folder, identity=RunIdentity(config_hash) if config_hash else None)


@functools.cache
def _today(table: str) -> Mapping[str, str]:
    """Hash by name of the configurations of a shipped sweep; of those that adopt a pretrained run it is not known."""
    is_shipped = any(path.stem == table for path in SWEEPS)
    configs = [entry.config for entry in shipped_sweep(table).entries] if is_shipped else []
    return {config.name: config.hash for config in configs if not config.tree.pretrained.dir}


def check_names(asked: dict[str, object], allowed: tuple[str, ...], where: str) -> None:
    """Refuses an unknown key.

    Raises:
        UserError: with the nearest valid name.
    """
    for key in asked:
        if key not in allowed:
            raise unknown("key", key, allowed, where)
