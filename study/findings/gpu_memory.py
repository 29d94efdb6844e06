"""Does one training step on a graph of Flickr's or ogbn-arxiv's size fit into a GPU (claim GE-17)?

``python -m study.findings.gpu_memory [--models NAME ...] [--graphs NAME ...]`` prints a Markdown table and, as its
last line, JSON. Random graphs with the nodes, edges, features and classes of the two; every model has 3 layers of width
64 and 4 heads, no encodings besides Graphormer's bias, and takes one step in a process of its own. Its distances
are not searched: all pairs get the same one, a byte each, which takes no less memory. ``GPS, all weights held`` is GPS
without fused attention, as programs are that hold the N x N weights.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from graphbench.command_line import CommandParser
from graphbench.config import load_config
from graphbench.errors import UserError, is_out_of_memory, unknown
from graphbench.factory.data import build_splits, encode, read_data
from graphbench.factory.loaders import build_loaders
from graphbench.factory.model import build_model
from graphbench.factory.task import build_task
from graphbench.factory.training import build_fabric, build_optimizer
from graphbench.plots.training_step import whole_matrix
from graphbench.runs.environment import forget_peak_memory, peak_memory
from graphbench.structures import GraphBatch, PairBlocks
from graphbench.train.seeding import seed_everything

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "configs/synthetic/sgformer-erdos-renyi.yaml"
TIMEOUT = 120
"""Seconds for a cell."""

_LINEAR = ("dataset.node_encoder", True, "dataset.node_encoder_name", "LinearNode", "dataset.node_encoder_bn", False)
_SHAPE = ("gt.layers", 3, "gt.n_heads", 4, "gt.dim_hidden", 64, "gnn.dim_inner", 64)
_GPS = ("model.type", "GPSModel", "gt.layer_type", "GCN+Transformer")
_GRAPHORMER = (
    "model.type", "Graphormer", "dataset.node_encoder_name", "LinearNode+GraphormerBias",
    "posenc_GraphormerBias.enable", True, "posenc_GraphormerBias.num_spatial_types", 20,
    "posenc_GraphormerBias.num_in_degrees", 64, "posenc_GraphormerBias.num_out_degrees", 64,
    "graphormer.num_layers", 3, "graphormer.num_heads", 4, "graphormer.embed_dim", 64,
    "graphormer.use_graph_token", False,
)  # fmt: skip
_SAN = (
    "model.type", "SANTransformer", "gt.layer_type", "SANLayer", "gt.full_graph", True, "dataset.edge_encoder", True,
    "dataset.edge_encoder_name", "DummyEdge", "dataset.edge_encoder_bn", False,
)  # fmt: skip
_GECO = ("model.type", "GECO", "gt.layer_type", "GECO")
MODELS: dict[str, tuple[object, ...]] = {
    "GPS, all weights held": _GPS,
    "Graphormer": _GRAPHORMER,
    "SAN": _SAN,
    "GPS": _GPS,
    "GECO": _GECO,
}


class _Graph(NamedTuple):
    nodes: int
    edges: int
    features: int
    classes: int


GRAPHS = {"Flickr": _Graph(89_250, 899_756, 500, 7), "ogbn-arxiv": _Graph(169_343, 1_166_243, 128, 40)}


def one_step(model: str, graph: _Graph, device: torch.device) -> float:
    """Peak memory of a training step in MiB, graph and parameters included.

    Args:
        model: name in :data:`MODELS`.
        graph: its size.
        device: on which; of the CPU it is the memory of the process.
    """
    sizes = {
        "nodes": graph.nodes,
        "degree": graph.edges / graph.nodes,
        "features": graph.features,
        "classes": graph.classes,
    }
    data = itertools.chain(*((f"dataset.ErdosRenyi.{name}", value) for name, value in sizes.items()))
    plain = [*data, *_LINEAR, *_SHAPE, "accelerator", device]
    forget_peak_memory(device)
    config, described = (load_config(CONFIG, [str(key) for key in keys]) for keys in (plain, [*plain, *MODELS[model]]))
    fabric = build_fabric(config)
    loaded = encode(config, read_data(config))
    splits = build_splits(config, loaded, 0)
    seed_everything(0)
    info = loaded.card.info(loaded.store, None)
    network = build_model(described, info).to(device).train()
    optimizer, task = build_optimizer(described, network), build_task(described, info)
    with whole_matrix() if "held" in model else contextlib.nullcontext():
        for batch, rows in build_loaders(config, loaded, splits, 0, fabric).train(0):
            pred, true = network(with_distances(batch) if model == "Graphormer" else batch), batch.y
            task.loss(pred.index_select(0, rows), true.index_select(0, rows)).backward()
            optimizer.step()
    return (peak_memory(device) or 0) / 2**20


def with_distances(batch: GraphBatch) -> GraphBatch:
    """One hop between all pairs."""
    sizes = batch.ragged.sizes
    pairs = torch.ones(sum(size * size for size in sizes), dtype=torch.uint8, device=batch.device)
    return batch.replace(pairs=PairBlocks(pairs, sizes))


def cell(model: str, graph: str) -> dict[str, object]:
    """One model on one graph, in a process of its own."""
    command = [sys.executable, "-m", "study.findings.gpu_memory", "--cell", model, graph]
    result: dict[str, object] = {"model": model, "graph": graph, "out_of_memory": False}
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        return {"model": model, "graph": graph, "error": f"not within {TIMEOUT} s"}
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return {"model": model, "graph": graph, "error": lines[-1] if lines else f"ended with {done.returncode}"}
    return result | json.loads(done.stdout.splitlines()[-1])


def text_of(result: dict[str, object]) -> str:
    """A cell of the table."""
    if "error" in result:
        return f"error: {result['error']}"
    return "out of memory" if result["out_of_memory"] else f"{result['peak_mib']:,.0f} MiB"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures all cells, or one."""
    parser = CommandParser(description=__doc__)
    parser.add_argument("--models", nargs="+", default=list(MODELS), metavar="NAME")
    parser.add_argument("--graphs", nargs="+", default=list(GRAPHS), metavar="NAME")
    parser.add_argument("--cell", nargs=2, metavar=("MODEL", "GRAPH"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    try:
        if not torch.cuda.is_available():
            raise UserError("this measures the memory of a GPU, and PyTorch sees none here.")
        for names, known in ((options.models, MODELS), (options.graphs, GRAPHS)):
            for name in names:
                if name not in known:
                    raise unknown("name", name, known, "command line")
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return UserError.exit_code
    if options.cell:
        torch.cuda.init()  # before it there are no counters to reset
        model, graph = options.cell
        try:
            print(json.dumps({"peak_mib": one_step(model, GRAPHS[graph], torch.device("cuda"))}))
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            print(json.dumps({"out_of_memory": True}))
        return 0
    cells = []
    print("| model | " + " | ".join(options.graphs) + " |", "|---" * (1 + len(options.graphs)) + "|", sep="\n")
    for model in options.models:
        row = [cell(model, graph) for graph in options.graphs]
        cells += row
        print(f"| {model} | " + " | ".join(map(text_of, row)) + " |", flush=True)
    total = torch.cuda.get_device_properties(0).total_memory / 2**30
    print(f"\n{torch.cuda.get_device_name(0)}, {total:.1f} GiB; torch {torch.__version__}")
    print(json.dumps({"name": "gpu_memory", "gib": total, "cells": cells}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
