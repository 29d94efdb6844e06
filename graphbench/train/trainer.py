"""Training: epochs of steps, evaluation, selection of the best epoch, checkpoints.

Read :meth:`Trainer.turns`, ``_epoch`` and ``_train_epoch``; the rest serves them. A state can be saved after any
optimizer step, also in the middle of an epoch: batches depend on (seed, epoch) only, so a resumed run skips the ones it
has seen and continues with the same random numbers, bit for bit on a CPU. They are generators, which give way after
every step and wherever they are about to wait for the device: other trainings go on meanwhile
(:mod:`graphbench.train.turns`).
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from graphbench.errors import UserError, first_line, is_out_of_memory
from graphbench.runs.environment import forget_peak_memory
from graphbench.runs.history import History
from graphbench.runs.record import Outcome
from graphbench.runs.run_directory import RunDirectory
from graphbench.structures import DataLoaders, DeviceBatch
from graphbench.tasks.task import Task
from graphbench.train.best_epoch import BestEpoch, EpochMetrics, compute_metrics, copy_state_dict
from graphbench.train.capture import Capture
from graphbench.train.checkpointer import Checkpointer
from graphbench.train.distributed import any_process, broadcast_buffers, gather_known
from graphbench.train.evaluation import SplitPredictions, collect, launch, prepare
from graphbench.train.fabric import Fabric
from graphbench.train.failures import (
    Kept,
    interrupted,
    is_lost_process,
    lost_process,
    non_finite_loss,
    out_of_memory,
)
from graphbench.train.forward import BatchAdapter, Predictor
from graphbench.train.mode import set_mode
from graphbench.train.nonfinite import Origin, find_origin
from graphbench.train.parameter_groups import count_parameters
from graphbench.train.pretrained import frozen_norms
from graphbench.train.reporter import Reporter
from graphbench.train.run_log import RunLog
from graphbench.train.schedule import Schedule
from graphbench.train.settings import TrainerSettings
from graphbench.train.signals import StopRequest
from graphbench.train.state import TrainerState, pack, unpack
from graphbench.train.step_graph import StepGraphs
from graphbench.train.step_parts import DATA, EVALUATION, METRICS, each, part
from graphbench.train.training_step import TrainingStep
from graphbench.train.turns import Turns, without_pause

logger = logging.getLogger("graphbench")

CHECK_EVERY = 100
"""Batches between two looks at the losses, each of which waits for the device."""


class Trainer:
    """Trains one model once.

    Args:
        fabric: launched.
        model: called with a :class:`~graphbench.structures.GraphBatch`; moved to the fabric's device.
        task: loss and metrics.
        loaders: batches of all splits.
        optimizer: optimizer over the model's parameters.
        schedule: schedule of that optimizer's learning rates.
        settings: epochs, periods, accumulation, clipping.
        run: folder that everything is written to, by the first process only; an existing state in it is continued.
        reporters: reporters told about progress, in the first process only.
        graphs: records steps and evaluations; None: CUDA graphs on a GPU, nothing elsewhere.
        stop: asks for the end; None: one of its own.

    Attributes:
        state: state that changes while training.
    """

    def __init__(
        self,
        fabric: Fabric,
        model: nn.Module,
        task: Task,
        loaders: DataLoaders,
        optimizer: Optimizer,
        schedule: Schedule,
        settings: TrainerSettings,
        *,
        run: RunDirectory,
        reporters: Sequence[Reporter] = (),
        graphs: StepGraphs | None = None,
        stop: StopRequest | None = None,
    ) -> None:
        self.fabric = fabric
        self.model = model
        self.task = task
        self.loaders = loaders
        self.optimizer = optimizer
        self.schedule = schedule
        self.settings = settings
        self.state = TrainerState()
        self._adapter = BatchAdapter(model, fabric.precision.weights)
        self._step = TrainingStep(fabric, fabric.setup(self._adapter), model, optimizer, task, settings)
        self._capture = Capture(fabric, loaders, model, task, optimizer, settings, graphs)
        self._predict = Predictor(fabric, self._adapter)
        self._frozen_norms = frozen_norms(model)
        self._history = History(run.path if fabric.is_global_zero else None)
        self._log = RunLog(
            run.path,
            self._history,
            reporters if fabric.is_global_zero else (),
            settings,
            params=count_parameters(model),
            device=fabric.device,
        )
        self._checkpointer = Checkpointer(run, fabric, settings)
        self._stop = stop or StopRequest()
        # What a loss that is NaN is explained with while there is no best epoch, whose copy then takes its memory.
        self._begun_with: dict[str, Tensor] = {}

    def run(self) -> Outcome:
        """:meth:`turns` in one go."""
        return without_pause(self.turns())

    def turns(self) -> Turns[Outcome]:
        """Trains to the end, from the beginning or from the state found in the run directory.

        Raises:
            RunFailed: the loss is not finite, or memory is exhausted; the last state is kept.
            Interrupted: Ctrl-C, SIGTERM, SIGHUP, SIGXCPU or a closed output pipe; the state is saved.
            UserError: the selecting metric is not computed, or the state does not fit the model.
        """
        forget_peak_memory(self.fabric.device)  # of this run, not of the seeds before it
        try:
            with self._stop:
                resumed_from = self._resume()
                if self.state.best is None:
                    self._begun_with = copy_state_dict(self.model.state_dict(), None)
                self._run_step, self._captured_evaluation = self._capture.runners(self._step, self._predict)
                self._prepare()
                self._log.start(self.state.epoch, resumed_from)
                while self.state.ended is None:
                    yield from self._epoch()
                return self._log.finish(self.state, self.task)
        except (RuntimeError, MemoryError) as error:
            if self.fabric.world_size > 1 and is_lost_process(error):
                raise lost_process(self.state.epoch, error, self._kept()) from error
            if not is_out_of_memory(error):
                raise
            state, device = self.state, self.fabric.device
            raise out_of_memory(state.epoch, state.batches_done, device, error, self._kept()) from error
        finally:
            self._log.close()

    def _prepare(self) -> None:
        """Records all captured work, which compiles all kernels, before the first epoch; nothing else is changed.

        Raises:
            UserError: it had to be recorded and could not be in one of the processes, for which the others would wait.
        """
        failure = None
        try:
            self._training_mode()
            self._run_step.prepare(self.state.epoch, self.settings.batch_accumulation)
            if self._captured_evaluation is not None:
                set_mode(self._adapter, False)
                prepare(self.loaders.passes, self._captured_evaluation)
        except UserError as error:
            failure = error
        messages = gather_known(failure and str(failure), self.fabric)
        if messages:
            raise failure or UserError(messages[0])

    def _training_mode(self) -> None:
        set_mode(self._adapter, True)
        for norm in self._frozen_norms:
            norm.eval()

    # ------------------------------------------------------------------ one epoch

    def _epoch(self) -> Turns[None]:
        start = time.perf_counter()
        lr = self.schedule.lr
        yield from self._train_epoch(start)
        if self.settings.evaluates(self.state.epoch):
            with part(EVALUATION):
                predictions = yield from self._evaluate(start)
        else:
            predictions = self._trained(start)
        with part(METRICS):
            metrics = compute_metrics(
                predictions,
                self.task,
                self.settings,
                epoch=self.state.epoch,
                num_train_batches=self.loaders.num_train_batches,
                best=self.state.best,
            )
        if metrics.improved:
            self._keep_best(metrics, predictions)
        if "val" in metrics.values:
            self.state.val_loss = metrics.values["val"]["loss"]
        self.schedule.step(self.state.val_loss)
        seconds = time.perf_counter() - start + self.state.epoch_seconds
        self.state.seconds += seconds
        self._log.epoch(self.state, metrics, predictions, lr=lr, seconds=seconds)
        self.state.next_epoch()
        best = self.state.best
        by_settings = self.settings.reason_to_end(self.state.epoch, None if best is None else best.epoch)
        self.state.ended = by_settings or self.schedule.reason_to_end
        in_period = self.state.epoch % self.settings.ckpt_period == 0
        ended = self.state.ended is not None
        self._save_or_stop(in_period or ended or self._checkpointer.is_due(metrics.improved))

    def _train_epoch(self, start: float) -> Turns[None]:
        """One pass over the training batches.

        Args:
            start: time at which this process began the epoch.
        """
        self._training_mode()
        num_batches = self.loaders.num_train_batches
        batches = islice(self._run_step.batches(self.state.epoch), self.state.batches_done, None)
        for batch in each(DATA, batches):
            done = self.state.batches_done + 1
            ends_group = done % self.settings.batch_accumulation == 0 or done == num_batches
            if ends_group and self.settings.schedule_every_step:
                self.schedule.set(self.state.epoch + done / num_batches)
            output = self._run_step(batch, ends_group)
            self.state.buffer.add(output.loss, output.kept, output.true)
            self.state.batches_done = done
            self._log.batch(self.state.epoch, done, num_batches)
            if done % CHECK_EVERY == 0:
                self._check_losses()
            if ends_group and done < num_batches:
                self._save_within_epoch(done, start)
            yield
        if self.state.batches_done != num_batches:
            raise RuntimeError(
                f"the loader announced {num_batches} training batches and gave {self.state.batches_done}"
            )

    def _trained(self, start: float) -> dict[str, SplitPredictions]:
        """Predictions of the training batches, which training metrics are computed from; waits for the losses."""
        self._check_losses()
        seconds = time.perf_counter() - start + self.state.epoch_seconds
        buffer = self.state.buffer.gathered(self.fabric)
        return {"train": SplitPredictions(buffer, seconds, self.loaders.num_train_batches)}

    def _evaluate(self, start: float) -> Turns[dict[str, SplitPredictions]]:
        """Predictions of all splits; gives way before it waits for the device.

        Replays are launched before the losses are there, which they do not depend on: a device without work would wait
        for the host in turn. Forward passes of Python might not stand weights that are not finite.
        """
        predictions: dict[str, SplitPredictions] = {}

        def add_trained() -> None:
            if not predictions:
                predictions.update(self._trained(start))

        self.state.buffer.send_losses()
        broadcast_buffers(self.model, self.fabric)
        set_mode(self._adapter, False)
        replay = self._captured_evaluation
        launched = launch(self._predict, self.task, self.loaders.passes, captured=replay, before_python=add_trained)
        yield
        add_trained()
        predictions |= collect(launched, self.fabric)
        if "val" not in predictions:
            raise UserError("the data set has no validation split; the best epoch is selected on it.")
        return predictions

    def _keep_best(self, metrics: EpochMetrics, predictions: dict[str, SplitPredictions]) -> None:
        older_copy = self._earlier_weights()
        self.state.best = BestEpoch(
            epoch=self.state.epoch,
            metric=self.settings.metric,
            value=metrics.values["val"][self.settings.metric],
            values=metrics.values,
            undefined=metrics.undefined,
            counts={split: of_split.buffer.rows for split, of_split in predictions.items()},
            model=copy_state_dict(self.model.state_dict(), older_copy),
        )
        self._begun_with = {}

    # ------------------------------------------------------------------ failures and checkpoints

    def _check_losses(self) -> None:
        """Ends all processes where a loss of one is not finite: they would wait for each other.

        Raises:
            RunFailed: with the best epoch's model saved; the state that diverged is not.
        """
        batch = self.state.buffer.first_non_finite()
        failure = None if batch is None else (batch, float(self.state.buffer.losses[batch]), self._origin(batch))
        failures = gather_known(failure, self.fabric)
        if failures:
            first = min(failures, key=itemgetter(0))  # an average of gradients spoils the parameters of all processes
            raise non_finite_loss(self.state.epoch, *first, self.fabric.broadcast(self._kept()))

    def _origin(self, batch: int) -> Origin | None:
        """Origin of the loss of a batch that is not finite; None where computing it again does not show it."""
        forward = self.fabric.in_precision(self._adapter)

        def total_loss(on_device: DeviceBatch) -> Tensor:
            self._training_mode()
            return self._step.total_loss(on_device, forward)

        best = self.state.best
        name = "the weights that this run began with" if best is None else f"the weights of epoch {best.epoch}"
        losses = (partial(total_loss, each) for each in self._suspects(batch))
        return find_origin(self.model, losses, self._earlier_weights(), name)

    def _suspects(self, batch: int) -> Iterator[DeviceBatch]:
        """A batch of this epoch whose loss is not finite, then those of the update before, latest first."""
        count, epochs, last = 2 * self.settings.batch_accumulation, [self.state.epoch], batch + 1
        if last < count and self.state.epoch:
            epochs, last = [self.state.epoch - 1, *epochs], last + self.loaders.num_train_batches
        batches = islice(chain.from_iterable(map(self.loaders.train, epochs)), last)
        for graphs, rows in reversed(deque(batches, maxlen=count)):
            yield DeviceBatch(graphs, rows)

    def _earlier_weights(self) -> dict[str, Tensor]:
        """Copy of the model at its best epoch, else at the beginning."""
        return self._begun_with if self.state.best is None else self.state.best.model

    def _kept(self) -> Kept:
        """Files of a run that fails, after the model of its best epoch has been saved, which may fail in turn."""
        files, best = self._checkpointer, self.state.best
        if best is not None and self.settings.enable_ckpt and self.fabric.is_global_zero:
            try:
                files.save_best(vars(best))
                return Kept(files.last, files.best, best.epoch)
            except Exception as error:  # noqa: BLE001  the failure that is told came first
                logger.warning("the model of the best epoch, %d, cannot be saved: %s", best.epoch, first_line(error))
        return Kept(files.last)

    def _save_within_epoch(self, done: int, start: float) -> None:
        """Between two steps: a checkpoint when one is due, the end when it is asked for.

        Args:
            done: batches of the epoch.
            start: time at which this process began the epoch.
        """
        if self.fabric.world_size > 1 and done % CHECK_EVERY:
            return  # the processes have to agree, which is too dear for every step
        due = self._checkpointer.is_due()
        if self.fabric.world_size > 1 or due or self._stop.received is not None:
            self._check_losses()  # a checkpoint holds no weights that a bad step has spoiled
            seconds_before = self.state.epoch_seconds
            self.state.epoch_seconds += time.perf_counter() - start
            self._save_or_stop(due)
            self.state.epoch_seconds = seconds_before

    def _save_or_stop(self, due: bool) -> None:
        """Saves if a process finds it due, and ends the run if one was asked to stop and it is not over anyway."""
        stop = any_process(self._stop.received is not None, self.fabric)
        if self.settings.enable_ckpt and (stop or any_process(due, self.fabric)):
            self._checkpointer.save(self._packed())
        if stop and self.state.ended is None:
            raise interrupted(self._stop.received, self.state.epoch, saved=self.settings.enable_ckpt)

    def _packed(self) -> dict[str, Any]:
        return pack(self.state, self.fabric, self.model, self.optimizer, self.schedule, self._history)

    def _resume(self) -> Path | None:
        """Takes in the latest checkpoint; its path, None where there is none."""
        latest = self._checkpointer.load()
        if latest is None:
            self._history.restore({})
            return None
        source, content = latest
        self.state = unpack(content, source, self.fabric, self.model, self.optimizer, self.schedule, self._history)
        return source
