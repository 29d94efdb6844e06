"""A training step of SFi-Former on PascalVOC-SP sizes: the exact solver against the paper's proximal iteration."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from scipy.spatial import Delaunay

from graphbench.benchmarks.case import Case
from graphbench.benchmarks.measuring import ROOT, device_name, paired
from graphbench.config import load_config
from graphbench.data.store import GraphStore
from graphbench.factory.data import declared_info
from graphbench.factory.model import build_model
from graphbench.factory.task import build_task
from graphbench.factory.training import build_optimizer
from graphbench.factory.transforms import build_transforms
from graphbench.structures import DataInfo, GraphBatch
from graphbench.transforms.algorithms.cache import apply

CONFIG = ROOT / "configs/lrgb/sfi-pascal.yaml"
NODES, MOST_NODES, EDGES = 479, 500, 2710
ITERATIONS = 20
PAIRS = 2


def run(device: torch.device) -> list[Case]:
    """The model of ``configs/lrgb/sfi-pascal.yaml`` and one batch of generated graphs, forward, backward and update."""
    config = load_config(CONFIG)
    declared = declared_info(config)
    assert declared is not None
    info = dataclasses.replace(declared, max_nodes=MOST_NODES)
    graphs = config.tree.train.batch_size
    with tempfile.TemporaryDirectory() as cache:
        store = apply(superpixels(graphs, info), build_transforms(config), Path(cache))
    batch = store.gather(range(graphs)).to(device)
    ours = _step([], info, batch)
    peer = _step(["gt.SFi.solver", "proximal", "gt.SFi.iters", str(ITERATIONS)], info, batch)
    ours()  # warm-up
    if device.type != "cpu":  # on the CPU the peer is far too slow to need one
        peer()
    name = f"sfi-pascal, {graphs} graphs of about {NODES} nodes, training step, {device_name(device)}"
    return [Case(name, f"{ITERATIONS} proximal iterations", *paired(ours, peer, PAIRS, device), target=3.0)]


def _step(overrides: list[str], info: DataInfo, batch: GraphBatch) -> Callable[[], None]:
    config = load_config(CONFIG, overrides)
    torch.manual_seed(0)
    model, task = build_model(config, info).to(batch.device).train(), build_task(config, info)
    optimizer = build_optimizer(config, model)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        task.loss(model(batch.replace()), batch.y).backward()
        optimizer.step()

    return step


def superpixels(graphs: int, info: DataInfo) -> GraphStore:
    """Planar graphs like the region boundaries of superpixels: part of a triangulation of random points.

    Args:
        graphs: number of graphs, of about :data:`NODES` nodes and :data:`EDGES` directed edges each.
        info: columns of the random features, and the number of classes of the nodes.
    """
    random = np.random.default_rng(0)
    sizes = random.normal(NODES, 15, graphs).astype(int).clip(395, MOST_NODES).tolist()
    edges = []
    for size in sizes:
        triangles = Delaunay(random.random((size, 2))).simplices
        sides = np.sort(triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
        half = random.permutation(np.unique(sides, axis=0))[: EDGES // 2].T
        edges.append(np.concatenate([half, half[::-1]], axis=1))
    counts = [edge_index.shape[1] for edge_index in edges]
    return GraphStore.from_arrays(
        sizes,
        counts,
        np.concatenate(edges, axis=1),
        x=random.random((sum(sizes), info.node_in), dtype=np.float32),
        edge_attr=random.random((sum(counts), info.edge_in), dtype=np.float32),
        y=random.integers(info.out_dim, size=sum(sizes)),
        y_level="node",
    )
