"""Ten thousand run records to a table, against a limit of ten seconds: reading, averaging, testing, writing.

The records are generated, as long as real ones, five per configuration, and just written, so that the file system has
them in memory. Importing Python packages is not counted.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from graphbench.benchmarks.case import Case
from graphbench.benchmarks.record_folders import write_records
from graphbench.tables.configurations import configuration_table
from graphbench.tables.sweep_csv import long_csv
from graphbench.tables.sweep_layout import details_table, main_tables
from graphbench.tables.sweep_table import sweep_table
from graphbench.tables.text_table import markdown

MODELS, DATASETS, RUNS = 400, 5, 5
LIMIT = 10.0
REPEATS = 3


def run() -> list[Case]:
    """Both forms of ``graphbench tables``."""
    with tempfile.TemporaryDirectory() as name:
        specs = write_records(Path(name), MODELS, DATASETS, RUNS)
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
