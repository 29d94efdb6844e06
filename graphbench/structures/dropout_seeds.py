"""Seeds of dropout inside kernels, drawn for a whole training step by one launch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

from graphbench.structures.side_stream import read_by_all

PER_DRAW = 64
"""Operators that get their seeds from one draw. Always as many: what a step draws depends on the model alone, so that a
resumed run goes on with the numbers of one that was never interrupted."""

PER_OPERATOR = 2
"""Seeds of one operator: 16 bytes, to which Triton wants every address it is given aligned."""


class DropoutSeeds:
    """Seeds left of those drawn in a step."""

    def __init__(self) -> None:
        self._left: dict[torch.device, list[Tensor]] = {}

    def take(self, device: torch.device) -> Tensor:
        """(PER_OPERATOR,) int64, handed out once; draws more where none are left."""
        left = self._left.setdefault(device, [])
        if not left:
            left.extend(read_by_all(lambda: _draw(device, PER_DRAW)).unbind())
        return left.pop()


_of_step: ContextVar[DropoutSeeds | None] = ContextVar("seeds_of_step", default=None)


@contextmanager
def seeds_drawn_together() -> Iterator[None]:
    """Inside, operators share draws of seeds: for the forward pass of one step, never for two."""
    token = _of_step.set(DropoutSeeds())
    try:
        yield
    finally:
        _of_step.reset(token)


def dropout_seeds(device: torch.device) -> Tensor:
    """(PER_OPERATOR,) int64 below 2^31 from the device's generator, for one call of an operator."""
    seeds = _of_step.get()
    return _draw(device, 1)[0] if seeds is None else seeds.take(device)


def _draw(device: torch.device, operators: int) -> Tensor:
    return torch.randint(2**31 - 1, (operators, PER_OPERATOR), device=device)
