"""What a person and a script see at the end: tables, and one line of JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphbench.runs.aggregate import Aggregate, Mean
from graphbench.runs.history import SPLITS

if TYPE_CHECKING:
    from rich.table import Table


def results_table(result: Aggregate) -> Table:
    """One row per metric, one column per split; mean and sample deviation over the runs, or the one value."""
    from rich.markup import escape
    from rich.table import Table

    n = len(result.runs)
    title = f"{result.config}: {n} run{'' if n == 1 else 's'}, values at the best validation epoch"
    notes = [f"run {name}: {why}" for name, why in result.left_out.items()]
    table = Table(title=title, caption="not included: " + escape("; ".join(notes)) if notes else None)
    table.add_column("metric")
    for split in SPLITS:
        table.add_column(split, justify="right")
    for name in dict.fromkeys(each.name for each in result.means):
        marked = f"[bold]{name}[/]" if name == result.metric else name
        table.add_row(marked, *(format_mean(result.mean(split, name)) for split in SPLITS))
    return table


@dataclass(frozen=True)
class Compared:
    """One configuration of a comparison.

    Attributes:
        dataset: name on the data set's card; it places a configuration without a finished run.
        layers: what its model is made of, in a few words.
        result: its runs together.
        failure: why not all of them are finished; empty when they are.
    """

    dataset: str
    layers: str
    result: Aggregate
    failure: str = ""


def comparison_tables(compared: Sequence[Compared]) -> list[Table]:
    """Configurations side by side: a table per data set, split and metric, a row per configuration, in their order.

    Columns: the selecting metric on test and val at the best validation epoch (mean and sample deviation over the
    runs), the statistics of :data:`STATISTICS` on test where a configuration has them, trainable parameters, seconds
    per epoch, and the number of runs unless it is one for all. What is missing is named below the table.
    """
    protocols = {each.dataset: _protocol(each.result) for each in reversed(compared) if each.result.runs}
    groups: dict[str, list[Compared]] = {}
    for each in compared:
        protocol = _protocol(each.result) if each.result.runs else protocols.get(each.dataset, each.dataset)
        groups.setdefault(protocol, []).append(each)
    return [_comparison(protocol, rows) for protocol, rows in groups.items()]


STATISTICS = {"zero_flow": "zero flow"}
"""What layers report beside the metrics: name in the records -> heading. They are shares."""


def _comparison(title: str, compared: Sequence[Compared]) -> Table:
    from rich.markup import escape
    from rich.table import Table

    rows = [_cells(each) for each in compared]
    says_nothing = {"runs": "1", **dict.fromkeys(STATISTICS.values(), "-")}
    headings = [name for name in rows[0] if any(row[name] != says_nothing.get(name) for row in rows)]
    notes = [f"{each.result.config}: {each.failure}" for each in compared if each.failure] + _contents(compared)
    table = Table(title=title, caption=escape("\n".join(notes)) or None, caption_justify="left")
    for name in headings:
        table.add_column(name, justify="right", overflow="fold")
    table.columns[0].justify = "left"
    for row in rows:
        table.add_row(*(row[name] for name in headings))
    return table


def _cells(compared: Compared) -> dict[str, str]:
    from rich.markup import escape

    result, runs, missing = compared.result, compared.result.runs, len(compared.result.left_out)
    shares = {heading: result.mean("test", name) for name, heading in STATISTICS.items()}
    return {
        "configuration": f"[bold]{escape(result.config)}[/]\n[dim]{escape(compared.layers)}[/]",
        "test": _in_two_lines(result.mean("test")) if runs or not compared.failure else "[red]failed[/]",
        "val": _in_two_lines(result.mean("val")),
        **{heading: f"{share.mean:.1%}" if share else "-" for heading, share in shares.items()},
        "params": f"{runs[0].params:,}" if runs else "-",
        "s/epoch": f"{sum(run.time_per_epoch for run in runs) / len(runs):.2f}" if runs else "-",
        "runs": f"{len(runs)} of {len(runs) + missing}" if missing else str(len(runs)),
    }


def _in_two_lines(entry: Mean | None) -> str:
    """The deviation below the mean: the layers take a second line anyway, and terminals are narrow."""
    return format_mean(entry).replace(" ±", "\n±")


def _contents(compared: Sequence[Compared]) -> list[str]:
    """A note where data of one name are not the same: features prepared in another way, another generator."""
    found = {each.result.config: each.result.runs[0].data.get("fingerprint") for each in compared if each.result.runs}
    if len(set(found.values())) < 2:
        return []
    return ["not the same data: " + ", ".join(f"{name} {str(content)[:8]}" for name, content in found.items())]


def _protocol(result: Aggregate) -> str:
    """Numbers under the same text can be compared, but for what :func:`_contents` says."""
    data = result.runs[0].data
    sizes = "/".join(f"{size:,}" for size in data["sizes"].values())
    return f"{data['name']} ({data['split_mode']} {sizes}): {result.metric} at the best validation epoch"


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
