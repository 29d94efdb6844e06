"""Table of configurations: one row each, from run records alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from graphbench.errors import UserError, neighbour
from graphbench.runs.aggregate import Aggregate, aggregate
from graphbench.runs.records import own_record_sources, tell_selection
from graphbench.runs.summary import STATISTICS, format_mean
from graphbench.tables.provenance import Provenance, copy_notes, plug_in_notes, trials_note
from graphbench.tables.text_table import TextCell, TextTable


def configuration_table(folders: Sequence[Path]) -> TextTable:
    """One row per configuration; notes below say what has no finished run and why.

    Args:
        folders: configurations, or folders above; ``<name>.jsonl/<config>`` of packed records, ``<name>.jsonl`` for
            all of them.

    Raises:
        UserError: there is no finished run at all.
    """
    results: list[tuple[str, Aggregate]] = []
    notes: list[str] = []
    pruned: list[str] = []
    for folder in configurations(folders):
        result = aggregate(folder)
        reasons = "; ".join(f"run {run_id} {reason.rstrip('.')}" for run_id, reason in result.left_out.items())
        if result.inference_note and folder not in folders:
            notes.append(f"{folder}: {result.inference_note}")
        elif result.runs:
            results.append((str(folder), result))
            notes += [f"{folder}: {reasons}"] if reasons else []
        elif result.left_out and all(why.startswith("pruned") for why in result.left_out.values()):
            pruned.append(folder.name)
        else:
            notes.append(f"{folder}: no finished run ({reasons or nothing_found(folder)})")
    if pruned:
        notes.append(f"pruned: {', '.join(pruned)}")
    if not results:
        raise UserError("; ".join(notes) + ".")
    statistics = [name for name in STATISTICS if any(result.mean("test", name) for _, result in results)]
    names = Counter(result.config for _, result in results)
    rows = [
        _row(result.config if names[result.config] == 1 else folder, result, statistics) for folder, result in results
    ]
    notes = [f"not included, {note.rstrip('.')}." for note in notes]
    notes += trials_note(result.config for _, result in results)
    notes += plug_in_notes((result.config, result.runs) for _, result in results)
    notes += copy_notes(results)
    return TextTable(list(rows[0]), [[[TextCell(cell) for cell in row.values()] for row in rows]], notes=notes, left=4)


def _row(name: str, result: Aggregate, statistics: Sequence[str]) -> dict[str, str]:
    facts = Provenance.of(result.runs)
    return {
        "configuration": name,
        "data set": result.runs[0].data.name or "-",
        "split": "; ".join(facts.split),
        "metric": result.metric or "-",
        "test": format_mean(result.mean("test")),
        "val": format_mean(result.mean("val")),
        **{STATISTICS[name]: format_mean(result.mean("test", name)) for name in statistics},
        "runs": str(len(result.runs)),
        **facts.cells(),
    }


def nothing_found(folder: Path) -> str:
    """Reason why a folder has no run."""
    return "no record.json below it" if folder.exists() else f"no such folder.{neighbour(folder)}".rstrip(".")


def configurations(folders: Sequence[Path]) -> list[Path]:
    """Folders above configurations, and packed files, replaced by the configurations in them, each once."""
    paths: list[Path] = []
    left_out: list[Path] = []
    for folder in folders:
        sources, packed = own_record_sources(folder)
        paths += [source.path for source in sources] or [folder]
        left_out += packed
    tell_selection(folders, left_out)
    return list(dict.fromkeys(paths))
