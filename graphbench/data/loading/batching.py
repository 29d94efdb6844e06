"""Composition of the batches of an epoch.

====================== =============================================================================================
shuffled               a random permutation, cut into batches of ``batch_size`` graphs
shuffled, node budget  every batch a cross-section of the sizes: as few batches as keep each within the budget
bucketed               graphs of similar size share a batch, so that dense work wastes little on padding
bucketed, node budget  the same with as many graphs per batch as the budget allows: many small or few large ones
====================== =============================================================================================

In every case an epoch holds each graph exactly once, its batches depend on the generator only, and their number depends
on the sizes only: it is known before and the same in every epoch, which learning-rate schedules rely on.

With several processes each takes its shard; shards are filled up to equal length by repeating the first examples,
because processes step together. What processes handle in the same step is of similar size.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from graphbench.errors import ArgumentError, check_one_of

Order = Literal["shuffled", "bucketed"]

_WINDOW = 0.05
"""Fraction of all sizes by which a graph may be displaced in the sorted order: what keeps epochs different."""


class Batching:
    """Batches of one process.

    Args:
        sizes: (n,) nodes per graph.
        order: see the table above.
        batch_size: graphs per batch and process; does not matter with a budget.
        node_budget: most nodes in a batch; 0: no limit.
        rank: number of this process.
        world_size: number of processes.

    Raises:
        ValueError: an argument is out of range, or a graph is larger than the budget.
    """

    def __init__(
        self,
        sizes: Tensor,
        *,
        order: Order = "shuffled",
        batch_size: int = 1,
        node_budget: int = 0,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        check_one_of(get_args(Order), batching=order)
        check_budget(sizes, node_budget)
        self._order = order
        self._size = batch_size
        self._rank = rank
        self._world = world_size
        self._sizes, self._count = sizes, len(sizes)
        self._window = max(1, int(_WINDOW * self._count))
        self._ends: list[int] | None = None  # of the bucketed batches within a budget
        self._columns: int | None = None  # number of the shuffled batches within a budget
        if node_budget:
            falling = sizes.sort(descending=True).values.numpy()
            if order == "bucketed":
                self._ends = _cuts(_largest_possible(falling, self._window), node_budget)
            else:
                self._columns = _fewest_columns(falling, node_budget)

    @property
    def num_batches(self) -> int:
        """Batches per epoch, the same in every process."""
        if self._ends is not None:
            return _ceil_div(len(self._ends), self._world)
        if self._columns is not None:
            return _ceil_div(self._columns, self._world)
        return _ceil_div(_ceil_div(self._count, self._world), self._size)

    def epoch(self, generator: torch.Generator) -> list[Tensor]:
        """The batches of one epoch, as positions in ``sizes``.

        Args:
            generator: the only source of randomness; in the same state in every process.
        """
        if self._columns is not None:
            return self._shard_of_batches(self._cross_sections(self._columns, generator))
        if self._order == "shuffled":
            return list(self._shard(torch.randperm(self._count, generator=generator)).split(self._size))
        nearly_sorted = self._nearly_sorted(generator)
        if self._ends is not None:
            batches = self._shard_of_batches(list(nearly_sorted.tensor_split(self._ends[:-1])))
        else:
            batches = list(self._shard(nearly_sorted).split(self._size))
        return [batches[number] for number in torch.randperm(len(batches), generator=generator).tolist()]

    def _nearly_sorted(self, generator: torch.Generator) -> Tensor:
        """Largest first, but every graph displaced by up to a window."""
        away = torch.rand(self._count, generator=generator, dtype=torch.float64) * self._window
        return self._sizes.argsort(descending=True, stable=True)[(torch.arange(self._count) + away).argsort()]

    def _cross_sections(self, columns: int, generator: torch.Generator) -> list[Tensor]:
        """Graphs in the order of their sizes, in rows as long as there are batches; each batch gets one of each row."""
        rows = _ceil_div(self._count, columns)
        mixed = torch.randperm(self._count, generator=generator)  # equal sizes in another order each time
        falling = mixed[self._sizes[mixed].argsort(descending=True, stable=True)]
        table = torch.cat([falling, falling.new_full((rows * columns - self._count,), -1)]).view(rows, columns)
        shuffled = torch.rand(rows, columns, generator=generator, dtype=torch.float64).argsort(1)
        batches = table.gather(1, shuffled).T.contiguous()
        full = (batches[:, -1] >= 0).tolist()
        return [batch if whole else batch[:-1] for batch, whole in zip(batches, full, strict=True)]

    def _shard(self, examples: Tensor) -> Tensor:
        return shard(examples, self._rank, self._world)

    def _shard_of_batches(self, batches: list[Tensor]) -> list[Tensor]:
        numbers = shard(torch.arange(len(batches)), self._rank, self._world)
        return [batches[number] for number in numbers.tolist()]


def _ceil_div(count: int, divisor: int) -> int:
    return -(-count // divisor)


def shard(examples: Tensor, rank: int, world_size: int) -> Tensor:
    """The training examples of one of several processes: every ``world_size``-th, filled up to equal length.

    Args:
        examples: examples of all processes; the first ones are repeated until all shards are equally long.
        rank: number of this process.
        world_size: number of processes.
    """
    missing = -len(examples) % world_size
    if missing:
        examples = torch.cat([examples, examples.repeat(-(-missing // len(examples)))[:missing]])
    return examples[rank::world_size]


def consecutive_share(examples: Tensor, rank: int, world_size: int) -> Tensor:
    """The evaluation examples of one of several processes: one process after the other they are in their order.

    Args:
        examples: examples of all processes.
        rank: number of this process.
        world_size: number of processes.
    """
    return examples.tensor_split(world_size)[rank]


def in_order(sizes: Tensor, batch_size: int, node_budget: int = 0) -> list[Tensor]:
    """Batches for evaluation: consecutive graphs.

    Args:
        sizes: (n,) nodes per graph.
        batch_size: graphs per batch; does not matter with a budget.
        node_budget: most nodes in a batch; 0: no limit.

    Returns:
        Positions in ``sizes``.
    """
    positions = torch.arange(len(sizes))
    if not len(sizes):
        return []
    if node_budget:
        return list(positions.tensor_split(_cuts(sizes.numpy(), node_budget)[:-1]))
    return list(positions.split(batch_size))


def check_budget(sizes: Tensor, node_budget: int, parameter: str = "node_budget") -> None:
    """Refuses a budget that the largest graph exceeds.

    Args:
        sizes: (n,) nodes per graph.
        node_budget: most nodes in a batch; 0: no limit.
        parameter: name of the budget, for the message.

    Raises:
        ArgumentError: naming the largest graph.
    """
    largest = int(sizes.max()) if len(sizes) else 0
    if node_budget < 0 or 0 < node_budget < largest:
        raise ArgumentError(
            parameter,
            f"{parameter} must be 0 (no limit) or hold the largest graph, which has {largest} nodes; "
            f"received {node_budget}",
        )


def _cuts(sizes: np.ndarray, budget: int) -> list[int]:
    """Ends of consecutive groups that each stay within the budget, as long as possible from the first on."""
    total, spent = np.cumsum(sizes), 0
    ends: list[int] = []
    while not ends or ends[-1] < len(sizes):
        ends.append(int(np.searchsorted(total, spent + budget, side="right")))
        spent = int(total[ends[-1] - 1])
    return ends


def _largest_possible(falling: np.ndarray, window: int) -> np.ndarray:
    """Largest possible size at every position of :meth:`Batching._nearly_sorted`.

    Rank r gets the key r + u, 0 <= u < w. All graphs before it have smaller keys, hence ranks below r + w, so
    there are at most r + w - 1 of them: at position q there is no rank below q - w + 1.
    """
    return falling[np.maximum(np.arange(len(falling)) - window + 1, 0)]


def _fewest_columns(falling: np.ndarray, budget: int) -> int:
    """Fewest batches so that one graph of each row of :meth:`Batching._cross_sections` always fits the budget.

    With k batches the rows begin at 0, k, 2k, ... and no batch is larger than the sum of their first graphs, which
    falls with k. With as many batches as graphs it is the largest graph.
    """
    low, high = 1, len(falling)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if falling[::middle].sum() <= budget else (middle + 1, high)
    return low
