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

import torch
from lightning_fabric import Fabric
from torch import nn
from torch.optim import Optimizer

from graphbench.errors import Interrupted, RunFailed, UserError, unknown
from graphbench.results.environment import peak_memory
from graphbench.results.history import SPLITS, History
from graphbench.results.record import Outcome, Score
from graphbench.results.run_directory import RunDirectory
from graphbench.train.checkpoints import Checkpoints, random_state, set_random_state
from graphbench.train.evaluation import Collected, Loaders, evaluate, synchronise_buffers
from graphbench.train.forward import CarriedModel, Carrier, Predictor
from graphbench.train.reporter import EpochReport, Reporter, StartReport
from graphbench.train.schedule import Schedule
from graphbench.train.settings import Settings
from graphbench.train.signals import StopRequest
from graphbench.train.tally import Tally, Task, gather_objects, on_cpu

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
        self._reporters = tuple(reporters) if fabric.is_global_zero else ()
        self._history = History(run.path if fabric.is_global_zero else None)
        self._checkpoints = Checkpoints(run.ckpt)
        self._params = sum(each.numel() for each in model.parameters() if each.requires_grad)
        self._stop = StopRequest()
        # What changes while training, and what a checkpoint therefore holds beside model and optimizer:
        self.epoch = 0  # in progress, or next
        self._batches_done = 0  # of that epoch
        self._tally = Tally()  # of those batches
        self._seconds = 0.0  # of all epochs before
        self._epoch_seconds = 0.0  # of this epoch before the last resumption
        self._val_loss: float | None = None
        self._best: dict[str, Any] | None = None
        self._ended: str | None = None

    def run(self) -> Outcome:
        """Trains to the end, from the beginning or from the state found in the run directory.

        Raises:
            RunFailed: the loss is not finite, or memory is exhausted; the last state is kept.
            Interrupted: Ctrl-C or SIGTERM; the state is saved.
            UserError: the selecting metric is not computed, or the state does not fit the model.
        """
        try:
            with self._stop:
                self._resume()
                self._tell("start", self._start_report())
                while self._ended is None:
                    self._epoch()
                outcome = self._outcome()
                self._tell("finish", outcome)
                return outcome
        except (RuntimeError, MemoryError) as error:
            if _is_out_of_memory(error):
                raise RunFailed(self._advise_on_memory(error)) from error
            raise
        finally:
            self._history.close()
            self._tell("close")

    def _epoch(self) -> None:
        start = time.perf_counter()
        lr = self.schedule.lr
        collected = {"train": self._train_epoch()}
        if self.settings.evaluates(self.epoch):
            collected |= self._evaluate()
        values, improved = self._measure(collected)
        if improved:
            self._keep_best(values, collected)
        self.schedule.step(self._val_loss)
        seconds = time.perf_counter() - start + self._epoch_seconds
        self._seconds += seconds
        left = (self.settings.max_epoch - self.epoch - 1) * self._seconds / (self.epoch + 1)
        stats = {split: self._write(split, values[split], each, lr, left) for split, each in collected.items()}
        self._report(stats, improved, seconds, left)
        self.epoch += 1
        self._batches_done, self._tally, self._epoch_seconds = 0, Tally(), 0.0
        self._ended = self._end()
        due = self._ended is not None or self.epoch % self.settings.ckpt_period == 0 or self._is_due(improved)
        self._save_or_stop(due)

    def _train_epoch(self) -> Collected:
        """One pass over the training batches; its predictions are what the training metrics are computed from."""
        start = time.perf_counter()
        self._carried.train()
        settings, last = self.settings, self.loaders.num_train_batches
        for batch, rows in islice(self.loaders.train(self.epoch), self._batches_done, None):
            done = self._batches_done + 1
            steps = done % settings.batch_accumulation == 0 or done == last
            with self._gradients_shared(steps):
                pred, true = self._forward(Carrier(batch)), batch.y
                if rows is not None:
                    pred, true = pred.index_select(0, rows), true.index_select(0, rows)
                loss = self.task.loss(pred, true)
                self.fabric.backward(loss)
            self._tally.add(loss, pred, true)
            if steps:
                if settings.clip_grad_norm:
                    self.fabric.clip_gradients(
                        self._forward,
                        self._stepper,
                        max_norm=settings.clip_grad_norm_value,
                        error_if_nonfinite=False,  # finding out would wait for the device in every step
                    )
                self._stepper.step()
                self._stepper.zero_grad()
            self._batches_done = done
            for reporter in self._reporters:
                reporter.batch(self.epoch, done, last)
            if done % CHECK_EVERY == 0:
                self._check_losses()
            if steps and done < last:
                self._pause(done, start)
        if self._batches_done != last:
            raise RuntimeError(f"the loader announced {last} training batches and gave {self._batches_done}")
        self._check_losses()
        return Collected(self._tally.gathered(self.fabric), time.perf_counter() - start + self._epoch_seconds, last)

    def _evaluate(self) -> dict[str, Collected]:
        synchronise_buffers(self.model, self.fabric)
        self._carried.eval()
        collected = evaluate(self._predict, self.task, self.loaders.passes, self.fabric)
        if "val" not in collected:
            raise UserError("the data set has no validation split; the best epoch is selected on it.")
        return collected

    def _measure(self, collected: dict[str, Collected]) -> tuple[dict[str, dict[str, float]], bool]:
        """Loss and metrics per split, and whether this is the best epoch so far."""
        metric = self.settings.metric
        full = self.settings.measures_all(self.epoch, self.loaders.num_train_batches)
        only = None if full else [metric] if metric != "loss" else []
        values = {split: each.tally.measure(self.task, only) for split, each in collected.items()}
        if "val" not in values:
            return values, False
        if metric not in values["val"]:
            raise unknown("metric to select the best epoch by (metric_best)", metric, values["val"])
        self._val_loss = values["val"]["loss"]
        improved = self._is_better(values["val"][metric])
        if improved and not full:
            values = {split: each.tally.measure(self.task) for split, each in collected.items()}
        return values, improved

    def _is_better(self, value: float) -> bool:
        """The first of equals stays the best; NaN never is."""
        if self._best is None or math.isnan(value):
            return not math.isnan(value)
        return value > self._best["value"] if self.settings.maximize else value < self._best["value"]

    def _keep_best(self, values: dict[str, dict[str, float]], collected: dict[str, Collected]) -> None:
        self._best = {
            "epoch": self.epoch,
            "metric": self.settings.metric,
            "value": values["val"][self.settings.metric],
            "values": values,
            "counts": {split: each.tally.rows for split, each in collected.items()},
            "model": {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()},
        }

    def _end(self) -> str | None:
        if self.epoch >= self.settings.max_epoch:
            return "max_epoch"
        best = -1 if self._best is None else self._best["epoch"]
        if self.settings.patience and self.epoch - 1 - best >= self.settings.patience:
            return "early stopping"
        return None

    # ------------------------------------------------------------------ written and reported

    def _write(
        self, split: str, values: dict[str, float], collected: Collected, lr: float, left: float
    ) -> dict[str, Any]:
        stats: dict[str, Any] = {"epoch": self.epoch, "time_epoch": collected.seconds}
        if split == "train":
            stats |= {"eta": left, "eta_hours": left / 3600}
        stats |= {"loss": values["loss"], "lr": lr, "params": self._params}
        stats["time_iter"] = collected.seconds / max(1, collected.batches)
        if self.fabric.device.type == "cuda":
            stats["gpu_memory"] = torch.cuda.max_memory_allocated(self.fabric.device)
        stats |= values
        self._history.append(split, stats)
        return stats

    def _report(self, stats: dict[str, dict[str, Any]], improved: bool, seconds: float, left: float) -> None:
        if not self._reporters:
            return
        best = self._best or {"epoch": None, "values": {}}
        report = EpochReport(
            epoch=self.epoch,
            max_epoch=self.settings.max_epoch,
            metric=self.settings.metric,
            stats=stats,
            best_epoch=best["epoch"],
            best=best["values"],
            improved=improved,
            seconds=seconds,
            seconds_total=self._seconds,
            seconds_left=left,
        )
        self._tell("epoch", report)

    def _start_report(self) -> StartReport:
        logger.info(
            "%s epoch %d in %s", "resuming at" if self.epoch else "starting", self.epoch, self.run_directory.path
        )
        return StartReport(
            path=self.run_directory.path,
            first_epoch=self.epoch,
            max_epoch=self.settings.max_epoch,
            metric=self.settings.metric,
            params=self._params,
            history={split: self._history.read(split) for split in SPLITS} if self._reporters else {},
        )

    def _tell(self, event: str, *arguments: Any) -> None:
        for reporter in self._reporters:
            getattr(reporter, event)(*arguments)

    def _outcome(self) -> Outcome:
        if self._best is None:
            raise RunFailed(
                f"the validation {self.settings.metric} was NaN in every evaluated epoch, so that no epoch can be "
                "called the best. Look at val/stats.json; is the metric defined on this split?"
            )
        best = self._best
        scores = [
            Score(split, name, value, self._maximize(name), best["counts"][split])
            for split in SPLITS
            for name, value in best["values"].get(split, {}).items()
        ]
        logger.info("ended (%s) after %d epochs, best epoch %d", self._ended, self.epoch, best["epoch"])
        return Outcome(
            reason=str(self._ended),
            best_epoch=best["epoch"],
            epochs=self.epoch,
            scores=tuple(scores),
            params=self._params,
            time_per_epoch=self._seconds / self.epoch,
            total_time=self._seconds,
            peak_memory=peak_memory(self.fabric.device),
        )

    def _maximize(self, name: str) -> bool:
        if name == self.settings.metric:
            return self.settings.maximize
        return name != "loss" and self.task.maximize(name)

    # ------------------------------------------------------------------ failures

    def _check_losses(self) -> None:
        batch = self._tally.first_non_finite()
        if batch is not None:
            value = float(self._tally.losses[batch])
            raise RunFailed(
                f"epoch {self.epoch}, batch {batch}: the training loss is {value}. "
                "Lower optim.base_lr, warm up longer (optim.num_warmup_epochs), clip gradients (optim.clip_grad_norm: "
                f"True), or use precision 32-true. {self._kept()}"
            )

    def _advise_on_memory(self, error: BaseException) -> str:
        device = "the GPU" if self.fabric.device.type == "cuda" else "this machine"
        return (
            f"epoch {self.epoch}, batch {self._batches_done}: the memory of {device} is exhausted "
            f"({str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__}). "
            "Use a smaller train.batch_size (with optim.batch_accumulation the step stays as large), precision "
            f"bf16-mixed, or a smaller model. {self._kept()}"
        )

    def _kept(self) -> str:
        if not self._checkpoints.last.is_file():
            return "No checkpoint had been written yet."
        return f"The last checkpoint is kept in {self._checkpoints.last}."

    # ------------------------------------------------------------------ checkpoints

    def _is_due(self, improved: bool = False) -> bool:
        since = time.monotonic() - self._checkpoints.written_at
        # A better epoch is worth a checkpoint, as long as writing them takes little of the time.
        better = self.settings.ckpt_best and improved and since >= 200 * self._checkpoints.cost
        return better or since >= self.settings.ckpt_seconds

    def _pause(self, done: int, start: float) -> None:
        """Between two steps of an epoch: a checkpoint when it is time, the end when it is asked for."""
        if self.fabric.world_size > 1 and done % CHECK_EVERY:
            return  # the processes have to agree, which is too dear for every step
        if self.fabric.world_size > 1 or self._stop.received or self._is_due():
            before = self._epoch_seconds
            self._epoch_seconds += time.perf_counter() - start
            self._save_or_stop(self._is_due())
            self._epoch_seconds = before

    def _save_or_stop(self, due: bool) -> None:
        stop = self._any(self._stop.received is not None)
        if self.settings.enable_ckpt and (stop or self._any(due)):
            self._save()
        if stop and self._ended is None:
            kept = (
                "The state is saved; the same command resumes the run."
                if self.settings.enable_ckpt
                else "No state is saved (train.enable_ckpt is False)."
            )
            raise Interrupted(f"stopped by {self._stop.received or 'another process'} in epoch {self.epoch}. {kept}")

    def _save(self) -> None:
        everyones = gather_objects({"random": random_state(), "tally": on_cpu(self._tally.state())}, self.fabric)
        if not self.fabric.is_global_zero:
            return
        self._checkpoints.save(
            {
                "epoch": self.epoch,
                "batches_done": self._batches_done,
                "seconds": self._seconds,
                "epoch_seconds": self._epoch_seconds,
                "val_loss": self._val_loss,
                "ended": self._ended,
                "history": self._history.lines,
                "best": self._best,
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "schedule": self.schedule.state_dict(),
                "precision": self.fabric.strategy.precision.state_dict(),
                "processes": everyones,
            }
        )

    def _resume(self) -> None:
        state = self._checkpoints.load() if self.fabric.is_global_zero else None
        if self.fabric.world_size > 1:
            state = self.fabric.broadcast(state)
        if state is None:
            self._history.restore({})
            return
        if len(state["processes"]) != self.fabric.world_size:
            raise UserError(
                f"{self._checkpoints.last}: saved by {len(state['processes'])} processes, resumed with "
                f"{self.fabric.world_size}. Use the same number of devices."
            )
        try:
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.schedule.load_state_dict(state["schedule"])
        except (RuntimeError, ValueError, KeyError) as error:
            raise UserError(
                f"{self._checkpoints.last}: does not fit this model ({str(error).splitlines()[0]}); has the code "
                "changed since? Pass --overwrite to start again (the old folder is renamed aside)."
            ) from error
        self.fabric.strategy.precision.load_state_dict(state["precision"])
        own = state["processes"][self.fabric.global_rank]
        self.epoch, self._batches_done = state["epoch"], state["batches_done"]
        self._tally = Tally.from_state(own["tally"], self.fabric.device)
        self._seconds, self._epoch_seconds = state["seconds"], state["epoch_seconds"]
        self._val_loss, self._best, self._ended = state["val_loss"], state["best"], state["ended"]
        self._history.restore(state["history"])
        set_random_state(own["random"])

    def _any(self, flag: bool) -> bool:
        """True in every process if it is in one of them."""
        return any(gather_objects(flag, self.fabric))

    def _gradients_shared(self, steps: bool) -> AbstractContextManager[None]:
        """Gradients cross process borders in the last batch of a group only."""
        if self.fabric.world_size == 1:
            return nullcontext()
        return self.fabric.no_backward_sync(self._forward, enabled=not steps)


def _is_out_of_memory(error: BaseException) -> bool:
    text = str(error)
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or (
        "out of memory" in text or "can't allocate memory" in text
    )
