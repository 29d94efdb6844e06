"""Additions to a copy of the repository: the files in ``tests/additions/<kind>`` are all that a component needs.

Then the command that writes generated files, a training run, and everything that a component must pass.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import ROOT

ADDITIONS = ROOT / "tests/additions"
FILES = {
    **{"attention": 2, "local_layer": 2, "encoder": 3, "dataset": 3, "metric": 1},
    **{"model": 2, "head": 2, "loss": 1, "schedule": 1, "sampler": 1},
}
COPIED = ("graphbench", "configs", "tests", "scripts", "study", "docs", "datasets", "results")
NAMED = ("mean-field", "edge-mean", "degree-se", "residual-mean", "cosine-node", "synthetic/rings")
CONFIGS = [f"configs/{name}.yaml" for name in NAMED]
SHORT = {
    **{f"dataset.SBM.{part}_graphs": "4" for part in ("train", "val", "test")},
    **{"optim.max_epoch": "1", "optim.num_warmup_epochs": "0"},
    **{"model.loss_fun": "focal_loss", "optim.scheduler": "inverse_sqrt"},
}
ABOUT_ALL = ("tests/test_architecture.py", "tests/test_layout.py", "tests/config/test_settings.py")
SUITES = (
    *("tests/layers/test_contract.py", "tests/blockwise/test_stacked.py", "tests/blockwise/test_forward.py"),
    *("tests/encoders/test_encoder_contract.py", "tests/transforms/test_contract.py"),
    *("tests/tasks/test_metric.py", "tests/tasks/test_loss.py", "tests/heads/test_heads.py"),
    *("tests/models/test_model_contract.py", "tests/train/test_schedules.py"),
    *("tests/data/test_builder.py", "tests/data/datasets/test_rings.py", "tests/test_dataset_training.py"),
)
"""Files with tests of every component; those of whole folders take a quarter of a minute to be collected."""
NAMES = (
    *("MeanField", "EdgeMean", "DegreeSE", "InDegree", "Rings", "medae"),
    *("ResidualMean", "cosine_node", "focal_loss", "inverse_sqrt"),
)


def test_the_examples_are_as_few_files_as_the_guide_says() -> None:
    counted = {folder.name: len([*folder.rglob("*.py"), *folder.rglob("*.yaml")]) for folder in ADDITIONS.iterdir()}
    assert counted == FILES


@pytest.mark.slow
def test_an_addition_is_its_files(tmp_path: Path) -> None:
    for name in COPIED:
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", ".cache"))
    for name in ("main.py", "pyproject.toml", "setup.cfg", "README.md"):
        shutil.copy(ROOT / name, tmp_path / name)
    for kind in FILES:
        shutil.copytree(ADDITIONS / kind, tmp_path, dirs_exist_ok=True)

    _python(tmp_path, "-m", "scripts.regenerate")
    overrides = [word for pair in SHORT.items() for word in pair]
    trained = _python(tmp_path, "main.py", "--cfg", *CONFIGS, *overrides)
    assert [json.loads(line)["n"] for line in trained.splitlines()] == [1] * len(CONFIGS)
    pytest_arguments = ("-m", "pytest", "-q", "-p", "no:cacheprovider")
    _python(tmp_path, *pytest_arguments, *ABOUT_ALL)
    report = _python(tmp_path, *pytest_arguments, "-rA", *SUITES, "-k", " or ".join(NAMES))
    for name in NAMES:
        assert any(line.startswith("PASSED") and name in line for line in report.splitlines()), name


@pytest.mark.slow
def test_a_misspelt_key_of_a_plug_in_is_one_message() -> None:
    plug_in = ADDITIONS / "attention/graphbench/layers/attention/mean_field.py"
    overrides = ["plugins", f"[{plug_in}]", "gt.layer_type", "CustomGatedGCN+MeanField", "gt.MeanField.scal", "2"]
    done = _run(ROOT, "main.py", "--cfg", "configs/quickstart.yaml", "--dry_run", *overrides)
    assert done.returncode == 2
    assert "Did you mean 'scale'?" in done.stderr


def _python(folder: Path, *arguments: str) -> str:
    done = _run(folder, *arguments)
    assert done.returncode == 0, f"{' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def _run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
