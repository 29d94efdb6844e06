"""Training steps captured where that is possible, done as they are elsewhere."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from lightning_fabric import Fabric
from torch import nn
from torch.optim import Optimizer

from graphbench.contract import capture_obstacle
from graphbench.errors import UserError
from graphbench.structures import AssemblesOnDevice, BatchPlan, DataLoaders, DeviceBatch
from graphbench.tasks.task import Task
from graphbench.train.captured_step import CAPTURABLE_OPTIMIZERS, CapturedSteps, CaptureFailed
from graphbench.train.settings import TrainerSettings
from graphbench.train.step_graph import CudaStepGraphs, StepGraphs
from graphbench.train.training_step import StepOutput, TrainingStep

logger = logging.getLogger("graphbench")


class StepRunner:
    """The steps of a training, one after the other.

    Args:
        step: forward, backward and update.
        loaders: of the batches.
        captured: steps by replay, or None.
        required: whether it is an error that a step cannot be captured (``train.capture: always``).
    """

    def __init__(
        self, step: TrainingStep, loaders: DataLoaders, captured: CapturedSteps | None, required: bool = False
    ) -> None:
        self._step = step
        self._loaders = loaders
        self._captured = captured
        self._required = required
        self._told = False

    def batches(self, epoch: int) -> Iterator[BatchPlan | DeviceBatch]:
        """The batches of an epoch, or their plans where steps are captured."""
        if self._captured is not None and isinstance(self._loaders, AssemblesOnDevice):
            yield from self._loaders.train_plans(epoch)
        else:
            for batch, rows in self._loaders.train(epoch):
                yield DeviceBatch(batch, rows)

    def __call__(self, batch: BatchPlan | DeviceBatch, ends_group: bool) -> StepOutput:
        """One batch.

        Args:
            batch: one of :meth:`batches`.
            ends_group: whether the parameters are updated behind it.

        Raises:
            UserError: it could not be captured, and had to be.
        """
        if isinstance(batch, BatchPlan):
            output = self._replayed(batch)
            if output is not None:
                return output
            assert isinstance(self._loaders, AssemblesOnDevice)  # nobody else has plans
            batch = self._loaders.gather(batch)
        output = self._step.backward(batch, ends_group=ends_group)
        if ends_group:
            self._step.update()
            self._step.forget_gradients()
        return output

    def _replayed(self, plan: BatchPlan) -> StepOutput | None:
        if self._captured is None:
            return None
        if not plan.is_captured:
            if not self._told:
                logger.info("a batch is larger than those that the captured steps were made for: not captured.")
                self._told = True
            return None
        try:
            return self._captured(plan)
        except CaptureFailed as failed:
            if self._required:
                raise UserError(f"train.capture is always, but a step could not be captured: {failed}") from failed
            logger.info("training step by step, without capturing: %s", failed)
            self._captured = None
            return None


def make_runner(
    step: TrainingStep,
    loaders: DataLoaders,
    model: nn.Module,
    task: Task,
    optimizer: Optimizer,
    fabric: Fabric,
    settings: TrainerSettings,
    graphs: StepGraphs | None,
) -> StepRunner:
    """The runner of a training, after its state has been put back.

    Args:
        step: forward, backward and update.
        loaders: of the batches.
        model: of the step.
        task: of the step.
        optimizer: of the step.
        fabric: launched.
        settings: ``capture``, and what excludes it.
        graphs: records the steps; None: CUDA graphs on a GPU, nothing elsewhere.

    Raises:
        UserError: ``capture`` is ``always`` and something excludes it.
    """
    if settings.capture == "never":
        return StepRunner(step, loaders, None)
    on_gpu = fabric.device.type == "cuda"
    obstacle = None if on_gpu or graphs is not None else f"there are no CUDA graphs on {fabric.device.type}"
    obstacle = obstacle or _obstacle(loaders, model, task, optimizer, fabric, settings)
    if obstacle is None:
        assert isinstance(loaders, AssemblesOnDevice)  # else there is an obstacle
        graphs = CudaStepGraphs(fabric.device) if graphs is None else graphs
        captured = CapturedSteps(graphs, loaders, step, model, optimizer, fabric.device)
        return StepRunner(step, loaders, captured, required=settings.capture == "always")
    if settings.capture == "always":
        raise UserError(f"train.capture is always, but this training cannot be captured: {obstacle}")
    if on_gpu or graphs is not None:
        logger.info("training step by step, without capturing: %s", obstacle)
    return StepRunner(step, loaders, None)


def _obstacle(
    loaders: DataLoaders, model: nn.Module, task: Task, optimizer: Optimizer, fabric: Fabric, settings: TrainerSettings
) -> str | None:
    """Why the steps of a training cannot be captured, the first reason; None where they can."""
    if fabric.world_size > 1:
        return "several processes train together"
    if fabric.strategy.precision.precision == "16-mixed":
        return "precision 16-mixed looks at every gradient on the host"
    if settings.batch_accumulation > 1:
        return "gradients of several batches are added up (optim.batch_accumulation)"
    if not isinstance(optimizer, CAPTURABLE_OPTIMIZERS):
        return f"the optimizer {type(optimizer).__name__} keeps numbers on the host"
    if not isinstance(loaders, AssemblesOnDevice):
        return "the batches are cut out of a large graph on the host (train.sampler)"
    return loaders.capture_obstacle() or task.capture_obstacle() or capture_obstacle(model)
