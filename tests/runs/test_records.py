"""Records as folders and packed: the same runs, nothing lost, nothing doubled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from graphbench import atomic
from graphbench.errors import UserError
from graphbench.runs import pack
from graphbench.runs.aggregate import aggregate
from graphbench.runs.record import RunRecord, Score
from graphbench.runs.records import read_configurations, read_packed, record_source, record_sources, write_packed
from tests.paths import ROOT


def put(root: Path, config: str, run: str, value: float = 0.5, status: str = "finished", **more: object) -> None:
    scores = (Score("test", "accuracy", value, True, 10),)
    record = RunRecord(config, "h", 0, run, status=status, metric="accuracy", scores=scores, ended="2026-01-01")
    content = json.loads(record.to_json()) | more
    folder = root / config / run
    folder.mkdir(parents=True)
    (folder / "record.json").write_text(json.dumps(content, indent=1) + "\n")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    root = tmp_path / "results"
    for run, value in (("2", 0.1), ("10", 1 / 3), ("0", 0.7)):
        put(root, "gcn", run, value)
    put(root, "gcn", "3", status="failed", reason="loss is nan")
    put(root, "mlp", "0", float("nan"), settings={"gt.layers": 2, "optim.base_lr": 1e-5})
    return root


def packed(*roots: Path) -> Path:
    file = roots[0].parent / "table.jsonl"
    assert pack.main([*map(str, roots), "--out", str(file)]) == 0
    return file


def test_packed_records_are_the_same_records(runs: Path) -> None:
    file = packed(runs)
    assert [source.config for source in record_sources(file)] == ["gcn", "mlp"]
    for folder, line in zip(record_sources(runs), record_sources(file), strict=True):
        assert folder.config == line.config
        assert folder.run_ids() == line.run_ids()
        for run in folder.run_ids():
            assert json.loads(folder.text(run)) == {"settings": {}, **json.loads(line.text(run))}
            assert repr(folder.read(run)) == repr(line.read(run))  # repr: NaN is not equal to itself
        assert repr(aggregate(folder.path)) == repr(aggregate(line.path))
    assert record_source(file / "gcn").run_ids() == ["0", "2", "3", "10"]
    assert aggregate(file / "gcn", expected=[11]).left_out == {"3": "failed: loss is nan", "11": "missing"}
    assert record_source(file / "gat").run_ids() == []


def test_settings_are_kept_once_and_come_back(runs: Path) -> None:
    put(runs, "mlp", "1", settings={"gt.layers": 2, "optim.base_lr": 1e-5})
    file = packed(runs)
    settings = {"gt.layers": 2, "optim.base_lr": 1e-5}
    assert read_configurations(file) == {("mlp", "h"): settings}
    assert "settings" not in file.read_text()
    assert read_packed(file)["mlp/1"]["settings"] == record_source(file / "mlp").settings() == settings
    with pytest.raises(UserError, match=r"table\.configurations\.jsonl: lacks the settings of gcn"):
        record_source(file / "gcn").settings()
    (runs / "mlp" / "config.yaml").write_text("gt: {layers: 2}\noptim: {base_lr: 1.0e-05}\n")
    assert record_source(runs / "mlp").settings() == settings
    put(runs, "mlp", "2", settings={"gt.layers": 3})
    with pytest.raises(UserError, match="mlp/2: other settings than those of another run with hash h"):
        pack.pack([runs], file)


def test_records_are_added_without_loss_and_without_doubles(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = packed(runs)
    before = file.read_text()
    packed(runs)
    assert file.read_text() == before
    assert capsys.readouterr().out.endswith("0 records added, 5 in all\n")
    put(tmp_path / "more", "gcn", "1")
    packed(tmp_path / "more")
    assert sorted(json.loads(line)["path"] for line in file.read_text().splitlines()) == [
        *("gcn/0", "gcn/1", "gcn/10", "gcn/2", "gcn/3", "mlp/0"),
    ]  # fmt: skip
    assert set(before.splitlines()) < set(file.read_text().splitlines())
    write_packed(tmp_path / "copy.jsonl", read_packed(file))
    assert (tmp_path / "copy.jsonl").read_text() == file.read_text()


def test_what_cannot_be_packed_is_one_message(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = packed(runs)
    before = file.read_text()
    put(tmp_path / "other", "gcn", "2", 0.2)
    (tmp_path / "torn/gcn/7").mkdir(parents=True)
    (tmp_path / "torn/gcn/7/record.json").write_text('{"config": ')
    for root, message in (
        ("other", f"other/gcn/2: {file} holds another record of gcn/2; pack each by itself."),
        ("torn", "torn/gcn/7: record.json missing, damaged or edited."),
        ("nowhere", f"no record.json below {tmp_path}/nowhere."),
    ):
        assert pack.main([str(tmp_path / root), "--out", str(file)]) == 2
        error = capsys.readouterr().err
        assert error.startswith("error: ")
        assert error.endswith(f"{message}\n")
        assert file.read_text() == before
    new = tmp_path / "new.jsonl"
    assert pack.main([str(runs), str(tmp_path / "other"), "--out", str(new)]) == 2
    assert f"other/gcn/2: {runs}/gcn holds another record of gcn/2; pack each" in capsys.readouterr().err
    assert not new.exists()
    with pytest.raises(SystemExit) as stopped:
        pack.main([str(runs), "--out", "table.json"])
    assert stopped.value.code == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"path": "a/0"', "t.jsonl:1: no JSON object"),
        ("3", "t.jsonl:1: no JSON object"),
        ('{"path": "a/0", "config": "a"}', "t.jsonl:1: lacks config_hash."),
        ('{"path": "a/0", "config": "a", "config_hash": "h"}\n' * 2, "t.jsonl: two records of a/0."),
    ],
)
def test_a_damaged_file_is_one_message(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "t.jsonl").write_text(text)
    with pytest.raises(UserError, match=message):
        record_sources(tmp_path / "t.jsonl")


def test_records_that_another_process_adds_meanwhile_are_not_lost(runs: Path) -> None:
    file = packed(runs)
    put(runs.parent / "more", "gcn", "1")
    script = "import sys; from graphbench.runs import pack; sys.stdin.readline(); pack.main()"
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(runs.parent / "more"), "--out", str(file)],
        **{"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "env": {**os.environ, "PYTHONPATH": str(ROOT)}},
    )
    with atomic.locked(file.parent):
        contents = read_packed(file)
        process.stdin.write(b"begin\n")
        process.stdin.flush()
        contents["gcn/4"] = {**contents["gcn/2"], "run_id": "4"}
        write_packed(file, contents)
    assert b"1 records added, 7 in all" in process.communicate()[0]
    assert {"gcn/1", "gcn/4"} < set(read_packed(file))


def test_bytes_that_are_no_text_are_one_message(runs: Path) -> None:
    file = packed(runs)
    file.write_bytes(b"\xff" + file.read_bytes())
    with pytest.raises(UserError, match=r"table.jsonl: damaged"):
        read_packed(file)


def test_settings_are_written_before_the_records_that_need_them(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    monkeypatch.setattr("graphbench.atomic.write_text", lambda path, text: written.append(path.suffixes[0]))
    write_packed(runs / "a.jsonl", {"mlp/0": {"config": "mlp", "config_hash": "h", "settings": {"gt.layers": 2}}})
    assert written == [".configurations", ".jsonl"]


def test_a_line_that_is_no_record_of_ours_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"path": "a/0", "config": "a", "config_hash": "h", "status": "well"}\n')
    assert aggregate(tmp_path / "t.jsonl" / "a").left_out == {"0": "record.json missing, damaged or edited"}


def test_sources_of_a_folder_at_any_height(runs: Path) -> None:
    packed(runs)
    put(runs, "gcn", "0.old-20260101-000000")
    (runs / "gcn/agg").mkdir()
    names = ["results/gcn", "results/mlp", "table.jsonl/gcn", "table.jsonl/mlp"]
    assert [source.path.relative_to(runs.parent).as_posix() for source in record_sources(runs.parent)] == names
    assert [source.path for source in record_sources(runs / "gcn/10")] == [runs / "gcn"]
    assert record_source(runs / "gcn").run_ids() == ["0", "2", "3", "10"]


def test_files_of_others_below_a_folder_are_told_and_left_alone(runs: Path, caplog: pytest.LogCaptureFixture) -> None:
    known = [source.path for source in record_sources(runs)]
    (runs / "notes.jsonl").write_text('{"a": 1}\n')
    assert [source.path for source in record_sources(runs)] == known
    assert "not read, since it holds no records:" in caplog.text
    with pytest.raises(UserError, match=r"notes.jsonl:1: lacks path, config, config_hash"):
        record_sources(runs / "notes.jsonl")


def test_links_lead_to_what_was_moved_to_another_disk(runs: Path, tmp_path: Path) -> None:
    expected = [source.config for source in record_sources(runs)]
    first, second = expected
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    (runs / first).rename(scratch / first)
    (runs / first).symlink_to(scratch / first)
    (runs / "latest").symlink_to(runs / second)
    (runs / "above").symlink_to(runs.parent)
    (runs / "moved").symlink_to(scratch)
    assert [source.config for source in record_sources(runs)] == expected
    (run,) = (path for path in (runs / second).iterdir() if path.name.isdigit())
    run.rename(scratch / "run")
    run.symlink_to(scratch / "run")
    assert [source.run_ids() for source in record_sources(runs)] == [["0", "2", "3", "10"], [run.name]]
