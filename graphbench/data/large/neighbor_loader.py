"""Training on sampled neighbourhoods of one large graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Unpack

import torch
from torch import Tensor

from graphbench.data.large.loader import LargeLoader, LoaderOptions
from graphbench.data.large.neighbor_sampling import NeighborSampler
from graphbench.data.large.subgraph import subgraph
from graphbench.data.splits import Splits
from graphbench.data.store import GraphStore
from graphbench.structures import GraphBatch


class NeighborLoader(LargeLoader):
    """Sampled neighbourhoods (``train.sampler: neighbor``).

    A batch begins with its training nodes, on which alone the loss is computed.

    With several processes, each takes its shard of the training nodes, filled up to equal length.

    Args:
        store: see :class:`LargeLoader`.
        splits: node numbers.
        sizes: in-edges per node and hop, -1 for all (``train.neighbor_sizes``).
        batch_size: training nodes per batch and process (``train.batch_size``).
        options: see :class:`LoaderOptions`.

    Raises:
        ValueError: a store that cannot be cut, or bad sizes.
    """

    def __init__(
        self,
        store: GraphStore,
        splits: Splits,
        *,
        sizes: Sequence[int],
        batch_size: int,
        **options: Unpack[LoaderOptions],
    ) -> None:
        super().__init__(store, splits, "neighbor", options)
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, received {batch_size}")
        self._batch_size = batch_size
        self._sampler = NeighborSampler(self._incoming, sizes)

    @property
    def num_train_batches(self) -> int:
        """Steps per epoch, the same in every process."""
        return -(-len(self._shard(self._splits.train.numel())) // self._batch_size)

    def sample(self, epoch: int) -> Iterator[tuple[GraphBatch, Tensor]]:
        """The batches of one epoch, and the rows of their training nodes."""
        order = self._generator(1, epoch).permutation(self._splits.train.numpy())
        train_nodes = order[self._shard(len(order))]
        edge = self._incoming.edge
        for number, first in enumerate(range(0, len(train_nodes), self._batch_size)):
            seeds = train_nodes[first : first + self._batch_size]
            sample = self._sampler(seeds, self._generator(2, epoch, number, self._rank))
            edges = None if edge is None else edge[torch.from_numpy(sample.entries)]
            batch = subgraph(self._store, torch.from_numpy(sample.nodes), torch.from_numpy(sample.edge_index), edges)
            yield batch, torch.arange(len(seeds))
