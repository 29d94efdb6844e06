"""The cells of a sweep's table: which runs belong into which, and with what they are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphbench.errors import UserError
from graphbench.runs.identity import code_inputs
from graphbench.runs.planned import planned_runs
from graphbench.runs.record import RunRecord
from graphbench.sweeps.sweep import Entry, Sweep


@dataclass(frozen=True)
class CellSpec:
    """Runs and published value that one cell is computed from.

    Attributes:
        label: row.
        column: column.
        dataset: name on the card.
        records: folder of the configuration's runs, or ``<name>.jsonl/<config>``.
        run_ids: folder names of the runs that are expected.
        config_hash: hash of the configuration as it is today; empty: unknown.
        code: digests of the users' code of the configuration as it is today, by the name of the input.
        settings: settings of the configuration as it is today, to say what differs.
        varied: values of the keys in which the sweep's entries differ.
        selector: key of the published value it is compared with, see :meth:`PublishedTable.find`.
        where: ``file:line`` for messages.
        reduced: the experiment is smaller than the published one: shown beside it, not judged.
        point: values of a grid at the end of the label; empty: there is none.
    """

    label: str
    column: str
    dataset: str
    records: Path
    run_ids: tuple[str, ...]
    config_hash: str = ""
    code: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    varied: Mapping[str, Any] = field(default_factory=dict)
    selector: str | None = None
    where: str | None = None
    reduced: bool = False
    point: str = ""

    @classmethod
    def of_entry(cls, sweep: Sweep, entry: Entry, *, dataset: str, records: Path) -> CellSpec:
        """The cell of a sweep's entry; its column is the data set where the entry has none."""
        return cls(
            label=entry.label,
            column=entry.column or dataset,
            dataset=dataset,
            records=records,
            run_ids=tuple(str(run.run_id) for run in planned_runs(entry.config, sweep.repeat(entry))),
            # What a run adopts from a pretrained one is not known before it.
            config_hash="" if entry.config.tree.pretrained.dir else entry.config.hash,
            code=code_inputs(entry.config.code, entry.config.component_code),
            settings=entry.config.settings,
            varied={key: entry.value(key) for key in sweep.varied_keys},
            selector=entry.published,
            where=entry.where,
            reduced=sweep.reduced,
            point=entry.point,
        )

    @property
    def name(self) -> str:
        """``SGFormer, Cora``."""
        return f"{self.label}, {self.column}"

    def shortfall(self, runs: Sequence[RunRecord]) -> str:
        """``3 of 5``; empty where all expected runs are among ``runs``.

        A run of another seed does not take the place of a missing one: ``4 of 5 and 1 more``.
        """
        finished, expected = len(runs), len(self.run_ids)
        there = len({*self.run_ids} & {run.run_id for run in runs})
        if there == expected or finished < expected:
            return "" if there == expected else f"{finished} of {expected}"
        return f"{there} of {expected} and {finished - there} more"


def check_cells(specs: Sequence[CellSpec]) -> None:
    """Refuses two entries in one cell of a table, and a column of several data sets.

    Raises:
        UserError: naming both entries.
    """
    of_cell: dict[tuple[str, str], CellSpec] = {}
    of_column: dict[str, CellSpec] = {}
    for spec in specs:
        where = f"{spec.where}: " if spec.where else ""
        first = of_cell.setdefault((spec.label, spec.column), spec)
        if first is not spec:
            raise UserError(
                f"{where}two entries for the cell '{spec.name}': {first.records.name} and {spec.records.name}. "
                "Give one of them a column (or label) of its own."
            )
        first = of_column.setdefault(spec.column, spec)
        if first.dataset.casefold() != spec.dataset.casefold():
            raise UserError(
                f"{where}the column '{spec.column}' mixes {first.dataset} ('{first.label}') and {spec.dataset} "
                f"('{spec.label}'). Give one of them a column of its own."
            )
