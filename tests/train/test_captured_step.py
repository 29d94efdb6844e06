"""Captured steps on the second device: replays are the steps themselves, and what cannot be captured is noticed."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from unittest import mock

import pytest
import torch

from graphbench.contract import capture_obstacle
from graphbench.data.splits import Splits
from graphbench.errors import UserError
from graphbench.structures import BatchPlan, GraphBatch
from graphbench.tasks.task import Task
from graphbench.train.precision import Precision
from graphbench.train.recording import CaptureFailed
from graphbench.train.step_graph import StepGraph
from graphbench.train.step_runner import StepRunner
from tests.paths import ROOT
from tests.second_device import DEVICE, GPU, observed, second_device
from tests.train.capture_case import Training, training
from tests.train.step_tape import Tape, Tapes

WITHOUT_ATTENTION = ("lrgb/gatedgcn-peptides-func", "lrgb/gine-peptides-func", "lrgb/gcn-pascal-tuned")
GRAPHS = Splits.of(range(8), range(8, 13), range(13, 16))
DROPOUT = ("gnn.dropout", "0.5", "gt.dropout", "0.5")


def assert_replays_are_the_steps(name: str, tmp_path: Path, *overrides: str, epochs: int = 2) -> None:
    """Steps on padded batches by replay move parameters as steps on plain batches do.

    Learning rates are tensors in float32, so that parameters in float64 agree to that.
    """
    with second_device():
        ours, theirs = (training(name, tmp_path, *overrides) for _ in range(2))
        plans = ours.plans(epochs)
        assert all(plan.is_captured for plan in plans)
        assert len({plan.capacity for plan in plans}) > 1
        for plan in plans:
            loss, expected = ours.replayed(plan).loss, theirs.eager(plan)
            torch.testing.assert_close(loss.cpu(), expected.cpu(), rtol=1e-7, atol=1e-7)
        for ours_now, theirs_now in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(ours_now, theirs_now, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("name", WITHOUT_ATTENTION)
def test_replays_are_the_steps(name: str, tmp_path: Path) -> None:
    epochs = 2 if name == WITHOUT_ATTENTION[0] else 1
    assert_replays_are_the_steps(name, tmp_path, "optim.optimizer", "sgd", epochs=epochs)


ON_THE_HOST = ("ans", "cpgnn", "unimp")
"""Methods that draw, or count steps, on the host."""


def _node_methods() -> list[object]:
    """One configuration of every method for the nodes of one graph that is captured."""
    stems = sorted(path.stem for path in (ROOT / "configs/nodes").glob("*.yaml"))
    first = {stem.partition("-")[0]: stem for stem in reversed(stems)}
    marks = {"polynormer": (pytest.mark.slow, pytest.mark.exhaustive), "sgformer": (), "nodeformer": ()}
    return [
        pytest.param(stem, marks=marks.get(name, pytest.mark.slow))
        for name, stem in first.items()
        if name not in ON_THE_HOST
    ]


class Scaled(Precision):
    """Scales losses as 16-mixed does, and computes in float32: the second device has no autocast."""

    def __init__(self) -> None:
        super().__init__("16-mixed", DEVICE)
        self.load_state_dict(self.state_dict() | {"scale": 2.0**127})

    def forward_context(self) -> AbstractContextManager[None]:
        return nullcontext()


@pytest.mark.parametrize("clip", [pytest.param("false", marks=pytest.mark.slow), "true"])
def test_the_scale_of_losses_is_found_by_replays_as_by_steps(
    clip: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At first it is too large for some gradients: such a step changes nothing but the scale."""
    loss = Task.loss
    monkeypatch.setattr(Task, "loss", lambda *arguments: 1000 * loss(*arguments))
    options = ("optim.optimizer", "adamW", "optim.clip_grad_norm", clip, "optim.clip_grad_norm_value", "0.1")
    with second_device():
        ours, theirs = (
            training(WITHOUT_ATTENTION[0], tmp_path, *options, dtype=torch.float32, precision=Scaled())
            for _ in range(2)
        )
        begun = ours.parameters()
        (first, *_) = plans = ours.plans(4)
        ours.replayed(first)
        assert all(torch.equal(a, b) for a, b in zip(ours.parameters()[: len(list(ours.model.parameters()))], begun))
        theirs.eager(first)
        for plan in plans[1:]:
            torch.testing.assert_close(ours.replayed(plan).loss.cpu(), theirs.eager(plan).cpu(), rtol=1e-3, atol=1e-1)
        scales = [each.step.precision.state_dict() for each in (ours, theirs)]
    assert scales[0] == scales[1]
    assert scales[0]["scale"] < 2.0**127
    assert scales[0]["_growth_tracker"] > 0, "the later steps moved"


@pytest.mark.parametrize("name", _node_methods())
def test_replays_on_one_graph(name: str, tmp_path: Path) -> None:
    """As for SGFormer on Cora: one batch for the whole run, and random numbers that are new in every step."""
    with second_device():
        ours, theirs = (
            training(f"nodes/{name}", tmp_path, "optim.optimizer", "sgd", "optim.base_lr", "0.01", one_graph=True)
            for _ in range(2)
        )
        assert capture_obstacle(ours.model, one_batch=True) is None
        for epoch in range(3):
            (plan,) = ours.loaders.train_plans(epoch)
            assert plan.is_captured
            torch.manual_seed(epoch)
            loss = ours.replayed(plan).loss.cpu()
            torch.manual_seed(epoch)
            torch.testing.assert_close(loss, theirs.eager(plan).cpu(), rtol=1e-6, atol=1e-6)
        for ours_now, theirs_now in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(ours_now, theirs_now, rtol=1e-6, atol=1e-6)


def test_two_captured_runs_are_equal_bit_for_bit(tmp_path: Path) -> None:
    with second_device():
        results = []
        for _ in range(2):
            run = training(WITHOUT_ATTENTION[0], tmp_path, "optim.optimizer", "adamW", *DROPOUT, dropout=True)
            torch.manual_seed(3)
            losses = [run.replayed(plan).loss.cpu() for plan in run.plans(2)]
            results.append([*losses, *run.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


@pytest.mark.slow
def test_fifty_steps_have_the_losses_of_steps_without_a_graph(tmp_path: Path) -> None:
    """With Adam, all classes and the last, short batch of every epoch, and batches in the order of a training."""
    options = ("optim.optimizer", "adamW", "optim.base_lr", "0.001")
    with second_device():
        ours, theirs = (training(WITHOUT_ATTENTION[0], tmp_path, *options) for _ in range(2))
        plans = ours.plans(13)
        assert len(plans) > 50
        losses = [(ours.replayed(plan).loss.cpu(), theirs.eager(plan).cpu()) for plan in plans]
    for replayed, expected in losses:
        # Rates are float32 tensors; what fifty steps make of their rounding.
        torch.testing.assert_close(replayed, expected, rtol=1e-5, atol=1e-5)
    first, last = (sum(float(expected) for _, expected in part) for part in (losses[:4], losses[-4:]))
    assert last < first, "it learns"


def test_dropout_masks_change_from_step_to_step(tmp_path: Path) -> None:
    with second_device():
        still = ("optim.base_lr", "0.0", "optim.optimizer", "sgd")
        run = training(WITHOUT_ATTENTION[0], tmp_path, *still, *DROPOUT, dropout=True)
        plan = run.plans(1)[0]
        losses = [float(run.replayed(plan).loss) for _ in range(4)]
    assert len(set(losses)) == 4


@pytest.mark.skipif(GPU, reason="operations of a GPU are not observed")
def test_a_replay_costs_the_host_one_copy(tmp_path: Path) -> None:
    """Graph numbers and the place of the batch together; what it leaves are views.

    None where the batch is the one that was replayed last: the one of its class, in evaluation.
    """
    with second_device():
        settings = ("optim.optimizer", "adamW", "train.batch_size", "2")
        splits = Splits.of(range(4), range(4, 15), range(15, 16))
        run = training(WITHOUT_ATTENTION[0], tmp_path, *settings, splits=splits)
        run.captured.begin_epoch()
        for plan in run.loaders.train_plans(0):
            run.captured(plan)
        run.evaluate(captured=True)
        asked: list[str] = []
        with observed(lambda name, tensors, result: asked.append(name)):
            run.captured.begin_epoch()
            for plan in run.loaders.train_plans(0):
                run.captured(plan)
        views = {"select", "slice", "narrow", "detach"}
        assert [name for name in asked if name not in views] == ["to_device"] * run.loaders.num_train_batches
        asked.clear()
        with observed(lambda name, tensors, result: asked.append(name)):
            run.evaluate(captured=True)
        classes = [
            Counter(plan.capacity for plan in each.plans()) for each in run.loaders.passes if "train" not in each.rows
        ]
        of_several = [number for of_pass in classes for number in of_pass.values() if number > 1]
        assert of_several
        assert [name for name in asked if name not in views] == ["copy_"] * sum(of_several)


@pytest.mark.skipif(GPU, reason="operations of a GPU are not observed")
def test_on_one_graph_a_replay_costs_the_host_nothing(tmp_path: Path) -> None:
    """Neither a copy nor a view: its input and what it leaves are those of the epoch before."""
    nodes = torch.arange(98)
    with second_device():
        splits = Splits(train=nodes[:40], val=nodes[40:70], test=nodes[70:])
        run = training("nodes/gcn-cora", tmp_path, "optim.optimizer", "sgd", one_graph=True, splits=splits)
        (plan,) = run.loaders.train_plans(0)
        run.replayed(plan)
        run.evaluate(captured=True)
        asked: list[str] = []
        with observed(lambda name, tensors, result: asked.append(name)):
            run.replayed(plan)
        assert not asked
        with observed(lambda name, tensors, result: asked.append(name)):
            run.evaluate(captured=True)
        assert "copy_" not in asked


def test_learning_rates_are_read_at_every_replay(tmp_path: Path) -> None:
    with second_device():
        run = training(WITHOUT_ATTENTION[0], tmp_path, "optim.optimizer", "sgd", "optim.weight_decay", "0.0")
        plan = run.plans(1)[0]
        run.replayed(plan)
        for group in run.captured._optimizer.param_groups:
            group["lr"], group["momentum"] = 0.0, 0.0
        before = [each.detach().cpu().clone() for each in run.model.parameters()]
        run.replayed(plan)
        after = [each.detach().cpu() for each in run.model.parameters()]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


class Leaking(Tapes):
    """Graphs that lose one kind of kernels, as if these ran on another stream."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def new(self) -> StepGraph:
        lost = self.name

        class Leaking(Tape):
            def capture(self, work):  # type: ignore[no-untyped-def]
                super().capture(work)
                self.skip(lost)

        return Leaking()


@pytest.mark.skipif(GPU, reason="the tape loses operations, not the GPU")
@pytest.mark.parametrize("name", ["mm", "searchsorted", "_fused_adamw_"])
def test_work_outside_the_graph_is_noticed(name: str, tmp_path: Path) -> None:
    with second_device():
        run = training(WITHOUT_ATTENTION[0], tmp_path, "optim.optimizer", "adamW", graphs=Leaking(name))
        before = run.parameters()
        with pytest.raises(CaptureFailed, match="a replay is not the work itself"):
            run.replayed(run.plans(1)[0])
        assert all(torch.equal(a, b) for a, b in zip(before, run.parameters(), strict=True))


@pytest.mark.skipif(not GPU, reason="there is one stream")
def test_a_kernel_on_another_stream_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs while the step is recorded, and in no replay."""
    with second_device():
        run = training(WITHOUT_ATTENTION[0], tmp_path)
        forward, side = run.model.forward, torch.cuda.Stream(DEVICE)
        factor = torch.ones((), dtype=torch.float64, device=DEVICE)

        def forks(batch: GraphBatch) -> torch.Tensor:
            if not torch.cuda.is_current_stream_capturing():
                torch.cuda.synchronize(DEVICE)
            with torch.cuda.stream(side):
                factor.add_(1.0)  # other in every step
            if not torch.cuda.is_current_stream_capturing():
                torch.cuda.synchronize(DEVICE)
            prediction: torch.Tensor = forward(batch)
            return prediction * factor

        monkeypatch.setattr(run.model, "forward", forks)
        with pytest.raises(CaptureFailed, match="a replay is not the work itself"):
            run.replayed(run.plans(1)[0])


def test_what_waits_for_the_device_is_trained_step_by_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with second_device():
        run = training(WITHOUT_ATTENTION[0], tmp_path)
        forward = run.model.forward

        def asking(batch: object) -> torch.Tensor:
            prediction: torch.Tensor = forward(batch)
            return prediction * (1.0 + 0.0 * float(prediction.detach().sum()))

        monkeypatch.setattr(run.model, "forward", asking)
        with caplog.at_level(logging.INFO, logger="graphbench"):
            for plan in run.plans(2):
                run.runner(plan, True)
    told = [record for record in caplog.records if "step by step" in record.message]
    assert len(told) == 1
    assert GPU or told[0].message.endswith("_local_scalar_dense: operation not permitted when stream is capturing")
    # A handler may keep its records, an error in one its frames, and those the nodes of the stream that was recorded.
    assert told[0].args
    assert all(isinstance(value, str) for value in told[0].args)


class Uncompilable(Tapes):
    """Graphs of work with a kernel that needs more shared memory than the device has."""

    def warm_up(self, work: Callable[[], None]) -> None:
        from triton.runtime.errors import OutOfResources

        work()
        raise OutOfResources(262144, 101376, "shared memory")


@pytest.mark.parametrize("accumulates", [False, True])
def test_kernels_that_the_device_has_no_room_for_are_trained_step_by_step(
    accumulates: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Triton's errors are no RuntimeErrors; the steps are those without a graph, and always refuses."""
    pytest.importorskip("triton")
    with second_device():
        run, twin = (
            training(WITHOUT_ATTENTION[0], tmp_path, graphs=Uncompilable(), accumulates=accumulates) for _ in range(2)
        )
        twin.runner._captured = None
        plans = run.plans(1)
        with caplog.at_level(logging.INFO, logger="graphbench"):
            losses = [run.runner(plan, True).loss.cpu() for plan in plans]
        assert losses == [twin.runner(plan, True).loss.cpu() for plan in plans]
        assert all(torch.equal(a, b) for a, b in zip(run.parameters(), twin.parameters(), strict=True))
        (told,) = [record.message for record in caplog.records if "step by step" in record.message]
        assert "out of resource: shared memory" in told
        required = StepRunner(twin.step, twin.loaders, twin.captured, required=True)
        with pytest.raises(UserError, match="always, but a step could not be captured: out of resource"):
            required(plans[0], True)


@pytest.mark.parametrize("captured", [False, True])
def test_errors_of_a_module_end_the_training(captured: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a module raises in every step is not taken for an obstacle of capturing."""
    with second_device():
        run = training(WITHOUT_ATTENTION[0], tmp_path)
        monkeypatch.setattr(run.model, "forward", mock.Mock(side_effect=RuntimeError("of the module")))
        if not captured:
            run.runner._captured = None
        with pytest.raises(RuntimeError, match="of the module"):
            run.runner(run.plans(1)[0], True)


def _fails_after(work: Callable[[], None]) -> None:
    work()
    raise RuntimeError("for a test")


def _assert_groups_are_added_up(fits: list[bool], tmp_path: Path, before: Callable[[Training, int], None]) -> None:
    """Losses and parameters of groups of two batches are those of steps without a graph.

    Args:
        fits: of every batch, whether there is a class for it.
        tmp_path: for what transforms cache.
        before: called with the training and the number of each batch.
    """
    options = ("optim.optimizer", "sgd", "optim.base_lr", "0.01")
    with second_device():
        run, twin = (training(WITHOUT_ATTENTION[0], tmp_path, *options, accumulates=True) for _ in range(2))
        twin.runner._captured = None
        plans = run.plans(len(fits) // 4)
        for number, (plan, captured) in enumerate(zip(plans, fits, strict=True)):
            if number % 4 == 0:
                run.captured.begin_epoch()
            before(run, number)
            batch = plan if captured else BatchPlan(plan.graphs, plan.rows)
            loss, expected = (each.runner(batch, number % 2 == 1).loss for each in (run, twin))
            torch.testing.assert_close(loss.cpu(), expected.cpu(), rtol=1e-7, atol=1e-7)
        for ours_now, theirs_now in zip(run.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(ours_now, theirs_now, rtol=1e-7, atol=1e-7)


def test_gradients_of_groups_are_added_up(tmp_path: Path) -> None:
    """Two batches per group, of which the first, the last or both fit no class."""
    fits = [False, True, True, True, True, False, True, True, False, False, True, True]
    _assert_groups_are_added_up(fits, tmp_path, lambda run, number: None)


@pytest.mark.parametrize("at_once", [False, True])
def test_groups_go_on_when_a_graph_cannot_be_recorded(
    at_once: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later one; or ``at_once``, inside a group whose first batch fits no class."""

    def fail(run: Training, number: int) -> None:
        if at_once and number == 1:
            monkeypatch.setattr(run.captured._graphs, "warm_up", _fails_after)
        elif not at_once and number == 2:
            monkeypatch.setattr(run.captured, "_record", mock.Mock(side_effect=CaptureFailed("for a test")))
            run.captured._recorded.clear()

    _assert_groups_are_added_up([not at_once, True, True, True], tmp_path, fail)


def test_a_batch_beyond_all_classes_is_not_padded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with second_device():
        run, twin = (training(WITHOUT_ATTENTION[0], tmp_path) for _ in range(2))
        plan = run.plans(1)[0]
        beyond = BatchPlan(plan.graphs, plan.rows)
        assert not beyond.is_captured
        with caplog.at_level(logging.INFO, logger="graphbench"):
            losses = [run.runner(each, True).loss.cpu() for each in (plan, beyond, beyond)]
        expected = [twin.eager(plan).cpu() for _ in range(3)]
    torch.testing.assert_close(losses, expected, rtol=1e-6, atol=1e-6)
    assert sum("larger than" in record.message for record in caplog.records) == 1
