"""``scripts/prepare.py``: what it leaves on disk, and what it says when something is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from graphbench.prepare import main
from tests.paths import ROOT

PEPTIDES = "OGB/peptides-functional"
TINY = """
_base_: {root}/configs/synthetic/pattern-gps.yaml
dataset:
  dir: {data}
  SBM: {{train_graphs: 6, val_graphs: 2, test_graphs: 2}}
"""


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("GRAPHBENCH_DATA", "")
    monkeypatch.delenv("GRAPHBENCH_CACHE", raising=False)
    monkeypatch.chdir(tmp_path)
    caplog.set_level("INFO")


def _tiny(folder: Path, name: str = "tiny.yaml", more: str = "") -> str:
    (folder / name).write_text(TINY.format(root=ROOT, data=folder / "data") + more)
    return str(folder / name)


def test_encodings_are_computed_once_and_found_by_the_next_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    assert main([_tiny(tmp_path)]) == 0
    assert "encodings: LapPE, RWSE; ready after" in capsys.readouterr().out
    assert "computing LapPE, RWSE of 10 graphs" in caplog.text
    kept = {path.name for path in (tmp_path / "data/.cache/transforms").glob("*.safetensors")}
    assert len(kept) == 2
    caplog.clear()
    assert main([_tiny(tmp_path), "--offline"]) == 0
    assert "computing" not in caplog.text
    assert main([_tiny(tmp_path, "other.yaml", "posenc_LapPE: {eigen: {max_freqs: 3}}\n")]) == 0
    assert "computing LapPE of 10 graphs" in caplog.text


def test_encodings_in_shards(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    name = _tiny(tmp_path)
    assert main([name, "--shards", "2", "--shard", "1"]) == 0
    assert "encodings: shard 1 of 2 is there, others are missing; ready after" in capsys.readouterr().out
    assert "computing LapPE, RWSE" not in caplog.text
    assert "computing LaplacianPE, RandomWalkSE of 5 graphs from number 5, shard 1 of 2" in caplog.text
    assert main([name, "--shards", "2"]) == 0
    assert "encodings: LapPE, RWSE; ready after" in capsys.readouterr().out
    assert caplog.text.count("of 5 graphs from number 5") == 1
    assert caplog.text.count("of 5 graphs from number 0, shard 0 of 2") == 1
    assert main([name]) == 0
    assert "computing LapPE" not in caplog.text
    with pytest.raises(SystemExit, match="2"):
        main([name, "--shards", "2", "--shard", "2"])
    assert "--shard must lie in 0 .. N - 1 of --shards N; received 2 of 2" in capsys.readouterr().err


def test_offline_says_once_per_data_set_what_is_missing_and_prepares_the_rest(tmp_path: Path) -> None:
    peptides = f"{ROOT}/configs/_base_/data/peptides-func.yaml"
    names = (PEPTIDES, peptides, "PyG-ZINC/subset", _tiny(tmp_path))
    command = [sys.executable, str(ROOT / "scripts/prepare.py"), *names, "--offline", "--dir", str(tmp_path / "data")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("error: ") == 2
    assert f"the raw files of Peptides-func are in none of {tmp_path}/data" in done.stderr
    assert "(downloads are switched off). Put these files below" in done.stderr
    assert "peptides-functional/raw/peptide_multi_class_dataset.csv.gz   from https://" in done.stderr
    assert "ZINC/raw/train.pickle" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout.count("ready after") == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere.yaml", "no such configuration file: 'nowhere.yaml'"),
        ("Cora", "'Cora' is neither a YAML file nor format/name"),
        ("PyG-Zinc/subset", "PyG-ZINC"),
        ("PyG-ZINC/small", "subset"),
    ],
)
def test_names_that_do_not_exist(name: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--offline"]) == 2
    assert message in capsys.readouterr().err
