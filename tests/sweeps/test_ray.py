"""Sweeps on a Ray cluster, here one of this machine that the sweep starts itself."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from graphbench.sweeps.cli import main
from graphbench.sweeps.ray import environment
from tests.paths import ROOT

GCN = ROOT / "configs/nodes/gcn-cora.yaml"


@pytest.fixture
def sweep(data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("GRAPHBENCH_DATA", str(data_root))
    monkeypatch.setenv("GRAPHBENCH_CACHE", str(tmp_path.parent / "cache"))
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine.yaml"
    path.write_text(
        f"""\
sweep: {{name: mine, seeds: 1}}
groups:
  - configs: [{GCN}]
    common: {{num_threads: 1, print: file, train.early_stop_patience: 0, optim.max_epoch: 3}}
    variants: [{{label: GCN}}, {{label: explodes, name_tag: x, optim.base_lr: 1e30}}]
"""
    )
    return str(path)


def test_a_missing_package_is_one_message(
    sweep: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main([sweep, "--launcher", "ray"]) == 2
    assert "error: --launcher ray needs Ray, which is not installed: pip install 'graphbench-gt[ray]'." in (
        capsys.readouterr().err
    )


def test_runs_have_the_folders_of_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Machines of a cluster have the environment of whoever has started it there."""
    monkeypatch.setenv("GRAPHBENCH_DATA", "/data")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("PYTHONPATH", "/mine")
    given = environment()
    assert (given["GRAPHBENCH_DATA"], given["OMP_NUM_THREADS"]) == ("/data", "3")
    assert given["PYTHONPATH"] == f"{ROOT}:/mine"
    assert "PATH" not in given
    monkeypatch.delenv("PYTHONPATH")
    assert environment()["PYTHONPATH"] == str(ROOT), "an empty entry would be the folder of the machine"


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_runs_go_through_ray(sweep: str, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ray", reason="no Ray here: pip install 'graphbench-gt[ray]'")
    assert main([sweep, "--launcher", "ray"]) == 1
    said = capfd.readouterr().err
    assert "1 of 2 runs finished; records below results" in said
    assert "failed: explodes / Cora (gcn-cora-x 123), log: results/gcn-cora-x/sweep.log" in said
    assert "the training loss is" in said
    for folder, status in (("gcn-cora", "finished"), ("gcn-cora-x", "failed")):
        assert json.loads(Path(f"results/{folder}/123/record.json").read_text())["status"] == status
