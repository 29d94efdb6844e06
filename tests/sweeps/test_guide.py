"""The sweep files that guides show are complete: every one of them can be planned, and its cells are its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from graphbench.sweeps import read_sweep
from graphbench.sweeps.cli import main
from graphbench.sweeps.search import SearchDimension
from tests.paths import ROOT
from tests.sweeps.test_search import search

FILES = {
    f"{guide.name}:{number}": block
    for guide in sorted((ROOT / "docs").glob("*.md"))
    for number, block in enumerate(re.findall(r"```yaml\n(.*?)```", guide.read_text(), re.DOTALL))
    if re.search(r"^sweep:", block, re.MULTILINE) and re.search(r"^groups:", block, re.MULTILINE)
}


WIDTHS = """\
sweep: {name: width, seeds: 1}
groups:
  - configs: [../nodes/sgformer-cora.yaml]
    label: SGFormer
    grid: {"gt.dim_hidden, gnn.dim_inner": [16, 32], optim.base_lr: [0.1]}
  - configs: [../nodes/gps-performer-cora.yaml]
    label: GPS
    search: {"gt.dim_hidden, gnn.dim_inner": {choices: [16, 32]}}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data_root: Path) -> Path:
    """``configs/sweeps`` of an empty place, beside the shipped configurations."""
    monkeypatch.setenv("GRAPHBENCH_DATA", str(data_root))
    monkeypatch.chdir(tmp_path)
    sweeps = tmp_path / "configs/sweeps"
    sweeps.mkdir(parents=True)
    for name in ("nodes", "_base_"):
        (tmp_path / "configs" / name).symlink_to(ROOT / "configs" / name)
    return sweeps


def test_guides_show_sweep_files() -> None:
    assert len(FILES) >= 2


@pytest.mark.parametrize("name", FILES)
def test_a_sweep_file_of_a_guide_can_be_planned(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = folder / "guide.yaml"
    file.write_text(FILES[name])
    if "search:" in FILES[name]:
        pytest.importorskip("optuna")
    assert main([str(file), "--dry_run"]) == 0, capsys.readouterr().err


def test_keys_that_must_be_equal_are_one_dimension(folder: Path) -> None:
    file = folder / "width.yaml"
    file.write_text(WIDTHS)
    entries = read_sweep(file).entries
    assert [entry.label for entry in entries][:2] == [
        "SGFormer (dim_hidden=16, base_lr=0.1)",
        "SGFormer (dim_hidden=32, base_lr=0.1)",
    ]
    for entry, width in zip(entries, (16, 32), strict=False):
        assert (entry.config.tree.gt.dim_hidden, entry.config.tree.gnn.dim_inner) == (width, width)
        assert entry.config.name == f"sgformer-cora-dim_hidden-{width}_base_lr-0.1"
    assert entries[2].search[0].keys == ("gt.dim_hidden", "gnn.dim_inner")
    assert read_sweep(file, ["gt.dim_hidden", "64", "gnn.dim_inner", "64"]).entries[2].search == ()


def test_a_trial_sets_every_key_of_a_dimension(tmp_path: Path) -> None:
    study_module = pytest.importorskip("graphbench.sweeps.study")
    pytest.importorskip("optuna")
    space = (SearchDimension("gt.dim_hidden, gnn.dim_inner", None, 16, 64, True, "mine.yaml:1"),)
    study = study_module.Study(search(tmp_path, space=space))
    trial = study.claim()
    assert list(trial.parameters) == ["gt.dim_hidden", "gnn.dim_inner"]
    assert len(set(trial.parameters.values())) == 1
    trial.complete(0.5)
    assert dict(study.status().parameters) == trial.parameters
