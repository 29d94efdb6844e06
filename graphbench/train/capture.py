"""Choice of the steps and evaluations that are captured: ``train.capture``, and what excludes it."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from torch import nn
from torch.optim import Optimizer

from graphbench.contract import capture_obstacle
from graphbench.errors import UserError
from graphbench.structures import AssemblesOnDevice, DataLoaders
from graphbench.tasks.task import Task
from graphbench.train.captured_evaluation import CapturedEvaluation
from graphbench.train.captured_step import CAPTURABLE_OPTIMIZERS, CapturedSteps
from graphbench.train.distributed import gather_known
from graphbench.train.fabric import Fabric
from graphbench.train.forward import Predictor
from graphbench.train.gradient_exchange import GradientExchange
from graphbench.train.recording import CaptureFailed, Snapshot, give_up
from graphbench.train.settings import TrainerSettings
from graphbench.train.step_graph import CudaStepGraphs, StepGraphs
from graphbench.train.step_runner import StepRunner
from graphbench.train.training_step import TrainingStep

logger = logging.getLogger("graphbench")


@dataclass(frozen=True)
class Capture:
    """A training whose steps and evaluations are captured where that is possible.

    Attributes:
        fabric: launched.
        loaders: loaders of the batches.
        model: model that is trained.
        task: loss.
        optimizer: optimizer of the model's parameters.
        settings: ``capture``, and what excludes it.
        graphs: records the work; None: CUDA graphs on a GPU, nothing elsewhere.
    """

    fabric: Fabric
    loaders: DataLoaders
    model: nn.Module
    task: Task
    optimizer: Optimizer
    settings: TrainerSettings
    graphs: StepGraphs | None = None

    def runners(self, step: TrainingStep, predict: Predictor) -> tuple[StepRunner, CapturedEvaluation | None]:
        """Does the steps of a training, and its evaluations (None: batch by batch), after its state has been put back.

        Args:
            step: forward, backward and update.
            predict: forward without gradients.

        Raises:
            UserError: ``capture`` is ``always`` and something excludes it.
        """
        graphs = self._graphs()
        required = self.settings.capture == "always"
        of_all = self._of_any_process(self._obstacle())
        obstacle = of_all or self._obstacle_of_steps()
        if required and (graphs is None or obstacle is not None):
            obstacle = obstacle or f"there are no CUDA graphs on {self.fabric.device.type}"
            raise UserError(f"train.capture is always, but this training cannot be captured: {obstacle}")
        if graphs is None:
            return StepRunner(step, self.loaders, None), None
        if obstacle is not None:
            logger.info("training step by step, without capturing: %s", obstacle)
        if of_all is not None:
            return StepRunner(step, self.loaders, None), None
        loaders, device = self.loaders, self.fabric.device
        assert isinstance(loaders, AssemblesOnDevice)  # else there is an obstacle
        if obstacle is None and self.fabric.world_size > 1:
            step.exchange = self._exchange(step, loaders)
        work = (graphs, loaders, step, self.model, self.optimizer, device)
        steps = None if obstacle else CapturedSteps(*work, accumulates=self.settings.batch_accumulation > 1)
        evaluation = CapturedEvaluation(graphs, loaders, predict, self.task, self.model, device, required)
        return StepRunner(step, loaders, steps, required), evaluation

    def _graphs(self) -> StepGraphs | None:
        if self.settings.capture == "never":
            return None
        if self.graphs is None and self.fabric.device.type == "cuda":
            try:
                return CudaStepGraphs(self.fabric.device)
            except RuntimeError as error:  # many trainings take turns
                required = self.settings.capture == "always"
                give_up(CaptureFailed(str(error)), "a step", "training step by step", required)
                return None
        return self.graphs

    def _obstacle(self) -> str | None:
        """Why nothing can be captured, the first reason; None where it can."""
        if not isinstance(self.loaders, AssemblesOnDevice):
            return "the batches are cut out of a large graph on the host (train.sampler)"
        obstacle = self.loaders.capture_obstacle() or self.task.capture_obstacle()
        return obstacle or capture_obstacle(self.model, self.loaders.is_one_batch)

    def _of_any_process(self, obstacle: str | None) -> str | None:
        """The first obstacle of a process: all of them capture, or none."""
        return next(iter(gather_known(obstacle, self.fabric)), None)

    def _exchange(self, step: TrainingStep, loaders: AssemblesOnDevice) -> GradientExchange:
        """Exchange with the gradients that a backward pass gives; nothing else is changed by it."""
        before = Snapshot(self.model, precision=step.precision)
        self.model.train()
        plan = next(iter(loaders.train_plans(0)))
        step.backward(loaders.gather(plan), ends_group=False)
        before.restore()
        return GradientExchange(self.model, self.fabric)

    def _obstacle_of_steps(self) -> str | None:
        """Reason why steps are not captured; None where they can be."""
        fused = all(group.get("fused") for group in self.optimizer.param_groups)
        if not (isinstance(self.optimizer, CAPTURABLE_OPTIMIZERS) and fused):
            return f"the optimizer {type(self.optimizer).__name__} keeps numbers on the host (fused=True is not set)"
        return None
