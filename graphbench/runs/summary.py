"""Output at the end of a run: tables for the terminal, and one line of JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, NotRequired, TypedDict

from graphbench.runs.aggregate import Aggregate, Mean
from graphbench.runs.split_text import split_texts
from graphbench.vocabulary import SPLITS

if TYPE_CHECKING:
    from rich.table import Table


def results_table(result: Aggregate) -> Table:
    """One row per metric, one column per split; mean and sample deviation over the runs, or the one value."""
    from rich.markup import escape
    from rich.table import Table

    n = len(result.runs)
    title = f"{result.config}: {n} run{'' if n == 1 else 's'}, values at the best validation epoch"
    left_out = [f"run {run_id}: {reason}" for run_id, reason in result.left_out.items()]
    notes = ["not included: " + "; ".join(left_out)] if left_out else []
    notes += without_value(_undefined(result, SPLITS))
    table = Table(title=title, min_width=len(title), caption=escape("\n".join(notes)) or None)
    table.add_column("metric")
    for split in SPLITS:
        table.add_column(split, justify="right")
    for name in dict.fromkeys(mean.name for mean in result.means):
        marked = f"[bold]{name}[/]" if name == result.metric else name
        table.add_row(marked, *(format_mean(result.mean(split, name)) for split in SPLITS))
    return table


def without_value(undefined: Mapping[str, Mapping[str, str]]) -> list[str]:
    """``no value for r2, spearmanr (val, test): some targets are not known``, a line per reason and splits.

    Args:
        undefined: split -> metric -> reason.
    """
    splits: dict[tuple[str, str], list[str]] = {}
    for split, reasons in undefined.items():
        for name, reason in reasons.items():
            splits.setdefault((name, reason), []).append(split)
    names: dict[tuple[str, str], list[str]] = {}
    for (name, reason), where in splits.items():
        names.setdefault((", ".join(where), reason), []).append(name)
    return [f"no value for {', '.join(of)} ({where}): {reason}" for (where, reason), of in names.items()]


MAX_NOTE = 160
"""Characters of a failure below a table."""


@dataclass(frozen=True)
class Compared:
    """One configuration of a comparison.

    Attributes:
        dataset: name on the data set's card; groups a configuration without a finished run.
        layers: layers of its model, in a few words.
        result: result of its runs together.
        failure: why not all of them are finished; empty when they are.
    """

    dataset: str
    layers: str
    result: Aggregate
    failure: str = ""


def comparison_tables(compared: Sequence[Compared]) -> list[Table]:
    """Comparison of configurations: a table per data set, split and metric, a row per configuration, in their order.

    Columns: the selecting metric on test and val at the best validation epoch (mean and sample deviation over the
    runs), the statistics of :data:`STATISTICS` on test where a configuration has them, trainable parameters, seconds
    per epoch, and the number of runs unless it is one for all. What is missing is named below the table.
    """
    protocols = {row.dataset: _protocol(row.result) for row in reversed(compared) if row.result.runs}
    groups: dict[str, list[Compared]] = {}
    for row in compared:
        protocol = _protocol(row.result) if row.result.runs else protocols.get(row.dataset, row.dataset)
        groups.setdefault(protocol, []).append(row)
    return [_comparison(protocol, rows) for protocol, rows in groups.items()]


STATISTICS = {"zero_flow": "zero flow"}
"""Fractions that layers report in addition to the metrics: name in the records -> heading."""


def _comparison(title: str, compared: Sequence[Compared]) -> Table:
    from rich.markup import escape
    from rich.table import Table

    rows = list(map(_cells, compared))
    default = {"runs": "1", **dict.fromkeys(STATISTICS.values(), "-")}
    headings = [name for name in rows[0] if any(row[name] != default.get(name) for row in rows)]
    # What a configuration failed of was said in full when it did; a table folds long lines.
    notes = [f"{row.result.config}: {_shortened(row.failure)}" for row in compared if row.failure]
    notes += _data_notes(compared)
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
    times = [run.time_per_epoch for run in runs if run.time_per_epoch is not None]
    of_test = {heading: result.mean("test", name) for name, heading in STATISTICS.items()}
    return {
        "configuration": f"[bold]{escape(result.config)}[/]\n[dim]{escape(compared.layers)}[/]",
        "test": _in_two_lines(result.mean("test")) if runs or not compared.failure else "[red]failed[/]",
        "val": _in_two_lines(result.mean("val")),
        **{heading: f"{mean.mean:.1%}" if mean else "-" for heading, mean in of_test.items()},
        "params": f"{runs[0].params:,}" if runs else "-",
        "s/epoch": f"{fmean(times):.2f}" if times else "-",
        "runs": f"{len(runs)} of {len(runs) + missing}" if missing else str(len(runs)),
    }


def _in_two_lines(entry: Mean | None) -> str:
    """The deviation below the mean: the layers take a second line anyway, and terminals are narrow."""
    return format_mean(entry).replace(" ±", "\n±")


def _data_notes(compared: Sequence[Compared]) -> list[str]:
    """A note where data of one name differ: features prepared in another way, another generator."""
    fingerprints = {row.result.config: row.result.runs[0].data.fingerprint for row in compared if row.result.runs}
    if len(set(fingerprints.values())) < 2:
        return []
    return ["not the same data: " + ", ".join(f"{name} {str(value)[:8]}" for name, value in fingerprints.items())]


def _protocol(result: Aggregate) -> str:
    """Numbers under the same text can be compared, up to the notes of :func:`_data_notes`."""
    splits = "; ".join(split_texts([run.data for run in result.runs], ","))
    chosen = "" if result.selected_by == result.metric else f", by {result.selected_by}"
    return f"{result.runs[0].data.name} ({splits}): {result.metric} at the best validation epoch{chosen}"


def format_mean(entry: Mean | None) -> str:
    """``0.8452 ± 0.0031``, ``0.8452`` for a single run, ``-`` for nothing."""
    if entry is None:
        return "-"
    return f"{entry.mean:.4f}" + ("" if entry.std is None else f" ± {entry.std:.4f}")


def _shortened(message: str) -> str:
    return message if len(message) <= MAX_NOTE else f"{message[: MAX_NOTE - 6].rsplit(' ', 1)[0]} [...]"


class FinalLine(TypedDict):
    """Scores of one configuration: the last line of its runs as a dictionary (``docs/final-line.schema.json``).

    Attributes:
        dataset: name of the data set, as tables print it.
        config: name of the configuration.
        metric: metric that tables compare; it selects the best epoch, too, unless ``metric_best`` is the loss.
        n: number of finished runs.
        runs: run ids of them: seeds or split indices.
        best_epoch: best validation epoch of each of them, from 0.
        val: mean of every metric at that epoch and, of two runs or more, ``<metric>_std``; NaN (null in the text) where
            it has no value in one of the runs.
        test: means of every metric on the test split at that epoch.
        undefined: reason why a metric has no value, by split and metric.
        left_out: reason why a run is not in the means, by run id.
        run_dir: folder of the run where there is one, else of the configuration.
    """

    dataset: str
    config: str
    metric: str | None
    n: int
    runs: list[str]
    best_epoch: list[int | None]
    val: dict[str, float]
    test: dict[str, float]
    undefined: NotRequired[dict[str, dict[str, str]]]
    left_out: NotRequired[dict[str, str]]
    run_dir: str


def final_line(dataset: str, result: Aggregate, config_dir: Path | str) -> FinalLine:
    """The last line of the runs of a configuration in the folder ``config_dir``."""
    undefined, folder = _undefined(result), Path(config_dir)
    line: FinalLine = {
        "dataset": dataset,
        "config": result.config,
        "metric": result.metric,
        "n": len(result.runs),
        "runs": [run.run_id for run in result.runs],
        "best_epoch": [run.best_epoch for run in result.runs],
        "val": _scores(result, "val"),
        "test": _scores(result, "test"),
        "run_dir": str(folder / result.runs[0].run_id if len(result.runs) == 1 else folder),
    }
    if undefined:
        line["undefined"] = undefined
    if result.left_out:
        line["left_out"] = dict(result.left_out)
    return line


def _scores(result: Aggregate, split: str) -> dict[str, float]:
    """Means of a split and, where there are several runs, their standard deviations."""
    scores = {}
    for mean in result.means:
        if mean.split == split:
            scores[mean.name] = mean.mean
            if mean.std is not None:
                scores[f"{mean.name}_std"] = mean.std
    return scores


def _undefined(result: Aggregate, splits: Sequence[str] = ("val", "test")) -> dict[str, dict[str, str]]:
    """Why a metric has no value, per split, from the first run that says so."""
    reasons: dict[str, dict[str, str]] = {}
    for run in result.runs:
        for split in splits:
            for name, reason in run.undefined.get(split, {}).items():
                reasons.setdefault(split, {}).setdefault(name, reason)
    return reasons
