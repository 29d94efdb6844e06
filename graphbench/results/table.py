"""What a person and a script see at the end: a table, and one line of JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphbench.results.aggregate import Aggregate, Mean
from graphbench.results.history import SPLITS

if TYPE_CHECKING:
    from rich.table import Table


def results_table(result: Aggregate) -> Table:
    """One row per metric, one column per split; mean and sample deviation over the runs, or the one value."""
    from rich.table import Table

    n = len(result.runs)
    title = f"{result.config}: {n} run{'' if n == 1 else 's'}, values at the best validation epoch"
    notes = [f"run {name}: {why}" for name, why in result.left_out.items()]
    table = Table(title=title, caption="not included: " + "; ".join(notes) if notes else None)
    table.add_column("metric")
    for split in SPLITS:
        table.add_column(split, justify="right")
    for name in dict.fromkeys(each.name for each in result.means):
        marked = f"[bold]{name}[/]" if name == result.metric else name
        table.add_row(marked, *(format_mean(result.mean(split, name)) for split in SPLITS))
    return table


def format_mean(entry: Mean | None) -> str:
    """``0.8452 ± 0.0031``, ``0.8452`` for a single run, ``-`` for nothing."""
    if entry is None:
        return "-"
    return f"{entry.mean:.4f}" + ("" if entry.std is None else f" ± {entry.std:.4f}")


def final_line(result: Aggregate, config_dir: Path | str) -> dict[str, Any]:
    """The last line of a run, as a dictionary.

    ``val`` and ``test`` hold every metric's mean at the best validation epoch and, with two runs or more,
    ``<metric>_std``. ``run_dir`` is the folder of the run where there was one, else that of the configuration.
    """
    line: dict[str, Any] = {
        "config": result.config,
        "metric": result.metric,
        "n": len(result.runs),
        "runs": [each.run_id for each in result.runs],
        "best_epoch": [each.best_epoch for each in result.runs],
    }
    for split in ("val", "test"):
        line[split] = {}
        for each in result.means:
            if each.split == split:
                line[split][each.name] = each.mean
                if each.std is not None:
                    line[split][f"{each.name}_std"] = each.std
    if result.left_out:
        line["left_out"] = result.left_out
    folder = Path(config_dir)
    line["run_dir"] = str(folder / result.runs[0].run_id if len(result.runs) == 1 else folder)
    return line
