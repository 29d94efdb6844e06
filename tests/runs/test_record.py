"""Records to text and back."""

from __future__ import annotations

import dataclasses
import json
import math
import mmap
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from graphbench.runs import environment as environment_module
from graphbench.runs.data_facts import DataFacts
from graphbench.runs.environment import changes, environment, forget_peak_memory, peak_memory
from graphbench.runs.record import Outcome, RunRecord, Score
from graphbench.tables.provenance import commits_of
from tests.paths import ROOT

OUTCOME = Outcome("max_epoch", 3, 10, (Score("test", "accuracy", 0.1 + 0.2, True, 7),), 83, 0.5, 5.0, 1 << 30)


def make(**changes) -> RunRecord:
    facts = {"config": "tiny", "config_hash": "abc", "seed": 1, "run_id": "1", "metric": "accuracy", "maximize": True}
    return RunRecord.start(**{**facts, "data": DataFacts(name="Cora", fingerprint="f00"), **changes})


def test_round_trip(tmp_path: Path) -> None:
    record = make().end("finished", **vars(OUTCOME))
    record.write(tmp_path / "record.json")
    assert RunRecord.read(tmp_path / "record.json") == record
    assert record.score("test") == 0.1 + 0.2
    assert record.score("val") is None
    assert (record.reason, record.best_epoch, record.params) == ("max_epoch", 3, 83)
    assert record.started <= record.ended


def test_nan_is_null_in_the_file_and_nan_in_memory() -> None:
    text = make(scores=(Score("val", "auc", math.nan, True, 1),), total_time=math.inf).to_json()
    assert "NaN" not in text
    assert "Infinity" not in text
    assert json.loads(text)["scores"][0]["value"] is None
    assert math.isnan(RunRecord.from_json(text).scores[0].value)


def test_fields_of_a_later_version_are_ignored() -> None:
    content = json.loads(make().to_json()) | {"invented_later": 1}
    assert RunRecord.from_json(json.dumps(content)) == RunRecord.from_json(make(started=content["started"]).to_json())


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"config": 1', '{"scores": [1]}'])
def test_what_is_no_record(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match="not a run record"):
        RunRecord.from_json(text)
    (tmp_path / "record.json").write_text(text)
    assert RunRecord.read(tmp_path / "record.json") is None


@pytest.mark.parametrize(
    ("field", "value"),
    [("settings", None), ("inputs", []), ("environment", None), ("params", "x"), ("ended", 5), ("curves", None)],
)
def test_a_field_of_another_type_is_no_record(field: str, value: object) -> None:
    content = json.loads(make().to_json())
    assert RunRecord.from_json(json.dumps(content))
    with pytest.raises(ValueError, match=f"not a run record: {field} is of type "):
        RunRecord.from_json(json.dumps({**content, field: value}))
    score = {"split": "test", "name": "loss", "value": "0.5", "maximize": False, "count": 3}
    with pytest.raises(ValueError, match="not a run record: value is of type str"):
        RunRecord.from_json(json.dumps({**content, "scores": [score]}))


def test_a_record_whose_checksum_was_taken_off_is_none(tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    make(curves={"val": "0" * 64}).write(file)
    content = json.loads(file.read_text())
    assert RunRecord.read(file) is not None
    del content["checksum"]
    file.write_text(json.dumps(content))
    assert RunRecord.read(file) is None


def test_resuming_keeps_the_start_and_counts() -> None:
    first = make(started="2020-01-01T00:00:00+00:00")
    again = make(previous=first.end("interrupted"))
    assert (again.started, again.resumed, again.status, again.ended) == (first.started, 1, "running", None)
    assert make(previous=again).resumed == 2


def test_an_unknown_status_is_refused() -> None:
    with pytest.raises(ValueError, match=r"status must be one of .*received 'done'"):
        make(status="done")


def test_environment_knows_where_it_is() -> None:
    facts = environment()
    assert torch.__version__.startswith(facts["packages"]["torch"])  # +cu130 and the like are left out
    assert facts["cores"] >= 1
    assert facts["python"].startswith("3.")
    assert facts["source"] == environment(ROOT / "graphbench")["source"], "all packages, not this one alone"
    json.dumps(facts)


def test_environment_never_fails(monkeypatch, tmp_path: Path) -> None:
    def broken(*_: object, **__: object) -> None:
        raise OSError("no")

    for name in ("_git", "_cpu", "available_cores", "_gpu", "_packages", "_peak_memory"):
        monkeypatch.setattr(environment_module, name, broken)
    facts = environment(tmp_path)
    assert facts["git_commit"] is None
    assert facts["cpu"] is None
    assert facts["packages"] == {}
    assert peak_memory(torch.device("cpu")) is None


def test_no_repository_is_no_commit(tmp_path: Path) -> None:
    facts = environment(tmp_path)
    assert (facts["git_commit"], facts["git_dirty"]) == (None, None)


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_the_commit_is_that_of_the_code_not_of_the_repository_around_it(tmp_path: Path) -> None:
    """Installed in a virtual environment inside another repository, the code has no commit there."""
    package = tmp_path / ".venv" / "graphbench"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    _git(tmp_path, "init", "-q")
    (tmp_path / "theirs.txt").write_text("")
    _git(tmp_path, "add", "theirs.txt")
    _git(tmp_path, "commit", "-qm", "theirs")
    assert environment(package)["git_commit"] is None
    _git(tmp_path, "add", "-f", ".venv")
    _git(tmp_path, "commit", "-qm", "vendored")
    assert environment(package)["git_commit"] == _git(tmp_path, "rev-parse", "HEAD")


def test_untracked_and_ignored_code_counts_as_changed(tmp_path: Path) -> None:
    package = tmp_path / "graphbench"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (tmp_path / ".gitignore").write_text("draft*.py\n")
    _git(tmp_path, "init", "-q")
    _git(tmp_path, "add", ".")
    _git(tmp_path, "commit", "-qm", "all")
    clean = environment(package)
    (tmp_path / "notes.txt").write_text("no code")
    assert (environment(package)["git_dirty"], environment(package)["source"]) == (False, clean["source"])
    (package / "draft_layer.py").write_text("x = 1\n")
    changed = environment(package)
    assert (clean["git_dirty"], changed["git_dirty"]) == (False, True)
    assert changed["source"] != clean["source"]


def test_a_resumed_run_names_every_commit_it_ran_under() -> None:
    def at(commit: str, dirty: bool, previous: RunRecord | None = None) -> RunRecord:
        return make(previous=previous, environment={"git_commit": commit * 20, "git_dirty": dirty})

    record = at("aa", True, at("bb", False, at("aa", True)))
    assert record.commits == ("aa" * 20 + "+", "bb" * 20)
    assert commits_of(RunRecord.from_json(record.to_json())) == ("a" * 8 + "+", "b" * 8)
    installed = make(environment={"git_commit": None, "git_dirty": None, "packages": {"graphbench-gt": "0.2.0.dev12"}})
    assert commits_of(installed) == ("v0.2.0.dev12",)
    older = dataclasses.replace(record, commits=())
    assert commits_of(older) == ("a" * 8 + "+",)


def test_a_resumed_run_says_what_it_ran_on_before() -> None:
    def on(torch_version: str, threads: int, previous: RunRecord | None = None) -> RunRecord:
        facts = {"threads": threads, "packages": {"torch": torch_version}, "cpu": None, "host": f"of {threads}"}
        return make(previous=previous, environment=facts)

    begun = on("2.11", 1)
    assert changes(begun.environment, on("2.11", 1).environment) == {}
    assert changes(begun.environment, on("2.12", 2).environment) == {"threads": (1, 2), "torch": ("2.11", "2.12")}
    assert "before" not in on("2.11", 1, begun).environment
    record = on("2.12", 1, on("2.12", 2, begun))
    assert record.environment["before"] == [{"threads": 1, "torch": "2.11"}, {"threads": 2}]
    assert record.environment["threads"] == 1


def test_peak_memory_of_this_process() -> None:
    assert 50_000_000 < peak_memory(torch.device("cpu")) < 1 << 40


@pytest.mark.skipif(sys.platform != "linux", reason="a process forgets its peak on Linux only")
def test_a_later_run_does_not_inherit_the_peak_of_an_earlier_one() -> None:
    cpu = torch.device("cpu")
    with mmap.mmap(-1, 400_000_000) as block:  # not by malloc, which may have as much that it never gave back
        for page in range(0, len(block), mmap.PAGESIZE):
            block[page] = 1
    before = peak_memory(cpu)
    forget_peak_memory(cpu)
    assert peak_memory(cpu) < before - 200_000_000


def test_a_record_that_changed_on_the_disk_is_none(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    record = RunRecord(config="c", config_hash="h", seed=0, run_id="0", scores=(Score("test", "mae", 0.25, False, 3),))
    record.write(path)
    assert RunRecord.read(path) == record
    text = path.read_text()
    path.write_text(text.replace("0.25", "0.35"))
    assert RunRecord.read(path) is None
    without = text[: text.rindex(",\n")] + "\n}\n"
    path.write_text(without)
    assert RunRecord.read(path) == record, "records of earlier versions have none"
