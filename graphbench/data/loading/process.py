"""The process that a loader makes batches for."""

from __future__ import annotations

from dataclasses import dataclass

import torch

CPU = torch.device("cpu")


@dataclass(frozen=True)
class LoaderProcess:
    """One of the processes of a training, which share the examples.

    Attributes:
        seed: of everything random, the same in all of them; together with the epoch it decides the batches.
        device: that the batches are on.
        rank: number of this process.
        world_size: number of processes.

    Raises:
        ValueError: a rank out of range.
    """

    seed: int
    device: torch.device = CPU
    rank: int = 0
    world_size: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.world_size:
            raise ValueError(f"rank must lie in 0 .. {self.world_size - 1}, received {self.rank}")
