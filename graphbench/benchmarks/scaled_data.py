"""Costs of generated data in the layout of ogbn-papers100M and of PCQM4Mv2 at a fraction of their size.

``python -m graphbench.benchmarks.scaled_data DATA SCALE [FOLDER]`` measures one fraction in this process; the last line
is JSON: sizes, seconds on the clock and of the processor per stage, largest anonymous memory (MiB) while it ran, bytes
on disk. With a FOLDER, data and results of stages stay there, and the same command goes on behind the last of them.
"""

from __future__ import annotations

import gzip
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path

import numpy as np
import torch

from graphbench import atomic
from graphbench.benchmarks.large_graph_epoch import BATCH, FAN_OUT
from graphbench.benchmarks.measuring import AnonymousMemory, processor_seconds
from graphbench.data.card import DatasetCard
from graphbench.data.datasets.ogb_papers import OGBPapers
from graphbench.data.datasets.pcqm4m import GRAPHS
from graphbench.data.files.molecules import molecules
from graphbench.data.files.roots import Roots
from graphbench.data.large import arrays
from graphbench.data.large.generator import power_law
from graphbench.data.large.incoming_edges import IncomingEdges
from graphbench.data.large.neighbor_sampling import NeighborSampler
from graphbench.data.large.subgraph import subgraph
from graphbench.data.loading.loader import GraphLoaders
from graphbench.data.loading.process import LoaderProcess
from graphbench.data.splits import Splits
from graphbench.data.store import GraphStore
from graphbench.encoders.compose import NodeEncoder
from graphbench.heads.node import NodeHead
from graphbench.layers.local.sage import SAGE
from graphbench.models.gnn import GNN
from graphbench.structures import GraphBatch
from graphbench.transforms.algorithms.cache import apply
from graphbench.transforms.random_walk_se import RandomWalkSE

_CARD = OGBPapers().card
NODES, EDGES = (int(_CARD.statistics[name]) for name in ("nodes", "edges"))
MOLECULES = GRAPHS["PCQM4Mv2-full"]
BATCHES, DIM = 3, 256
"""Batches of sampled neighbourhoods that are trained on, and the width of GraphSAGE."""
WALKS = 16
FRAGMENTS = ("C", "CC", "C(=O)", "N", "O", "c1ccccc1", "C1CCCC1", "C(F)", "C(C)")
"""Five of them make a molecule of 14 heavy atoms on average, as those of PCQM4Mv2 have."""


class _ScaledPapers(OGBPapers):
    """The archive of another number of papers."""

    def __init__(self, nodes: int, edges: int) -> None:
        super().__init__()
        self._statistics = {"graphs": 1, "nodes": nodes, "edges": edges}

    @property
    def card(self) -> DatasetCard:
        return super().card.replace(statistics=self._statistics)


class Stages:
    """Costs of stages, by name, in a file, so that those of a process that was ended are known to the next one.

    Args:
        file: the JSON line.
        facts: further contents of it.

    Attributes:
        found: costs in the line.
    """

    def __init__(self, file: Path, **facts: float) -> None:
        self._file = file
        self.found: dict[str, float] = facts | (json.loads(file.read_text()) if file.exists() else {})

    def note(self, **facts: float) -> None:
        """Keeps further facts."""
        self.found |= facts
        atomic.write_text(self._file, json.dumps(self.found))

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measures what is inside, unless it was measured before."""
        start, used = time.perf_counter(), processor_seconds()
        with AnonymousMemory() as memory:
            yield
        seconds, of_processor = time.perf_counter() - start, processor_seconds() - used
        if f"{name}_s" not in self.found:
            peak = round(memory.peak / 2**20, 1)
            self.note(**{f"{name}_s": round(seconds, 3), f"{name}_cpu_s": round(of_processor, 3), f"{name}_mib": peak})


def papers(scale: float, folder: Path) -> dict[str, float]:
    """An archive like OGB's: conversion, sorting by target, training and prediction on sampled neighbourhoods."""
    nodes, edges = round(NODES / scale), 2 * round(EDGES / scale / 2)
    arrays.IN_MEMORY = round(2**30 / scale)  # what goes to files in the whole does so here
    stages = Stages(folder / "stages.json", scale=scale, nodes=nodes, listed_edges=edges)
    if "archive_bytes" not in stages.found:
        _write_archive(folder, nodes, edges)
        stages.note(archive_bytes=_bytes(folder / "ogb"))
    roots = Roots(folder, (), folder / "cache")
    with stages.stage("convert"):  # found in the cache by a second process
        store = _ScaledPapers(nodes, edges).load(roots).store
    stages.note(edges=store.num_edges, converted_bytes=_bytes(folder / "cache"))
    with stages.stage("sort"):
        incoming = IncomingEdges.of(store.edge_index, store.num_nodes, numbered=False)
    torch.manual_seed(0)
    encoder = NodeEncoder(None, {}, _CARD.node_in, False)
    model = GNN(encoder, _CARD.node_in, None, DIM, len(FAN_OUT), SAGE, partial(NodeHead, out_dim=_CARD.out_dim))
    optimizer = torch.optim.Adam(model.parameters())
    if "sampled_edges" not in stages.found:
        with stages.stage("train"):
            sampled = 0
            for batch in _batches(store, incoming, BATCHES):
                optimizer.zero_grad()
                model(batch)[:BATCH].logsumexp(1).mean().backward()  # as dear as the loss of any target
                optimizer.step()
                sampled += batch.num_edges
        stages.note(sampled_edges=sampled / BATCHES)
    if "predict_s" not in stages.found:
        with stages.stage("predict"), torch.no_grad():
            for batch in _batches(store, incoming, BATCHES):
                model.eval()(batch)
    return stages.found


def _batches(store: GraphStore, incoming: IncomingEdges, count: int) -> Iterator[GraphBatch]:
    sampler, rng = NeighborSampler(incoming, FAN_OUT), np.random.default_rng(0)
    for _ in range(count):
        seeds = rng.choice(store.num_nodes, BATCH, replace=False, shuffle=False)
        sample = sampler(seeds, rng)
        yield subgraph(store, torch.from_numpy(sample.nodes), torch.from_numpy(sample.edge_index), None)


def _write_archive(folder: Path, nodes: int, edges: int) -> None:
    """A power-law graph in the files of papers100M-bin."""
    to = folder / "ogb/ogbn_papers100M"
    for begun in (to, folder / "drawn"):
        shutil.rmtree(begun, ignore_errors=True)
    drawn = power_law(folder / "drawn", nodes, 2 * edges, 0, columns=_CARD.node_in, classes=_CARD.out_dim)
    for part in ("raw", "split/time"):
        (to / part).mkdir(parents=True)
    x = np.asarray(drawn.x, dtype=np.float32)
    listed = np.asarray(drawn.edge_index[:, ::2], dtype=np.int64)
    np.savez_compressed(to / "raw/data.npz", edge_index=listed, node_feat=x)
    np.savez_compressed(to / "raw/node-label.npz", node_label=np.asarray(drawn.y, dtype=np.float32)[:, None])
    for first, part in enumerate(("train", "valid", "test")):
        numbers = "".join(f"{node}\n" for node in range(first * nodes // 100, (first + 1) * nodes // 100))
        (to / f"split/time/{part}.csv.gz").write_bytes(gzip.compress(numbers.encode()))
    shutil.rmtree(folder / "drawn")


def pcqm4m(scale: float, folder: Path) -> dict[str, float]:
    """Molecules: reading texts with RDKit, landing probabilities, an epoch of batches without a model."""
    count, rng = round(MOLECULES / scale), np.random.default_rng(0)
    texts = ["".join(rng.choice(FRAGMENTS, 5)) for _ in range(count)]
    stages = Stages(folder / "stages.json", scale=scale, molecules=count)
    with stages.stage("read"):
        store = GraphStore.from_arrays(**molecules(texts, "generated"), y=np.zeros((count, 1), dtype=np.float32))
    stages.note(nodes=store.num_nodes, edges=store.num_edges)
    with stages.stage("encode"):
        encoded = apply(store, {"RWSE": RandomWalkSE(list(range(1, WALKS + 1)))}, folder / "cache")
    of_graphs = sum(tensor.numel() * tensor.element_size() for tensor in store.tensors().values())
    stages.note(converted_bytes=_bytes(folder / "cache") + of_graphs)
    with stages.stage("batches"):
        few = count // 10
        splits = Splits.consecutive([count - 2 * few, few, few])
        for _ in GraphLoaders(encoded, splits, LoaderProcess(0), batch_size=256, transductive=False).train(0):
            pass
    return stages.found


def _bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


DATA: dict[str, Callable[[float, Path], dict[str, float]]] = {"papers": papers, "pcqm4m": pcqm4m}


def main(data: str, scale: str, folder: str | None = None) -> None:
    """Measures one fraction, in a folder that stays or in $TMPDIR."""
    with tempfile.TemporaryDirectory() if folder is None else nullcontext(folder) as kept:
        Path(kept).mkdir(parents=True, exist_ok=True)
        print(json.dumps(DATA[data](float(scale), Path(kept))))


if __name__ == "__main__":
    main(*sys.argv[1:])
