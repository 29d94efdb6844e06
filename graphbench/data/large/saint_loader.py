"""Training on the random subgraphs of GraphSAINT."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import torch
from torch import Tensor

from graphbench.data.large.incoming_edges import IncomingEdges
from graphbench.data.large.induced import InducedSubgraph
from graphbench.data.large.loader import LargeLoader, LoaderOptions
from graphbench.data.large.neighbor_sampling import Sample
from graphbench.data.large.saint_sampling import Frequencies, NodeDraw, RandomEdges, RandomNodes, RandomWalks
from graphbench.data.large.subgraph import subgraph
from graphbench.data.splits import Splits
from graphbench.data.store import GraphStore
from graphbench.structures import GraphBatch
from graphbench.structures.sampled_graph import SampledGraph

_EPOCH, _COVERAGE = 2, 3
"""Random streams: of the batches, and of the subgraphs drawn before training."""


class SaintLoader(LargeLoader):
    """Random subgraphs (``train.sampler: saint_node``, ``saint_edge``, ``saint_rw``).

    With several processes, each takes its shard of the subgraphs of every epoch.

    Args:
        store: see :class:`LargeLoader`.
        splits: node numbers.
        options: see :class:`LoaderOptions`.
        sampler: one of the three names.
        batch_size: nodes, edges or walks drawn for a subgraph (``train.batch_size``).
        walk_length: steps of a walk (``train.walk_length``).
        iterations: subgraphs of an epoch, of all processes together (``train.iter_per_epoch``).
        coverage: average number of times that a node is drawn before training in order to estimate the normalisation;
            0 for none (``train.sample_coverage``).

    Raises:
        ValueError: a store that cannot be cut, or numbers out of range.
    """

    def __init__(
        self,
        store: GraphStore,
        splits: Splits,
        options: LoaderOptions,
        *,
        sampler: str,
        batch_size: int,
        walk_length: int = 4,
        iterations: int = 32,
        coverage: int = 0,
    ) -> None:
        super().__init__(store, splits, sampler, options)
        self._iterations, self._coverage = iterations, coverage
        self._draw = _draw(sampler, self._incoming, batch_size, walk_length)
        self._induced = InducedSubgraph(self._incoming)

    @property
    def num_train_batches(self) -> int:
        """Steps per epoch, the same in every process."""
        return len(self._shard(self._iterations))

    def sample(self, epoch: int) -> Iterator[tuple[GraphBatch, Tensor]]:
        """The subgraphs of one epoch, and which of their nodes train."""
        for number in self._shard(self._iterations).tolist():
            drawn = self._induced(self._draw(self._generator(_EPOCH, epoch, number)))
            nodes, edges = torch.from_numpy(drawn.nodes), self._incoming.numbers_of(drawn.entries)
            cut = subgraph(self._store, nodes, torch.from_numpy(drawn.edge_index), edges)
            yield self._weighted(cut, drawn) if self._coverage else cut, self._trains[nodes].nonzero().squeeze(1)

    def _weighted(self, cut: GraphBatch, drawn: Sample) -> SampledGraph:
        frequencies, incoming, nodes = self._frequencies, self._incoming, torch.from_numpy(drawn.nodes)
        node_weight = frequencies.node_weight(drawn.nodes) / self._splits.train.numel()
        return SampledGraph(
            ragged=cut.ragged,
            edge_index=cut.edge_index,
            x=cut.x,
            edge_attr=cut.edge_attr,
            y=cut.y,
            pe=cut.pe,
            edge_pe=cut.edge_pe,
            in_degree=incoming.ptr[nodes + 1] - incoming.ptr[nodes],
            loops=incoming.loops[nodes].to(torch.int64),
            edge_weight=torch.from_numpy(frequencies.edge_weight(drawn.nodes[drawn.edge_index[1]], drawn.entries)),
            node_weight=torch.from_numpy(node_weight).to(torch.float32),
        )

    @cached_property
    def _frequencies(self) -> Frequencies:
        edges, nodes, rng = self._store.num_edges, self._store.num_nodes, self._generator(_COVERAGE)
        return Frequencies.counted(self._draw, self._induced, edges, nodes, self._coverage, rng)


def _draw(sampler: str, incoming: IncomingEdges, size: int, length: int) -> NodeDraw:
    if sampler == "saint_rw":
        return RandomWalks(incoming, size, length)
    return {"saint_node": RandomNodes, "saint_edge": RandomEdges}[sampler](incoming, size)
