"""Peak memory of one epoch on a generated power-law graph: random parts in training, blocks in evaluation.

Everything, generating included, happens in a fresh process whose largest resident memory is held against a limit.
Other sizes, and times on standard error: ``python -m graphbench.benchmarks.large_graph NODES EDGES [PARTS]``; files go
to $TMPDIR (10 million nodes and 100 million edges take about 13 GiB there) and are deleted.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from graphbench.benchmarks.case import Case
from graphbench.blockwise.stored import StoredBlocks
from graphbench.data.large.generator import power_law
from graphbench.data.large.incoming_edges import IncomingEdges
from graphbench.data.large.partition_loader import PartitionLoader
from graphbench.data.splits import Splits
from graphbench.data.store import GraphStore
from graphbench.encoders.compose import NodeEncoder
from graphbench.heads.node import NodeHead
from graphbench.layers.attention.sgformer import SGFormer
from graphbench.layers.local.gcn import GCN
from graphbench.models.branches import AttentionSettings, LocalSettings
from graphbench.models.two_branch import TwoBranch
from graphbench.registry import construct, lookup
from graphbench.runs.environment import peak_memory
from graphbench.runs.run_directory import RunDirectory
from graphbench.tasks.contract import LossContext
from graphbench.tasks.task import Task
from graphbench.train.accelerator import make_fabric
from graphbench.train.contract import OptimizerContext, ScheduleContext
from graphbench.train.seeding import seed_everything
from graphbench.train.settings import TrainerSettings
from graphbench.train.trainer import Trainer

ROOT = Path(__file__).resolve().parents[2]
NODES, EDGES, PARTS = 10_000_000, 100_000_000, 50
LIMIT = 10 * 1024.0
COLUMNS, CLASSES, DIM = 32, 10, 64
KIND = "classification_multi"


def run() -> list[Case]:
    """10 million nodes, 100 million directed edges."""
    command = [sys.executable, "-m", "graphbench.benchmarks.large_graph", str(NODES), str(EDGES), str(PARTS)]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    measured = json.loads(done.stdout.splitlines()[-1])
    name = f"{NODES:,} nodes, {EDGES:,} edges, one epoch and evaluation, peak memory"
    return [Case(name, "limit", [measured["peak_mib"]], [LIMIT], target=1.0, unit="MiB")]


def measure(nodes: int, edges: int, parts: int, folder: Path) -> dict[str, float]:
    """Generates, trains for one epoch, evaluates; seconds of each, and the peak in MiB so far after each."""
    measured: dict[str, float] = {}
    start = time.perf_counter()

    def note(what: str) -> None:
        nonlocal start
        measured[f"{what}_s"] = round(time.perf_counter() - start, 1)
        measured[f"{what}_peak_mib"] = round((peak_memory(torch.device("cpu")) or 0) / 2**20)
        print(json.dumps(measured), file=sys.stderr, flush=True)
        start = time.perf_counter()

    store = power_law(folder / "graph", nodes, edges, 0, columns=COLUMNS, classes=CLASSES)
    note("generate")
    seed_everything(0)
    order = torch.randperm(nodes)
    splits = Splits(*order.split([nodes - 2 * (nodes // 4), nodes // 4, nodes // 4]))
    blocks = functools.partial(_blocks, store)
    loaders = PartitionLoader(store, splits, parts=parts, seed=0, evaluation="blocks", blocks=blocks)
    note("open")
    for _ in loaders.train(0):
        pass
    note("epoch_of_batches")
    outcome = _trainer(loaders, folder).run()
    note("train_and_evaluate")
    for split in ("train", "val", "test"):
        line = json.loads((folder / "runs" / "large" / "0" / split / "stats.json").read_text().splitlines()[-1])
        measured[f"{split}_epoch_s"] = round(line["time_epoch"], 1)
        measured[f"{split}_accuracy"] = round(line["accuracy"], 4)
    measured["peak_mib"] = round((outcome.peak_memory or 0) / 2**20)
    return measured


def _blocks(store: GraphStore, incoming: IncomingEdges) -> StoredBlocks:
    return StoredBlocks(store, incoming=incoming)


def _trainer(loaders: PartitionLoader, folder: Path) -> Trainer:
    model = TwoBranch(
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
    loss = construct(lookup("tasks/losses", "cross_entropy"), {}, LossContext(task_type=KIND, out_dim=CLASSES))
    optimizer = construct(
        lookup("train/optimizers", "adam"),
        {},
        OptimizerContext(params=list(model.parameters()), lr=0.005, weight_decay=0.0, momentum=0.0),
    )
    schedule = construct(lookup("train/schedules", "none"), {}, ScheduleContext(optimizer=optimizer, max_epoch=1))
    return Trainer(
        make_fabric("cpu"),
        model,
        Task(loss, ["accuracy"], KIND, CLASSES),
        loaders,
        optimizer,
        schedule,
        TrainerSettings(max_epoch=1, metric="accuracy", maximize=True, eval_period=1),
        run=RunDirectory(folder / "runs", "large", 0),
    )


def main(nodes: str = str(NODES), edges: str = str(EDGES), parts: str = str(PARTS)) -> None:
    """One measurement in this process; the last line is JSON."""
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(int(nodes), int(edges), int(parts), Path(folder))))


if __name__ == "__main__":
    main(*sys.argv[1:])
