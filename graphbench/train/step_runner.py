"""Training steps captured where that is possible, done as they are elsewhere."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import TypeVar

from graphbench.structures import AssemblesOnDevice, BatchPlan, DataLoaders, DeviceBatch
from graphbench.train.captured_step import CapturedSteps
from graphbench.train.recording import CaptureFailed, give_up
from graphbench.train.tally import StepOutput
from graphbench.train.training_step import TrainingStep

T = TypeVar("T")
logger = logging.getLogger("graphbench")


class StepRunner:
    """The steps of a training, one after the other.

    Args:
        step: forward, backward and update.
        loaders: loaders of the batches.
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
        self._begins_group = True

    def prepare(self, epoch: int, group: int) -> None:
        """Records the steps of all kinds of batches, so that no kernel is compiled in the middle of an epoch.

        Args:
            epoch: number of the next epoch; its batches and those of the one after are looked at, a plan at a time.
            group: batches whose gradients are added up.

        Raises:
            UserError: a step could not be captured, and had to be.
        """
        if self._captured is None or not isinstance(self._loaders, AssemblesOnDevice):
            return
        last = self._loaders.num_train_batches
        plans = chain.from_iterable(self._loaders.train_plans(each) for each in (epoch, epoch + 1))
        for number, plan in enumerate(plans):
            done = number % last + 1
            begins_group, ends_group = (done - 1) % group == 0, done % group == 0 or done == last
            captured = self._captured
            if captured is None:
                return
            if plan.is_captured:
                self._attempt(partial(captured.prepare, plan, begins_group, ends_group), begins_group)

    def batches(self, epoch: int) -> Iterator[BatchPlan | DeviceBatch]:
        """The batches of an epoch, or their plans where steps are captured."""
        if self._captured is not None and isinstance(self._loaders, AssemblesOnDevice):
            self._captured.begin_epoch()
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
        begins_group, self._begins_group = self._begins_group, ends_group
        if isinstance(batch, BatchPlan):
            output = self._replayed(batch, begins_group, ends_group)
            if output is not None:
                if ends_group and self._step.exchange is not None:
                    self._step.update()
                return output
            assert isinstance(self._loaders, AssemblesOnDevice)  # nobody else has plans
            if begins_group and self._captured is not None:
                self._captured.forget_gradients()  # a replay leaves those of its group
            batch = self._loaders.gather(batch)
        output = self._step.backward(batch, ends_group=ends_group)
        if ends_group:
            self._step.update()
            (self._step if self._captured is None else self._captured).forget_gradients()
        return output

    def _replayed(self, plan: BatchPlan, begins_group: bool, ends_group: bool) -> StepOutput | None:
        if self._captured is None:
            return None
        if not plan.is_captured:
            if not self._told:
                logger.info("a batch is larger than those that the captured steps were made for: not captured.")
                self._told = True
            return None
        return self._attempt(partial(self._captured, plan, begins_group, ends_group), begins_group)

    def _attempt(self, work: Callable[[], T], begins_group: bool) -> T | None:
        """Result of captured work; None, and no captured steps from here on, where it cannot be captured."""
        try:
            return work()
        except CaptureFailed as failed:
            give_up(failed, "a step", "training step by step", self._required)
            if begins_group and self._captured is not None:
                self._captured.forget_gradients()
            self._captured = None
            return None
