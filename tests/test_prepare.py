"""``scripts/prepare.py``: what it leaves on disk, and what it says when something is missing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from graphbench.prepare import main
from tests.paths import ROOT

Prepare = Callable[..., subprocess.CompletedProcess[str]]
PEPTIDES = "OGB/peptides-functional"
TINY = """
_base_: {root}/configs/synthetic/pattern-gps.yaml
dataset:
  dir: {data}
  SBM: {{train_graphs: 6, val_graphs: 2, test_graphs: 2}}
"""


@pytest.fixture
def prepare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Prepare:
    monkeypatch.setenv("GRAPHBENCH_DATA", "")
    monkeypatch.delenv("GRAPHBENCH_CACHE", raising=False)

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(ROOT / "scripts/prepare.py"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)

    return call


def _tiny(folder: Path, name: str = "tiny.yaml", more: str = "") -> str:
    (folder / name).write_text(TINY.format(root=ROOT, data=folder / "data") + more)
    return str(folder / name)


def test_encodings_are_computed_once_and_found_by_the_next_start(prepare: Prepare, tmp_path: Path) -> None:
    done = prepare(_tiny(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "encodings: LapPE, RWSE; ready after" in done.stdout
    assert "computing LapPE, RWSE of 10 graphs" in done.stderr
    kept = {each.name for each in (tmp_path / "data/.cache/transforms").glob("*.safetensors")}
    assert len(kept) == 2
    again = prepare(_tiny(tmp_path), "--offline")
    assert again.returncode == 0
    assert "computing" not in again.stderr
    changed = prepare(_tiny(tmp_path, "other.yaml", "posenc_LapPE: {eigen: {max_freqs: 3}}\n"))
    assert "computing LapPE of 10 graphs" in changed.stderr


def test_offline_says_once_per_data_set_what_is_missing_and_prepares_the_rest(prepare: Prepare, tmp_path: Path) -> None:
    peptides = f"{ROOT}/configs/_base_/data/peptides-func.yaml"
    done = prepare(PEPTIDES, peptides, "PyG-ZINC/subset", _tiny(tmp_path), "--offline", "--dir", str(tmp_path / "data"))
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
def test_names_that_do_not_exist(
    name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GRAPHBENCH_DATA", "")
    monkeypatch.chdir(tmp_path)
    assert main([name, "--offline"]) == 2
    assert message in capsys.readouterr().err
