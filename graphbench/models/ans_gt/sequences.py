"""Sequences of nodes that ANS-GT reads, drawn round by round."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from graphbench.models.ans_gt.block import SequenceSettings
from graphbench.models.ans_gt.proximity import Proximities
from graphbench.models.ans_gt.sampling_tables import Candidates, coarse_powers, coarsened, normalised_adjacency
from graphbench.structures import GraphBatch


@dataclass(frozen=True, eq=False)
class SamplingTables:
    """Candidates and proximities that sequences are made from; computed once per graph.

    Attributes:
        candidates: candidates of the samplers.
        proximity: proximities of pairs of nodes.
        cluster: (N,) super-node of every node, or None.
        coarse: (orders, C, C) proximities of super-nodes, or None.
    """

    candidates: Candidates
    proximity: Proximities
    cluster: Tensor | None
    coarse: Tensor | None


@dataclass(frozen=True, eq=False)
class Drawn:
    """Sequences between two updates.

    Attributes:
        of: candidates and proximities that they were drawn from.
        key: seed and number of the round, and whatever else decided them.
        node: (N, S, K) int64 on the host, -1 where a node has fewer candidates.
        weight: (N, S, K, 4) weights of the samplers.
    """

    of: SamplingTables
    key: tuple[int, int]
    node: Tensor
    weight: Tensor

    @classmethod
    def round(cls, tables: SamplingTables, key: tuple[int, int], shares: Tensor, settings: SequenceSettings) -> Drawn:
        """Draws all sequences; every graph begins the random stream of ``key`` anew, whatever batch it is in."""
        share, candidates = shares.to("cpu", torch.float64).numpy(), tables.candidates
        waiting = np.empty((settings.samples, len(candidates.node)))
        for first, end in pairwise(candidates.graph_ptr):
            waiting[:, first:end] = np.random.default_rng(key).standard_exponential((settings.samples, end - first))
        drawn = [candidates.draw(share, settings.length, each) for each in waiting]
        node, weight = (torch.from_numpy(np.stack(parts, 1)) for parts in zip(*drawn, strict=True))
        return cls(tables, key, node, weight)


def sampling_tables(batch: GraphBatch, settings: SequenceSettings, dtype: torch.dtype) -> SamplingTables:
    """Candidates and proximities of a batch; its graphs do not see each other."""
    adjacency, like = normalised_adjacency(batch), torch.empty(0, dtype=dtype, device=batch.device)
    s = settings
    candidates = Candidates.of(batch, adjacency, s.candidates, s.teleport, s.ppr_steps)
    proximity = Proximities(adjacency, s.orders, like)
    if not s.coarsening:
        return SamplingTables(candidates, proximity, None, None)
    cluster = coarsened(batch, s.coarsening)
    coarse = coarse_powers(batch, cluster, s.orders).to(like)
    return SamplingTables(candidates, proximity, torch.from_numpy(cluster), coarse)
