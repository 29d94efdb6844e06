"""Kernels of a training that are compiled for a GPU that is not there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import ROOT
from tests.second_device import GPU

pytest.importorskip("triton", reason="the GPU kernels need Triton (pip install 'graphbench-gt[test]')")


@pytest.mark.slow
@pytest.mark.skipif(GPU, reason="they are launched")
def test_what_a_training_launches_is_compiled(tmp_path: Path) -> None:
    """A process of its own each, as both are started: Triton keeps what it has compiled."""

    def done(*arguments: str) -> str:
        command = [sys.executable, "-m", "scripts.gpu_kernels", *arguments]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    launches, kernels = tmp_path / "launches.json", tmp_path / "kernels"
    command = ("configs/quickstart-gps.yaml", "accelerator", "cpu", "out_dir", str(tmp_path / "runs"))
    assert "launches" in done("record", str(launches), *command)
    found = json.loads(launches.read_text())
    names = {name for _, name, *_ in found}
    assert {"places", "rows", "put", "linear_backward", "residual_norm_forward", "residual_norm_backward"} <= names
    few = {"places", "put", "add_all"}  # the others take a minute
    launches.write_text(json.dumps([launch for launch in found if launch[1] in few]))
    assert ", 0 failed" in done("compile", str(kernels), str(launches))
    assert {file.stem for file in kernels.glob("*/*.cubin")} == few
