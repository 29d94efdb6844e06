"""Folders of generated run records, as long as real ones, for benchmarks of what reads them."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path

from graphbench.runs.record import RunRecord, Score
from graphbench.sweeps.cells import CellSpec

METRICS = {"loss": False, "accuracy": True, "precision": True, "recall": True, "f1": True, "auc": True}
SIZES = {"train": 140, "val": 500, "test": 1000}


def write_records(folder: Path, models: int, datasets: int, runs: int) -> list[CellSpec]:
    """Writes finished runs with random scores, and says what a table of models by data sets needs of them.

    Args:
        folder: gets ``<config>/<run>/record.json``.
        models: rows.
        datasets: columns.
        runs: runs of each configuration.
    """
    generator = random.Random(0)
    begun = RunRecord.start(config="", config_hash="generated", seed=0, run_id="0", metric="accuracy", maximize=True)
    settings = {f"section.key_{number}": number / 7 for number in range(40)}
    specs = []
    for model in range(models):
        for number in range(datasets):
            dataset, config = f"data-{number}", f"model-{model}-data-{number}"
            facts = {"name": dataset, "fingerprint": "0" * 64, "split_mode": "random", "split_index": 0, "sizes": SIZES}
            shared = {"config": config, "data": facts, "settings": settings | {"model": model}}
            for run_id in map(str, range(runs)):
                scores = tuple(
                    Score(split, name, generator.random(), maximize, size)
                    for split, size in SIZES.items()
                    for name, maximize in METRICS.items()
                )
                record = dataclasses.replace(begun, seed=int(run_id), run_id=run_id, **shared)
                record = record.end("finished", "max_epoch", scores=scores, params=1234, time_per_epoch=0.5)
                path = folder / config / run_id / "record.json"
                path.parent.mkdir(parents=True)
                path.write_text(record.file_text())  # not record.write, which waits for the disk
            specs.append(CellSpec(f"model {model}", dataset, dataset, folder / config, tuple(map(str, range(runs)))))
    return specs
