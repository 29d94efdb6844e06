"""Training on the whole of one large graph, with the loss of some nodes at a time."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from graphbench.data.large.loader import LargeLoader, LoaderOptions
from graphbench.data.splits import Splits
from graphbench.data.store import GraphStore
from graphbench.errors import check_at_least
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("seeds")
class SeedLoader(LargeLoader):
    """Mini-batches of training nodes of a graph that is never cut (``train.sampler: seeds``).

    Every batch is the whole graph, the same one as in evaluation, so that what layers derive from it is computed once;
    ``batch.state.seed_nodes`` names the nodes that train, for models that read each node by itself.

    With several processes, each takes its shard of the training nodes, filled up to equal length.

    Args:
        store: see :class:`LargeLoader`.
        splits: node numbers.
        options: see :class:`LoaderOptions`; evaluation is ``full_batch``.
        batch_size: training nodes per batch and process (``train.batch_size``).

    Raises:
        ValueError: a store that has no targets per node, another evaluation, or no nodes in a batch.
    """

    cuts_graph = False

    def __init__(
        self,
        store: FromContext[GraphStore],
        splits: FromContext[Splits],
        options: FromContext[LoaderOptions],
        *,
        batch_size: FromContext[int],
    ) -> None:
        if options.evaluation != "full_batch":
            raise ValueError(
                f"sampler seeds keeps the graph whole: set val.sampler full_batch, received {options.evaluation}"
            )
        check_at_least(1, batch_size=batch_size)
        super().__init__(store, splits, options)
        self._batch_size = batch_size

    def train(self, epoch: int) -> Iterator[tuple[GraphBatch, Tensor]]:
        """The graph, once for every batch of training nodes of one epoch, and these nodes."""
        return self.sample(epoch)

    def sample(self, epoch: int) -> Iterator[tuple[GraphBatch, Tensor]]:
        """Sampled training batches, as in :meth:`train`: nothing is cut that could be prepared beside the training."""
        train_nodes = torch.from_numpy(self._shuffled(epoch))
        graph = next(batch for eval_pass in self.passes for batch, _ in eval_pass.batches())
        assert isinstance(graph, GraphBatch)
        for rows in train_nodes.split(self._batch_size):
            asked = rows.to(self._device)
            yield graph.with_state(seed_nodes=asked), asked
