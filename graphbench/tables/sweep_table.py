"""Table of a sweep: measured means in rows of models and columns of data sets, compared with published values.

Pure computation on run records; :mod:`graphbench.tables.sweep_layout` turns it into text.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from graphbench.config.settings import describe_differences
from graphbench.errors import UserError, unknown
from graphbench.published.scales import Scale
from graphbench.published.table import PublishedRow, PublishedTable
from graphbench.runs.aggregate import Aggregate, Mean, aggregate
from graphbench.runs.identity import RunIdentity
from graphbench.sweeps.cells import CellSpec, check_cells
from graphbench.tables.doubts import approximation_text, doubts
from graphbench.tables.significance import SIGNIFICANT, Comparison, Verdict, compare, holm, paired, welch

MAX_RANK = 3

Status = (
    Verdict
    | Literal[
        "not run",
        "unfinished",
        "failed",
        "other configuration",
        "other code",
        "not published",
        "not comparable",
        "smaller",
    ]
)
"""Verdict of a comparison, or why there is none.

``other configuration``, ``other code``: see :attr:`Cell.stale`; ``not comparable``: the runs lack the metric;
``smaller`` than the published experiment.
"""


@dataclass(frozen=True)
class Cell:
    """One model on one data set.

    Attributes:
        spec: runs and published value that it is computed from.
        result: the runs.
        measured: mean over them, in the scale of the column; None without a finished run or without its metric.
        published: value in the paper; None: nothing.
        comparison: None where measured or published is missing.
        rank: 1, 2 or 3 in its column, equals share one; never the last.
        p_value: two-sided t-test against the baseline in the same column, paired where both have the same different
            splits, else Welch's; None where it cannot be made.
        paired: whether the test was paired.
        corrected_p: ``p_value`` corrected for the number of tests of the table (:func:`.significance.holm`).
        better: whether it is better than the baseline; None without a p-value.
        validation: mean on validation of the metric that ``measured`` has.
    """

    spec: CellSpec
    result: Aggregate
    measured: Mean | None
    published: PublishedRow | None
    comparison: Comparison | None = None
    rank: int | None = None
    p_value: float | None = None
    paired: bool = False
    corrected_p: float | None = None
    better: bool | None = None
    validation: Mean | None = None

    @property
    def differs(self) -> bool:
        """Whether it is better or worse than the baseline, significantly."""
        return self.corrected_p is not None and self.corrected_p < SIGNIFICANT

    @property
    def status(self) -> Status:
        """Verdict of the comparison, or why there is none."""
        if self.stale:
            return "other code" if self.other_code else "other configuration"
        if self.measured is None:
            begun = set(self.result.left_out.values()) - {"missing"}
            if self.result.runs or not begun:
                return "not comparable" if self.result.runs else "not run"
            return "failed" if all(reason.startswith("failed") for reason in begun) else "unfinished"
        if self.comparison and self.spec.reduced:
            return "smaller"
        return self.comparison.status if self.comparison else "not published"

    @property
    def doubts(self) -> list[str]:
        """Keys of :data:`~graphbench.tables.doubts.EXPLANATIONS` that hold for its mean."""
        raw = self.result.mean("test", self.measured.name) if self.measured else None
        if raw is None or not math.isfinite(raw.mean):
            return []
        bounded = 0.0 <= raw.mean <= 1.0 and raw.maximize
        return doubts(self.result.runs, raw, bounded=bounded)

    @property
    def error(self) -> str:
        """Error of an approximate evaluation, see :func:`~graphbench.tables.doubts.approximation_text`."""
        return approximation_text(self.result.runs, self.measured.name) if self.measured else ""

    @property
    def differing(self) -> str:
        """Settings in which its runs differ from the sweep; empty where that is not known."""
        ran = self.result.runs[0].settings if self.result.runs else {}
        return describe_differences(self.spec.settings, ran) if ran and self.spec.settings else ""

    @property
    def other_code(self) -> list[str]:
        """Plug-ins of which its runs, of the sweep's configuration, had another version than there is today."""
        first, *_ = self.result.runs or (None,)
        if first is None or self._other_settings:
            return []
        return sorted(first.identity.differences(RunIdentity(first.config_hash, self.spec.code)))

    @property
    def stale(self) -> bool:
        """Whether its runs have other settings or plug-ins than the sweep: shown, but neither ranked nor judged."""
        return self._other_settings or bool(self.other_code)

    @property
    def _other_settings(self) -> bool:
        runs = self.result.runs
        return bool(runs and self.spec.config_hash and runs[0].config_hash != self.spec.config_hash)


@dataclass(frozen=True)
class Column:
    """One data set, metric and scale.

    Attributes:
        name: heading.
        dataset: name on the card.
        scale: scale of its numbers; None where nothing is known (no run, nothing published).
        digits: decimals.
    """

    name: str
    dataset: str
    scale: Scale | None
    digits: int


@dataclass(frozen=True)
class SweepTable:
    """A sweep's results.

    Attributes:
        name: name of the sweep.
        labels: rows.
        columns: columns.
        cells: cells by label and column; the sweep need not have all.
        published: the paper's table; None: none was named.
        baseline: label of the t-tests; None: none.
        notes: what is to be said of its rows.
    """

    name: str
    labels: tuple[str, ...]
    columns: tuple[Column, ...]
    cells: dict[tuple[str, str], Cell]
    published: PublishedTable | None
    baseline: str | None
    notes: tuple[str, ...] = ()

    def column(self, cell: Cell) -> Column:
        """The column of a cell."""
        return next(column for column in self.columns if column.name == cell.spec.column)


@dataclass(frozen=True)
class NumberFormat:
    """Scale and decimals of measured numbers.

    Attributes:
        percent: metrics that are better when larger and between 0 and 1, in percent; the numbers of a column with
            published values have the scale of these.
        digits: decimals; None: those of the published values, else 4, 2 of percentages.
    """

    percent: bool = False
    digits: int | None = None


def sweep_table(
    name: str,
    specs: Sequence[CellSpec],
    *,
    published: PublishedTable | None = None,
    baseline: str | None = None,
    number_format: NumberFormat = NumberFormat(),
) -> SweepTable:
    """Reads the records of a sweep and computes its table.

    Args:
        name: name of the sweep.
        specs: specifications of its cells, in the order of rows and columns.
        published: the paper's table.
        baseline: label that the others are tested against.
        number_format: scale and decimals.

    Raises:
        UserError: two entries for a cell, a column of several data sets or metrics, an unknown baseline or published
            value, or no finished run at all.
    """
    labels = tuple(dict.fromkeys(spec.label for spec in specs))
    if baseline is not None and baseline not in labels:
        raise unknown(f"label of {name}", baseline, labels, "--baseline")
    check_cells(specs)
    columns, compared = _compared(specs, published, baseline, number_format)
    if not any(cell.result.runs for cell in compared.values()):
        searched = list(dict.fromkeys(str(spec.records) for spec in specs))
        more = ", ..." if len(searched) > 3 else ""
        raise UserError(f"no finished run of {name}: looked in {', '.join(searched[:3])}{more}")
    ordered = {(spec.label, spec.column): compared[spec.label, spec.column] for spec in specs}
    return SweepTable(name, labels, tuple(columns), ordered, published, baseline)


def sweep_cells(specs: Sequence[CellSpec], published: PublishedTable) -> list[Cell]:
    """The cells of a sweep, compared with a published table, whether or not there are runs.

    Args:
        specs: specifications in the order of rows and columns.
        published: the paper's table.
    """
    compared = _compared(specs, published, None, NumberFormat())[1]
    return [compared[spec.label, spec.column] for spec in specs]


def _compared(
    specs: Sequence[CellSpec], published: PublishedTable | None, baseline: str | None, number_format: NumberFormat
) -> tuple[list[Column], dict[tuple[str, str], Cell]]:
    """Columns, and cells by label and column."""
    cells = []
    for spec in specs:
        row = published.find(spec.label, spec.dataset, spec.selector, spec.where) if published else None
        cells.append(Cell(spec, runs_of(spec), None, row))
    columns: list[Column] = []
    compared: dict[tuple[str, str], Cell] = {}
    for column, members in _columns(cells, number_format):
        columns.append(column)
        compared |= {(cell.spec.label, column.name): cell for cell in _compare_column(column, members, baseline)}
    tested = {key: cell.p_value for key, cell in compared.items() if cell.p_value is not None}
    for key, corrected in zip(tested, holm([*tested.values()]), strict=True):
        compared[key] = replace(compared[key], corrected_p=corrected)
    return columns, compared


def runs_of(spec: CellSpec) -> Aggregate:
    """The runs of the configuration and its plug-ins as they are today; without any, those of the one that ran last."""
    if spec.config_hash:
        identity = RunIdentity(spec.config_hash, spec.code)
        result = aggregate(spec.records, identity=identity, expected=spec.run_ids)
        if result.runs:
            return result
    return aggregate(spec.records, expected=spec.run_ids)


def _columns(cells: Sequence[Cell], number_format: NumberFormat) -> Iterable[tuple[Column, list[Cell]]]:
    """The cells by column, with the scale of the published values; without one the scale of the records."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(cell.spec.column, []).append(cell)
    row_of_metric: dict[str | None, PublishedRow] = {}
    for cell in cells:  # a column without published values takes the scale of one that has the same metric
        row = cell.published
        if row is not None and row.mean:
            row_of_metric |= {name: row for name in row.scale.names if name not in row_of_metric}
    for name, members in groups.items():
        rows = [cell.published for cell in members if cell.published]
        metrics = {row.metric for row in rows} or {cell.result.metric for cell in members if cell.result.metric}
        if len(metrics) > 1:
            shown = ", ".join(sorted(map(str, metrics)))
            raise UserError(f"the column '{name}' mixes the metrics {shown}. Give each a column of its own.")
        metric = next(iter(metrics), None)
        if not rows and metric in row_of_metric:
            rows = [row_of_metric[metric]]
        if rows:
            scale: Scale | None = rows[0].scale
        elif metric is not None:
            scale = _recorded_scale(metric, [cell.result for cell in members if cell.result.runs], number_format)
        else:
            scale = None
        digits = max((row.digits for row in rows if row.mean), default=4 if scale is None or scale.factor == 1.0 else 2)
        digits = digits if number_format.digits is None else number_format.digits
        yield Column(name, members[0].spec.dataset, scale, digits), members


def _recorded_scale(metric: str, results: Sequence[Aggregate], number_format: NumberFormat) -> Scale:
    """The scale of a column without published values: as recorded, or in percent."""
    maximize = bool(results[0].runs[0].maximize)
    means = [mean.mean for result in results if (mean := result.mean("test"))]
    if number_format.percent and maximize and all(0.0 <= mean <= 1.0 for mean in means if math.isfinite(mean)):
        return Scale(f"{metric} (%)", maximize, (metric,), factor=100.0)
    return Scale(metric, maximize, (metric,))


def _compare_column(column: Column, cells: Sequence[Cell], baseline: str | None) -> list[Cell]:
    """The cells of a column with mean, rank and comparisons."""
    if column.scale is None:
        return list(cells)
    scale = column.scale
    cells = [_with_means(scale, cell) for cell in cells]
    sign = 1 if scale.maximize else -1
    judged = [cell for cell in cells if cell.measured and not cell.stale]
    finite = [sign * cell.measured.mean for cell in judged if cell.measured and math.isfinite(cell.measured.mean)]
    against = next((cell for cell in judged if cell.spec.label == baseline), None)
    compared = []
    for cell in cells:
        measured, row = cell.measured, cell.published
        if measured is not None and math.isfinite(measured.mean) and not cell.stale:
            rank = 1 + sum(value > sign * measured.mean for value in finite)
            cell = replace(cell, rank=rank if rank <= min(MAX_RANK, len(finite) - 1) else None)
            if row is not None and row.mean:
                std = float(row.std) if row.std else None
                cell = replace(cell, comparison=compare(scale, measured.mean, float(row.mean), std))
            if against is not None and against.measured is not None and cell.spec.label != baseline:
                by_split = paired(cell.result.runs, against.result.runs, measured.name)
                p_value = welch(measured, against.measured) if by_split is None else by_split
                better = None if p_value is None else sign * (measured.mean - against.measured.mean) > 0
                cell = replace(cell, p_value=p_value, paired=by_split is not None, better=better)
        compared.append(cell)
    return compared


def _with_means(scale: Scale, cell: Cell) -> Cell:
    """The cell with its means in the scale of the column, of the first metric that fits and that the runs have.

    Where the metric that tables compare by fits, it comes first.
    """
    result = cell.result
    preferred = [result.metric] if result.metric in scale.names else []
    for name in (*preferred, *scale.names):
        measured = _scaled(scale, result.mean("test", name))
        if measured is not None:
            return replace(cell, measured=measured, validation=_scaled(scale, result.mean("val", name)))
    return cell


def _scaled(scale: Scale, mean: Mean | None) -> Mean | None:
    if mean is None:
        return None
    std = None if mean.std is None else mean.std * scale.factor
    return replace(mean, mean=mean.mean * scale.factor, std=std)
