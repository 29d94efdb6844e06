"""Subgraphs induced by some nodes of one large graph."""

from __future__ import annotations

import numpy as np

from graphbench.data.large.incoming_edges import IncomingEdges
from graphbench.data.large.neighbor_sampling import Sample, in_edges


class InducedSubgraph:
    """All edges among some nodes; time is that of looking at the edges into them.

    Args:
        incoming: the edges sorted by target.
    """

    def __init__(self, incoming: IncomingEdges) -> None:
        self._ptr, self._source = incoming.ptr.numpy(), incoming.source.numpy()
        self._number = np.full(len(self._ptr) - 1, -1, dtype=np.int32)

    def __call__(self, nodes: np.ndarray) -> Sample:
        """The subgraph of distinct nodes.

        Args:
            nodes: (n,) integer.
        """
        nodes = nodes.astype(np.int64)
        self._number[nodes] = np.arange(len(nodes))
        target, entry = in_edges(self._ptr, nodes)
        source = self._number[self._source[entry]]
        self._number[nodes] = -1
        inside = source >= 0
        return Sample(nodes, np.stack([source[inside].astype(np.int64), target[inside]]), entry[inside])
