"""From a store and a split to batches on the device.

Inductive (examples are graphs): every epoch gathers shuffled batches; the permutation depends on (seed, epoch) only.
Transductive (examples are nodes or pairs of nodes): one batch of all graphs is built once, moved once and handed out
as the same object in training and evaluation, so that what layers derive from it (normalised adjacency, buckets) is
computed once.

No worker processes: gathering is index arithmetic on the host, and on a GPU it overlaps with the kernels of the step
before, which are only queued (page-locked memory, asynchronous copies).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from graphbench.data.negatives import with_negatives
from graphbench.data.splits import Splits
from graphbench.data.store import GraphStore
from graphbench.structures import GraphBatch


@dataclass(frozen=True)
class EvalPass:
    """One run over graphs without gradients, and which of its predictions belong to which part.

    Attributes:
        rows: part -> rows of the concatenated predictions; None: all of them.
    """

    rows: Mapping[str, Tensor | None]
    _loaders: Loaders
    _graphs: Tensor | None

    def batches(self) -> Iterator[GraphBatch]:
        """Batches on the device, in a fixed order; none where this process has no graph of the part."""
        if self._graphs is None:
            yield self._loaders.full_batch
        else:
            yield from self._loaders._gather(self._graphs, _EVALUATION)


_EVALUATION = -1
"""Stands for the epoch where negative pairs are drawn for evaluation: always the same ones."""


class Loaders:
    """Everything the training loop draws batches from.

    With several processes, each takes its share of every epoch's permutation; the shares are filled up to equal
    length by repeating the permutation's first examples, because processes step together. Evaluation shares are
    disjoint and complete. Transductive training rows are shared out in the same way.

    Args:
        store: the graphs.
        splits: example numbers (graphs, or nodes or pairs when transductive).
        batch_size: graphs per batch and process; ignored when transductive.
        transductive: True when the examples are nodes or pairs of graphs that are always seen whole.
        seed: of the shuffling, together with the epoch.
        hide_edges: the pairs are asked whether they are edges (link prediction): those of validation and test are no
            edges of the graph that is passed through, in neither direction. Transductive only.
        resample_negatives: draw the pairs that are no edges anew for every batch (:mod:`graphbench.data.negatives`);
            in evaluation they are the same in every epoch.
        device: where batches are wanted.
        rank: number of this process.
        world_size: number of processes.
    """

    def __init__(
        self,
        store: GraphStore,
        splits: Splits,
        *,
        batch_size: int,
        transductive: bool,
        seed: int,
        hide_edges: bool = False,
        resample_negatives: bool = False,
        device: torch.device | str = "cpu",
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, received {batch_size}")
        if not 0 <= rank < world_size:
            raise ValueError(f"rank must lie in 0 .. {world_size - 1}, received {rank}")
        if not splits.train.numel():
            raise ValueError("the training part of the split is empty")
        if transductive and store.y_level == "graph":
            raise ValueError("a transductive data set needs one target per node or pair, received one per graph")
        if resample_negatives and (transductive or store.y_level != "pair"):
            raise ValueError("resample_negative is for many graphs with targets per pair of nodes")
        splits.check(num_examples(store, transductive))
        self._store, self._splits = store, splits
        self._batch_size, self._transductive, self._seed = batch_size, transductive, seed
        self._device, self._rank, self._world_size = torch.device(device), rank, world_size
        self._resample = resample_negatives
        self._hidden = self._pairs_to_hide() if transductive and hide_edges and store.y_level == "pair" else None
        self._full: GraphBatch | None = None
        self._train_rows = self._share(splits.train, fill=True).to(self._device) if transductive else None
        self.passes = self._passes()

    @property
    def full_batch(self) -> GraphBatch:
        """All graphs as one batch on the device; always the same object."""
        if self._full is None:
            batch = self._store.gather(range(self._store.num_graphs))
            self._full = self._move(batch if self._hidden is None else _without(batch, self._hidden))
        return self._full

    @property
    def num_train_batches(self) -> int:
        """Steps per epoch, the same in every process."""
        if self._transductive:
            return 1
        share = -(-self._splits.train.numel() // self._world_size)
        return -(-share // self._batch_size)

    def train(self, epoch: int) -> Iterator[tuple[GraphBatch, Tensor | None]]:
        """The batches of one epoch, on the device.

        Args:
            epoch: decides the order, together with the seed.

        Yields:
            The batch, and the rows of prediction and target that count (None: all).
        """
        if self._transductive:
            yield self.full_batch, self._train_rows
            return
        for batch in self._gather(self._share(self._permutation(epoch), fill=True), epoch):
            yield batch, None

    def _permutation(self, epoch: int) -> Tensor:
        train = self._splits.train
        return train[torch.randperm(train.numel(), generator=self._generator(epoch))]

    def _generator(self, epoch: int) -> torch.Generator:
        # One generator per (seed, epoch): a resumed run draws what it would have drawn. The multiplier keeps
        # (seed, epoch + 1) apart from (seed + 1, epoch).
        return torch.Generator().manual_seed((self._seed * 1_000_003 + epoch) % 2**63)

    def _share(self, examples: Tensor, fill: bool) -> Tensor:
        if self._world_size == 1:
            return examples
        missing = -examples.numel() % self._world_size if fill else 0
        if missing:
            examples = torch.cat([examples, examples.repeat(-(-missing // examples.numel()))[:missing]])
        return examples[self._rank :: self._world_size]

    def _passes(self) -> list[EvalPass]:
        shares = {name: self._share(index, fill=False) for name, index in self._splits.parts().items()}
        if self._transductive:
            return [EvalPass({name: index.to(self._device) for name, index in shares.items()}, self, None)]
        return [EvalPass({name: None}, self, index) for name, index in shares.items()]

    def _gather(self, graphs: Tensor, epoch: int) -> Iterator[GraphBatch]:
        for number, chosen in enumerate(graphs.split(self._batch_size) if graphs.numel() else ()):
            batch = self._store.gather(chosen)
            if self._resample:  # a generator per batch, because a resumed epoch begins in the middle
                batch = with_negatives(batch, self._generator((epoch + 1) * 1_000_033 + number + 1))
            yield self._move(batch)

    def _pairs_to_hide(self) -> Tensor | None:
        asked = self._store.gather(range(self._store.num_graphs))
        rows = torch.cat([self._splits.val, self._splits.test])
        pairs = asked.edge_sets["label"].index[:, rows]
        both = torch.cat([pairs, pairs.flip(0)], dim=1)
        keys = both[0] * asked.num_nodes + both[1]
        seen = torch.isin(asked.edge_index[0] * asked.num_nodes + asked.edge_index[1], keys)
        if not bool(seen.any()):
            return None  # as published link data sets are: their graphs consist of training edges
        store = self._store
        if store.pe or store.edge_pe or store.pair_pe or store.computed or store.pairs is not None:
            raise ValueError(
                f"{int(seen.sum())} edges of the graph are asked about in validation or test, and the encodings of "
                "the nodes were computed with them; leave those edges out of the data, or use no encodings"
            )
        return seen

    def _move(self, batch: GraphBatch) -> GraphBatch:
        if self._device.type != "cuda":
            return batch.to(self._device)
        return batch.pin_memory().to(self._device, non_blocking=True)


def num_examples(store: GraphStore, transductive: bool) -> int:
    """What a split divides: graphs, or the nodes or pairs that have targets when transductive."""
    if not transductive:
        return store.num_graphs
    return store.edge_sets["label"].num_pairs if store.y_level == "pair" else store.num_nodes


def _without(batch: GraphBatch, hidden: Tensor) -> GraphBatch:
    kept = ~hidden
    return batch.replace(
        edge_index=batch.edge_index[:, kept],
        edge_attr=None if batch.edge_attr is None else batch.edge_attr[kept],
        edge_pe={name: value[kept] for name, value in batch.edge_pe.items()},
    )
