"""Adding an attention to a copy of the package is one file and one YAML; everything else finds it by itself."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.paths import ROOT

ATTENTION = '''
"""Mean of the graph, added with a learnable weight: the smallest global module there can be."""

from torch import nn

from graphbench.layers.contract import GlobalAttention
from graphbench.ops.segment import segment_mean
from graphbench.registry import FromContext, register


@register("MeanField")
class MeanField(GlobalAttention):
    def __init__(self, dim: FromContext[int], *, scale: float = 1.0):
        super().__init__()
        self.scale = scale
        self.lin = nn.Linear(dim, dim)

    def forward(self, h, e, batch):
        mean = segment_mean(self.lin(h), batch.ragged)
        return self.scale * mean.index_select(0, batch.ragged.graph_id)
'''

YAML = """
_base_: {quickstart}
dataset:
  SBM: {{train_graphs: 8, val_graphs: 4, test_graphs: 4}}
gt: {{layer_type: CustomGatedGCN+MeanField, MeanField: {{scale: 0.5}}}}
optim: {{max_epoch: 1, num_warmup_epochs: 0}}
"""


def test_one_file_and_one_yaml(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "graphbench", tmp_path / "graphbench", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    shutil.copytree(ROOT / "tests", tmp_path / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("main.py", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)

    (tmp_path / "graphbench/layers/attention/mean_field.py").write_text(ATTENTION)
    yaml = tmp_path / "configs/mean-field.yaml"
    yaml.write_text(YAML.format(quickstart="quickstart.yaml"))

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(tmp_path), "OMP_NUM_THREADS": "1"}
        return subprocess.run(
            [sys.executable, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )

    run = call("main.py", "--cfg", "configs/mean-field.yaml")
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout.splitlines()[-1])["config"] == "mean-field"

    typo = call("main.py", "--cfg", "configs/mean-field.yaml", "gt.MeanField.scal", "2")
    assert typo.returncode == 2
    assert "Did you mean 'scale'?" in typo.stderr

    contract = call("-m", "pytest", "-p", "no:cacheprovider", "tests/layers/test_contract.py", "-k", "MeanField")
    assert contract.returncode == 0, contract.stdout
    assert " passed" in contract.stdout
