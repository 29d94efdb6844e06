"""Training on parts of one large graph: random ones, or unions of clusters (Cluster-GCN)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from graphbench.data.large.loader import LargeLoader, LoaderOptions
from graphbench.data.large.partition import Partition
from graphbench.data.splits import Splits
from graphbench.data.store import GraphStore
from graphbench.errors import check_at_least
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch

ATTEMPTS = 100
"""Partitions drawn until every part has a training node."""


@register("random_node")
class PartitionLoader(LargeLoader):
    """Random partitions of the nodes (``train.sampler: random_node``), as many parts as ``parts`` says.

    With several processes, each takes its shard of the parts of every epoch.

    Args:
        store: see :class:`LargeLoader`.
        splits: node numbers.
        options: see :class:`LoaderOptions`.

    Raises:
        ValueError: a store that cannot be cut, or so many parts that some would have no training node.
    """

    def __init__(
        self, store: FromContext[GraphStore], splits: FromContext[Splits], options: FromContext[LoaderOptions]
    ) -> None:
        super().__init__(store, splits, options)
        self._draw(0)  # too many parts show before anything is trained

    @property
    def num_parts(self) -> int:
        """Parts of an epoch, of all processes together."""
        return self._parts

    @property
    def num_train_batches(self) -> int:
        """Steps per epoch, the same in every process."""
        return len(self._shard(self.num_parts))

    def sample(self, epoch: int) -> Iterator[tuple[GraphBatch, Tensor]]:
        """The parts of one epoch, and which of their nodes train."""
        partition, shard = self._draw(epoch), self._shard(self.num_parts).tolist()
        for number, batch in zip(shard, partition.batches(self._store, shard)):
            yield batch, self._trains[partition.of(number)].nonzero().squeeze(1)

    def _partition(self, rng: np.random.Generator) -> Partition:
        return Partition.draw(self._store.num_nodes, self.num_parts, rng)

    def _draw(self, epoch: int) -> Partition:
        for attempt in range(ATTEMPTS):
            drawn = self._partition(self._generator(1, epoch, attempt))
            if bool((torch.bincount(drawn.part[self._splits.train], minlength=drawn.parts) > 0).all()):
                return drawn
        raise ValueError(
            f"train.train_parts: {self.num_parts} parts that all have a training node are hardly to be found with "
            f"{self._splits.train.numel()} training nodes; use fewer parts"
        )


@register("cluster")
class ClusterLoader(PartitionLoader):
    """Unions of clusters (``train.sampler: cluster``; Cluster-GCN, https://arxiv.org/abs/1905.07953, section 3.2).

    Clusters are made once. In every epoch they are put together at random, ``batch_size`` at a time; a batch is the
    subgraph of their nodes, edges between its clusters included.

    Args:
        store: see :class:`LargeLoader`.
        splits: node numbers.
        options: see :class:`LoaderOptions`; ``clusters`` has to be there.
        batch_size: clusters per batch and process.

    Raises:
        ValueError: as for the base class.
    """

    needs_clusters = True

    def __init__(
        self,
        store: FromContext[GraphStore],
        splits: FromContext[Splits],
        options: FromContext[LoaderOptions],
        *,
        batch_size: FromContext[int],
    ) -> None:
        check_at_least(1, batch_size=batch_size)
        if options.clusters is None:
            raise ValueError("batches of clusters need clusters")
        self._of_batches, self._batch_size = options.clusters, batch_size
        self.sampling = options.clusters.described
        super().__init__(store, splits, options)

    @property
    def num_parts(self) -> int:
        """Batches of an epoch, of all processes together."""
        return -(-self._of_batches.count // self._batch_size)

    def _partition(self, rng: np.random.Generator) -> Partition:
        batch = torch.from_numpy(rng.permutation(self._of_batches.count) // self._batch_size)
        return Partition.of_parts(batch[self._of_batches.number], self.num_parts)
