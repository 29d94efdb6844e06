"""A handful of graphs in a file, with a configuration that trains on them in a second."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import torch

CONFIG = """
dataset: {format: custom, name: rings, task: graph, task_type: classification_binary, transductive: false,
  node_encoder: true, node_encoder_name: LinearNode, node_encoder_bn: false, split_mode: fixed,
  split_file: split.json, custom: {path: graphs.pt}}
train: {batch_size: 4, eval_period: 1}
model: {type: GPSModel, loss_fun: cross_entropy, graph_pooling: mean}
gt: {layer_type: GCN+None, layers: 1, n_heads: 2, dim_hidden: 8}
gnn: {head: graph, dim_inner: 8}
optim: {max_epoch: 2, base_lr: 0.01, scheduler: none}
accelerator: cpu
num_threads: 1
"""


def write_rings(folder: Path, labels: Sequence[int] = (0, 1) * 8, *, sizes: Sequence[int] | None = None) -> Path:
    """``rings.yaml`` with its graphs (rings of 3, 4, ... nodes) and its split: 8, 4 and 4 of 16 graphs.

    Args:
        folder: receives the files; relative paths in them mean the working directory.
        labels: of the 16 graphs.
        sizes: nodes per graph.
    """
    generator = torch.Generator().manual_seed(1)
    graphs = []
    for number, label in enumerate(labels):
        size = 3 + number % 4 if sizes is None else sizes[number]
        node = torch.arange(size)
        ahead = (node + 1) % size
        edges = torch.stack([torch.cat([node, ahead]), torch.cat([ahead, node])])
        x = torch.randn(size, 3, generator=generator) + label
        graphs.append({"x": x, "edge_index": edges, "y": torch.tensor([label])})
    torch.save(graphs, folder / "graphs.pt")
    split = {"train": list(range(8)), "val": list(range(8, 12)), "test": list(range(12, 16))}
    (folder / "split.json").write_text(json.dumps(split))
    path = folder / "rings.yaml"
    path.write_text(CONFIG)
    return path
