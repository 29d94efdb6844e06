"""Training without a random share of the edges."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from graphbench.data.large.loader import BATCH_STREAM, LargeLoader, LoaderOptions
from graphbench.data.large.subgraph import subgraph
from graphbench.data.splits import Splits
from graphbench.data.store import GraphStore
from graphbench.errors import check_within
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("drop_edge")
class DropEdgeLoader(LargeLoader):
    """DropEdge (https://arxiv.org/abs/1907.10903): in every epoch one step on the graph without some of its edges.

    Args:
        store: see :class:`~graphbench.data.large.loader.LargeLoader`.
        splits: node numbers.
        options: see :class:`~graphbench.data.large.loader.LoaderOptions`.
        share: probability of leaving an edge out.
    """

    def __init__(
        self,
        store: FromContext[GraphStore],
        splits: FromContext[Splits],
        options: FromContext[LoaderOptions],
        *,
        share: float = 0.5,
    ) -> None:
        check_within(0, 1, share=share)
        super().__init__(store, splits, options)
        self._share = share

    @property
    def num_train_batches(self) -> int:
        """One."""
        return 1

    def sample(self, epoch: int) -> Iterator[tuple[GraphBatch, Tensor]]:
        """The graph of an epoch, and the nodes that train."""
        drawn = self._generator(BATCH_STREAM, epoch).random(self._store.num_edges)
        edges = torch.from_numpy((drawn >= self._share).nonzero()[0])
        nodes = torch.arange(self._store.num_nodes)
        yield subgraph(self._store, nodes, self._store.edge_index[:, edges].long(), edges), self._splits.train
