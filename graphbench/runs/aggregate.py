"""Mean and standard deviation over the runs of one configuration, from their records."""

from __future__ import annotations

import math
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from graphbench import atomic
from graphbench.runs import json_text
from graphbench.runs.history import read_lines
from graphbench.runs.identity import RunIdentity
from graphbench.runs.record import RunRecord
from graphbench.runs.records import record_source
from graphbench.vocabulary import SPLITS


@dataclass(frozen=True)
class Mean:
    """One metric of one split over the runs.

    Attributes:
        split: ``train``, ``val`` or ``test``.
        name: metric, or ``loss``.
        maximize: True when larger is better.
        mean: arithmetic mean.
        std: sample standard deviation (n - 1 in the denominator); None for a single run.
        n: runs that have the value.
    """

    split: str
    name: str
    maximize: bool
    mean: float
    std: float | None
    n: int


@dataclass(frozen=True)
class Aggregate:
    """All runs of one configuration together.

    Attributes:
        config: name of the configuration.
        metric: the metric that is compared, and that selected the epochs unless the loss did; None without a finished
            run.
        runs: records of the finished runs, by run id.
        means: one entry per split and metric, in the order of the records.
        left_out: run id -> why it is not in the means (failed, missing, other configuration, ...).
    """

    config: str
    metric: str | None
    runs: tuple[RunRecord, ...]
    means: tuple[Mean, ...]
    left_out: dict[str, str]

    @property
    def selected_by(self) -> str | None:
        """Quantity that selected the epochs: ``metric``, or the loss."""
        return self.runs[0].selected_by if self.runs else None

    @property
    def inference_note(self) -> str:
        """Why it is no row of a comparison: its runs applied trained models, which have rows of their own; or empty."""
        mode = next((run.inference_mode for run in self.runs if run.inference_mode), None)
        return f"applies a trained model (train.mode {mode})" if mode else ""

    def mean(self, split: str, name: str | None = None) -> Mean | None:
        """The entry of a metric (default: ``metric``)."""
        key = (split, name or self.metric)
        return next((mean for mean in self.means if (mean.split, mean.name) == key), None)


def aggregate(
    config_dir: Path | str,
    *,
    identity: RunIdentity | None = None,
    only: Iterable[str | int] | None = None,
    expected: Iterable[str | int] = (),
) -> Aggregate:
    """Reads the records of a configuration and averages the finished ones.

    Args:
        config_dir: ``<out_dir>/<config name>``, or ``<name>.jsonl/<config name>`` of packed records; the folder of a
            run stands for this run alone.
        identity: leave out runs that were made of something else: another configuration, other data, another split of
            the same name, other plug-ins or weights; default: that of the latest finished run.
        only: run ids to consider (those without a folder are named as missing); default: all there are.
        expected: run ids that are named as missing where they are not there, whatever else is.
    """
    folder = Path(config_dir)
    if (folder / "record.json").is_file():  # of a run, as the last line of one names it
        folder, only = folder.resolve().parent, [folder.resolve().name]
    source = record_source(folder)
    present = source.run_ids()
    run_ids = dict.fromkeys([*(present if only is None else map(str, only)), *map(str, expected)])
    records = source.records(list(run_ids))
    different = _made_of_something_else(records, identity)
    runs, left_out = [], {}
    for run_id, record in records.items():
        if record is None:
            left_out[run_id] = "record.json missing, damaged or edited" if run_id in present else "missing"
        elif record.status != "finished":
            left_out[run_id] = record.status + (f": {record.reason}" if record.reason else "")
        elif record.run_id != run_id and record.run_id in present:
            there = records.get(record.run_id)
            of_another = there is not None and there.config != record.config
            left_out[run_id] = f"a copy of run {record.run_id}" + (f" of {record.config}" if of_another else "")
        elif run_id in different:
            left_out[run_id] = different[run_id]
        else:
            runs.append(record)
    return Aggregate(source.config, runs[0].metric if runs else None, tuple(runs), _means(runs), left_out)


def write_aggregate(config_dir: Path | str, *, identity: RunIdentity | None = None) -> Aggregate:
    """Averages all finished runs and writes ``agg/{train,val,test}/{best,stats}.json``.

    A folder that may only be read keeps the files it has; one without a finished run gets none.

    ``best.json`` holds each metric's mean at the best validation epochs, ``<metric>_std`` (null for one run) and
    ``n``; ``stats.json`` one line per epoch: ``n`` runs evaluated it, and every mean is over the ``<name>_n`` of them
    that have the number (some metrics are computed in some epochs only).
    """
    folder = Path(config_dir)
    if folder.is_dir() and not os.access(folder, os.W_OK | os.X_OK):
        return aggregate(folder, identity=identity)  # finished runs on a disk that may only be read
    with atomic.locked(folder):  # of seeds that end at the same time, the last one to write has read all records
        result = aggregate(folder, identity=identity)
        for split in SPLITS if result.runs or (folder / "agg").is_dir() else ():
            atomic.sweep(folder / "agg" / split)
            best: dict[str, object] = {"n": len(result.runs), "runs": [run.run_id for run in result.runs]}
            for mean in result.means:
                if mean.split == split:
                    best[mean.name] = mean.mean
                    best[f"{mean.name}_std"] = mean.std
            atomic.write_text(folder / "agg" / split / "best.json", json_text.dumps(best) + "\n")
            lines = _per_epoch(read_lines(folder / run.run_id, split, run) for run in result.runs)
            atomic.write_text(folder / "agg" / split / "stats.json", "".join(line + "\n" for line in lines))
    return result


def _made_of_something_else(records: Mapping[str, RunRecord | None], known: RunIdentity | None) -> dict[str, str]:
    """Run id -> what differs from what is known, and from the finished runs that ended later."""
    finished = {run_id: record for run_id, record in records.items() if record and record.status == "finished"}
    different: dict[str, str] = {}
    for run_id, record in sorted(finished.items(), key=lambda item: item[1].ended or "", reverse=True):
        known = known or record.identity
        names = known.differences(record.identity)
        if names:
            different[run_id] = f"other {', '.join(names)}"
        else:
            known = known.joined(record.identity)
    return different


def _means(runs: Sequence[RunRecord]) -> tuple[Mean, ...]:
    values: dict[tuple[str, str, bool], list[float]] = defaultdict(list)
    for run in runs:
        for score in run.scores:
            values[score.split, score.name, score.maximize].append(score.value)
    return tuple(Mean(*key, *_mean_std(numbers), len(numbers)) for key, numbers in values.items())


def _mean_std(values: Sequence[float]) -> tuple[float, float | None]:
    n = len(values)
    mean = math.fsum(values) / n
    if n == 1:
        return mean, None
    if not math.isfinite(mean):
        return mean, math.nan
    # Exact sums, and what rounding the mean added is taken off: equal values have deviation 0. statistics.stdev is as
    # accurate on exact fractions, which took two thirds of the time of reading ten thousand records.
    deviations = [value - mean for value in values]
    squares = math.fsum(deviation * deviation for deviation in deviations) - math.fsum(deviations) ** 2 / n
    return mean, math.sqrt(max(squares, 0.0) / (n - 1))


def _per_epoch(curves: Iterable[Sequence[Mapping[str, Any]]]) -> list[str]:
    values: dict[int, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    runs: Counter[int] = Counter()
    for line in chain.from_iterable(curves):
        epoch = line["epoch"]
        runs[epoch] += 1
        for name, value in line.items():
            if name != "epoch":
                values[epoch][name].append(math.nan if value is None else float(value))
    lines = []
    for epoch in sorted(values):
        stats: dict[str, float | int | None] = {"epoch": epoch, "n": runs[epoch]}
        for name, numbers in values[epoch].items():
            stats[name], stats[f"{name}_std"] = _mean_std(numbers)
            stats[f"{name}_n"] = len(numbers)
        lines.append(json_text.dumps(stats))
    return lines
