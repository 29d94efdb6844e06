"""One optimizer step: forward, loss, backward, clipping, update. Run as it is, or captured and replayed."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, nullcontext
from functools import partial

from torch import Tensor, nn
from torch.optim import Optimizer

from graphbench.structures import DeviceBatch
from graphbench.structures.dropout_seeds import seeds_drawn_together
from graphbench.structures.sampled_graph import SampledGraph
from graphbench.tasks.task import Task
from graphbench.train.backward_failure import Detached, failure
from graphbench.train.fabric import Fabric, Forward
from graphbench.train.forward import OpaqueBatch
from graphbench.train.gradient_exchange import GradientExchange
from graphbench.train.precision import Precision
from graphbench.train.settings import TrainerSettings
from graphbench.train.step_parts import BACKWARD, FORWARD, OPTIMIZER, part
from graphbench.train.tally import StepOutput
from graphbench.train.unreached import unreached

logger = logging.getLogger("graphbench")


class TrainingStep:
    """Forward and backward pass of a batch, and the update.

    Args:
        fabric: launched.
        forward: forward pass of the model, from ``fabric.setup``.
        model: the model, whose parameters have names.
        optimizer: optimizer of its parameters.
        task: loss.
        settings: clipping.

    Attributes:
        exchange: averages the gradients of several processes before an update; None: DDP does, in the backward pass.
    """

    def __init__(
        self,
        fabric: Fabric,
        forward: Forward,
        model: nn.Module,
        optimizer: Optimizer,
        task: Task,
        settings: TrainerSettings,
    ) -> None:
        self._fabric = fabric
        self._forward = forward
        self._model = model
        self._optimizer = optimizer
        self._task = task
        self._settings = settings
        self.exchange: GradientExchange | None = None
        self._has_gradients = False

    @property
    def precision(self) -> Precision:
        """Precision of the step; holds the scale of float16 losses."""
        return self._fabric.precision

    def backward(self, on_device: DeviceBatch, *, ends_group: bool = True) -> StepOutput:
        """Forward and backward pass.

        Args:
            on_device: the batch.
            ends_group: whether an update follows, so that gradients cross process borders.

        Raises:
            UserError: code of a plug-in keeps gradients from being computed.
        """
        with self._fabric.gradient_sync(ends_group and self.exchange is None):
            pred, true, loss, total = self._losses(on_device)
            try:
                if total.grad_fn is None:
                    raise Detached
                with part(BACKWARD):
                    self._fabric.backward(total)
                self._check_gradients()
            except RuntimeError as error:
                told = failure(error, partial(self._losses, on_device))
                if told is None:
                    raise
                raise told from error
        return StepOutput(loss.detach(), self._task.keep(pred), true)

    def total_loss(self, on_device: DeviceBatch, forward: Forward) -> Tensor:
        """Minimised loss of a batch that this process computes alone, by a forward pass without the others."""
        return self._losses(on_device, forward)[-1]

    def _losses(self, on_device: DeviceBatch, forward: Forward | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Predictions, targets, the task's loss, and what is minimised: that and the loss of layers."""
        batch, rows = on_device.batch, on_device.rows
        with part(FORWARD), seeds_drawn_together():
            pred, auxiliary_loss = (forward or self._forward)(OpaqueBatch(batch))
        assert batch.y is not None
        true = batch.y
        weight = batch.node_weight if isinstance(batch, SampledGraph) else None
        if rows is not None:
            pred, true = pred.index_select(0, rows), true.index_select(0, rows)
            weight = None if weight is None else weight.index_select(0, rows)
        if weight is None:
            real = () if on_device.real is None else (on_device.real,)
            loss = self._task.loss(pred, true, *real)
        else:
            loss = self._task.weighted_loss(pred, true, weight)
        return pred, true, loss, loss if auxiliary_loss is None else loss + auxiliary_loss

    def _check_gradients(self) -> None:
        """Refuses a first backward pass that has reached no parameter, and tells of layers of users that it has not."""
        if not self._has_gradients and self.exchange is None:
            groups = self._optimizer.param_groups
            self._has_gradients = any(each.grad is not None for group in groups for each in group["params"])
            if not self._has_gradients:
                raise Detached
            if sentence := unreached(self._model):
                logger.warning(sentence)

    def update(self) -> None:
        """Clips the gradients and moves the parameters by them."""
        if self.exchange is not None:
            self.exchange.average()
        with part(OPTIMIZER), self._clipped():
            self.precision.step(self._optimizer)

    def _clipped(self) -> AbstractContextManager[None]:
        """Within it the optimiser's gradients are clipped, where that is asked for."""
        if not self._settings.clip_grad_norm:
            return nullcontext()
        return self._fabric.clipped_gradients(self._optimizer, self._settings.clip_grad_norm_value)

    def forget_gradients(self) -> None:
        """Before the first batch of the next update."""
        if self.exchange is not None:
            self.exchange.forget()
        else:
            self._optimizer.zero_grad()
