"""Orders of the nodes inside every graph, for layers that read them as a sequence.

An order is (N,) int64: position i holds node ``order[i]``, and the positions of a graph hold nodes of that graph. The
order in which nodes are stored is ``None``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from graphbench.structures import GraphBatch, Ragged

_BITS = 40


def random_order(ragged: Ragged) -> Tensor:
    """A new random order, uniform over all, from the generator of the device."""
    # Graph in the high bits, a random number in the low ones: one sort, without waiting for the device.
    random = torch.randint(1 << _BITS, (ragged.num_rows,), device=ragged.device)
    return torch.argsort((ragged.graph_id << _BITS) + random)


def fixed_order(batch: GraphBatch, seed: int) -> Tensor:
    """A random order that depends only on the seed and the sizes of the graphs.

    All graphs of one size have the same order of positions, independent of their batch-mates. The numbers of their
    nodes carry no meaning, so that this is no restriction.
    """
    return batch.derived(_fixed, seed)


def _fixed(batch: GraphBatch, seed: int) -> Tensor:
    ragged = batch.ragged
    order_of_size: dict[int, Tensor] = {}
    parts = []
    first = 0
    for size in ragged.sizes:
        if size not in order_of_size:
            generator = torch.Generator().manual_seed((1_000_003 * seed + size) % 2**31)  # it reads 32 bits
            order_of_size[size] = torch.randperm(size, generator=generator)
        parts.append(order_of_size[size] + first)
        first += size
    order = torch.cat(parts) if parts else torch.empty(0, dtype=torch.int64)
    return order.to(ragged.device, non_blocking=True)


def arrange(rows: Tensor, order: Tensor | None) -> Tensor:
    """Node states (N, ...) as a sequence: position i holds the state of node ``order[i]``."""
    return rows if order is None else rows.index_select(0, order)


def restore(sequence: Tensor, order: Tensor | None) -> Tensor:
    """Inverse of :func:`arrange`."""
    return sequence if order is None else torch.empty_like(sequence).index_copy(0, order, sequence)
