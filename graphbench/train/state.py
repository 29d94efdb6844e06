"""State that a run needs to continue as if it had never stopped: collected for a checkpoint, and put back."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn
from torch.optim import Optimizer

from graphbench.errors import UserError, first_line
from graphbench.runs.history import History
from graphbench.train.best_epoch import BestEpoch
from graphbench.train.distributed import gather_objects
from graphbench.train.fabric import Fabric
from graphbench.train.prediction_buffer import PredictionBuffer
from graphbench.train.random_state import random_state, set_random_state
from graphbench.train.schedule import Schedule


@dataclass
class TrainerState:
    """State that changes while training, apart from model, optimizer, schedule and random generators.

    Attributes:
        epoch: number of the epoch in progress, or of the next.
        batches_done: batches of that epoch that are done.
        buffer: predictions of those batches.
        seconds: seconds of all epochs before.
        epoch_seconds: spent in this epoch before the last resumption.
        val_loss: the latest known one.
        best: the best epoch so far.
        ended: why training is over; None while it is not.
    """

    epoch: int = 0
    batches_done: int = 0
    buffer: PredictionBuffer = field(default_factory=PredictionBuffer)
    seconds: float = 0.0
    epoch_seconds: float = 0.0
    val_loss: float | None = None
    best: BestEpoch | None = None
    ended: str | None = None

    def next_epoch(self) -> None:
        """Counts one epoch and forgets its batches."""
        self.epoch += 1
        self.batches_done = 0
        self.buffer = PredictionBuffer()
        self.epoch_seconds = 0.0


def pack(
    state: TrainerState, fabric: Fabric, model: nn.Module, optimizer: Optimizer, schedule: Schedule, history: History
) -> dict[str, Any]:
    """The content of a checkpoint: tensors, numbers, text and containers of them. Called by all processes."""
    of_process = {"random": random_state(fabric.device), "tally": state.buffer.state_dict()}
    return {
        "epoch": state.epoch,
        "batches_done": state.batches_done,
        "seconds": state.seconds,
        "epoch_seconds": state.epoch_seconds,
        "val_loss": state.val_loss,
        "ended": state.ended,
        "best": None if state.best is None else vars(state.best),
        "history": history.lines,
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "schedule": schedule.state_dict(),
        "precision": fabric.precision.state_dict(),
        "processes": gather_objects(of_process, fabric),
    }


def unpack(
    content: dict[str, Any],
    source: Path,
    fabric: Fabric,
    model: nn.Module,
    optimizer: Optimizer,
    schedule: Schedule,
    history: History,
) -> TrainerState:
    """Inverse of :func:`pack`: fills the objects and returns the rest.

    Args:
        content: content of a checkpoint.
        source: path of the checkpoint, for messages.
        fabric: fabric of the resumed run.
        model: receives its parameters and buffers.
        optimizer: receives its moments and rates.
        schedule: receives its epoch and base rates.
        history: receives the lines written before the checkpoint.

    Raises:
        UserError: it is the state of another model, or of another number of processes.
    """
    if len(content["processes"]) != fabric.world_size:
        raise UserError(
            f"{source}: saved by {len(content['processes'])} processes, resumed with {fabric.world_size}. "
            "Use the same number of devices."
        )
    try:
        model.load_state_dict(content["model"])
        optimizer.load_state_dict(content["optimizer"])
        schedule.load_state_dict(content["schedule"])
    except (RuntimeError, ValueError, KeyError) as error:
        raise UserError(
            f"{source}: does not fit this model ({first_line(error)}); has the code changed since? "
            "Pass --overwrite to start again (the old folder is renamed aside)."
        ) from error
    fabric.precision.load_state_dict(content["precision"])
    history.restore(content["history"])
    of_process = content["processes"][fabric.global_rank]
    set_random_state(of_process["random"], fabric.device)
    return TrainerState(
        epoch=content["epoch"],
        batches_done=content["batches_done"],
        buffer=PredictionBuffer.from_state_dict(of_process["tally"], fabric.device),
        seconds=content["seconds"],
        epoch_seconds=content["epoch_seconds"],
        val_loss=content["val_loss"],
        best=None if content["best"] is None else BestEpoch(**content["best"]),
        ended=content["ended"],
    )
