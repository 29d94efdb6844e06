"""Everything a run needs to continue as if it had never stopped: collected for a checkpoint, and put back."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn
from torch.optim import Optimizer

from graphbench.errors import UserError
from graphbench.runs.history import History
from graphbench.train.checkpoints import random_state, set_random_state
from graphbench.train.schedule import Schedule
from graphbench.train.tally import Tally, gather_objects, on_cpu


@dataclass
class Best:
    """The best epoch so far.

    Attributes:
        epoch: its number, from 0.
        metric: the selecting metric.
        value: its value on the validation split.
        values: loss and metrics per split.
        counts: rows per split.
        model: the model's state_dict at its end.
    """

    epoch: int
    metric: str
    value: float
    values: dict[str, dict[str, float]]
    counts: dict[str, int]
    model: dict[str, Any]


def copied(state: dict[str, Tensor], onto: dict[str, Tensor] | None) -> dict[str, Tensor]:
    """A copy of a state_dict.

    Args:
        state: of a model.
        onto: an older copy, which is overwritten where it fits: a few launches instead of one per tensor.
    """
    if onto is None or onto.keys() != state.keys() or any(_kind(onto[name]) != _kind(state[name]) for name in state):
        return {name: tensor.detach().clone() for name, tensor in state.items()}
    for kind in {each.dtype for each in state.values()}:
        names = [name for name, each in state.items() if each.dtype == kind]
        torch._foreach_copy_([onto[name] for name in names], [state[name].detach() for name in names])
    return onto


def _kind(tensor: Tensor) -> tuple[torch.dtype, torch.device, torch.Size, tuple[int, ...]]:
    return tensor.dtype, tensor.device, tensor.shape, tensor.stride()


@dataclass
class State:
    """What changes while training, beside model, optimizer, schedule and random generators.

    Attributes:
        epoch: in progress, or next.
        batches_done: of that epoch.
        tally: of those batches.
        seconds: of all epochs before.
        epoch_seconds: spent in this epoch before the last resumption.
        val_loss: the latest known one.
        best: the best epoch so far.
        ended: why training is over; None while it is not.
    """

    epoch: int = 0
    batches_done: int = 0
    tally: Tally = field(default_factory=Tally)
    seconds: float = 0.0
    epoch_seconds: float = 0.0
    val_loss: float | None = None
    best: Best | None = None
    ended: str | None = None

    def next_epoch(self) -> None:
        """Counts one epoch and forgets its batches."""
        self.epoch += 1
        self.batches_done, self.tally, self.epoch_seconds = 0, Tally(), 0.0


_PLAIN = ("epoch", "batches_done", "seconds", "epoch_seconds", "val_loss", "ended")


def pack(
    state: State, fabric: Fabric, model: nn.Module, optimizer: Optimizer, schedule: Schedule, history: History
) -> dict[str, Any]:
    """The content of a checkpoint: tensors, numbers, text and containers of them. Called by all processes."""
    own = {"random": random_state(), "tally": on_cpu(state.tally.state())}
    return {
        **{name: getattr(state, name) for name in _PLAIN},
        "best": None if state.best is None else vars(state.best),
        "history": history.lines,
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "schedule": schedule.state_dict(),
        "precision": fabric.strategy.precision.state_dict(),
        "processes": gather_objects(own, fabric),
    }


def unpack(
    packed: dict[str, Any],
    source: Path,
    fabric: Fabric,
    model: nn.Module,
    optimizer: Optimizer,
    schedule: Schedule,
    history: History,
) -> State:
    """Inverse of :func:`pack`: fills the objects and returns the rest.

    Raises:
        UserError: it is the state of another model, or of another number of processes.
    """
    if len(packed["processes"]) != fabric.world_size:
        raise UserError(
            f"{source}: saved by {len(packed['processes'])} processes, resumed with {fabric.world_size}. "
            "Use the same number of devices."
        )
    try:
        model.load_state_dict(packed["model"])
        optimizer.load_state_dict(packed["optimizer"])
        schedule.load_state_dict(packed["schedule"])
    except (RuntimeError, ValueError, KeyError) as error:
        raise UserError(
            f"{source}: does not fit this model ({str(error).splitlines()[0]}); has the code changed since? "
            "Pass --overwrite to start again (the old folder is renamed aside)."
        ) from error
    fabric.strategy.precision.load_state_dict(packed["precision"])
    history.restore(packed["history"])
    own = packed["processes"][fabric.global_rank]
    set_random_state(own["random"])
    return State(
        **{name: packed[name] for name in _PLAIN},
        tally=Tally.from_state(own["tally"], fabric.device),
        best=None if packed["best"] is None else Best(**packed["best"]),
    )
