"""Provenance of the numbers of a table: size, time, memory, date, commit and hardware of some runs together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from graphbench.runs.aggregate import Aggregate
from graphbench.runs.identity import COMPONENT, PLUG_IN
from graphbench.runs.record import RunRecord
from graphbench.runs.split_text import split_texts


@dataclass(frozen=True)
class Provenance:
    """Facts about the runs behind one number.

    Attributes:
        params: trainable parameters, smallest and largest; None where unknown.
        seconds: seconds per epoch, training and evaluation, mean over the runs; None where unknown.
        memory: largest peak, bytes; None where unknown.
        date: date of the last end, ISO.
        commits: eight digits each, with a plus where the working tree had changes.
        hardware: processor and cores of each kind.
        split: each mode, which of how many, sizes from the smallest to the largest.
    """

    params: tuple[int, int] | None
    seconds: float | None
    memory: int | None
    date: str
    commits: tuple[str, ...]
    hardware: tuple[str, ...]
    split: tuple[str, ...]

    @classmethod
    def of(cls, runs: Sequence[RunRecord]) -> Provenance:
        """Provenance of finished runs of one configuration."""
        params = [run.params for run in runs if run.params is not None]
        seconds = [run.time_per_epoch for run in runs if run.time_per_epoch is not None]
        return cls(
            (min(params), max(params)) if params else None,
            sum(seconds) / len(seconds) if seconds else None,
            max((run.peak_memory for run in runs if run.peak_memory is not None), default=None),
            max((run.ended or "" for run in runs), default="")[:10],
            tuple(sorted({commit for run in runs for commit in commits_of(run)})),
            tuple(dict.fromkeys(_hardware(run) for run in runs)),
            split_texts([run.data for run in runs]),
        )

    def cells(self) -> dict[str, str]:
        """Cells of text, by the headings of our tables."""
        low, high = self.params or (None, None)
        size = "-" if low is None else f"{low:,}" + (f" to {high:,}" if high != low else "")
        return {
            "parameters": size,
            "s/epoch": "-" if self.seconds is None else f"{self.seconds:.3f}",
            "peak memory": "-" if self.memory is None else f"{self.memory / 2**20:.0f} MiB",
            "date": self.date,
            "commit": " ".join(self.commits),
            "hardware": "; ".join(self.hardware),
        }


def plug_in_notes(rows: Iterable[tuple[str, Sequence[RunRecord]]]) -> list[str]:
    """A note for all code of users of which runs of a comparison had different versions.

    Args:
        rows: label and runs of each row.
    """
    versions: dict[str, dict[str, list[str]]] = {}
    for label, runs in rows:
        for name, digest in (
            item for run in runs for item in run.inputs.items() if item[0].startswith((PLUG_IN, COMPONENT))
        ):
            labels = versions.setdefault(name, {}).setdefault(digest, [])
            labels += [label] if label not in labels else []
    return [
        f"not the same {name}: "
        + "; ".join(f"{', '.join(labels)}: {digest[:8]}" for digest, labels in of_name.items())
        + "."
        for name, of_name in versions.items()
        if len(of_name) > 1
    ]


def copy_notes(results: Iterable[tuple[str, Aggregate]]) -> list[str]:
    """Notes about folders that were copied or renamed, from (path, runs) of the rows of a comparison.

    Nothing is wrong with a renamed folder; a copied one counts twice, and a copied record is of something else.
    """
    notes, first = [], dict[tuple[object, ...], str]()
    for path, result in results:
        names = sorted({run.config for run in result.runs} - {result.config})
        if names:
            notes.append(f"{path}: its records say that they are of {', '.join(names)}.")
        for run in result.runs:
            what = (run.config_hash, run.run_id, run.started, run.ended, run.total_time, run.scores)
            other = first.setdefault(what, path)
            if other != path:
                notes.append(f"{path}: run {run.run_id} is the same as that of {other}.")
    return notes


def commits_of(record: RunRecord) -> tuple[str, ...]:
    """Eight digits of each that it ran under, with a plus where the working tree had changes; versions whole."""
    return tuple(
        commit if commit.startswith("v") else commit.rstrip("+")[:8] + "+" * commit.endswith("+")
        for commit in record.all_commits
    )


def _hardware(record: RunRecord) -> str:
    environment = record.environment
    device = environment.get("gpu") or environment.get("cpu") or "unknown"
    return f"{device}, {environment.get('cores')} cores"


def trials_note(configurations: Iterable[str]) -> list[str]:
    """Note where some configurations are trials of a search (``X-trial-007``); nothing where none is."""
    if not any(re.search(r"-trial-\d{3,}$", name) for name in configurations):
        return []
    return [
        "trials of a search: it chooses by validation; whoever chooses by the test column has tuned on the test split."
    ]


def is_searched(configuration: str) -> bool:
    """Whether its settings are the best of a search, by its name: ``X-best``, as searches write it, ``X-searched``."""
    return configuration.endswith(("-best", "-searched"))
