"""One epoch and evaluation of a model on a generated power-law graph, in this process: seconds, peak memory.

SGFormer and GECO are trained on random parts and evaluated in blocks; GraphSAGE is trained and evaluated on sampled
neighbourhoods, of at most 100,000 nodes::

    python -m graphbench.benchmarks.large_graph_epoch MODEL NODES EDGES [FOLDER]

The last line is JSON. The graph (10 million nodes and 100 million edges: 1.5 GiB, 100 million and 400 million: 10 GiB)
stays in FOLDER for the next model, or goes to $TMPDIR and is deleted; $TMPDIR holds what is computed from it, too.
``sampling`` in place of a model: the rate of the sampler.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import torch
from torch import nn

from graphbench.benchmarks.measuring import AnonymousMemory
from graphbench.blockwise.stored import StoredBlocks
from graphbench.data.large.arrays import open_graph
from graphbench.data.large.generator import power_law
from graphbench.data.large.incoming_edges import IncomingEdges
from graphbench.data.large.loader import LargeLoader, LoaderOptions
from graphbench.data.large.neighbor_loader import NeighborLoader
from graphbench.data.large.neighbor_sampling import NeighborSampler
from graphbench.data.large.partition_loader import PartitionLoader
from graphbench.data.loading.process import LoaderProcess
from graphbench.data.splits import Splits
from graphbench.data.store import GraphStore
from graphbench.encoders.compose import NodeEncoder
from graphbench.heads.node import NodeHead
from graphbench.layers.attention.geco import GECO
from graphbench.layers.attention.sgformer import SGFormer
from graphbench.layers.local.gcn import GCN
from graphbench.layers.local.sage import SAGE
from graphbench.models.branches import AttentionSettings, LocalSettings
from graphbench.models.geco import GECOModel
from graphbench.models.gnn import GNN
from graphbench.models.pre_layers import LayerSettings, pre_layers
from graphbench.models.two_branch import TwoBranch
from graphbench.registry import LOSSES, OPTIMIZERS, SCHEDULES, construct, lookup
from graphbench.runs.environment import peak_memory
from graphbench.runs.run_directory import RunDirectory
from graphbench.tasks.contract import LossContext
from graphbench.tasks.task import Task
from graphbench.train.accelerator import make_fabric
from graphbench.train.contract import OptimizerContext, ScheduleContext
from graphbench.train.seeding import seed_everything
from graphbench.train.settings import TrainerSettings
from graphbench.train.trainer import Trainer
from graphbench.vocabulary import SPLITS

PART, SEEDS = 200_000, 100_000
"""Nodes of a random part; most training nodes of sampled neighbourhoods."""
FAN_OUT, BATCH, BATCHES = (15, 10, 5), 1000, 20
"""Settings of the neighbour sampler: in-edges per hop, seeds per batch, batches."""

COLUMNS, CLASSES, DIM = 32, 10, 64
KIND = "classification_multi"


def measure(model: str, nodes: int, edges: int, folder: Path) -> dict[str, float]:
    """Generates, trains for one epoch, evaluates; seconds on the clock and of the processor, and peaks in MiB."""
    measured: dict[str, float] = {}
    start, used = time.perf_counter(), time.process_time()

    def note(what: str) -> None:
        nonlocal start, used
        measured[f"{what}_s"] = round(time.perf_counter() - start, 1)
        measured[f"{what}_cpu_s"] = round(time.process_time() - used, 1)
        measured[f"{what}_peak_mib"] = round((peak_memory(torch.device("cpu")) or 0) / 2**20)
        print(json.dumps(measured), file=sys.stderr, flush=True)
        start, used = time.perf_counter(), time.process_time()

    with AnonymousMemory() as memory:
        store = _graph(folder / f"graph-{nodes}-{edges}", nodes, edges)
        note("generate")
        loaders = _loaders(model, store)
        note("open")
        measured["batches"] = sum(1 for _ in loaders.train(0))
        note("epoch_of_batches")
        run = RunDirectory(folder / f"runs-{model}-{nodes}", "large", 0)
        shutil.rmtree(run.path, ignore_errors=True)  # of a process that was ended
        outcome = _trainer(MODELS[model](), loaders, run).run()
        note("train_and_evaluate")
    for split in SPLITS:
        line = json.loads((run.path / split / "stats.json").read_text().splitlines()[-1])
        measured[f"{split}_epoch_s"] = round(line["time_epoch"], 1)
        measured[f"{split}_accuracy"] = round(line["accuracy"], 4)
    measured["peak_mib"] = round((outcome.peak_memory or 0) / 2**20)
    measured["anonymous_mib"] = round(memory.peak / 2**20)
    return measured


def _graph(folder: Path, nodes: int, edges: int) -> GraphStore:
    """Generated, or found complete."""
    complete = folder / "complete"
    if not complete.exists():
        shutil.rmtree(folder, ignore_errors=True)
        power_law(folder, nodes, edges, 0, columns=COLUMNS, classes=CLASSES)
        complete.touch()
    return open_graph(folder)


def _loaders(model: str, store: GraphStore) -> LargeLoader:
    seed_everything(0)
    nodes = store.num_nodes
    if model == "GraphSAGE":
        seeds = min(SEEDS, nodes // 2)
        drawn = np.random.default_rng(0).choice(nodes, seeds + 2 * (seeds // 2), replace=False, shuffle=False)
        parts = torch.from_numpy(drawn).split([seeds, seeds // 2, seeds // 2])
        options = LoaderOptions(LoaderProcess(0), "neighbor")
        return NeighborLoader(store, Splits(*parts), options, sizes=FAN_OUT, batch_size=BATCH)
    splits = Splits(*torch.randperm(nodes).split([nodes - 2 * (nodes // 4), nodes // 4, nodes // 4]))
    blocks = functools.partial(_blocks, store)
    return PartitionLoader(store, splits, LoaderOptions(LoaderProcess(0), "blocks", max(2, nodes // PART), blocks))


def sampling_rates(store: GraphStore) -> dict[str, float]:
    """Sampled edges per second of processor time, features not read; PyG's too, where pyg-lib is installed."""
    incoming = IncomingEdges.of(store.edge_index, store.num_nodes, numbered=False)
    sampler, random = NeighborSampler(incoming, FAN_OUT), np.random.default_rng(0)
    seeds = random.permutation(store.num_nodes)[: BATCH * BATCHES]
    batches = [seeds[first : first + BATCH] for first in range(0, len(seeds), BATCH)]
    start = time.process_time()
    edges = sum(sampler(batch, random).edge_index.shape[1] for batch in batches)
    rates = {"sampled_edges_per_s": round(edges / max(time.process_time() - start, 1e-9))}
    if importlib.util.find_spec("pyg_lib") is None:
        return rates
    from torch_geometric.data import Data
    from torch_geometric.loader import NeighborLoader

    data = Data(edge_index=store.edge_index.long(), num_nodes=store.num_nodes)
    loader = NeighborLoader(data, list(FAN_OUT), torch.from_numpy(seeds), batch_size=BATCH)
    start = time.process_time()
    edges = sum(batch.edge_index.shape[1] for batch in loader)
    return rates | {"sampled_edges_per_s_pyg": round(edges / max(time.process_time() - start, 1e-9))}


def _blocks(store: GraphStore, incoming: IncomingEdges) -> StoredBlocks:
    return StoredBlocks(store, incoming=incoming)


def _sgformer() -> nn.Module:
    return TwoBranch(
        encoder=NodeEncoder(None, {}, COLUMNS, False),
        dim_encoded=COLUMNS,
        edge_encoder=None,
        dim=DIM,
        layers=1,
        attention=lambda: SGFormer(DIM, 1),
        local=GCN,
        head=lambda width: NodeHead(width, CLASSES),
        graph_weight=0.5,
        attention_branch=AttentionSettings(attention_norm=True, attention_act=True, attention_residual="mean"),
        local_branch=LocalSettings(local_norm=True, local_stem=True, local_residual=True),
    )


def _graph_sage() -> nn.Module:
    encoder = NodeEncoder(None, {}, COLUMNS, False)
    return GNN(encoder, COLUMNS, None, DIM, len(FAN_OUT), SAGE, lambda width: NodeHead(width, CLASSES))


def _geco() -> nn.Module:
    encoder, linear = NodeEncoder(None, {}, COLUMNS, False), pre_layers(COLUMNS, DIM, 1, LayerSettings())
    head = functools.partial(NodeHead, out_dim=CLASSES)
    return GECOModel(encoder, COLUMNS, None, DIM, 1, lambda: GECO(DIM), None, head, pre_mp=linear)


MODELS: Mapping[str, Callable[[], nn.Module]] = {"SGFormer": _sgformer, "GraphSAGE": _graph_sage, "GECO": _geco}


def _trainer(model: nn.Module, loaders: LargeLoader, run: RunDirectory) -> Trainer:
    loss = construct(lookup(LOSSES, "cross_entropy"), {}, LossContext(task_type=KIND, out_dim=CLASSES))
    optimizer = construct(
        lookup(OPTIMIZERS, "adam"),
        {},
        OptimizerContext(params=list(model.parameters()), lr=0.005, weight_decay=0.0, momentum=0.0),
    )
    schedule = construct(lookup(SCHEDULES, "none"), {}, ScheduleContext(optimizer=optimizer, max_epoch=1))
    return Trainer(
        make_fabric("cpu"),
        model,
        Task(loss, ["accuracy"], KIND, CLASSES),
        loaders,
        optimizer,
        schedule,
        TrainerSettings(max_epoch=1, metric="accuracy", maximize=True, eval_period=1),
        run=run,
    )


def main(model: str, nodes: str, edges: str, folder: str | None = None) -> None:
    """One measurement in this process; the last line is JSON."""
    with tempfile.TemporaryDirectory() if folder is None else nullcontext(folder) as kept:
        if model == "sampling":
            store = power_law(Path(kept), int(nodes), int(edges), 0, columns=1, classes=CLASSES)
            print(json.dumps(sampling_rates(store)))
        else:
            print(json.dumps(measure(model, int(nodes), int(edges), Path(kept))))


if __name__ == "__main__":
    main(*sys.argv[1:])
