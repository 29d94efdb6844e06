"""Loaders that sample batches from one large graph; interface as :class:`~graphbench.structures.DataLoaders`.

Training (``train.sampler``): ``random_node`` and ``cluster`` (:mod:`graphbench.data.large.partition_loader`),
``neighbor`` and ``shadow`` (:mod:`graphbench.data.large.neighbor_loader`), ``saint_node``, ``saint_edge`` and
``saint_rw`` (:mod:`graphbench.data.large.saint_loader`), ``seeds``, which cuts nothing
(:mod:`graphbench.data.large.seed_loader`). The next batch is sampled in a second thread while one is in use.

Evaluation (``val.sampler``): ``full_batch`` passes the whole graph through the model at once; ``blocks`` computes the
same predictions layer by layer and block by block in bounded memory; ``random_node`` passes parts that are drawn once
per run, as SGFormer's released code does for its largest graph, ``cluster`` the clusters of Cluster-GCN, ``neighbor``
and ``shadow`` what is sampled around the nodes: approximations, which the record of a run names, with their error where
exact predictions can be had.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from graphbench.data.large.clusters import Clusters
from graphbench.data.large.incoming_edges import IncomingEdges
from graphbench.data.large.page_advice import return_free_memory
from graphbench.data.large.partition import Partition
from graphbench.data.large.subgraph import check_one_graph, has_edge_rows, node_rows
from graphbench.data.loading.batching import consecutive_share, shard
from graphbench.data.loading.prefetch import one_ahead
from graphbench.data.loading.process import LoaderProcess
from graphbench.data.splits import Splits
from graphbench.data.store import GraphStore
from graphbench.structures import Batches, DataLoaders, EvaluationPass, GraphBatch
from graphbench.structures.node_blocks import NodeBlocks

Blocks = Callable[[IncomingEdges], NodeBlocks]
"""Makes blocks of the nodes of a graph from its edges sorted by target."""

EVALUATIONS = ("full_batch", "blocks", "random_node", "cluster")

EVALUATION_STREAM, ORDER_STREAM, BATCH_STREAM = range(3)
"""Random streams: of evaluation batches, of the order of an epoch, of its batches."""


@dataclass(frozen=True)
class LoaderOptions:
    """Options of every loader of one large graph.

    Attributes:
        process: process of the training that the batches are for.
        evaluation: ``val.sampler``, see the top of this file.
        parts: number of parts of ``random_node`` evaluation (``train.train_parts``).
        blocks: makes the blocks of ``blocks`` evaluation.
        clusters: clusters of the nodes, for ``cluster`` evaluation (and training, :class:`.ClusterLoader`).
        exact: evaluation against which an approximate one is measured (``full_batch`` or ``blocks``).
    """

    process: LoaderProcess
    evaluation: str = "full_batch"
    parts: int = 10
    blocks: Blocks | None = None
    clusters: Clusters | None = None
    exact: str | None = None


class SamplingLoader(DataLoaders):
    """Base class of the loaders that sample batches on the host, the next one in a second thread.

    A batch is about ``_batch_size`` examples of the training part; loaders whose batches are others override
    ``num_train_batches``.

    Args:
        process: process of the training that the batches are for.
    """

    _splits: Splits
    _batch_size: int

    def __init__(self, process: LoaderProcess) -> None:
        self._seed, self._device = process.seed, process.device
        self._rank, self._world_size = process.rank, process.world_size

    def train(self, epoch: int) -> Iterator[tuple[GraphBatch, Tensor]]:
        """The batches of one epoch, on the device, and the rows of predictions that count.

        Args:
            epoch: decides what is sampled, together with the seed.
        """
        for batch, rows in one_ahead(self._pinned(epoch)):
            yield batch.to(self._device, non_blocking=True), rows.to(self._device, non_blocking=True)

    @abstractmethod
    def sample(self, epoch: int) -> Iterator[tuple[GraphBatch, Tensor]]:
        """The batches of :meth:`train`, on the host; asked in another thread than that of the training."""

    @property
    def num_train_batches(self) -> int:
        """Steps per epoch, the same in every process."""
        return -(-len(self._shard(self._splits.train.numel())) // self._batch_size)

    def _shuffled(self, epoch: int) -> np.ndarray:
        """This process's training examples in the order of an epoch."""
        order = self._generator(ORDER_STREAM, epoch).permutation(self._splits.train.numpy())
        return order[self._shard(len(order))]

    def _pinned(self, epoch: int) -> Iterator[tuple[GraphBatch, Tensor]]:
        if self._device.type != "cuda":
            yield from self.sample(epoch)
            return
        torch.cuda.set_device(self._device)  # of this thread
        for batch, rows in self.sample(epoch):
            yield batch.pin_memory(), rows.pin_memory()

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


class LargeLoader(SamplingLoader):
    """Base class of the loaders that sample batches from one large graph; a subclass is registered as a sampler.

    It implements :meth:`sample` and, where a batch is not about ``_batch_size`` training nodes, ``num_train_batches``.
    It reads ``_store``, ``_splits`` and ``_trains``, and draws from ``_generator(BATCH_STREAM, epoch, ...)``, so that
    an epoch is the same whoever asks for it. Parameters of its constructor come from :class:`.SamplerContext`; others
    are keys ``train.<name>.*``.

    Args:
        store: one graph with a target per node; its tensors may be mapped from files.
        splits: node numbers.
        options: see :class:`LoaderOptions`.

    Attributes:
        registered_name: set by :func:`~graphbench.registry.register`; the value of ``train.sampler``.
        evaluations: values of ``evaluation`` that are possible.
        predicts: ``val.sampler`` may name it, too: validation and test are predicted on batches like those of the
            training, an approximation.
        cuts_graph: nodes lose some of their edges in training.
        needs_clusters: batches are made of ``options.clusters``.
        weights_nodes: batches may be :class:`~graphbench.structures.sampled_graph.SampledGraph`, which weights the
            loss of every node.

    Raises:
        ValueError: a store that cannot be cut by nodes, an empty training part, an unknown ``evaluation``, or
            ``blocks`` without a function that makes them.
    """

    registered_name: ClassVar[str] = ""
    evaluations: ClassVar[tuple[str, ...]] = EVALUATIONS
    predicts: ClassVar[bool] = False
    cuts_graph: ClassVar[bool] = True
    needs_clusters: ClassVar[bool] = False
    weights_nodes: ClassVar[bool] = False

    def __init__(self, store: GraphStore, splits: Splits, options: LoaderOptions) -> None:
        check_one_graph(store, self.registered_name)
        super().__init__(options.process)
        evaluation = options.evaluation
        possible = (*self.evaluations, self.registered_name) if self.predicts else self.evaluations
        if evaluation not in possible:
            raise ValueError(f"val.sampler must be one of {', '.join(possible)}; received {evaluation!r}")
        if evaluation == "blocks" and options.blocks is None:
            raise ValueError("evaluation in blocks needs blocks, a function that makes them")
        if evaluation == "cluster" and options.clusters is None:
            raise ValueError("evaluation of clusters needs clusters")
        if not splits.train.numel():
            raise ValueError("the training part of the split is empty")
        splits.check(store.num_nodes)
        self._store, self._splits = store, splits
        self._parts, self._clusters, self._make_blocks = options.parts, options.clusters, options.blocks
        shares = {
            part: consecutive_share(index, self._rank, self._world_size) for part, index in splits.parts().items()
        }
        self.passes = self._passes(evaluation, shares)
        if self.approximation is not None and options.exact is not None:
            self.exact_passes = partial(self._passes, options.exact, shares)

    @cached_property
    def _incoming(self) -> IncomingEdges:
        store = self._store
        return IncomingEdges.of(store.edge_index, store.num_nodes, numbered=has_edge_rows(store))

    @cached_property
    def _blocks(self) -> NodeBlocks:
        assert self._make_blocks is not None
        return self._make_blocks(self._incoming)

    @cached_property
    def _trains(self) -> Tensor:
        """(N,) bool, the training nodes."""
        trains = torch.zeros(self._store.num_nodes, dtype=torch.bool)
        trains[self._splits.train] = True
        return trains

    def _passes(self, evaluation: str, shares: Mapping[str, Tensor]) -> list[EvaluationPass]:
        """Passes that evaluate this process's shares of the parts of the split; an approximation is named."""
        if evaluation == "full_batch":
            return [self._full_batch(shares)]
        return [self._blockwise(shares) if evaluation == "blocks" else self._partitioned(shares, evaluation)]

    def _full_batch(self, shares: Mapping[str, Tensor]) -> EvaluationPass:
        kept: list[GraphBatch] = []  # what layers derive from the graph is computed once per run

        def batches() -> Batches:
            if not kept:
                every = slice(0, self._store.num_nodes)
                kept.append(self._move(self._store.gather([0]).replace(**node_rows(self._store, every))))
            yield kept[0], None

        return EvaluationPass(
            {part: index.to(self._device, non_blocking=True) for part, index in shares.items()}, batches
        )

    def _blockwise(self, shares: Mapping[str, Tensor]) -> EvaluationPass:
        def batches() -> Iterator[tuple[NodeBlocks, None]]:
            return_free_memory()  # of training, or there is less room for the states of all nodes
            yield self._blocks, None

        return EvaluationPass(shares, batches)

    def _partitioned(self, shares: Mapping[str, Tensor], evaluation: str) -> EvaluationPass:
        if evaluation == "cluster":
            assert self._clusters is not None
            drawn = Partition.of_parts(self._clusters.number, self._clusters.count)
            self.approximation = f"predicted cluster by cluster ({self._clusters.described}), without the edges between"
        else:
            drawn = Partition.draw(self._store.num_nodes, self._parts, self._generator(0))
            self.approximation = f"predicted on {self._parts} random parts of the nodes, without the edges between"
        row = torch.empty_like(drawn.nodes)
        row[drawn.nodes] = torch.arange(drawn.nodes.numel(), dtype=row.dtype)

        def batches() -> Batches:
            for batch in drawn.batches(self._store):
                yield self._move(batch), None

        return EvaluationPass(
            {part: row[index].to(self._device, torch.int64) for part, index in shares.items()}, batches
        )
