"""Whole trainings with captured steps: the same numbers, resumed bit for bit, and a line where it is not possible."""

from __future__ import annotations

import copy
import dataclasses
import logging
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from graphbench.config import load_config
from graphbench.contract import capture_obstacle
from graphbench.data.loading.loader import GraphLoaders
from graphbench.data.loading.process import LoaderProcess
from graphbench.data.splits import Splits
from graphbench.errors import RunFailed, UserError
from graphbench.factory.data import declared_info
from graphbench.factory.model import build_model
from graphbench.factory.task import build_task
from graphbench.factory.training import build_fabric, build_optimizer, build_schedule, build_settings
from graphbench.factory.transforms import build_transforms
from graphbench.layers.blocks.gated_gcn_conv import GatedGCNBlock
from graphbench.runs.run_directory import RunDirectory
from graphbench.structures import GraphBatch
from graphbench.train.reporter import EpochReport, Reporter
from graphbench.train.step_graph import StepGraph, StepGraphs
from graphbench.train.trainer import Trainer
from graphbench.train.turns import Turns, take_turns, without_pause
from tests.paths import ROOT
from tests.second_device import DEVICE, GPU, second_device
from tests.synthetic_batch import store_like
from tests.test_second_device import _fabric
from tests.train.capture_case import SIZES, SMALL, step_graphs
from tests.train.test_checkpointer import Bomb, Killed, kill

CONFIG = ROOT / "configs/lrgb/gatedgcn-peptides-func.yaml"


def trainer(
    folder: Path,
    *overrides: str,
    graphs: StepGraphs | None = None,
    reporters: tuple[Reporter, ...] = (),
    on_device: bool = True,
    plugin: type | None = None,
) -> Trainer:
    """A GatedGCN with dropout on small graphs; inside ``second_device``, if it is to be there."""
    options = (
        "gnn.dropout 0.3 gnn.dim_inner 16 gt.dim_hidden 16 optim.max_epoch 2 train.eval_period 1 train.ckpt_period 1"
    )
    config = load_config(CONFIG, [*SMALL.split(), *options.split(), *overrides])
    info = dataclasses.replace(declared_info(config), max_nodes=max(SIZES))
    device = DEVICE if on_device else torch.device("cpu")
    torch.manual_seed(0)
    model, task = build_model(config, info), build_task(config, info)
    if plugin is not None:
        for module in model.modules():
            if isinstance(module, GatedGCNBlock):
                module.__class__ = plugin
    examples = torch.arange(len(SIZES))
    loaders = GraphLoaders(
        store_like(info, build_transforms(config), folder / "cache", SIZES),
        Splits(examples[:10], examples[10:13], examples[13:]),
        LoaderProcess(0, device),
        batch_size=4,
        transductive=False,
        resident="always",
    )
    model = copy.deepcopy(model).to(device)
    optimizer = build_optimizer(config, model)
    fabric = _fabric(config) if on_device else build_fabric(config)
    return Trainer(
        fabric,
        *(model, task, loaders, optimizer, build_schedule(config, optimizer), build_settings(config, info)),
        run=RunDirectory(folder, "captured", 0),
        reporters=reporters,
        graphs=graphs,
    )


def weights(run: Trainer) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu() for name, tensor in run.model.state_dict().items()}


@pytest.mark.slow
def test_a_resumed_training_is_equal_bit_for_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed in the middle of an epoch: moments, rates and random numbers of the graphs come from the checkpoint."""
    every_step = ("train.capture", "always")
    with second_device():
        whole = trainer(tmp_path / "whole", *every_step, graphs=step_graphs())
        whole.run()
        torch.manual_seed(99)
        killed = trainer(tmp_path / "killed", *every_step, graphs=step_graphs(), reporters=(Bomb(1, 2, kill),))
        killed._checkpointer._settings = dataclasses.replace(killed.settings, ckpt_seconds=0.0)
        with pytest.raises(Killed):
            killed.run()
        torch.manual_seed(7)
        rest = trainer(tmp_path / "killed", *every_step, graphs=step_graphs())
        begun: list[tuple[int, Path | None]] = []
        monkeypatch.setattr(rest._log, "start", lambda *given: begun.append(given))
        rest.run()
    assert begun == [(1, rest._checkpointer.last)], "it goes on where the other was killed"
    assert rest.state.epoch == 2
    for name, tensor in weights(whole).items():
        assert torch.equal(tensor, weights(rest)[name]), name


@pytest.mark.slow
def test_trainings_in_turns_have_their_own_graphs_and_random_numbers(tmp_path: Path) -> None:
    """With dropout: each is what it is alone, whose graph is replayed between those of others."""
    every_step = ("train.capture", "always")

    def seeded(folder: Path, seed: int, into: dict[int, dict[str, Tensor]]) -> Turns[None]:
        run = trainer(folder / str(seed), *every_step, "optim.max_epoch", "1", graphs=step_graphs())
        torch.manual_seed(seed)
        yield from run.turns()
        into[seed] = weights(run)

    alone: dict[int, dict[str, Tensor]] = {}
    beside: dict[int, dict[str, Tensor]] = {}
    with second_device():
        for seed in (1, 2):
            without_pause(seeded(tmp_path / "alone", seed, alone))
        trainings = {str(seed): seeded(tmp_path / "beside", seed, beside) for seed in (1, 2)}
        take_turns(trainings, DEVICE, lambda name, error: None)
    for seed in (1, 2):
        for name, tensor in alone[seed].items():
            assert torch.equal(tensor, beside[seed][name]), (seed, name)
    assert not all(torch.equal(tensor, alone[2][name]) for name, tensor in alone[1].items())


@pytest.mark.parametrize("accumulation", ["1", pytest.param("2", marks=pytest.mark.slow)])
def test_captured_and_not_learn_the_same(accumulation: str, tmp_path: Path) -> None:
    """Without dropout padding alone is left of the difference; three batches: the last group of an epoch is short."""
    dry = ("gnn.dropout", "0.0", "gt.dropout", "0.0", "optim.optimizer", "sgd", "optim.base_lr", "0.01")
    dry = (*dry, "optim.batch_accumulation", accumulation, "optim.max_epoch", "2")
    with second_device():
        captured = trainer(tmp_path / "captured", *dry, graphs=step_graphs())
        eager = trainer(tmp_path / "eager", *dry, "train.capture", "never", graphs=step_graphs())
        for run in (captured, eager):
            run.run()
    for name, tensor in weights(eager).items():
        torch.testing.assert_close(weights(captured)[name], tensor, rtol=1e-4, atol=1e-5, msg=name)


@pytest.mark.parametrize("capture", ["auto", "always"])
def test_a_loss_that_hides_its_missing_gradient_is_refused_before_anything_is_recorded(
    capture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with second_device():
        run = trainer(tmp_path, "train.capture", capture, graphs=step_graphs())
        loss = run.task.loss
        monkeypatch.setattr(run.task, "loss", lambda *given: loss(*given).detach().requires_grad_() * 1)
        with pytest.raises((RuntimeError, UserError), match="the loss is not computed from parameters"):
            run.run()


class Divides(GatedGCNBlock):
    """Divides by a number on the device that no checkpoint has."""

    capturable = True
    divisor: ClassVar[Tensor]

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None, GraphBatch]:
        h, e, batch = super().forward(h, e, batch)
        return h / self.divisor, e, batch


class Spoils(Reporter):
    """Sets that number to 0 after the first epoch."""

    def epoch(self, report: EpochReport) -> None:
        Divides.divisor.zero_()


def test_an_evaluation_is_launched_before_the_losses_are_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The device goes on meanwhile; a loss that is not finite still ends the run, and names its layer."""
    begun = Spoils()
    with second_device() as waits:
        monkeypatch.setattr(Divides, "divisor", torch.ones(1).to(DEVICE), raising=False)
        graphs = step_graphs()
        replays = noted_replays(graphs, waits)
        run = trainer(tmp_path, "train.capture", "always", graphs=graphs, reporters=(begun,), plugin=Divides)
        begun.start = lambda report: replays.clear()  # type: ignore[method-assign]
        told = r"epoch 1, batch 0: .* with the weights of epoch 0, layers\.0 \(Divides, .* whose output is not finite"
        with pytest.raises(RunFailed, match=told):
            run.run()
    steps, evaluations = run.loaders.num_train_batches, 2
    assert len(replays) == 2 * (steps + evaluations), "what is computed again is not replayed"
    for epoch in (replays[: steps + evaluations], replays[steps + evaluations :]):
        assert len(set(epoch[steps - 1 :])) == 1, "a replay of the evaluation had to wait"


def noted_replays(graphs: StepGraphs, waits: list[str]) -> list[int]:
    """How often the host had waited before each replay of graphs that are made from here on."""
    noted: list[int] = []
    new = graphs.new

    def noting() -> StepGraph:
        graph = new()
        replay = graph.replay
        graph.replay = lambda: (noted.append(len(waits)), replay())[1]  # type: ignore[method-assign]
        return graph

    graphs.new = noting  # type: ignore[method-assign]
    return noted


@pytest.mark.parametrize("accumulation", ["1", "2"])
def test_everything_is_recorded_before_the_first_epoch(
    accumulation: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps of batches that begin and end a group and of those that do not, and both evaluations."""
    recorded: list[int] = []
    made: list[int] = []
    with second_device(), caplog.at_level(logging.INFO, logger="graphbench"):
        graphs = step_graphs()
        new = graphs.new
        monkeypatch.setattr(graphs, "new", lambda: made.append(1) or new())
        run = trainer(tmp_path, "optim.batch_accumulation", accumulation, graphs=graphs)
        start = run._log.start
        monkeypatch.setattr(run._log, "start", lambda *given: (recorded.append(len(made)), start(*given)))
        run.run()
    assert recorded[0] == len(made) > 3
    assert not [record.message for record in caplog.records if "capturing" in record.message]


class OnHost(GatedGCNBlock):
    """Scales by a number that the host draws, in spite of its promise: a graph would keep one for good."""

    capturable = True
    draw: ClassVar[Callable[[], float]]

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None, GraphBatch]:
        h, e, batch = super().forward(h, e, batch)
        return h * (0.5 + type(self).draw()), e, batch


@pytest.mark.parametrize("draw", [random.random, np.random.random, lambda: float(torch.rand(()))])
def test_a_number_drawn_on_the_host_is_noticed(
    draw: Callable[[], float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OnHost, "draw", staticmethod(draw), raising=False)
    with second_device():
        run = trainer(tmp_path, "train.capture", "always", graphs=step_graphs(), plugin=OnHost)
        with pytest.raises(UserError, match="could not be captured: a replay is not the work itself"):
            run.run()


def test_an_optimizer_whose_steps_are_counted_on_the_host_is_not_captured(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user's subclass of one that PyTorch has, which is not fused unless it says so."""
    own: Any = type("Own", (torch.optim.Adam,), {})
    monkeypatch.setitem(globals(), "build_optimizer", lambda _, model: own(model.parameters(), lr=0.01, foreach=False))
    with second_device(), caplog.at_level(logging.INFO, logger="graphbench"):
        trainer(tmp_path, "optim.max_epoch", "1", graphs=step_graphs()).run()
    [told] = [record.message for record in caplog.records if "capturing" in record.message]
    assert told.endswith("the optimizer Own keeps numbers on the host (fused=True is not set)")


class PluginLayer(GatedGCNBlock):
    """Writes forward anew, so that the promise of its base does not cover it."""

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None, GraphBatch]:
        return super().forward(h, e, batch)


def test_a_plugin_that_promises_nothing_is_trained_step_by_step(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with second_device():
        run = trainer(tmp_path, graphs=step_graphs(), plugin=PluginLayer)
        assert capture_obstacle(run.model) == "PluginLayer is not declared capturable"
        with caplog.at_level(logging.INFO, logger="graphbench"):
            run.run()
    told = [record.message for record in caplog.records if "capturing" in record.message]
    assert told == ["training step by step, without capturing: PluginLayer is not declared capturable"]


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (("optim.optimizer", "adagrad"), "the optimizer Adagrad keeps numbers on the host"),
    ],
)
def test_always_refuses_what_cannot_be_captured(overrides: tuple[str, ...], expected: str, tmp_path: Path) -> None:
    with second_device():
        run = trainer(tmp_path, "train.capture", "always", *overrides, graphs=step_graphs())
        with pytest.raises(UserError, match=f"train.capture is always, but this training cannot .*{expected}"):
            run.run()


@pytest.mark.skipif(GPU, reason="there are graphs")
def test_without_a_gpu_there_are_no_graphs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run: Any = trainer(tmp_path / "always", "train.capture", "always", on_device=False)
    with pytest.raises(UserError, match="there are no CUDA graphs on cpu"):
        run.run()
    with caplog.at_level(logging.INFO, logger="graphbench"):
        trainer(tmp_path / "auto", "optim.max_epoch", "1", on_device=False).run()
    assert "capturing" not in caplog.text
