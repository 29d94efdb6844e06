"""Training and evaluation on what is sampled around some nodes of one large graph."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from graphbench.data.large.ego_sampling import EgoSampler
from graphbench.data.large.loader import BATCH_STREAM, EVALUATION_STREAM, LargeLoader, LoaderOptions
from graphbench.data.large.neighbor_sampling import NeighborSampler
from graphbench.data.large.page_advice import read_at_random
from graphbench.data.large.subgraph import subgraph
from graphbench.data.loading.prefetch import one_ahead
from graphbench.data.splits import Splits
from graphbench.data.store import GraphStore
from graphbench.errors import check_at_least
from graphbench.registry import FromContext, register
from graphbench.structures import Batches, EvaluationPass, GraphBatch


class SeedNodeLoader(LargeLoader):
    """Base class of loaders whose batches are some seed nodes, which are predicted, and what is sampled around them.

    Evaluation of the same name as the sampler predicts validation and test on batches of the same kind, which are the
    same ones in every epoch: an approximation.

    With several processes, each takes its shard of the training nodes, filled up to equal length.

    Args:
        store: see :class:`LargeLoader`.
        splits: node numbers.
        options: see :class:`LoaderOptions`.
        sizes: in-edges per node and hop, -1 for all (``train.neighbor_sizes``).
        batch_size: seed nodes per batch and process (``train.batch_size``).

    Attributes:
        surroundings: sampled surroundings, in words.

    Raises:
        ValueError: a store that cannot be cut, or bad sizes.
    """

    predicts = True
    surroundings: ClassVar[str]

    def __init__(
        self,
        store: FromContext[GraphStore],
        splits: FromContext[Splits],
        options: FromContext[LoaderOptions],
        *,
        sizes: FromContext[Sequence[int]],
        batch_size: FromContext[int],
    ) -> None:
        check_at_least(1, batch_size=batch_size)
        self._batch_size, self._sizes = batch_size, tuple(sizes)
        super().__init__(store, splits, options)
        self._sampler = NeighborSampler(self._incoming, sizes)
        if options.evaluation == self.registered_name and options.exact is None:  # nothing reads in order
            for tensor in (store.x, store.y, *store.pe.values(), self._incoming.source):
                if isinstance(tensor, Tensor):
                    read_at_random(tensor)

    def sample(self, epoch: int) -> Iterator[tuple[GraphBatch, Tensor]]:
        """The batches of one epoch, and the rows of their seed nodes."""
        train_nodes = self._shuffled(epoch)
        for number, first in enumerate(range(0, len(train_nodes), self._batch_size)):
            seeds = train_nodes[first : first + self._batch_size]
            yield self.around(seeds, self._generator(BATCH_STREAM, epoch, number, self._rank))

    @abstractmethod
    def around(self, seeds: np.ndarray, rng: np.random.Generator) -> tuple[GraphBatch, Tensor]:
        """A batch on the host, and the rows of its seeds.

        Args:
            seeds: (n,) distinct node numbers.
            rng: decides what is sampled around them.
        """

    def _passes(self, evaluation: str, shares: Mapping[str, Tensor]) -> list[EvaluationPass]:
        if evaluation != self.registered_name:
            return super()._passes(evaluation, shares)
        self.approximation = f"predicted on {self.surroundings} ({', '.join(map(str, self._sizes))} per hop)"
        return [EvaluationPass({part: None}, partial(self._predicted, share)) for part, share in shares.items()]

    def _predicted(self, nodes: Tensor) -> Batches:
        def sampled() -> Iterator[tuple[GraphBatch, Tensor]]:
            for number, seeds in enumerate(nodes.split(self._batch_size) if len(nodes) else ()):
                yield self.around(seeds.numpy(), self._generator(EVALUATION_STREAM, number))

        for batch, rows in one_ahead(sampled()):
            yield self._move(batch), rows.to(self._device)


@register("neighbor")
class NeighborLoader(SeedNodeLoader):
    """Sampled neighbourhoods (``train.sampler: neighbor``): a batch is one graph, which begins with its seed nodes."""

    surroundings = "sampled neighbourhoods"

    def around(self, seeds: np.ndarray, rng: np.random.Generator) -> tuple[GraphBatch, Tensor]:
        """The union of the neighbourhoods of some nodes; arguments as in the base class."""
        sample = self._sampler(seeds, rng)
        nodes, edge_index = torch.from_numpy(sample.nodes), torch.from_numpy(sample.edge_index)
        edges = self._incoming.numbers_of(sample.entries)
        return subgraph(self._store, nodes, edge_index, edges), torch.arange(len(seeds))


@register("shadow")
class ShadowLoader(SeedNodeLoader):
    """Ego graphs (``train.sampler: shadow``; ShaDow, https://arxiv.org/abs/2012.01380): a graph for every seed node.

    PyG's ``ShaDowKHopSampler``, whose ``depth`` is the number of ``sizes`` and whose ``num_neighbors`` they are: a
    model of any depth sees the edges among the nodes that were sampled around a node, and nothing else.
    """

    surroundings = "sampled ego graphs"

    def around(self, seeds: np.ndarray, rng: np.random.Generator) -> tuple[GraphBatch, Tensor]:
        """The graphs of some nodes, one after the other, each of which begins with its seed; arguments as above."""
        egos = EgoSampler(self._sampler)(seeds[:, None], rng)
        return egos.batch(self._store, self._incoming.numbers_of(egos.entries)), torch.from_numpy(egos.roots[:, 0])
