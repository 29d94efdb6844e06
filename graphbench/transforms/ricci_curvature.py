"""Discrete Ricci curvature of edges: the distance of the ends' neighbourhoods compared with that of the ends.

Papers: Ricci curvature of Markov chains on metric spaces, https://arxiv.org/abs/math/0701886; Ricci curvature of
graphs, https://doi.org/10.2748/tmj/1325886283; in a transformer: Curvphormer, https://doi.org/10.3390/e25060885.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from scipy.optimize import linprog
from scipy.sparse.csgraph import dijkstra
from torch import Tensor

from graphbench.data.files.progress import report
from graphbench.data.store import GraphStore
from graphbench.registry import register
from graphbench.transforms.algorithms.all_pairs import check_pairs
from graphbench.transforms.base import Level, Transform

_SHORTEST = 1e-9
_CELLS = 1 << 22  # distances between neighbours at a time
_VARIABLES = 1 << 12  # of a linear program: one of many edges is solved in a fifth of the time of theirs


@register("RicciCurvature")
class RicciCurvature(Transform):
    r"""Ollivier's curvature of every edge.

    .. math:: \kappa_{xy} = 1 - \frac{W_1(m_x, m_y)}{d(x, y)}, \qquad
        m_x(z) = \begin{cases} \alpha & z = x \\ (1 - \alpha) / \deg x & z \sim x \end{cases}

    W_1: least cost of moving one distribution onto the other, in hops, solved exactly. Positive where neighbourhoods
    overlap (1 - alpha at most 1), 0 on long cycles, negative where an edge is a bridge between them.

    Args:
        alpha: mass that stays at the node, 0 .. 1 (1 excluded). Lin, Lu and Yau's curvature, the limit of
            kappa / (1 - alpha), is twice that of alpha = 1/2.

        pairs: measure all pairs of nodes instead, by paths along which an edge has the length 1 - kappa, the cost of
            moving m_x onto m_y: short inside dense regions, long across bridges.

    Returns:
        ``curvature`` (E, 1) float32. With ``pairs``: ``length`` (sum n_g^2,) float32 of the shortest path, in the order
        of :class:`~graphbench.structures.PairBlocks`; infinite where there is none.

    Conventions (ours): directions, repeated edges and self loops are left out of neighbourhoods and distances; a
    repeated edge has the same value every time, a self loop 0.
    """

    version: ClassVar[int] = 1
    outputs: ClassVar[tuple[str, ...]] = ("curvature", "length")
    missing_value = math.inf

    def __init__(self, alpha: float = 0.5, pairs: bool = False) -> None:
        if not 0 <= alpha < 1:
            raise ValueError(f"alpha must lie in 0 .. 1, 1 excluded, received {alpha}")
        self.alpha, self.pairs = alpha, pairs
        self.level: Level = "pair" if pairs else "edge"

    def __call__(self, store: GraphStore) -> dict[str, Tensor]:
        """Measures all edges, or all pairs of nodes of a graph."""
        if self.pairs:
            check_pairs(store, 4)
        curvature = self._of_store(store)
        return {"length": _lengths(store, 1 - curvature)} if self.pairs else {"curvature": curvature.unsqueeze(1)}

    def _of_store(self, store: GraphStore) -> Tensor:
        total = store.num_nodes
        shift = np.repeat(store.node_ptr.numpy()[:-1], store.edge_counts.numpy())
        source, target = np.sort(store.edge_index.numpy().astype(np.int64) + shift, axis=0)
        pairs, of_pair = np.unique(source * max(total, 1) + target, return_inverse=True)
        left, right = np.divmod(pairs, max(total, 1))
        curvature = np.zeros(len(pairs))
        proper = np.flatnonzero(left != right)
        curvature[proper] = self._of_edges(left[proper], right[proper], total)
        return torch.from_numpy(curvature[of_pair].astype(np.float32))

    def _of_edges(self, left: np.ndarray, right: np.ndarray, total: int) -> np.ndarray:
        """Curvatures of the edges of a simple graph, each given once."""
        ends = (np.concatenate([left, right]), np.concatenate([right, left]))
        adjacency = sp.coo_array((np.ones(2 * len(left), dtype=bool), ends), shape=(total, total)).tocsr()
        adjacency.sort_indices()
        degree = np.diff(adjacency.indptr)
        swap = degree[left] > degree[right]
        left, right = np.where(swap, right, left), np.where(swap, left, right)
        curvature, known = np.zeros(len(left)), dict[tuple[int, int, bytes], float]()
        groups = np.unique(np.stack([degree[left], degree[right]]), axis=1).T
        done = 0
        for few, many in groups:
            members = np.flatnonzero((degree[left] == few) & (degree[right] == many))
            at_once = max(1, _CELLS // ((few + 1) * (many + 1)))
            for edges in np.split(members, range(at_once, len(members), at_once)):
                hops = _hops(adjacency, left[edges], right[edges]).reshape(len(edges), -1)
                distinct, number_of = np.unique(hops, axis=0, return_inverse=True)
                keys = [(int(few), int(many), pattern.tobytes()) for pattern in distinct]
                new = [number for number, key in enumerate(keys) if key not in known]
                together = max(1, _VARIABLES // ((few + 1) * (many + 1)))
                for first in range(0, len(new), together):
                    chosen = new[first : first + together]
                    costs = self._transport([distinct[number].reshape(few + 1, many + 1) for number in chosen])
                    known |= {keys[number]: 1 - cost for number, cost in zip(chosen, costs, strict=True)}
                    report(done + len(edges) * (first + len(chosen)) / len(new), len(left))
                curvature[edges] = np.array([known[key] for key in keys])[number_of.reshape(-1)]
                done += len(edges)
        return curvature

    def _transport(self, patterns: Sequence[np.ndarray]) -> list[float]:
        """W_1 between the two ends of some edges: as one linear program, whose parts have nothing in common.

        Args:
            patterns: hops of every edge; row 0 is x, column 0 is y, the others are their neighbours.
        """
        problems = [self._problem(hops) for hops in patterns]
        sizes = [cost.size for cost, _, _ in problems]
        if not sum(sizes):
            return [0.0] * len(patterns)
        conditions, amounts, row = [], [], 0
        for (cost, supply, demand), first in zip(problems, np.cumsum([0, *sizes[:-1]]), strict=True):
            if not cost.size:
                continue
            # Rows, then columns; one of these conditions follows from the others, and could contradict them by a
            # rounding error: the last column's is left out.
            i, j = np.indices(cost.shape).reshape(2, -1)
            variable, bound = first + np.arange(cost.size), j < len(demand) - 1
            conditions.append(
                (np.concatenate([row + i, row + len(supply) + j[bound]]), np.concatenate([variable, variable[bound]]))
            )
            amounts += [supply, demand[:-1]]
            row += len(supply) + len(demand) - 1
        ends = tuple(np.concatenate(each) for each in zip(*conditions, strict=True))
        matrix = sp.csr_array((np.ones(len(ends[0])), ends), shape=(row, sum(sizes)))
        costs = np.concatenate([cost.ravel() for cost, _, _ in problems])
        solved = linprog(costs, A_eq=matrix, b_eq=np.concatenate(amounts), method="highs")
        assert solved.success, solved.message  # the plan that moves everything in proportion is feasible
        return [float(part.sum()) for part in np.split(costs * solved.x, np.cumsum(sizes)[:-1])]

    def _problem(self, hops: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Costs (r, c) of moving r remaining masses onto c, and both; none where nothing has to move."""
        masses = [np.full(n, (1 - self.alpha) / (n - 1)) for n in hops.shape]
        for mass in masses:
            mass[0] = self.alpha
        for row, column in zip(*np.nonzero(hops == 0), strict=True):  # what both have need not move
            stays = min(masses[0][row], masses[1][column])
            masses[0][row] -= stays
            masses[1][column] -= stays
        kept = [np.flatnonzero(mass > 1e-12) for mass in masses]
        supply, demand = (mass[rows] for mass, rows in zip(masses, kept, strict=True))
        if not len(supply) or not len(demand):
            return np.zeros((0, 0)), np.zeros(0), np.zeros(0)
        return hops[np.ix_(*kept)].astype(np.float64), supply, demand


def _hops(adjacency: sp.csr_array, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Distances (m, a + 1, b + 1) uint8 from x and its a neighbours to y and its b neighbours, for m edges x - y."""
    total = adjacency.shape[0]
    around_left, around_right = (_and_neighbours(adjacency, nodes) for nodes in (left, right))
    sources, row = np.unique(around_left, return_inverse=True)
    entries = (row.reshape(around_left.shape)[:, :, None] * total + around_right[:, None, :]).ravel()
    hops = np.full(len(entries), 3, dtype=np.uint8)  # never more: by way of x and y
    one = adjacency[sources]
    for distance, reached in ((2, one @ adjacency), (1, one)):
        hops[_contains(reached, entries)] = distance
    hops[sources[entries // total] == entries % total] = 0
    return hops.reshape(len(left), around_left.shape[1], around_right.shape[1])


def _and_neighbours(adjacency: sp.csr_array, nodes: np.ndarray) -> np.ndarray:
    """(m, 1 + degree) the nodes, all of the same degree, and their neighbours."""
    first, degree = adjacency.indptr[nodes], int(np.diff(adjacency.indptr[nodes[0] : nodes[0] + 2])[0])
    neighbours = adjacency.indices[first[:, None] + np.arange(degree)].astype(np.int64)
    return np.concatenate([nodes[:, None], neighbours], axis=1)


def _contains(matrix: sp.csr_array, entries: np.ndarray) -> np.ndarray:
    """Boolean per entry (row * columns + column): whether the matrix has it."""
    matrix.sort_indices()
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    present = rows * matrix.shape[1] + matrix.indices
    if not len(present):
        return np.zeros(len(entries), dtype=bool)
    position = np.searchsorted(present, entries)
    return present[np.minimum(position, len(present) - 1)] == entries


def _lengths(store: GraphStore, edge: Tensor) -> Tensor:
    """(sum n_g^2,) shortest paths of all pairs, directions left out; ``edge``: (E,) lengths, not below 0."""
    # an edge of length 0 would be none for scipy
    cost = np.maximum(edge.numpy().astype(np.float64), _SHORTEST)
    blocks = [np.zeros(0, dtype=np.float32)]
    ends, edge_ptr = store.edge_index.numpy().astype(np.int64), store.edge_ptr.numpy()
    for graph, size in enumerate(store.sizes.tolist()):
        edges = slice(int(edge_ptr[graph]), int(edge_ptr[graph + 1]))
        low, high = np.sort(ends[:, edges], axis=0)
        _, first = np.unique(low * max(size, 1) + high, return_index=True)  # repeated edges have one length
        lengths = sp.coo_array((cost[edges][first], (low[first], high[first])), shape=(size, size)).tocsr()
        blocks.append(dijkstra(lengths, directed=False).astype(np.float32).ravel())
        report(graph + 1, store.num_graphs)
    return torch.from_numpy(np.concatenate(blocks))
