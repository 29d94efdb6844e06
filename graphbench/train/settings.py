"""Settings of the trainer: epochs, periods, accumulation, clipping, patience."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from graphbench.errors import ArgumentError, check_at_least


@dataclass(frozen=True)
class TrainerSettings:
    """Settings of the trainer; names and defaults are GraphGPS's where it has them.

    Attributes:
        max_epoch: epochs in all.
        metric: selects the best epoch on the validation split: a metric of the task, or ``loss``.
        maximize: True when larger values of ``metric`` are better.
        eval_period: validation and test are evaluated in epoch 0, every ``eval_period`` epochs and in the last one.
        ckpt_period: a checkpoint at least every this many epochs (and about once a minute in any case).
        enable_ckpt: False: no checkpoint at all, a killed run starts over.
        ckpt_best: a new best epoch makes a checkpoint due, too.
        batch_accumulation: batches whose gradients are summed (the loss is not divided) before a step; an incomplete
            last group of an epoch steps as well.
        clip_grad_norm: clip the gradients of all parameters to a common norm.
        clip_grad_norm_value: the norm.
        schedule_every_step: the learning rate follows the schedule before every step; else after every epoch.
        patience: stop after this many evaluations in a row without a better validation metric; 0: never.
        ckpt_seconds: wall time after which a checkpoint is due.
        metrics_period: epochs between two computations of all metrics; in the others only the losses and the
            evaluated splits' ``metric`` are computed, except in a new best epoch (and the first and last one), which
            always has them all. 0: every epoch, or every 25th where an epoch is fewer than ten batches and the metrics
            of three splits would cost a noticeable part of it.
        capture: replay captured training steps (:mod:`graphbench.train.captured_step`): ``auto`` on a GPU, where all
            parts of the training can be captured; ``always`` or refuse to train; ``never``.
    """

    max_epoch: int
    metric: str
    maximize: bool
    eval_period: int = 10
    ckpt_period: int = 100
    enable_ckpt: bool = True
    ckpt_best: bool = False
    batch_accumulation: int = 1
    clip_grad_norm: bool = False
    clip_grad_norm_value: float = 1.0
    schedule_every_step: bool = False
    patience: int = 0
    ckpt_seconds: float = 60.0
    metrics_period: int = 0
    capture: Literal["auto", "always", "never"] = "auto"

    def __post_init__(self) -> None:
        """Refuses values outside their range."""
        check_at_least(
            1,
            max_epoch=self.max_epoch,
            eval_period=self.eval_period,
            ckpt_period=self.ckpt_period,
            batch_accumulation=self.batch_accumulation,
        )
        check_at_least(0, patience=self.patience, metrics_period=self.metrics_period)
        if not self.clip_grad_norm_value > 0:
            value = self.clip_grad_norm_value
            raise ArgumentError("clip_grad_norm_value", f"clip_grad_norm_value must be positive, received {value}")

    def evaluates(self, epoch: int) -> bool:
        """True for the epochs (from 0) after which validation and test are evaluated."""
        return epoch == 0 or (epoch + 1) % self.eval_period == 0 or epoch + 1 == self.max_epoch

    def evaluations(self, epochs: int) -> int:
        """Evaluations in the first epochs of a run, that of its last epoch left out."""
        return epochs // self.eval_period + (self.eval_period > 1 and epochs > 0)

    def computes_all_metrics(self, epoch: int, num_train_batches: int) -> bool:
        """True for the epochs in which all metrics are computed whatever the selecting one gives."""
        period = self.metrics_period or (1 if num_train_batches >= 10 else 25)
        return epoch % period == 0 or epoch + 1 == self.max_epoch

    def reason_to_end(self, epochs: int, best_epoch: int | None) -> str | None:
        """Why training is over after so many epochs: ``max_epoch`` or ``early stopping``; None while it is not."""
        if epochs >= self.max_epoch:
            return "max_epoch"
        up_to_best = 0 if best_epoch is None else self.evaluations(best_epoch + 1)
        without_improvement = self.evaluations(epochs) - up_to_best
        return "early stopping" if self.patience and without_improvement >= self.patience else None
