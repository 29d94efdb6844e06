"""Records that an earlier version left behind, and what the command says about them."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from graphbench.runs.audit import audit, main
from graphbench.runs.data_facts import DataFacts, PretrainedFacts
from graphbench.runs.record import RunRecord

AMAZON = {"dataset.format": "PyG-Amazon", "dataset.name": "photo"}


def put(root: Path, config: str, run: int, fingerprint: str = "f", base: str | None = None, **facts: Any) -> None:
    data = DataFacts("photo", fingerprint, "standard", sizes={"train": 6, "val": 2})
    data = dataclasses.replace(data, pretrained=PretrainedFacts(base) if base else None)
    record = RunRecord.start(config=config, config_hash="h", seed=run, run_id=str(run), data=data, **facts)
    dataclasses.replace(record.end("finished"), ended=f"2026-01-0{run + 1}").write(
        root / config / str(run) / "record.json"
    )


def test_every_kind_of_doubt_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path, "mixed", 0, "old")
    put(tmp_path, "mixed", 1, "new")
    put(tmp_path, "resumed", 0, resumed=2)
    put(tmp_path, "tuned", 0, settings={"pretrained.dir": "results/mixed/0"})
    put(tmp_path, "amazon", 0, settings=AMAZON)
    put(tmp_path, "amazon-written", 0, settings={**AMAZON, "dataset.split": [0.5, 0.25, 0.25]})
    listed = {(kind, Path(folder).name) for kind, folder, _ in audit([tmp_path]) if kind != "unknown"}
    assert listed == {("mixed", "mixed"), ("resumed", "resumed"), ("judged", "tuned"), ("two splits", "amazon")}
    assert main([str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert "mixed: run 0: other data" in said.out
    assert "dataset.split written or not: runs 0 (6/2)" in said.out
    assert "5 unknown" in said.err


def test_records_with_digests_are_not_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path, "amazon", 0, settings=AMAZON, inputs={"data": "f", "split of seed 0": "s"}, resumed=1)
    assert list(audit([tmp_path])) == []
    assert main([str(tmp_path)]) == 0
    assert "listed: nothing" in capsys.readouterr().err
    assert main([str(tmp_path / "nowhere")]) == 2


def test_records_that_were_edited_or_lost_are_listed(tmp_path: Path) -> None:
    for run in range(3):
        put(tmp_path, "gcn", run, inputs={"data": "f"})
    (tmp_path / "gcn" / "0" / "record.json").unlink()
    edited = tmp_path / "gcn" / "2" / "record.json"
    edited.write_text(edited.read_text().replace('"photo"', '"computers"'))
    told = "record.json missing, damaged or edited: runs "
    assert [text.removeprefix(told) for kind, _, text in audit([tmp_path]) if kind == "unreadable"] == ["0, 2"]


def test_runs_on_the_base_of_another_seed_are_listed(tmp_path: Path) -> None:
    for run, base in enumerate(("dfi/0", "dfi/0", "dfi/2")):
        put(tmp_path, "plus", run, base=base, inputs={f"weights of {base}": base})
        put(tmp_path, "head", run, base="dfi/0", inputs={"weights of dfi/0": "dfi/0"})  # one run serves all
    assert [each for each in audit([tmp_path]) if each[0] == "base"] == [
        ("base", str(tmp_path / "plus"), "started from the run of another number: runs 1")
    ]


def test_means_over_fewer_runs_than_stated_are_listed(tmp_path: Path) -> None:
    for run in range(2):
        put(tmp_path, "few", run, inputs={"data": "f"})
        (tmp_path / f"few/{run}/test").mkdir()
        lines = [{"epoch": 0, "loss": 1.0}, {"epoch": 1, "loss": 1.0, **({"f1": 0.5} if run else {})}]
        (tmp_path / f"few/{run}/test/stats.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    means = tmp_path / "few/agg/test/stats.json"
    means.parent.mkdir(parents=True)
    means.write_text('{"epoch": 0, "loss": 1.0, "n": 2}\n{"epoch": 1, "loss": 1.0, "f1": 0.5, "n": 2}\n')
    assert [(kind, text) for kind, _, text in audit([tmp_path])] == [
        ("epochs", "agg/test/stats.json: f1 (epoch 1 first); train once more")
    ]
    means.write_text('{"epoch": 1, "loss": 1.0, "loss_n": 2, "f1": 0.5, "f1_n": 1, "n": 2}\n')
    assert list(audit([tmp_path])) == []
