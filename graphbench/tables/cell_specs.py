"""Cells of a table of models by data sets, from a sweep or from run folders alone."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from graphbench.errors import UserError
from graphbench.runs.aggregate import Aggregate, aggregate
from graphbench.sweeps.cells import CellSpec
from graphbench.tables.configurations import configurations, nothing_found
from graphbench.tables.model_names import model_name
from graphbench.tables.provenance import Provenance

if TYPE_CHECKING:
    from graphbench.sweeps import Sweep


def cell_specs(sweep: Sweep, records: Path | None = None) -> list[CellSpec]:
    """The cells of a sweep.

    Args:
        sweep: from its file.
        records: folder of the configurations' folders, or packed records; default: ``out_dir`` of each configuration.
    """
    from graphbench.factory.data import dataset_builder

    specs = []
    for entry in sweep.entries:
        tree = entry.config.tree
        declared = dataset_builder(entry.config).card
        dataset = tree.dataset.name if declared is None else declared.name
        specs.append(
            CellSpec.of_entry(
                sweep,
                entry,
                dataset=dataset,
                records=records / entry.config.name if records else entry.folder,
            )
        )
    return specs


@dataclass(frozen=True)
class _ModelRuns:
    """Runs of one configuration, with the labels that its row may have, the shortest first."""

    labels: tuple[str, ...]
    dataset: str
    split: str
    folder: Path
    result: Aggregate


def model_specs(folders: Sequence[Path], baseline: Path | None = None) -> list[CellSpec]:
    """Cells of a table of models by data sets, from run folders alone.

    A row is the name of a configuration without the data set in it (``sgformer-cora`` on Cora: ``sgformer``), a column
    a data set, with its split where it has several. Where two configurations would fill one cell, rows have their full
    names, and where these are equal, too, their folders.

    Args:
        folders: see :func:`configurations`.
        baseline: one more, all of which is one row, with the folder as its name.

    Raises:
        UserError: no finished run in the folders, or in that of the baseline; several models in one cell of that.
    """
    found: list[_ModelRuns] = []
    of_baseline = [] if baseline is None else configurations([baseline])
    for folder in dict.fromkeys([*configurations(folders), *of_baseline]):
        result = aggregate(folder)
        if result.inference_note and folder not in folders:
            print(f"note: left out, {folder}: {result.inference_note}", file=sys.stderr)
        elif result.runs:
            dataset = result.runs[0].data.name or "unnamed data"
            split = "; ".join(Provenance.of(result.runs).split)
            labels: tuple[str, ...] = (model_name(result.config, dataset), result.config, str(folder))
            labels = (str(baseline),) if folder in of_baseline else labels
            found.append(_ModelRuns(labels, dataset, split, folder, result))
    if not found:
        absent = [f"{folder}: {nothing_found(folder)}" for folder in folders if not folder.exists()]
        raise UserError(" ".join(absent) or f"no finished run below {', '.join(map(str, folders))}.")
    if baseline is not None:
        _check_baseline(baseline, [each for each in found if each.folder in of_baseline])
    splits = {name: {each.split for each in found if each.dataset == name} for name in {each.dataset for each in found}}
    taken = Counter((label, each.dataset, each.split) for each in found for label in set(each.labels))
    specs = []
    for each in found:
        free = (label for label in each.labels if taken[label, each.dataset, each.split] == 1)
        column = each.dataset if len(splits[each.dataset]) == 1 else f"{each.dataset}, {each.split}"
        run_ids = tuple(run.run_id for run in each.result.runs)
        specs.append(CellSpec(next(free, each.labels[-1]), column, each.dataset, each.folder, run_ids))
    return specs


def _check_baseline(folder: Path, found: Sequence[_ModelRuns]) -> None:
    """Refuses a baseline without runs, or with several configurations for a data set and split."""
    if not found:
        raise UserError(f"--baseline {folder}: no finished run below it.")
    first: dict[tuple[str, str], str] = {}
    for each in found:
        config = each.result.config
        other = first.setdefault((each.dataset, each.split), config)
        if other != config:
            raise UserError(
                f"--baseline {folder}: has several models of {each.dataset}, {other} and {config}; name one, e.g. "
                f"{folder / other}."
            )
