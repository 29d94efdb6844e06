"""The framework's loop beside one written by hand: epochs of training, and evaluation beside its forward passes.

Cora with SGFormer, one graph; ZINC with GPS, all of its graphs in batches. Both loops compute the losses of all
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
from graphbench.benchmarks.training import Training
from graphbench.factory.training import build_optimizer, build_reporters
from graphbench.train.evaluation import evaluate
from graphbench.train.forward import BatchAdapter, Predictor
from graphbench.train.seeding import seed_everything

PAIRS = 5
LIMIT, EVALUATION_LIMIT = 1.02, 1.05


def run(device: torch.device) -> list[Case]:
    """Real data from dataset.dir or $GRAPHBENCH_DATA."""
    cases = []
    for name, path, epochs, metric in (
        ("Cora SGFormer, 200 epochs", "configs/nodes/sgformer-cora-4layers.yaml", 200, _accuracy),
        ("ZINC GPS", "configs/gnnbench/gps-zinc.yaml", 1, _mean_absolute_error),
    ):
        with tempfile.TemporaryDirectory() as folder:
            command = (str(ROOT / path), "optim.num_warmup_epochs", "0")
            beside = Beside(Training(Path(folder), command, epochs, device), metric)
            where = device_name(device)
            seconds, of_evaluation = beside.epochs(), beside.evaluations()
        cases.append(Case(f"{name}, epoch with evaluation, {where}", "by hand", *seconds, target=1 / LIMIT))
        cases.append(Case(f"{name}, evaluation, {where}", "forward", *of_evaluation, target=1 / EVALUATION_LIMIT))
    return cases


@dataclass(frozen=True)
class Beside:
    """One training in both loops.

    Attributes:
        ours: by the framework.
        metric: the selecting one, as one writes it by hand.
    """

    ours: Training
    metric: Callable[[Tensor, Tensor], Tensor]

    def epochs(self) -> tuple[list[float], list[float]]:
        """Seconds per epoch of ours and of the one written by hand."""

        def ours() -> None:
            with redirect_stderr(io.StringIO()):
                self.ours.run(build_reporters(self.ours.config, "ours", self.ours.info, "0", self.ours.model))

        ours()  # warm-up: derived index algebra, thread pools, allocator
        self._by_hand()
        seconds = paired(ours, self._by_hand, PAIRS, self.ours.device)
        mine, theirs = ([second / self.ours.epochs for second in side] for side in seconds)
        return mine, theirs

    def evaluations(self) -> tuple[list[float], list[float]]:
        """Seconds of validation and test with the selecting metric, and of their forward passes alone."""
        adapter, fabric, task = BatchAdapter(copy.deepcopy(self.ours.model)).eval(), self.ours.fabric, self.ours.task
        predict = Predictor(fabric, adapter)
        passes = self.ours.loaders.passes

        def ours() -> None:
            for predictions in evaluate(predict, task, passes, fabric).values():
                predictions.buffer.compute(task, [self.ours.info.metric])  # the others: every metrics_period

        def forward() -> None:
            with torch.no_grad():
                for each in passes:
                    if set(each.rows) - {"train"}:
                        for batch, _ in each.batches():
                            adapter.model(batch)

        for warm_up in (ours, forward):
            warm_up()
        repeat = 20 if self.ours.epochs > 1 else 1
        return paired(_times(ours, repeat), _times(forward, repeat), PAIRS, self.ours.device)

    def _by_hand(self) -> None:
        trained, optim = copy.deepcopy(self.ours.model), self.ours.config.tree.optim
        optimizer = build_optimizer(self.ours.config, trained)
        best, best_state = -float("inf"), None
        seed_everything(0)
        for epoch in range(self.ours.epochs):
            losses = []
            trained.train()
            for batch, rows in self.ours.loaders.train(epoch):
                optimizer.zero_grad()
                out, true = _chosen(trained(batch), batch.y, rows)
                loss = self.ours.task.loss(out, true)
                loss.backward()
                losses.append(loss.detach())
                if optim.clip_grad_norm:
                    nn.utils.clip_grad_norm_(trained.parameters(), optim.clip_grad_norm_value)
                optimizer.step()
            trained.eval()
            assert torch.stack(losses).mean().isfinite()
            value = self._evaluated_by_hand(trained)["val"][1]
            value = value if self.ours.info.maximize else -value
            if value > best:
                best, best_state = value, copy.deepcopy(trained.state_dict())
        now(self.ours.device)
        assert best_state is not None

    @torch.no_grad()
    def _evaluated_by_hand(self, trained: nn.Module) -> dict[str, tuple[float, float]]:
        """Loss and metric of validation and test, on predictions that are computed once."""
        found: dict[str, tuple[float, float]] = {}
        for each in self.ours.loaders.passes:
            if splits := set(each.rows) - {"train"}:
                outputs = [(trained(batch), batch.y) for batch, _ in each.batches()]
                out, true = (torch.cat(parts) for parts in zip(*outputs, strict=True))
                for name in splits:
                    chosen = _chosen(out, true, each.rows[name])
                    found[name] = self.ours.task.loss(*chosen).item(), self.metric(*chosen).item()
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
