"""docs/custom-data.md, word by word: its Python, its split file and its complete YAML end in a finished run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_main import ROOT, call

GUIDE = (ROOT / "docs/custom-data.md").read_text()


def _block(language: str, containing: str) -> str:
    (found,) = [text for text in re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL) if containing in text]
    return found


@pytest.mark.slow
def test_the_guide_works_as_written(tmp_path: Path) -> None:
    (tmp_path / "make.py").write_text(_block("python", "torch.save"))
    (tmp_path / "my_split.json").write_text(_block("json", '"train"'))
    (tmp_path / "rings.yaml").write_text(_block("yaml", "# rings.yaml"))
    subprocess.run([sys.executable, "make.py"], cwd=tmp_path, check=True)

    command = _block("bash", "rings.yaml").split()
    done = call(*command[1:], cwd=tmp_path, program=("-m", "graphbench"))
    assert done.returncode == 0, done.stderr
    line = json.loads(done.stdout.splitlines()[-1])
    assert line["dataset"] == "rings"
    assert line["metric"] == "accuracy"
