"""Ten thousand run records to a table, against a limit of ten seconds: reading, averaging, testing, writing.

The records are generated, as long as real ones, five per configuration, and just written, so that the file system has
them in memory. Importing Python packages is not counted.
"""

from __future__ import annotations

import dataclasses
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from graphbench.benchmarks.case import Case
from graphbench.runs.record import RunRecord, Score
from graphbench.tables.cli import configuration_table
from graphbench.tables.sweep_csv import long_csv
from graphbench.tables.sweep_layout import details_table, main_tables
from graphbench.tables.sweep_table import CellSpec, sweep_table
from graphbench.tables.text_table import markdown

MODELS, DATASETS, RUNS = 400, 5, 5
LIMIT = 10.0
REPEATS = 3
METRICS = {"loss": False, "accuracy": True, "precision": True, "recall": True, "f1": True, "auc": True}


def run() -> list[Case]:
    """Both forms of scripts/tables.py."""
    with tempfile.TemporaryDirectory() as name:
        specs = _generate(Path(name))
        folders = [spec.records for spec in specs]

        def rows() -> None:
            markdown([configuration_table(folders)])

        def sweep() -> None:
            table = sweep_table("generated", specs, baseline=specs[0].label)
            markdown([*main_tables(table), details_table(table)])
            long_csv(table)

        forms = {"a row per configuration": rows, "a sweep, all of its tables": sweep}
        limit = [LIMIT] * REPEATS
        count = f"{len(folders) * RUNS:,} records"
        return [Case(f"{count}, {form}", "limit", _seconds(make), limit, target=1.0) for form, make in forms.items()]


def _seconds(make: Callable[[], None]) -> list[float]:
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        make()
        seconds.append(time.perf_counter() - start)
    return seconds


def _generate(folder: Path) -> list[CellSpec]:
    generator = random.Random(0)
    sizes = {"train": 140, "val": 500, "test": 1000}
    begun = RunRecord.start(config="", config_hash="generated", seed=0, run_id="0", metric="accuracy", maximize=True)
    runs = tuple(map(str, range(RUNS)))
    specs = []
    for model in range(MODELS):
        for number in range(DATASETS):
            dataset, config = f"data-{number}", f"model-{model}-data-{number}"
            facts = {"name": dataset, "fingerprint": "0" * 64, "split_mode": "random", "split_index": 0, "sizes": sizes}
            for run_id in runs:
                scores = tuple(
                    Score(split, name, generator.random(), maximize, 1000)
                    for split in sizes
                    for name, maximize in METRICS.items()
                )
                record = dataclasses.replace(begun, config=config, seed=int(run_id), run_id=run_id, data=facts)
                record = record.end("finished", "max_epoch", scores=scores, params=1234, time_per_epoch=0.5)
                path = folder / config / run_id / "record.json"
                path.parent.mkdir(parents=True)
                path.write_text(record.to_json())  # not record.write, which waits for the disk
            specs.append(CellSpec(f"model {model}", dataset, dataset, folder / config, runs))
    return specs
