"""Loaders that sample batches from one large graph; interface as :class:`~graphbench.structures.DataLoaders`.

Training (``train.sampler``): ``random_node`` (:mod:`graphbench.data.large.partition`) or ``neighbor``
(:mod:`graphbench.data.large.neighbor_sampling`).

Evaluation (``val.sampler``): ``full_batch`` passes the whole graph through the model at once; ``blocks`` computes the
same predictions layer by layer and block by block in bounded memory; ``random_node`` passes parts that are drawn once
per run, as SGFormer's released code does for its largest graph: an approximation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from graphbench.data.large.incoming_edges import IncomingEdges
from graphbench.data.large.neighbor_sampling import NeighborSampler
from graphbench.data.large.partition import Partition
from graphbench.data.large.subgraph import check_one_graph, has_edge_rows, node_rows, subgraph
from graphbench.data.loading.batching import consecutive_share, shard
from graphbench.data.splits import Splits
from graphbench.data.store import GraphStore
from graphbench.structures import DataLoaders, EvaluationPass, GraphBatch
from graphbench.structures.node_blocks import NodeBlocks

Blocks = Callable[[IncomingEdges], NodeBlocks]
"""Makes blocks of the nodes of a graph from its edges sorted by target."""

EVALUATIONS = ("full_batch", "blocks", "random_node")

ATTEMPTS = 100
"""Partitions drawn until every part has a training node."""


class LargeLoader(DataLoaders):
    """Base class of the loaders that sample batches from one large graph.

    Args:
        store: one graph with a target per node.
        splits: node numbers.
        sampler: its name, for messages.
        evaluation: see the top of this file.
        parts: of ``random_node`` evaluation.
        seed: of everything random.
        device: of the batches.
        rank: number of this process.
        world_size: number of processes.
        blocks: makes the blocks of ``blocks`` evaluation.

    Raises:
        ValueError: a store that cannot be cut by nodes, an empty training part, an unknown ``evaluation``, or
            ``blocks`` without a function that makes them.
    """

    def __init__(
        self,
        store: GraphStore,
        splits: Splits,
        *,
        sampler: str,
        evaluation: str,
        parts: int,
        seed: int,
        device: torch.device | str,
        rank: int,
        world_size: int,
        blocks: Blocks | None = None,
    ) -> None:
        check_one_graph(store, sampler)
        if evaluation not in EVALUATIONS:
            raise ValueError(f"val.sampler must be one of {', '.join(EVALUATIONS)}; received {evaluation!r}")
        if evaluation == "blocks" and blocks is None:
            raise ValueError("evaluation in blocks needs blocks, a function that makes them")
        if not splits.train.numel():
            raise ValueError("the training part of the split is empty")
        if not 0 <= rank < world_size:
            raise ValueError(f"rank must lie in 0 .. {world_size - 1}, received {rank}")
        splits.check(store.num_nodes)
        self._store = store
        self._splits = splits
        self._seed = seed
        self._parts = parts
        self._device, self._rank, self._world_size = torch.device(device), rank, world_size
        self._make_blocks = blocks
        shares = {part: consecutive_share(index, rank, world_size) for part, index in splits.parts().items()}
        make = {"full_batch": self._full_batch, "blocks": self._blockwise, "random_node": self._partitioned}[evaluation]
        self.passes = [make(shares)]

    @cached_property
    def _incoming(self) -> IncomingEdges:
        store = self._store
        return IncomingEdges.of(store.edge_index, store.num_nodes, numbered=has_edge_rows(store))

    @cached_property
    def _blocks(self) -> NodeBlocks:
        assert self._make_blocks is not None
        return self._make_blocks(self._incoming)

    def _generator(self, *numbers: int) -> np.random.Generator:
        """A random stream that depends on the seed and on the numbers of epoch and batch."""
        return np.random.default_rng([self._seed % 2**63, *numbers])

    def _shard(self, count: int) -> np.ndarray:
        """The numbers below ``count`` of this process, as many in every process, because processes step together."""
        return shard(torch.arange(count), self._rank, self._world_size).numpy()

    def _move(self, batch: GraphBatch) -> GraphBatch:
        if self._device.type != "cuda":
            return batch.to(self._device)
        return batch.pin_memory().to(self._device, non_blocking=True)

    def _full_batch(self, shares: Mapping[str, Tensor]) -> EvaluationPass:
        kept: list[GraphBatch] = []  # what layers derive from the graph is computed once per run

        def batches() -> Iterator[GraphBatch]:
            if not kept:
                every = slice(0, self._store.num_nodes)
                kept.append(self._move(self._store.gather([0]).replace(**node_rows(self._store, every))))
            yield kept[0]

        return EvaluationPass(
            {part: index.to(self._device, non_blocking=True) for part, index in shares.items()}, batches
        )

    def _blockwise(self, shares: Mapping[str, Tensor]) -> EvaluationPass:
        return EvaluationPass(shares, lambda: iter([self._blocks]))

    def _partitioned(self, shares: Mapping[str, Tensor]) -> EvaluationPass:
        drawn = Partition.draw(self._store.num_nodes, self._parts, self._generator(0))
        row = torch.empty_like(drawn.nodes)
        row[drawn.nodes] = torch.arange(drawn.nodes.numel(), dtype=row.dtype)

        def batches() -> Iterator[GraphBatch]:
            for batch in drawn.batches(self._store):
                yield self._move(batch)

        return EvaluationPass(
            {part: row[index].to(self._device, torch.int64) for part, index in shares.items()}, batches
        )


class PartitionLoader(LargeLoader):
    """Random partitions of the nodes (``train.sampler: random_node``).

    With several processes, each takes its shard of the parts of every epoch.

    Args:
        store: one graph with a target per node; its tensors may be mapped from files.
        splits: node numbers.
        parts: number of parts (``train.train_parts``).
        seed: of the partitions, together with the epoch.
        evaluation: ``val.sampler``, see :class:`LargeLoader`.
        device: of the batches.
        rank: number of this process.
        world_size: number of processes.
        blocks: see :class:`LargeLoader`.

    Raises:
        ValueError: a store that cannot be cut, or so many parts that some would have no training node.
    """

    def __init__(
        self,
        store: GraphStore,
        splits: Splits,
        *,
        parts: int,
        seed: int,
        evaluation: str = "full_batch",
        device: torch.device | str = "cpu",
        rank: int = 0,
        world_size: int = 1,
        blocks: Blocks | None = None,
    ) -> None:
        super().__init__(
            store,
            splits,
            sampler="random_node",
            evaluation=evaluation,
            parts=parts,
            seed=seed,
            device=device,
            rank=rank,
            world_size=world_size,
            blocks=blocks,
        )
        self._trains = torch.zeros(store.num_nodes, dtype=torch.bool)
        self._trains[splits.train] = True
        self._draw(0)  # too many parts show before anything is trained

    @property
    def num_train_batches(self) -> int:
        """Steps per epoch, the same in every process."""
        return len(self._shard(self._parts))

    def train(self, epoch: int) -> Iterator[tuple[GraphBatch, Tensor]]:
        """The parts of one epoch, on the device, and which of their nodes train.

        Args:
            epoch: decides the partition, together with the seed.
        """
        partition, shard = self._draw(epoch), self._shard(self._parts).tolist()
        for number, batch in zip(shard, partition.batches(self._store, shard)):
            yield self._move(batch), self._trains[partition.of(number)].nonzero().squeeze(1).to(self._device)

    def _draw(self, epoch: int) -> Partition:
        for attempt in range(ATTEMPTS):
            drawn = Partition.draw(self._store.num_nodes, self._parts, self._generator(1, epoch, attempt))
            if bool((torch.bincount(drawn.part[self._splits.train], minlength=self._parts) > 0).all()):
                return drawn
        raise ValueError(
            f"train.train_parts: {self._parts} parts that all have a training node are hardly to be found with "
            f"{self._splits.train.numel()} training nodes; use fewer parts"
        )


class NeighborLoader(LargeLoader):
    """Sampled neighbourhoods (``train.sampler: neighbor``).

    A batch begins with its training nodes, on which alone the loss is computed.

    With several processes, each takes its shard of the training nodes, filled up to equal length.

    Args:
        store: one graph with a target per node; its tensors may be mapped from files.
        splits: node numbers.
        sizes: in-edges per node and hop, -1 for all (``train.neighbor_sizes``).
        batch_size: training nodes per batch and process (``train.batch_size``).
        seed: of order and neighbours, together with epoch and batch.
        evaluation: ``val.sampler``, see :class:`LargeLoader`.
        parts: of ``random_node`` evaluation (``train.train_parts``).
        device: of the batches.
        rank: number of this process.
        world_size: number of processes.
        blocks: see :class:`LargeLoader`.

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
        seed: int,
        evaluation: str = "full_batch",
        parts: int = 10,
        device: torch.device | str = "cpu",
        rank: int = 0,
        world_size: int = 1,
        blocks: Blocks | None = None,
    ) -> None:
        super().__init__(
            store,
            splits,
            sampler="neighbor",
            evaluation=evaluation,
            parts=parts,
            seed=seed,
            device=device,
            rank=rank,
            world_size=world_size,
            blocks=blocks,
        )
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, received {batch_size}")
        self._batch_size = batch_size
        self._sampler = NeighborSampler(self._incoming, sizes)

    @property
    def num_train_batches(self) -> int:
        """Steps per epoch, the same in every process."""
        return -(-len(self._shard(self._splits.train.numel())) // self._batch_size)

    def train(self, epoch: int) -> Iterator[tuple[GraphBatch, Tensor]]:
        """The batches of one epoch, on the device, and the rows of their training nodes.

        Args:
            epoch: decides order and neighbours, together with the seed.
        """
        order = self._generator(1, epoch).permutation(self._splits.train.numpy())
        train_nodes = order[self._shard(len(order))]
        edge = self._incoming.edge
        for number, first in enumerate(range(0, len(train_nodes), self._batch_size)):
            seeds = train_nodes[first : first + self._batch_size]
            sample = self._sampler(seeds, self._generator(2, epoch, number, self._rank))
            edges = None if edge is None else edge[torch.from_numpy(sample.entries)]
            batch = subgraph(self._store, torch.from_numpy(sample.nodes), torch.from_numpy(sample.edge_index), edges)
            yield self._move(batch), torch.arange(len(seeds), device=self._device)
