"""A sweep whose records and published values are written by hand."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from graphbench.published.table import PublishedRow, PublishedTable
from graphbench.runs.data_facts import DataFacts
from graphbench.runs.record import RunRecord, Score
from graphbench.sweeps.cells import CellSpec
from graphbench.tables.sweep_layout import main_tables
from graphbench.tables.sweep_table import SweepTable, sweep_table
from graphbench.tables.text_table import markdown

EMPTY_NOTE = "OOM (out of memory)"


class Sweep:
    """A sweep of hand-written records; five seeds unless said otherwise."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.specs: list[CellSpec] = []
        self.rows: list[PublishedRow] = []

    def runs(self, label: str, *values: float, dataset: str = "Cora", metric: str = "accuracy", seeds: int = 5, **more):
        """Runs with these test values, from seed 0 on."""
        folder = self.folder / f"{label}-{dataset}".replace("/", "-")
        for seed, value in enumerate(values):
            self.record(folder, seed, value, dataset, metric)
        self.specs.append(
            CellSpec(label, more.pop("column", dataset), dataset, folder, tuple(map(str, range(seeds))), **more)
        )
        return folder

    def record(
        self, folder: Path, seed: int, value: float, dataset: str = "Cora", metric: str = "accuracy", **more
    ) -> None:
        maximize = metric != "mae"
        scores = (Score("val", metric, value, maximize, 9), Score("test", metric, value, maximize, 9))
        facts = {"name": dataset, "split_mode": "standard", "sizes": {"train": 5, "val": 2, "test": 2}}
        record = RunRecord(
            config=folder.name,
            config_hash="now",
            seed=seed,
            run_id=str(seed),
            status="finished",
            metric=metric,
            maximize=maximize,
            scores=scores + tuple(more.pop("scores", ())),
            params=1234,
            time_per_epoch=0.5,
            peak_memory=2**20,
            data=DataFacts.of(facts | more.pop("data", {})),
            environment={"git_commit": "0123456789", "git_dirty": True, "gpu": None, "cpu": "abacus", "cores": 2},
            ended="2026-11-22T10:00:00+00:00",
        )
        dataclasses.replace(record, **more).write(folder / str(seed) / "record.json")

    def publish(self, model: str, mean: str, std: str = "", dataset: str = "Cora", metric: str = "accuracy_percent"):
        note = "" if mean else EMPTY_NOTE
        self.rows.append(PublishedRow("Paper", "7", model, dataset, "", metric, mean, std, 5, "", note))

    def table(self, baseline: str | None = None) -> SweepTable:
        published = PublishedTable("paper_table7", tuple(self.rows), "paper_table7.csv") if self.rows else None
        return sweep_table("mini", self.specs, published=published, baseline=baseline)

    def text(self, baseline: str | None = None) -> str:
        return markdown(main_tables(self.table(baseline)))

    def rows_of(self, baseline: str | None = None) -> list[list[str]]:
        lines = [line for line in self.text(baseline).splitlines() if line.startswith("|")]
        return [[cell.strip() for cell in line.split("|")[1:-1]] for line in (lines[0], *lines[2:])]
