"""The benchmark of whole epochs, tiny: what it counts and builds, not how long that takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from graphbench.benchmarks import epochs
from graphbench.benchmarks.pyg_gps import gps_epochs
from graphbench.benchmarks.step_kernels import StepKernels
from graphbench.config import load_config
from graphbench.errors import UserError
from graphbench.train.reporter import EpochReport
from tests.paths import ROOT

# Features of molecules, so that the peer has columns to embed.
TINY = """
dataset: {format: custom, name: molecules, task: graph, task_type: regression, transductive: false,
  node_encoder: true, node_encoder_name: TypeDictNode+RWSE, node_encoder_num_types: 5, node_encoder_bn: false,
  edge_encoder: true, edge_encoder_name: TypeDictEdge, edge_encoder_num_types: 3, edge_encoder_bn: false,
  split_mode: fixed, split_file: split.json, custom: {path: graphs.pt}}
posenc_RWSE: {enable: true, kernel: {times_func: "range(1,4)"}, model: Linear, dim_pe: 4, raw_norm_type: none}
train: {batch_size: 4, mode: custom}
model: {type: GPSModel, loss_fun: l1, graph_pooling: mean}
gt: {layer_type: GINE+Transformer, layers: 1, n_heads: 2, dim_hidden: 16}
gnn: {head: graph, dim_inner: 16}
optim: {base_lr: 0.01, scheduler: none}
num_threads: 1
"""


def write_molecules(folder: Path) -> Path:
    generator = torch.Generator().manual_seed(1)
    graphs = []
    for number in range(16):
        node = torch.arange(4 + number % 3)
        edge_index = torch.stack([node, (node + 1) % len(node)])
        types = torch.randint(3, (2, len(node), 1), generator=generator)
        y = torch.randn(1, generator=generator)
        graphs.append({"x": types[0], "edge_index": edge_index, "edge_attr": types[1], "y": y})
    torch.save(graphs, folder / "graphs.pt")
    split = {"train": list(range(8)), "val": list(range(8, 12)), "test": list(range(12, 16))}
    (folder / "split.json").write_text(json.dumps(split))
    path = folder / "molecules.yaml"
    path.write_text(TINY)
    return path


@pytest.mark.parametrize("layer", ["GINE", "CustomGatedGCN"])
def test_an_epoch_of_ours_and_one_of_pyg(layer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch_geometric")
    monkeypatch.chdir(tmp_path)
    command = (str(write_molecules(tmp_path)), "gt.layer_type", f"{layer}+Transformer")
    tiny = epochs.Measured("tiny", command, 1.0, gps_epochs)
    (case,) = epochs.run(torch.device("cpu"), [tiny], epochs=2)
    assert case.name.startswith("tiny, epoch, ")
    assert case.peer_name == "PyG"
    assert len(case.ours) == len(case.peer) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"against": ["pgy"]}, "--against must be some of steps, pyg, compiled; received pgy"),
        ({"epochs": 0}, "--epochs must be at least 1; received 0"),
    ],
)
def test_refused_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        epochs.run(torch.device("cpu"), **arguments)


def test_what_is_measured_is_shipped() -> None:
    for each in epochs.MEASURED:
        load_config(ROOT / "configs" / each.command[0], list(each.command[1:]))


def test_nothing_is_watched_without_a_gpu() -> None:
    kernels = StepKernels(0, torch.device("cpu"))
    kernels.batch(0, 1, 20)
    kernels.epoch(EpochReport(0, 1, "loss", {}, None, {}, False, 1.0, 1.0, 0.0))
    kernels.close()
    assert kernels.text == ""
