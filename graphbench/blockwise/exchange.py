"""Blocks of one graph shared by the processes of a run: each computes some, and all get what everyone has computed.

Processes make the same passes over the blocks in the same order, and meet at the end of each. What they exchange lies
on the host, so that Gloo sends it, whatever exchanges their gradients.
"""

from __future__ import annotations

import functools
import io
from typing import Any, TypeVar

import torch
from torch import Tensor

from graphbench.structures.node_blocks import NodeBlocks

T = TypeVar("T")

CELLS = 2**24
"""Numbers that are sent at a time."""


def own(graph: NodeBlocks, count: int) -> range:
    """Share of some things in a row that this process computes: consecutive ones, none where there are too few."""
    first, last = (count * rank // graph.world_size for rank in (graph.rank, graph.rank + 1))
    return range(first, last)


def gather(item: T, graph: NodeBlocks) -> list[T]:
    """One object per process, in the order of ranks; tensors in it are on the device of the graph."""
    if graph.world_size == 1:
        return [item]
    file = io.BytesIO()
    torch.save(item, file)  # which, unlike pickle, puts tensors of another GPU onto the own one
    texts = [b""] * graph.world_size
    torch.distributed.all_gather_object(texts, file.getvalue(), group=_host_group())
    # Objects of the processes of this very run, of classes of any module.
    return [torch.load(io.BytesIO(text), graph.device, weights_only=False) for text in texts]


def spread(rows: Tensor, first: int, last: int, rank: int, graph: NodeBlocks) -> None:
    """Sends some rows, which one process has, to all others.

    Args:
        rows: (R, ...) on the host, in every process; written to in all but one.
        first: number of the first row that is sent.
        last: number of the row behind them.
        rank: number of the process that has them.
        graph: says which process this is.
    """
    step = max(1, CELLS // max(rows[:1].numel(), 1))
    for start in range(first, last, step):
        part = rows[start : min(start + step, last)]
        sent = part.contiguous()
        torch.distributed.broadcast(sent, rank, group=_host_group())
        if graph.rank != rank and sent is not part:
            part.copy_(sent)


def _host_group() -> Any:
    """The group of all processes that sends tensors of the host; None: the default one does."""
    world = torch.distributed.group.WORLD
    return None if torch.distributed.get_backend(world) == "gloo" else _gloo_beside(world)


@functools.cache
def _gloo_beside(group: Any) -> Any:
    """A second group of the same processes; asked for by all of them at the same time."""
    return torch.distributed.new_group(backend="gloo")
