"""Training on what is sampled around some pairs of nodes of one large graph, for link tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from graphbench.data.large.ego_sampling import EgoSampler
from graphbench.data.large.incoming_edges import IncomingEdges
from graphbench.data.large.loader import BATCH_STREAM, EVALUATION_STREAM, LoaderOptions, SamplingLoader
from graphbench.data.large.neighbor_sampling import NeighborSampler
from graphbench.data.large.subgraph import check_one_graph, has_edge_rows, node_rows, subgraph
from graphbench.data.loading.batching import consecutive_share
from graphbench.data.splits import Splits
from graphbench.data.store import GraphStore
from graphbench.errors import check_at_least
from graphbench.structures import Batches, EdgeSet, EvaluationPass, GraphBatch

PAIR_SAMPLERS = {"neighbor": "sampled neighbourhoods", "shadow": "sampled ego graphs"}


class PairLoader(SamplingLoader):
    """Mini-batches of pairs; every pair is a prediction.

    ``neighbor`` is PyG's ``LinkNeighborLoader``: a batch is the sampled neighbourhood of the ends of ``batch_size``
    pairs. ``shadow`` samples an ego graph for every pair, whose roots are its ends (ShaDow,
    https://arxiv.org/abs/2012.01380), without the edges between these: a pair of the training part is one, whose
    presence would be its answer.

    Evaluation passes the whole graph through the model once for the pairs of validation and test, or batches of the
    sampler's kind, always the same ones: an approximation.

    With several processes, each takes its shard of the training pairs, filled up to equal length.

    Args:
        store: one graph with a target per pair of its edge set ``label``.
        splits: numbers of pairs; those of validation and test are taken out of the edges.
        options: see :class:`LoaderOptions`.
        sampler: ``neighbor`` or ``shadow`` (``train.sampler``).
        sizes: in-edges per node and hop, -1 for all (``train.neighbor_sizes``).
        batch_size: pairs per batch and process (``train.batch_size``).

    Raises:
        ValueError: a store that cannot be cut, bad sizes, an unknown ``evaluation``, or an empty training part.
    """

    def __init__(
        self,
        store: GraphStore,
        splits: Splits,
        options: LoaderOptions,
        *,
        sampler: str = "neighbor",
        sizes: Sequence[int],
        batch_size: int,
    ) -> None:
        super().__init__(options.process)
        check_one_graph(store, sampler, "pair")
        evaluation = options.evaluation
        if evaluation not in ("full_batch", sampler):
            raise ValueError(
                f"val.sampler of a link task with train.sampler {sampler} must be full_batch or {sampler}; "
                f"not {evaluation!r}"
            )
        check_at_least(1, batch_size=batch_size)
        if not splits.train.numel():
            raise ValueError("the training part of the split is empty")
        splits.check(store.edge_sets["label"].num_pairs)
        self._store, self._splits, self._batch_size = store, splits, batch_size
        self._pairs = store.edge_sets["label"].index
        self._incoming = IncomingEdges.of(self._store.edge_index, store.num_nodes, numbered=has_edge_rows(store))
        self._sampler = NeighborSampler(self._incoming, sizes)
        self._egos = EgoSampler(self._sampler) if sampler == "shadow" else None
        shares = {part: consecutive_share(each, self._rank, self._world_size) for part, each in splits.parts().items()}
        if evaluation == "full_batch":
            self.passes = [self._whole(shares)]
        else:
            self.approximation = f"predicted on {PAIR_SAMPLERS[sampler]} ({', '.join(map(str, sizes))} per hop)"
            self.exact_passes = (lambda: [self._whole(shares)]) if options.exact else None
            self.passes = [EvaluationPass({part: None}, self._sampled(each)) for part, each in shares.items()]

    def sample(self, epoch: int) -> Iterator[tuple[GraphBatch, Tensor]]:
        """The batches of one epoch; every prediction counts."""
        pairs = self._shuffled(epoch)
        for number, first in enumerate(range(0, len(pairs), self._batch_size)):
            chosen = torch.from_numpy(pairs[first : first + self._batch_size])
            rng = self._generator(BATCH_STREAM, epoch, number, self._rank)
            yield self._batch(chosen, rng), torch.arange(len(chosen))

    def _batch(self, pairs: Tensor, rng: np.random.Generator) -> GraphBatch:
        """Batch sampled around some pairs."""
        if self._egos is not None:
            egos = self._egos(self._pairs[:, pairs].T.to(torch.int64).numpy(), rng).without_edges_between_roots()
            graph = egos.batch(self._store, self._incoming.numbers_of(egos.entries))
            index, ptr = torch.from_numpy(egos.roots).T.contiguous(), torch.arange(len(pairs) + 1)
            return graph.replace(edge_sets={"label": EdgeSet(index, ptr)}, y=self._targets(pairs))
        seeds, local = self._pairs[:, pairs].to(torch.int64).unique(return_inverse=True)
        sample = self._sampler(seeds.numpy(), rng)
        nodes, edge_index = torch.from_numpy(sample.nodes), torch.from_numpy(sample.edge_index)
        graph = subgraph(self._store, nodes, edge_index, self._incoming.numbers_of(sample.entries))
        return _asking(graph, local, self._targets(pairs))

    def _targets(self, pairs: Tensor) -> Tensor:
        assert self._store.y is not None
        return self._store.y[pairs]

    def _whole(self, shares: Mapping[str, Tensor]) -> EvaluationPass:
        """All pairs that one process evaluates, behind each other, on the whole graph."""
        pairs = torch.cat(list(shares.values()))
        ends = torch.tensor([0, *(len(each) for each in shares.values())]).cumsum(0).tolist()
        rows = {
            part: torch.arange(first, last, device=self._device)
            for part, first, last in zip(shares, ends, ends[1:], strict=False)
        }
        kept: list[GraphBatch] = []  # what layers derive from the graph is computed once per run

        def batches() -> Batches:
            if not kept:
                graph = self._store.replace(edge_sets={}, y=None, y_level="node").gather([0])
                graph = graph.replace(**node_rows(self._store, slice(0, self._store.num_nodes)))
                kept.append(self._move(_asking(graph, self._pairs[:, pairs].to(torch.int64), self._targets(pairs))))
            yield kept[0], None

        return EvaluationPass(rows, batches)

    def _sampled(self, pairs: Tensor) -> Callable[[], Batches]:
        def batches() -> Batches:
            for number, chosen in enumerate(pairs.split(self._batch_size) if len(pairs) else ()):
                yield self._move(self._batch(chosen, self._generator(EVALUATION_STREAM, number))), None

        return batches


def _asking(graph: GraphBatch, pairs: Tensor, y: Tensor) -> GraphBatch:
    """The graph with questions about pairs (2, P) and their targets."""
    return graph.replace(edge_sets={"label": EdgeSet(pairs, torch.tensor([0, pairs.shape[1]]))}, y=y)
