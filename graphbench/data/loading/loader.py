"""Loaders: batches on the device from a store and a split.

Inductive (examples are graphs): every epoch gathers the batches that :mod:`graphbench.data.loading.batching` makes up,
which depend on (seed, epoch) only.
Transductive (examples are nodes or pairs of nodes): one batch of all graphs is built once, moved once and handed out
as the same object in training and evaluation, so that what layers derive from it (normalised adjacency, buckets) is
computed once.

No worker processes: gathering is index arithmetic. For a GPU it is done there where the data set fits next to the model
(``resident``); else on the host, in a second thread while the step before is queued, into page-locked memory from which
the device copies by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, partial
from itertools import count
from typing import Literal, get_args

import torch
from torch import Tensor

from graphbench.data.loading.assembly import why_not
from graphbench.data.loading.batching import Batching, Order, check_budget, consecutive_share, in_order, shard
from graphbench.data.loading.negatives import with_negatives
from graphbench.data.loading.padded import PaddedBatches, numbers_of
from graphbench.data.loading.prefetch import one_ahead
from graphbench.data.loading.process import LoaderProcess
from graphbench.data.splits import Splits
from graphbench.data.store import GraphStore
from graphbench.errors import check_at_least, check_one_of
from graphbench.structures import (
    AssemblesOnDevice,
    Batches,
    BatchPlan,
    Capacity,
    DeviceBatch,
    EvaluationPass,
    GraphBatch,
)

_EVALUATION = -1
"""In place of the epoch where negative pairs are drawn for evaluation: always the same ones."""

Resident = Literal["auto", "always", "never"]

_RESIDENT_FRACTION = 0.25
"""Fraction of the free memory of a GPU that a data set may take; the rest is for the training step."""


class GraphLoaders(AssemblesOnDevice):
    """The batches of training and evaluation.

    With several processes, each takes its shard of every epoch; shards are filled up to equal length by repeating the
    first examples, because processes step together. Transductive training rows are sharded in the same way. Evaluation
    shares are consecutive: one process after the other they hold every example once, in its order.

    Args:
        store: the graphs.
        splits: example numbers (graphs, or nodes or pairs when transductive).
        process: process of the training that the batches are for.
        batch_size: graphs per batch and process; ignored when transductive.
        transductive: True when the examples are nodes or pairs of graphs that are always seen whole.
        resample_negatives: draw the negative pairs anew for every batch
            (:mod:`graphbench.data.loading.negatives`); in evaluation they are the same in every epoch.
        batching: ``shuffled`` or ``bucketed`` (graphs of similar size share a batch); see
            :mod:`graphbench.data.loading.batching`.
        node_budget: most nodes in a batch, in training and evaluation, instead of ``batch_size``; 0: no limit.
        eval_node_budget: most nodes in a batch of evaluation; 0: as in training. Predictions depend on it by rounding
            only, but for layers that say that they read their batch-mates; the number of launches does.
        resident: whether all graphs are kept on the GPU: ``always``, ``never``, or ``auto``: where they take less than
            a quarter of its free memory. Without a GPU it means nothing.
        batch_transform: computed for every batch, on its device: takes the batch and returns it with more.
    """

    def __init__(
        self,
        store: GraphStore,
        splits: Splits,
        process: LoaderProcess,
        *,
        batch_size: int,
        transductive: bool,
        resample_negatives: bool = False,
        batching: Order = "shuffled",
        node_budget: int = 0,
        eval_node_budget: int = 0,
        resident: Resident = "auto",
        batch_transform: Callable[[GraphBatch], GraphBatch] | None = None,
    ) -> None:
        check_at_least(1, batch_size=batch_size)
        check_one_of(get_args(Resident), resident=resident)
        if not splits.train.numel():
            raise ValueError("the training part of the split is empty")
        if transductive and store.y_level == "graph":
            raise ValueError("a transductive data set needs one target per node or pair, received one per graph")
        if resample_negatives and (transductive or store.y_level != "pair"):
            raise ValueError("resample_negative is for many graphs with targets per pair of nodes")
        if resample_negatives and store.y is not None and not bool(((store.y == 0) | (store.y == 1)).all()):
            raise ValueError("resample_negative draws pairs with target 0, for targets that are 0 or 1")
        if resample_negatives and resident == "always":
            raise ValueError("resample_negative draws pairs on the host: leave resident at auto")
        if transductive and (node_budget or eval_node_budget or batching != "shuffled"):
            raise ValueError(
                "a transductive data set is one batch: node_budget and bucketed batching are for many graphs"
            )
        splits.check(num_examples(store, transductive))
        check_budget(store.sizes, node_budget)
        check_budget(store.sizes, eval_node_budget, "eval_node_budget")
        self._store, self._splits = store, splits
        self._batch_size = batch_size
        self._budget = eval_node_budget or node_budget  # of evaluation
        self._transductive = transductive
        rank, world_size = process.rank, process.world_size
        self._seed, self._device, self._rank, self._world_size = process.seed, process.device, rank, world_size
        self._resample, self._resident, self._batch_transform = resample_negatives, resident, batch_transform
        self._batching = None
        if not transductive:
            shape = {"batch_size": batch_size, "node_budget": node_budget, "rank": rank, "world_size": world_size}
            self._batching = Batching(store.sizes[splits.train], order=batching, **shape)
        self._full: GraphBatch | None = None
        self._train_rows = self._to_device(shard(splits.train, rank, world_size)) if transductive else None
        self.passes = self._passes()

    @property
    def full_batch(self) -> GraphBatch:
        """All graphs as one batch on the device; always the same object."""
        if self._full is None:
            self._full = self._move(self._store.gather(range(self._store.num_graphs)))
        return self._full

    @property
    def num_train_batches(self) -> int:
        """Steps per epoch, the same in every process."""
        return 1 if self._batching is None else self._batching.num_batches

    def train(self, epoch: int) -> Batches:
        """The batches of one epoch, on the device.

        Args:
            epoch: decides the order, together with the seed.
        """
        if self._batching is None:
            yield self.full_batch, self._train_rows
            return
        batches = (self._splits.train[positions] for positions in self._batching.epoch(self._generator(epoch)))
        yield from self._gather(batches, epoch)

    def capture_obstacle(self) -> str | None:
        """Why batches cannot be assembled on the device; None where they can."""
        if self._batching is None:
            return None  # one batch for the whole run
        if self._resample:
            return "negative pairs are drawn on the host (dataset.resample_negative)"
        if self._batch_transform is not None:
            return "distances are measured batch by batch (dataset.distances)"
        if self._source.device != self._device:
            return "the graphs are not kept on the device (train.resident)"
        return why_not(self._source)

    @property
    def is_one_batch(self) -> bool:
        """Whether it holds all graphs, whose nodes or pairs are the examples."""
        return self._transductive

    @property
    def num_train_rows(self) -> int:
        """Predictions that count in an epoch."""
        if self._train_rows is not None:
            return len(self._train_rows)
        return self._padded.target_rows(self._splits.train.numpy())

    def train_plans(self, epoch: int) -> Iterator[BatchPlan]:
        """The batches of one epoch, before they are put together."""
        if self._batching is None:
            assert self._train_rows is not None
            yield BatchPlan(None, len(self._train_rows))
            return
        for positions in self._batching.epoch(self._generator(epoch)):
            yield self._padded.plan(self._splits.train[positions].numpy(), self._classes)

    def assemble(self, plan: BatchPlan, numbers: Tensor) -> DeviceBatch:
        """The batch of a plan, padded to its capacity; or the one batch that holds all graphs."""
        if plan.capacity is None:
            return DeviceBatch(self.full_batch, self._train_rows)
        return self._padded.assemble(plan.capacity, numbers)

    def numbers_of(self, plan: BatchPlan) -> Tensor:
        """(B,) graph numbers on the host."""
        return numbers_of(plan)

    def num_graphs_of(self, plan: BatchPlan) -> int:
        """Graphs of a plan."""
        return self._store.num_graphs if plan.graphs is None else len(plan.graphs)

    def gather(self, plan: BatchPlan) -> DeviceBatch:
        """The batch of any plan, not padded."""
        if plan.graphs is None:
            return DeviceBatch(self.full_batch, self._train_rows)
        return DeviceBatch(self._move(self._source.gather(plan.graphs)))

    def _evaluation_plans(self, graphs: Tensor) -> Iterator[BatchPlan]:
        """The batches of :meth:`_evaluation`, which are the same in every epoch."""
        batches = in_order(self._store.sizes[graphs], self._batch_size, self._budget)
        return self._padded.plans([graphs[positions].numpy() for positions in batches])

    @cached_property
    def _padded(self) -> PaddedBatches:
        return PaddedBatches(self._source)

    @cached_property
    def _classes(self) -> tuple[Capacity, ...]:
        """Classes of the training batches."""
        batching = self._batching
        assert batching is not None
        epochs = (batching.epoch(self._generator(epoch)) for epoch in count())
        return self._padded.classes(self._splits.train[positions].numpy() for epoch in epochs for positions in epoch)

    def _generator(self, epoch: int) -> torch.Generator:
        # One generator per (seed, epoch): a resumed run draws what it would have drawn. The multiplier keeps
        # (seed, epoch + 1) apart from (seed + 1, epoch).
        return torch.Generator().manual_seed((self._seed * 1_000_003 + epoch) % 2**63)

    def _to_device(self, rows: Tensor) -> Tensor:
        return rows.to(self._device, non_blocking=True)

    def _passes(self) -> list[EvaluationPass]:
        parts = self._splits.parts().items()
        shares = {part: consecutive_share(index, self._rank, self._world_size) for part, index in parts}
        if self._transductive:
            rows = {part: self._to_device(index) for part, index in shares.items()}
            plan = BatchPlan(None, num_examples(self._store, self._transductive))
            return [EvaluationPass(rows, lambda: iter([(self.full_batch, None)]), lambda: iter([plan]))]
        return [
            EvaluationPass({part: None}, partial(self._evaluation, index), partial(self._evaluation_plans, index))
            for part, index in shares.items()
        ]

    def _evaluation(self, graphs: Tensor) -> Batches:
        batches = in_order(self._store.sizes[graphs], self._batch_size, self._budget)
        return self._gather((graphs[positions] for positions in batches), _EVALUATION)

    def _gather(self, batches: Iterator[Tensor], epoch: int) -> Batches:
        on_host = self._on_host(batches, epoch)
        if self._source is self._store and self._device.type == "cuda":
            on_host = one_ahead(self._pinned(on_host))
        return ((self._move(batch), None) for batch in on_host)

    def _on_host(self, batches: Iterator[Tensor], epoch: int) -> Iterator[GraphBatch]:
        for number, graphs in enumerate(batches):
            batch = self._source.gather(graphs)
            if self._resample:  # a generator per batch, because a resumed epoch begins in the middle
                batch = with_negatives(batch, self._generator((epoch + 1) * 1_000_033 + number + 1))
            yield batch

    def _pinned(self, batches: Iterator[GraphBatch]) -> Iterator[GraphBatch]:
        if self._device.index is not None:
            torch.cuda.set_device(self._device)  # of this thread
        for batch in batches:
            yield batch.pin_memory()

    @cached_property
    def _source(self) -> GraphStore:
        """The graphs where batches are gathered."""
        if self._device.type == "cpu" or self._resample or self._resident == "never":
            return self._store
        if self._device.type != "cuda":  # whose free memory is not known
            return self._store.kept_on(self._device) if self._resident == "always" else self._store
        free, _ = torch.cuda.mem_get_info(self._device)
        fits = self._store.is_kept_on(self._device) or self._store.nbytes <= _RESIDENT_FRACTION * free
        return self._store.kept_on(self._device) if fits or self._resident == "always" else self._store

    def _move(self, batch: GraphBatch) -> GraphBatch:
        moved = batch.to(self._device, non_blocking=self._device.type == "cuda")
        return moved if self._batch_transform is None else self._batch_transform(moved)


def num_examples(store: GraphStore, transductive: bool) -> int:
    """Number of examples that a split divides: graphs, or the nodes or pairs that have targets when transductive."""
    if not transductive:
        return store.num_graphs
    return store.edge_sets["label"].num_pairs if store.y_level == "pair" else store.num_nodes
