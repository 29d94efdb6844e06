"""Records read through the index are the records; what the index cannot know is read from the files."""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from graphbench.report import cli as report
from graphbench.runs import record_index
from graphbench.runs.record import SCHEMA_VERSION, RunRecord, Score
from graphbench.runs.record_index import NAME, RecordIndex, indexed
from graphbench.runs.records import RecordFolder, read_packed, record_source, record_sources
from graphbench.tables import cli as tables
from tests.paths import ROOT

STORED = ROOT / "results/measured/records"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """All finished and failed runs of a stored table, as folders; an index is made for few, too."""
    monkeypatch.setattr(record_index, "MANY", 1)
    for path, content in read_packed(STORED / "sgformer-table8.jsonl").items():
        record = dataclasses.replace(RunRecord.from_json(json.dumps(content)), schema_version=SCHEMA_VERSION)
        (tmp_path / "records" / path).mkdir(parents=True)
        record.write(tmp_path / "records" / path / "record.json")
    return tmp_path / "records"


def _read(root: Path) -> dict[str, RunRecord | None]:
    return {
        f"{source.config}/{run}": record
        for source in record_sources(root)
        for run, record in source.records(source.run_ids()).items()
    }


def _same(one: RunRecord | None, other: RunRecord | None) -> bool:
    return one is not None and other is not None and one.to_json() == other.to_json()


def _counting(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    files: list[str] = []
    read = RunRecord.read.__func__

    def counted(cls: type[RunRecord], path: Path) -> RunRecord | None:
        files.append(path.parent.name)
        return read(cls, path)

    monkeypatch.setattr(RunRecord, "read", classmethod(counted))
    return files


def test_what_cannot_be_kept_at_the_end_is_read_again(root: Path) -> None:
    """A disk that is full by then, or, as here, another program that reads the index."""
    folder = next(each for each in root.iterdir() if each.is_dir())
    index, source = RecordIndex(root), RecordFolder(folder)
    index._database.execute("PRAGMA busy_timeout = 0")
    assert any(index.records(folder, source.run_ids(), source.read).values())
    with closing(sqlite3.connect(root / NAME)) as other:
        other.execute("BEGIN")
        other.execute("SELECT * FROM run").fetchall()
        index.close()
        assert not other.execute("SELECT * FROM run").fetchall()
    with indexed([root]):
        assert all(_read(root).values())


def test_records_from_the_index_are_those_of_the_files(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = _read(root)
    with indexed([root]):
        first = _read(root)
    files = _counting(monkeypatch)
    with indexed([root]):
        again = _read(root)
    assert not files, "what is in the index was read from files"
    assert list(plain) == list(first) == list(again)
    assert len(plain) > 10
    for path, record in plain.items():
        assert _same(record, first[path])
        assert _same(record, again[path])


@pytest.mark.parametrize("program", ["rows", "models", "report"])
def test_what_is_written_is_the_same(root: Path, tmp_path: Path, program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an index, while it is made, and from it."""
    main = report.main if program == "report" else tables.main
    options = {"rows": [], "models": ["--models", "--details"], "report": []}[program]
    texts = []
    for name in ("without", "first", "second"):
        monkeypatch.setattr(record_index, "MANY", 10**9 if name == "without" else 1)
        out = tmp_path / f"{name}.html"
        assert main([str(root), *options, "--out", str(out)]) == 0
        texts.append(out.read_text())
        assert (root / NAME).exists() == (name != "without")
    assert texts[0] == texts[1] == texts[2]


def test_only_what_changed_is_read_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with indexed([root]):
        path, record = next(iter(_read(root).items()))
    assert record is not None
    changed = dataclasses.replace(record, scores=(Score("test", "accuracy", math.nan, True, 7),), seed=record.seed + 1)
    changed.write(root / path / "record.json")
    added = dataclasses.replace(record, run_id="added")
    (root / path).with_name("added").mkdir()
    added.write((root / path).with_name("added") / "record.json")
    gone = next(name for name in _read(root) if name.rpartition("/")[0] != path.rpartition("/")[0])
    shutil.rmtree(root / gone)
    files = _counting(monkeypatch)
    with indexed([root]):
        again = _read(root)
    assert sorted(files) == sorted([path.rpartition("/")[2], "added"])
    assert _same(again[path], changed)
    assert _same(again[f"{path.rpartition('/')[0]}/added"], added)
    assert gone not in again


def test_a_damaged_record_is_none_though_the_index_knew_it(root: Path) -> None:
    with indexed([root]):
        path = next(iter(_read(root)))
    file = root / path / "record.json"
    file.write_text(file.read_text().replace('"seed": ', '"seed": 1'))
    with indexed([root]):
        assert _read(root)[path] is None


def test_older_records_are_read_from_their_files(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their settings come from a file beside them, of which the index knows nothing."""
    path, record = next(iter(_read(root).items()))
    assert record is not None
    dataclasses.replace(record, schema_version=1, settings={}).write(root / path / "record.json")
    files = _counting(monkeypatch)
    for _ in range(2):
        with indexed([root]):
            _read(root)
    assert files.count(path.rpartition("/")[2]) >= 2


@pytest.mark.parametrize("damage", ["no database", "other rows", "half a row"])
def test_a_damaged_index_costs_time_only(root: Path, damage: str) -> None:
    plain = _read(root)
    with indexed([root]):
        _read(root)
    if damage == "no database":
        (root / NAME).write_bytes(b"\x00" * 5000)
    else:
        database = sqlite3.connect(root / NAME)
        change = "DROP TABLE part" if damage == "other rows" else "UPDATE run SET own = '[1'"
        database.execute(change)
        database.commit()
        database.close()
    for _ in range(2):
        with indexed([root]):
            again = _read(root)
        assert all(_same(record, again[path]) for path, record in plain.items())


def test_where_nothing_can_be_written_there_is_no_index(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise sqlite3.OperationalError("unable to open database file")

    monkeypatch.setattr(sqlite3, "connect", refuse)
    with indexed([root]):
        assert all(_read(root).values())
    assert not (root / NAME).exists()


def test_few_records_have_none(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_index, "MANY", 10**6)
    with indexed([root, STORED / "sgformer-table8.jsonl"]):
        assert all(_read(root).values())
        assert isinstance(record_source(root / "x"), RecordFolder)
    assert not (root / NAME).exists()
