"""The training loop: epochs of steps, evaluation, selection of the best epoch, checkpoints.

Read :meth:`Loop.run`, :meth:`Loop._epoch` and :meth:`Loop._train_epoch`; the rest serves them. A state can be saved
after any optimizer step, also in the middle of an epoch: batches depend on (seed, epoch) only, so a resumed run
skips the ones it has seen and continues with the same random numbers, bit for bit on a CPU.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from typing import Any

from lightning_fabric import Fabric
from torch import nn
from torch.optim import Optimizer

from graphbench.errors import UserError, unknown
from graphbench.runs.environment import forget_peak_memory, peak_memory
from graphbench.runs.history import SPLITS, History
from graphbench.runs.record import Outcome
from graphbench.runs.run_directory import RunDirectory
from graphbench.train.checkpoints import Checkpoints
from graphbench.train.evaluation import Collected, Loaders, evaluate, synchronise_buffers
from graphbench.train.failures import is_out_of_memory, no_memory, non_finite_loss
from graphbench.train.forward import CarriedModel, Carrier, Predictor
from graphbench.train.pretrained import frozen_norms
from graphbench.train.reporter import Reporter, StartReport
from graphbench.train.saver import Saver
from graphbench.train.schedule import Schedule
from graphbench.train.settings import Settings
from graphbench.train.state import Best, State, copied, pack, unpack
from graphbench.train.summary import epoch_report, outcome, stats_line
from graphbench.train.tally import Task, gather_objects

CHECK_EVERY = 100
"""Batches between two looks at the losses, each of which waits for the device."""

logger = logging.getLogger(__name__)


class Loop:
    """Trains one model once.

    Args:
        fabric: launched.
        model: called with a :class:`~graphbench.structures.GraphBatch`; moved to the fabric's device.
        task: loss and metrics.
        loaders: see :class:`~graphbench.train.evaluation.Loaders`.
        optimizer: over the model's parameters.
        schedule: of that optimizer's learning rates.
        settings: see :class:`~graphbench.train.settings.Settings`.
        run: where everything is written, by the first process only; an existing state in it is continued.
        reporters: told about progress, in the first process only.
    """

    def __init__(
        self,
        fabric: Fabric,
        model: nn.Module,
        task: Task,
        loaders: Loaders,
        optimizer: Optimizer,
        schedule: Schedule,
        settings: Settings,
        *,
        run: RunDirectory,
        reporters: Sequence[Reporter] = (),
    ) -> None:
        self.fabric, self.task, self.loaders, self.settings, self.run_directory = fabric, task, loaders, settings, run
        self.model, self.optimizer, self.schedule = model, optimizer, schedule
        carried = CarriedModel(model, fabric.strategy.precision.precision)
        self._forward, self._stepper = fabric.setup(carried, optimizer)
        # Fabric's wrapper searches all its attributes whenever one is set, so the mode is set on the module inside.
        self._carried, self._predict = carried, Predictor(fabric, carried)
        self._modules = tuple(carried.modules())
        self._reporters = tuple(reporters) if fabric.is_global_zero else ()
        self._history = History(run.path if fabric.is_global_zero else None)
        self._checkpoints = Checkpoints(run.ckpt)
        self._params = sum(each.numel() for each in model.parameters() if each.requires_grad)
        self._saver = Saver(fabric, settings, self._checkpoints, self._packed)
        self._frozen = frozen_norms(model)
        self.state = State()

    def run(self) -> Outcome:
        """Trains to the end, from the beginning or from the state found in the run directory.

        Raises:
            RunFailed: the loss is not finite, or memory is exhausted; the last state is kept.
            Interrupted: Ctrl-C or SIGTERM; the state is saved.
            UserError: the selecting metric is not computed, or the state does not fit the model.
        """
        forget_peak_memory(self.fabric.device)  # of this run, not of the seeds before it
        try:
            with self._saver:
                self._resume()
                self._tell("start", self._start_report())
                while self.state.ended is None:
                    self._epoch()
                return self._finish()
        except (RuntimeError, MemoryError) as error:
            if is_out_of_memory(error):
                where = (self.state.epoch, self.state.batches_done, self.fabric.device)
                raise no_memory(*where, error, self._checkpoints.last) from error
            raise
        finally:
            self._history.close()
            self._tell("close")

    def _epoch(self) -> None:
        start = time.perf_counter()
        lr = self.schedule.lr
        collected = {"train": self._train_epoch()}
        if self.settings.evaluates(self.state.epoch):
            collected |= self._evaluate()
        values, improved = self._measure(collected)
        if improved:
            self._keep_best(values, collected)
        self.schedule.step(self.state.val_loss)
        seconds = time.perf_counter() - start + self.state.epoch_seconds
        self.state.seconds += seconds
        left = (self.settings.max_epoch - self.state.epoch - 1) * self.state.seconds / (self.state.epoch + 1)
        device = self.fabric.device
        memory = peak_memory(device) if device.type == "cuda" else None
        facts = {"lr": lr, "seconds_left": left, "params": self._params, "memory": memory}
        stats = {split: self._write(split, values[split], each, facts) for split, each in collected.items()}
        if self._reporters:
            times = {"seconds": seconds, "seconds_left": left}
            self._tell("epoch", epoch_report(self.state, self.settings, stats, improved=improved, **times))
        self.state.next_epoch()
        self.state.ended = self._end()
        on_time = self.state.epoch % self.settings.ckpt_period == 0
        due = on_time or self.state.ended is not None or self._saver.is_due(improved)
        self._saver.save_or_stop(due, self.state)

    def _train_epoch(self) -> Collected:
        """One pass over the training batches; its predictions are what the training metrics are computed from."""
        start = time.perf_counter()
        self._switch(training=True)
        for norm in self._frozen:
            norm.eval()
        settings, last = self.settings, self.loaders.num_train_batches
        for batch, rows in islice(self.loaders.train(self.state.epoch), self.state.batches_done, None):
            done = self.state.batches_done + 1
            steps = done % settings.batch_accumulation == 0 or done == last
            with self._gradients_shared(steps):
                pred, true = self._forward(Carrier(batch)), batch.y
                if rows is not None:
                    pred, true = pred.index_select(0, rows), true.index_select(0, rows)
                loss = self.task.loss(pred, true)
                self.fabric.backward(loss)
            self.state.tally.add(loss, self.task.keep(pred), true)
            if steps:
                if settings.clip_grad_norm:
                    self.fabric.clip_gradients(
                        self._forward,
                        self._stepper,
                        max_norm=settings.clip_grad_norm_value,
                        error_if_nonfinite=False,  # finding out would wait for the device in every step
                    )
                if settings.schedule_every_step:
                    self.schedule.set(self.state.epoch + done / last)
                self._stepper.step()
                self._stepper.zero_grad()
            self.state.batches_done = done
            for reporter in self._reporters:
                reporter.batch(self.state.epoch, done, last)
            if done % CHECK_EVERY == 0:
                self._check_losses()
            if steps and done < last:
                self._pause(done, start)
        if self.state.batches_done != last:
            raise RuntimeError(f"the loader announced {last} training batches and gave {self.state.batches_done}")
        self._check_losses()
        return Collected(
            self.state.tally.gathered(self.fabric), time.perf_counter() - start + self.state.epoch_seconds, last
        )

    def _evaluate(self) -> dict[str, Collected]:
        synchronise_buffers(self.model, self.fabric)
        self._switch(training=False)
        collected = evaluate(self._predict, self.task, self.loaders.passes, self.fabric)
        if "val" not in collected:
            raise UserError("the data set has no validation split; the best epoch is selected on it.")
        return collected

    def _switch(self, training: bool) -> None:
        """``train(training)`` of the model, without its search of every attribute of every module for a parameter."""
        for module in self._modules:
            module.__dict__["training"] = training

    def _measure(self, collected: dict[str, Collected]) -> tuple[dict[str, dict[str, float]], bool]:
        """Loss and metrics per split, and whether this is the best epoch so far."""
        metric = self.settings.metric
        full = self.settings.measures_all(self.state.epoch, self.loaders.num_train_batches)
        chosen = [metric] if metric != "loss" else []
        only = {split: None if full else [] if split == "train" else chosen for split in collected}
        values = {split: each.tally.measure(self.task, only[split]) for split, each in collected.items()}
        if "val" not in values:
            return values, False
        if metric not in values["val"]:
            raise unknown("metric to select the best epoch by (metric_best)", metric, values["val"])
        self.state.val_loss = values["val"]["loss"]
        improved = self._is_better(values["val"][metric])
        if improved and not full:
            values = {split: each.tally.measure(self.task) for split, each in collected.items()}
        return values, improved

    def _is_better(self, value: float) -> bool:
        """The first of equals stays the best; NaN never is."""
        best = self.state.best
        if best is None or math.isnan(value):
            return not math.isnan(value)
        return value > best.value if self.settings.maximize else value < best.value

    def _keep_best(self, values: dict[str, dict[str, float]], collected: dict[str, Collected]) -> None:
        self.state.best = Best(
            epoch=self.state.epoch,
            metric=self.settings.metric,
            value=values["val"][self.settings.metric],
            values=values,
            counts={split: each.tally.rows for split, each in collected.items()},
            model=copied(self.model.state_dict(), None if self.state.best is None else self.state.best.model),
        )

    def _end(self) -> str | None:
        if self.state.epoch >= self.settings.max_epoch:
            return "max_epoch"
        best = -1 if self.state.best is None else self.state.best.epoch
        if self.settings.patience and self.state.epoch - 1 - best >= self.settings.patience:
            return "early stopping"
        return None

    # ------------------------------------------------------------------ reported

    def _start_report(self) -> StartReport:
        logger.info(
            "%s epoch %d in %s",
            "resuming at" if self.state.epoch else "starting",
            self.state.epoch,
            self.run_directory.path,
        )
        return StartReport(
            path=self.run_directory.path,
            first_epoch=self.state.epoch,
            max_epoch=self.settings.max_epoch,
            metric=self.settings.metric,
            params=self._params,
            history={split: self._history.read(split) for split in SPLITS} if self._reporters else {},
        )

    def _write(
        self, split: str, values: dict[str, float], collected: Collected, facts: dict[str, Any]
    ) -> dict[str, Any]:
        stats = stats_line(split, values, collected, epoch=self.state.epoch, **facts)
        self._history.append(split, stats)
        return stats

    def _finish(self) -> Outcome:
        state = self.state
        result = outcome(state, self.settings, self.task, params=self._params, device=self.fabric.device)
        logger.info("ended (%s) after %d epochs, best epoch %d", state.ended, state.epoch, result.best_epoch)
        self._tell("finish", result)
        return result

    def _tell(self, event: str, *arguments: Any) -> None:
        for reporter in self._reporters:
            getattr(reporter, event)(*arguments)

    # ------------------------------------------------------------------ failures and checkpoints

    def _check_losses(self) -> None:
        batch = self.state.tally.first_non_finite()
        own = None if batch is None else (batch, float(self.state.tally.losses[batch]))
        for found in gather_objects(own, self.fabric):  # all processes end, or they would wait for each other
            if found is not None:
                raise non_finite_loss(self.state.epoch, *found, self._checkpoints.last)

    def _pause(self, done: int, start: float) -> None:
        """Between two steps of an epoch: a checkpoint when it is time, the end when it is asked for."""
        if self.fabric.world_size > 1 and done % CHECK_EVERY:
            return  # the processes have to agree, which is too dear for every step
        if self.fabric.world_size > 1 or self._saver.urgent:
            self._check_losses()  # a checkpoint holds no weights that a bad step has spoiled
            before = self.state.epoch_seconds
            self.state.epoch_seconds += time.perf_counter() - start
            self._saver.save_or_stop(self._saver.is_due(), self.state)
            self.state.epoch_seconds = before

    def _packed(self) -> dict[str, Any]:
        return pack(self.state, self.fabric, self.model, self.optimizer, self.schedule, self._history)

    def _resume(self) -> None:
        content = self._checkpoints.load() if self.fabric.is_global_zero else None
        if self.fabric.world_size > 1:
            content = self.fabric.broadcast(content)
        if content is None:
            self._history.restore({})
            return
        last = self._checkpoints.last
        self.state = unpack(content, last, self.fabric, self.model, self.optimizer, self.schedule, self._history)

    def _gradients_shared(self, steps: bool) -> AbstractContextManager[None]:
        """Gradients cross process borders in the last batch of a group only."""
        if self.fabric.world_size == 1:
            return nullcontext()
        return self.fabric.no_backward_sync(self._forward, enabled=not steps)
