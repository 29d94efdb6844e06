"""Training on the random subgraphs of GraphSAINT."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from functools import cached_property

import torch
from torch import Tensor

from graphbench.data.large.induced import InducedSubgraph
from graphbench.data.large.loader import LargeLoader, LoaderOptions
from graphbench.data.large.neighbor_sampling import Sample
from graphbench.data.large.saint_sampling import Frequencies, NodeDraw, RandomEdges, RandomNodes, RandomWalks
from graphbench.data.large.subgraph import subgraph
from graphbench.data.splits import Splits
from graphbench.data.store import GraphStore
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch
from graphbench.structures.sampled_graph import SampledGraph

_EPOCH, _COVERAGE = 2, 3
"""Random streams: of the batches, and of the subgraphs drawn before training."""


class SaintLoader(LargeLoader):
    """Base class of the samplers of random subgraphs (GraphSAINT, https://arxiv.org/abs/1907.04931).

    With several processes, each takes its shard of the subgraphs of every epoch.

    Args:
        store: see :class:`LargeLoader`.
        splits: node numbers.
        options: see :class:`LoaderOptions`.
        batch_size: nodes, edges or walks drawn for a subgraph (``train.batch_size``).
        walk_length: steps of a walk (``train.walk_length``).
        iterations: subgraphs of an epoch, of all processes together (``train.iter_per_epoch``).
        coverage: average number of times that a node is drawn before training in order to estimate the normalisation;
            0 for none (``train.sample_coverage``).

    Raises:
        ValueError: a store that cannot be cut, or numbers out of range.
    """

    weights_nodes = True

    def __init__(
        self,
        store: FromContext[GraphStore],
        splits: FromContext[Splits],
        options: FromContext[LoaderOptions],
        *,
        batch_size: FromContext[int],
        walk_length: FromContext[int] = 4,
        iterations: FromContext[int] = 32,
        coverage: FromContext[int] = 0,
    ) -> None:
        super().__init__(store, splits, options)
        self._iterations, self._coverage = iterations, coverage
        self._draw = self._made_draw(batch_size, walk_length)
        self._induced = InducedSubgraph(self._incoming)

    @abstractmethod
    def _made_draw(self, size: int, walk_length: int) -> NodeDraw:
        """Draws the nodes of a subgraph."""

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


@register("saint_node")
class SaintNodeLoader(SaintLoader):
    """GraphSAINT's node sampler: the subgraph of ``batch_size`` random nodes."""

    def _made_draw(self, size: int, walk_length: int) -> NodeDraw:
        return RandomNodes(self._incoming, size)


@register("saint_edge")
class SaintEdgeLoader(SaintLoader):
    """GraphSAINT's edge sampler: the subgraph of the ends of ``batch_size`` random edges."""

    def _made_draw(self, size: int, walk_length: int) -> NodeDraw:
        return RandomEdges(self._incoming, size)


@register("saint_rw")
class SaintWalkLoader(SaintLoader):
    """GraphSAINT's random walks: the subgraph of the nodes of ``batch_size`` walks."""

    def _made_draw(self, size: int, walk_length: int) -> NodeDraw:
        return RandomWalks(self._incoming, size, walk_length)
