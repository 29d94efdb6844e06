"""The framework's loop beside one written by hand: epochs of training, and evaluation beside its forward passes.

Cora with SGFormer, one graph; ZINC with GPS, a part of its graphs in batches. Both loops compute the losses of all
splits and the selecting metric of validation and test in every epoch and keep the best weights; ours also writes what a
run writes (its progress is thrown away here, not left out).
"""

from __future__ import annotations

import copy
import io
import tempfile
from collections.abc import Callable
from contextlib import redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from graphbench.benchmarks.case import Case
from graphbench.benchmarks.measuring import ROOT, device_name, now, paired
from graphbench.config import Config, load_config
from graphbench.data.loading.loader import GraphLoaders
from graphbench.data.splits import Splits
from graphbench.factory.data import build_splits, encode, read_data
from graphbench.factory.model import build_model
from graphbench.factory.task import build_task
from graphbench.factory.training import build_fabric, build_optimizer, build_reporters, build_schedule, build_settings
from graphbench.runs.identity import RunIdentity
from graphbench.runs.run_directory import RunDirectory
from graphbench.structures import DataInfo
from graphbench.tasks.task import Task
from graphbench.train.evaluation import evaluate
from graphbench.train.forward import BatchAdapter, Predictor
from graphbench.train.seeding import seed_everything
from graphbench.train.trainer import Trainer

PAIRS = 5
LIMIT, EVALUATION_LIMIT = 1.02, 1.05
GRAPHS = {"train": 320, "val": 160, "test": 160}


def run(device: torch.device) -> list[Case]:
    """Real data from dataset.dir or $GRAPHBENCH_DATA."""
    cases = []
    for name, path, epochs, metric in (
        ("Cora SGFormer, 200 epochs", "configs/nodes/sgformer-cora-4layers.yaml", 200, _accuracy),
        ("ZINC GPS, 10 batches", "configs/gnnbench/gps-zinc.yaml", 1, _mean_absolute_error),
    ):
        beside = Beside(load_config(ROOT / path, _overrides(epochs, device)), epochs, device, metric)
        where = device_name(device)
        seconds, of_evaluation = beside.epochs(), beside.evaluations()
        cases.append(Case(f"{name}, epoch with evaluation, {where}", "by hand", *seconds, target=1 / LIMIT))
        cases.append(Case(f"{name}, evaluation, {where}", "forward", *of_evaluation, target=1 / EVALUATION_LIMIT))
    return cases


def _overrides(epochs: int, device: torch.device) -> list[str]:
    warm_up = ["optim.num_warmup_epochs", "0"]
    return ["optim.max_epoch", str(epochs), *warm_up, "train.early_stop_patience", "0", "accelerator", device.type]


@dataclass
class Beside:
    """One training in both loops.

    Attributes:
        config: of it.
        of_run: epochs of a run.
        device: where.
        metric: the selecting one, as one writes it by hand.
    """

    config: Config
    of_run: int
    device: torch.device
    metric: Callable[[Tensor, Tensor], Tensor]

    def __post_init__(self) -> None:
        loaded = encode(self.config, read_data(self.config))
        splits, transductive = build_splits(self.config, loaded, 0), loaded.card.transductive
        if not transductive:
            splits = Splits(**{name: rows[: GRAPHS[name]] for name, rows in splits.parts().items()})
        self.info: DataInfo = loaded.card.info(loaded.store, None if transductive else splits.train)
        seed_everything(0)
        self.model: nn.Module = build_model(self.config, self.info).to(self.device)
        self.task: Task = build_task(self.config, self.info)
        size = self.config.tree.train.batch_size
        self.loaders = GraphLoaders(
            loaded.store, splits, batch_size=size, transductive=transductive, seed=0, device=self.device
        )

    def epochs(self) -> tuple[list[float], list[float]]:
        """Seconds per epoch of ours and of the one written by hand."""
        with tempfile.TemporaryDirectory() as folder:
            runs = iter(range(2 * PAIRS + 2))

            def ours() -> None:
                with redirect_stderr(io.StringIO()):
                    self._ours(Path(folder) / str(next(runs)))

            ours()  # warm-up: derived index algebra, thread pools, allocator
            self._by_hand()
            seconds = paired(ours, self._by_hand, PAIRS, self.device)
        mine, theirs = ([second / self.of_run for second in side] for side in seconds)
        return mine, theirs

    def evaluations(self) -> tuple[list[float], list[float]]:
        """Seconds of validation and test with the selecting metric, and of their forward passes alone."""
        fabric, adapter = build_fabric(self.config), BatchAdapter(copy.deepcopy(self.model)).eval()
        predict = Predictor(fabric, adapter)
        passes = self.loaders.passes

        def ours() -> None:
            for predictions in evaluate(predict, self.task, passes, fabric).values():
                predictions.buffer.compute(self.task, [self.info.metric])  # the others: every metrics_period

        def forward() -> None:
            with torch.no_grad():
                for each in passes:
                    if set(each.rows) - {"train"}:
                        for batch in each.batches():
                            adapter.model(batch)

        for warm_up in (ours, forward):
            warm_up()
        repeat = 20 if self.of_run > 1 else 1
        return paired(_times(ours, repeat), _times(forward, repeat), PAIRS, self.device)

    def _ours(self, folder: Path) -> None:
        trained = copy.deepcopy(self.model)
        optimizer = build_optimizer(self.config, trained)
        fabric = build_fabric(self.config)
        fabric.launch()
        directory = RunDirectory(folder, "bench", 0)
        trainer = Trainer(
            fabric,
            trained,
            self.task,
            self.loaders,
            optimizer,
            build_schedule(self.config, optimizer),
            build_settings(self.config, self.info),
            run=directory,
            reporters=build_reporters(self.config, "ours", self.info, "0", trained),
        )
        with directory.open(identity=RunIdentity("0"), config_text=""):
            seed_everything(0)
            trainer.run()

    def _by_hand(self) -> None:
        trained = copy.deepcopy(self.model)
        optimizer = build_optimizer(self.config, trained)
        clip = self.config.tree.optim.clip_grad_norm
        best, best_state = -float("inf"), None
        seed_everything(0)
        for epoch in range(self.of_run):
            losses = []
            trained.train()
            for batch, rows in self.loaders.train(epoch):
                optimizer.zero_grad()
                out, true = _chosen(trained(batch), batch.y, rows)
                loss = self.task.loss(out, true)
                loss.backward()
                losses.append(loss.detach())
                if clip:
                    nn.utils.clip_grad_norm_(trained.parameters(), self.config.tree.optim.clip_grad_norm_value)
                optimizer.step()
            trained.eval()
            assert torch.stack(losses).mean().isfinite()
            value = self._evaluated_by_hand(trained)["val"][1]
            value = value if self.info.maximize else -value
            if value > best:
                best, best_state = value, copy.deepcopy(trained.state_dict())
        now(self.device)
        assert best_state is not None

    @torch.no_grad()
    def _evaluated_by_hand(self, trained: nn.Module) -> dict[str, tuple[float, float]]:
        """Loss and metric of validation and test, on predictions that are computed once."""
        found: dict[str, tuple[float, float]] = {}
        for each in self.loaders.passes:
            if splits := set(each.rows) - {"train"}:
                outputs = [(trained(batch), batch.y) for batch in each.batches()]
                out, true = (torch.cat(parts) for parts in zip(*outputs, strict=True))
                for name in splits:
                    chosen = _chosen(out, true, each.rows[name])
                    found[name] = self.task.loss(*chosen).item(), self.metric(*chosen).item()
        return found


def _accuracy(out: Tensor, true: Tensor) -> Tensor:
    return (out.argmax(1) == true).double().mean()


def _mean_absolute_error(out: Tensor, true: Tensor) -> Tensor:
    return (out.view_as(true) - true).abs().mean()


def _chosen(out: Tensor, true: Any, rows: Tensor | None) -> tuple[Tensor, Tensor]:
    return (out, true) if rows is None else (out[rows], true[rows])


def _times(once: Callable[[], object], repeat: int) -> Callable[[], None]:
    def several() -> None:
        for _ in range(repeat):
            once()

    return several
