"""Folders with data and a configuration, and what the undisturbed run leaves in one."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

CONFIG = """
dataset: {format: custom, name: rings, task: graph, task_type: classification_binary, transductive: false,
  node_encoder: true, node_encoder_name: LinearNode+RWSE, node_encoder_bn: false, split_mode: fixed,
  split_file: split.json, dir: data, custom: {path: graphs.pt}}
posenc_RWSE: {enable: true, kernel: {times_func: "range(1,5)"}, model: Linear, dim_pe: 4, raw_norm_type: none}
train: {batch_size: 4, eval_period: 1, ckpt_period: 1}
model: {type: GPSModel, loss_fun: cross_entropy, graph_pooling: mean}
gt: {layer_type: GCN+Transformer, layers: 1, n_heads: 2, dim_hidden: 8, dropout: 0.1}
gnn: {head: graph, dim_inner: 8}
optim: {max_epoch: 6, base_lr: 0.01, scheduler: cosine_with_warmup, num_warmup_epochs: 1}
accelerator: cpu
num_threads: 1
"""
COMMAND = ["--cfg", "rings.yaml", "--repeat", "2"]
SWEEP = """
sweep: {name: rings, seeds: 2}
groups:
  - {configs: [rings.yaml], label: GCN}
  - {configs: [wide.yaml], label: wide}
"""
SWEEP_COMMAND = ["sweep.yaml", "--jobs", "2"]
OF_THE_PROCESS = ("time_epoch", "time_iter", "eta", "eta_hours", "gpu_memory")
RESULTS = Path("results/rings")


def make(folder: Path) -> Path:
    """A folder with 24 rings, their split, two configurations and a sweep of both."""
    folder.mkdir(parents=True)
    generator = torch.Generator().manual_seed(1)
    graphs = []
    for number in range(24):
        node = torch.arange(3 + number % 5)
        ahead = (node + 1) % len(node)
        edges = torch.stack([torch.cat([node, ahead]), torch.cat([ahead, node])])
        x = torch.randn(len(node), 3, generator=generator) + number % 2
        graphs.append({"x": x, "edge_index": edges, "y": torch.tensor([number % 2])})
    torch.save(graphs, folder / "graphs.pt")
    parts = {"train": list(range(12)), "val": list(range(12, 18)), "test": list(range(18, 24))}
    (folder / "split.json").write_text(json.dumps(parts))
    (folder / "rings.yaml").write_text(CONFIG)
    (folder / "wide.yaml").write_text("_base_: rings.yaml\ngt: {dim_hidden: 16}\ngnn: {dim_inner: 16}\n")
    (folder / "sweep.yaml").write_text(SWEEP)
    return folder


def copy(source: Path, target: Path) -> Path:
    """A copy of a folder, in place of what lies there."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, symlinks=True)
    return target


@dataclass(frozen=True)
class Numbers:
    """Everything in a folder that must not depend on what happened on the way."""

    line: dict[str, Any]
    curves: dict[str, list[dict[str, Any]]]
    aggregates: dict[str, Any]
    weights: dict[str, list[Any]]

    @classmethod
    def of(cls, folder: Path, out: str) -> Numbers:
        """Of a finished command, from its output and its files."""
        results = folder / RESULTS.parent
        curves, aggregates, weights = {}, {}, {}
        for path in sorted(results.glob("*/[0-9]/*/stats.json")):
            lines = _lines(path)
            curves[str(path.relative_to(results))] = [_timeless(line) for line in lines]
        for path in sorted(results.glob("*/agg/*/*.json")):
            lines = _lines(path)
            aggregates[str(path.relative_to(results))] = [_timeless(line) for line in lines]
        for path in sorted(results.glob("*/[0-9]/ckpt/best.ckpt")):
            try:
                model = torch.load(path, weights_only=True)["model"]
            except Exception:  # noqa: BLE001  damaged: who reads it is told
                continue
            weights[str(path.relative_to(results))] = [value.tolist() for value in model.values()]
        line = out.splitlines()[-1] if out else "{}"  # a sweep prints none
        return cls(json.loads(line) if line.startswith("{") else {}, curves, aggregates, weights)

    def difference(self, other: Numbers) -> str | None:
        """The first part that differs; None where all is equal bit for bit."""
        parts = [name for name, value in vars(self).items() if value != vars(other)[name]]
        return f"other {', '.join(parts)} than the undisturbed run" if parts else None


def leftovers(folder: Path) -> list[str]:
    """Temporary files that nobody will finish."""
    hidden = (path for path in folder.rglob(".*") if path.is_file() and path.suffix != ".lock")
    return [str(path.relative_to(folder)) for path in hidden if ".cache" != path.name]


def _lines(path: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in path.read_text().splitlines()]
    except (OSError, ValueError):  # a damaged file
        return []


def _timeless(line: dict[str, Any]) -> dict[str, Any]:
    kept = {}
    for name, value in line.items():
        if not name.removesuffix("_std").removesuffix("_n").endswith(OF_THE_PROCESS):
            kept[name] = value
    return kept
