"""Communication between the processes of a data-parallel run, apart from gradients."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import nn

from graphbench.train.fabric import Fabric

T = TypeVar("T")


def gather_objects(item: T, fabric: Fabric) -> list[T]:
    """One object per process, in the order of ranks, in every process."""
    if fabric.world_size == 1:
        return [item]
    gathered: list[T] = [item] * fabric.world_size
    torch.distributed.all_gather_object(gathered, item)
    return gathered


def gather_known(item: T | None, fabric: Fabric) -> list[T]:
    """The objects of all processes that have one, in the order of ranks, in every process."""
    return [each for each in gather_objects(item, fabric) if each is not None]


def any_process(flag: bool, fabric: Fabric) -> bool:
    """True in every process if it is in one of them."""
    return any(gather_objects(flag, fabric))


def broadcast_buffers(model: nn.Module, fabric: Fabric) -> None:
    """Gives every process the buffers of the first one (BatchNorm statistics), so that all evaluate one model."""
    if fabric.world_size > 1:
        for buffer in model.buffers():
            torch.distributed.broadcast(buffer, 0)
