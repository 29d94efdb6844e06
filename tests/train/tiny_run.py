"""A model, data and a task small enough that a training run takes a second, for tests and as a program.

``python tiny_run.py OUT_DIR [--max_epoch N] [--devices N] ... [--then OUT_DIR ...]`` trains, once or several times, and
prints every outcome as a line of JSON, so that tests can kill it, or start it in two processes.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from graphbench.frozen_imports import frozen_imports

with frozen_imports():
    import numpy as np
    import torch
    from torch import Tensor, nn

    from graphbench.contract import Capturable, HasAuxiliaryLoss
    from graphbench.data.loading.loader import GraphLoaders
    from graphbench.data.loading.process import LoaderProcess
    from graphbench.data.splits import Splits
    from graphbench.data.store import GraphStore
    from graphbench.errors import Interrupted, RunFailed, UserError
    from graphbench.registry import construct, lookup
    from graphbench.runs.identity import RunIdentity
    from graphbench.runs.record import Outcome, RunRecord
    from graphbench.runs.run_directory import RunDirectory
    from graphbench.structures import GraphBatch
    from graphbench.tasks.task import Task
    from graphbench.train.accelerator import make_fabric
    from graphbench.train.fabric import Fabric
    from graphbench.train.reporter import Reporter
    from graphbench.train.settings import TrainerSettings
    from graphbench.train.signals import StopRequest
    from graphbench.train.step_graph import StepGraph, StepGraphs
    from graphbench.train.trainer import Trainer

CLASSES = 3


class TinyModel(nn.Module):
    """Two linear maps around a sum over neighbours; predicts graphs or nodes."""

    def __init__(self, *, level: str = "graph", norm: bool = True, dropout: float = 0.2, dim: int = 8) -> None:
        super().__init__()
        self.level = level
        self.first = nn.Linear(4, dim)
        self.norm = nn.BatchNorm1d(dim) if norm else nn.Identity()
        self.dropout = nn.Dropout(dropout)
        self.last = nn.Linear(dim, CLASSES)
        self.forwards = 0

    def forward(self, batch: GraphBatch) -> Tensor:
        self.forwards += 1
        h = self.norm(self.first(batch.x))
        h = h + torch.zeros_like(h).index_add(0, batch.edge_index[1], h[batch.edge_index[0]])
        if self.level == "graph":
            h = torch.zeros(batch.num_graphs, h.shape[1], dtype=h.dtype).index_add(0, batch.ragged.graph_id, h)
        return self.last(self.dropout(h.relu()))


class CapturableModel(TinyModel, Capturable):
    """Of which a step may be recorded; some of its parameters nothing depends on."""

    capturable: ClassVar[bool] = True

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.unused = nn.Linear(2, 2)


class Repeated(StepGraph):
    """Work that is done again, in place of a graph: what several processes exchange does not depend on how."""

    def __init__(self, fails: bool) -> None:
        self._fails = fails

    def capture(self, work: Callable[[], None]) -> None:
        if self._fails:
            raise RuntimeError("for a test")
        self._work = work

    def replay(self) -> None:
        self._work()


class Repeating(StepGraphs):
    """Makes such graphs; those of the second process fail from the third on, as if recording were not possible."""

    def __init__(self, rank: int) -> None:
        self.rank, self.made = rank, 0

    def new(self) -> StepGraph:
        self.made += 1
        return Repeated(fails=self.rank == 1 and self.made > 2)

    def warm_up(self, work: Callable[[], None]) -> None:
        work()


class PenalisedModel(TinyModel, HasAuxiliaryLoss):
    """With a term in the loss that alone depends on one of the parameters."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.anchor = nn.Parameter(torch.tensor(1.0))

    def forward(self, batch: GraphBatch) -> Tensor:
        self.auxiliary_loss = (self.last.weight - self.anchor).square().mean() if self.training else None
        return super().forward(batch)


class DividesInTheSecondProcess(nn.Module):
    """By 0, from its third training batch on."""

    def __init__(self) -> None:
        super().__init__()
        self.batches = 0

    def forward(self, h: Tensor) -> Tensor:
        self.batches += self.training
        return h / 0 if self.batches > 2 and torch.distributed.get_rank() == 1 else h


def tiny_store(level: str = "graph", graphs: int = 36) -> GraphStore:
    """Rings of 3 to 8 nodes whose class shows in their features."""
    generator = torch.Generator().manual_seed(3)
    sizes = [3 + g % 6 for g in range(graphs)]
    edges = [torch.stack([torch.arange(n), (torch.arange(n) + 1) % n]) for n in sizes]
    label = torch.arange(graphs) % CLASSES
    node_label = torch.repeat_interleave(label, torch.tensor(sizes))
    x = torch.randn(sum(sizes), 4, generator=generator) + 0.7 * nn.functional.one_hot(node_label, 4)
    return GraphStore.from_arrays(
        sizes, sizes, torch.cat(edges, 1), x=x, y=label if level == "graph" else node_label, y_level=level
    )


def tiny_loaders(level: str = "graph", *, batch_size: int = 4, rank: int = 0, world_size: int = 1) -> GraphLoaders:
    store = tiny_store(level)
    count = store.num_graphs if level == "graph" else store.num_nodes
    order = torch.randperm(count, generator=torch.Generator().manual_seed(4))
    splits = Splits(*order.split([count - 2 * (count // 4), count // 4, count // 4]))
    process = LoaderProcess(11, rank=rank, world_size=world_size)
    return GraphLoaders(store, splits, process, batch_size=batch_size, transductive=level == "node")


def tiny_task(metrics: Sequence[str] = ("accuracy", "f1")) -> Task:
    loss = construct(lookup("tasks/losses", "cross_entropy"), {"task_type": "classification_multi", "out_dim": CLASSES})
    return Task(loss, metrics, "classification_multi", CLASSES)


def tiny_settings(**changes: Any) -> TrainerSettings:
    defaults = {"max_epoch": 6, "metric": "accuracy", "maximize": True, "eval_period": 1}
    return TrainerSettings(**{**defaults, **changes})


def tiny_trainer(
    folder: Path,
    settings: TrainerSettings | None = None,
    *,
    level: str = "graph",
    model: nn.Module | None = None,
    kind: type[TinyModel] = TinyModel,
    loaders: Any = None,
    task: Any = None,
    optimizer: str = "adam",
    scheduler: str = "cosine_with_warmup",
    lr: float = 0.02,
    reporters: Sequence[Reporter] = (),
    fabric: Any = None,
    precision: str = "32-true",
    graphs: StepGraphs | None = None,
    stop: StopRequest | None = None,
) -> Trainer:
    """Everything seeded and put together, in a run directory ``folder/tiny/0``."""
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    random.seed(5)
    fabric = fabric or make_fabric("cpu", precision=precision)
    settings = settings or tiny_settings()
    model = model or kind(level=level)
    context = {"params": list(model.parameters()), "lr": lr, "weight_decay": 1e-3, "momentum": 0.9}
    opt = construct(lookup("train/optimizers", optimizer), context)
    schedule = construct(
        lookup("train/schedules", scheduler),
        {
            "optimizer": opt,
            "max_epoch": settings.max_epoch,
            "num_warmup_epochs": 2,
            "steps": [3],
            "lr_decay": 0.1,
            "reduce_factor": 0.5,
            "schedule_patience": 1,
            "min_lr": 1e-5,
        },
    )
    loaders = loaders or tiny_loaders(level, rank=fabric.global_rank, world_size=fabric.world_size)
    run = RunDirectory(folder, "tiny", 0, writer=fabric.is_global_zero)
    parts = (fabric, model, task or tiny_task(), loaders, opt, schedule, settings)
    return Trainer(*parts, run=run, reporters=reporters, graphs=graphs, stop=stop)


class Slowly(Reporter):
    """Makes a batch take a while, so that a test can kill the run in the middle of an epoch."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def batch(self, epoch: int, done: int, total: int) -> None:
        print(f"epoch {epoch} batch {done}", flush=True)
        time.sleep(self.seconds)


def parse(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--max_epoch", type=int, default=6)
    parser.add_argument("--ckpt_seconds", type=float, default=60.0)
    parser.add_argument("--sleep", type=float, default=0.0)
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=600.0)
    parser.add_argument("--batch_size", type=int, default=4)
    parser.add_argument("--level", default="graph")
    parser.add_argument("--no_norm", action="store_true")
    parser.add_argument("--accumulation", type=int, default=1)
    parser.add_argument("--divides", action="store_true")
    parser.add_argument("--captured", choices=("no", "yes", "partly", "demanded"), default="no")
    return parser.parse_args(arguments)


def _model(options: argparse.Namespace) -> TinyModel | None:
    """Without BatchNorm and dropout, so that the number of processes makes no difference; None: with them."""
    if not (options.no_norm or options.divides):
        return None
    if options.divides:
        model = TinyModel(dropout=0.0)
        model.norm = DividesInTheSecondProcess()
        return model
    kind = PenalisedModel if options.captured == "no" else CapturableModel
    return kind(level=options.level, norm=False, dropout=0.0)


def train(fabric: Fabric, options: argparse.Namespace) -> dict[str, Any]:
    """Trains once, or what is left; in the first process everything that must not depend on interruptions."""
    run = RunDirectory(options.folder, "tiny", 0, writer=fabric.is_global_zero)
    with run.open(identity=RunIdentity("h"), config_text="tiny\n") as decision:
        decision = fabric.broadcast(decision)
        torch.manual_seed(5)
        shape = {"batch_size": options.batch_size, "rank": fabric.global_rank, "world_size": fabric.world_size}
        trainer = tiny_trainer(
            options.folder,
            tiny_settings(
                max_epoch=options.max_epoch,
                ckpt_seconds=options.ckpt_seconds,
                ckpt_period=1,
                batch_accumulation=options.accumulation,
                capture="always" if options.captured in ("yes", "demanded") else "auto",
            ),
            level=options.level,
            fabric=fabric,
            loaders=tiny_loaders(options.level, **shape),
            model=_model(options),
            graphs=None if options.captured == "no" else Repeating(fabric.global_rank * (options.captured != "yes")),
            reporters=[Slowly(options.sleep)] if options.sleep else [],
        )
        previous = run.record if decision == "resume" else None
        record = RunRecord.start(previous=previous, config="tiny", config_hash="h", seed=0, run_id="0")
        with run.recorded(record) as ended:
            ended(trainer.run())
    return {"decision": decision, **summary(trainer, run.record)} if fabric.is_global_zero else {}


def main(*arguments: str) -> int:
    torch.set_num_threads(1)
    runs: list[list[str]] = [[]]
    for argument in arguments:
        if argument == "--then":
            runs.append([])
        else:
            runs[-1].append(argument)
    first = parse(*runs[0])
    fabric = make_fabric("cpu", devices=first.devices, timeout=first.timeout)
    fabric.launch()
    try:
        for run in runs:
            outcome = train(fabric, parse(*run))
            if fabric.is_global_zero:
                print(json.dumps(outcome))
    except (RunFailed, Interrupted, UserError) as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


def summary(trainer: Trainer, outcome: Outcome | RunRecord) -> dict[str, Any]:
    """Everything that must not depend on whether and where a run was interrupted."""
    return {
        "best_epoch": outcome.best_epoch,
        "epochs": outcome.epochs,
        "scores": [dataclasses.asdict(score) for score in outcome.scores],
        "weights": {name: tensor.tolist() for name, tensor in trainer.model.state_dict().items()},
        "random": [torch.rand(1).item(), np.random.rand(), random.random()],  # noqa: NPY002
    }


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
