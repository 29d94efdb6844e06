"""``scripts/tables.py`` on records written by hand: numbers come from records only, and nothing else breaks it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from graphbench.results.record import RunRecord, Score

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/tables.py"


def _call(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=False)


def _record(seed: int, accuracy: float) -> RunRecord:
    scores = tuple(Score(split, "accuracy", accuracy, True, 10) for split in ("train", "val", "test"))
    facts = {"name": "Cora", "split_mode": "random-class", "sizes": {"train": 140, "val": 500, "test": 1000}}
    record = RunRecord.start(
        config="sgformer-cora", config_hash="abc", seed=seed, run_id=str(seed), metric="accuracy", data=facts
    )
    return record.end("finished", scores=scores, params=1234, time_per_epoch=0.05, epochs=3)


def test_one_row_per_folder(tmp_path: Path) -> None:
    for seed, accuracy in ((0, 0.8), (1, 0.9)):
        _record(seed, accuracy).write(tmp_path / "sgformer-cora" / str(seed) / "record.json")
    out = tmp_path / "table.md"
    done = _call(str(tmp_path / "sgformer-cora"), "--out", str(out))
    assert done.returncode == 0, done.stderr
    row = out.read_text().splitlines()[2]
    for cell in ("sgformer-cora", "Cora", "random-class 140/500/1000", "0.8500 ± 0.0707", "1,234", "0.050"):
        assert f"| {cell} |" in row


def test_a_folder_without_runs_is_one_message(tmp_path: Path) -> None:
    done = _call(str(tmp_path))
    assert done.returncode == 2
    assert "no finished run" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_measured_tables_are_what_the_records_say() -> None:
    measured = SCRIPT.parents[1] / "results/measured"
    listed: list[str] = []
    for path in sorted(measured.glob("*.md")):
        if path.name != "README.md":
            table = path.read_text()
            names = [line.split("|")[1].strip() for line in table.splitlines()[2:]]
            listed += names
            assert _call(*(str(measured / "records" / name) for name in names)).stdout == table
    assert sorted(listed) == sorted(path.name for path in (measured / "records").iterdir())


def test_what_layers_report_is_a_column_where_a_run_has_it() -> None:
    records = SCRIPT.parents[1] / "results/measured/records"
    table = [
        line.split(" | ")
        for line in _call(str(records / "gps-nci1"), str(records / "sfi-pattern-small")).stdout.splitlines()
    ]
    assert "zero flow" not in _call(str(records / "gps-nci1")).stdout
    place = table[0].index("zero flow")
    assert table[2][place] == "-"
    assert 0 < float(table[3][place].split()[0]) < 1
