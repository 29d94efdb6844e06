"""Random regular expander graphs over the nodes of every graph, as Exphormer uses them.

Paper: Exphormer: Sparse Transformers for Graphs, https://arxiv.org/abs/2303.06147; conventions: its released code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import ClassVar, Literal

import numpy as np
import scipy.sparse
import torch
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh
from torch import Tensor

from graphbench.data.files.progress import report
from graphbench.data.store import GraphStore
from graphbench.errors import check_at_least, check_one_of
from graphbench.registry import register
from graphbench.transforms.algorithms.graph_seed import graph_seed
from graphbench.transforms.base import Level, Transform

COMPLETE = 10
"""Up to this many nodes the expander is the complete graph."""

_DENSE = 100  # largest graph whose whole spectrum is computed
_CELLS = 1 << 22  # 32 MiB of float64 per stack of such graphs
_STEPS = 200  # restarts of the iteration for one eigenvalue of a larger graph


@register("Expander")
class Expander(Transform):
    r"""A random 2d-regular graph over the nodes of every graph, with a spectral gap close to the best possible.

    .. math:: \lambda_2(2 d I - A) \ge 2 d - 2 \sqrt{2 d - 1} - 0.1

    A: adjacency of the drawn multigraph (self loops and repeated edges stay, and count). Graphs are drawn until one
    meets the bound; after ``max_num_iters`` draws the one with the largest gap is taken.

    Args:
        degree: d, number of permutations or cycles; every node has 2 d neighbours.
        algorithm: ``Random-d``: node i to p(i) and back, for d random permutations p; ``Random-d-2``: one permutation
            of the list that holds every node d times; ``Hamiltonian``: the two directions of d random cycles through
            all nodes, which joins no node to itself. ``Random-d2`` is another spelling of ``Random-d-2``.
        max_num_iters: draws per graph.
        seed: seed of the draws. A graph's expander depends on the seed, its nodes and its edges only.

    Returns:
        ``index`` (2, M) int32 numbered inside each graph, ``ptr`` (G+1,). M = 2 d n per graph, n (n - 1) for one of up
        to 10 nodes, which gets the complete graph. With d >= n, d is n - 1.

    Differences from the released code: seeded (there: a fresh generator per graph); ``Random-d-2`` raises an error
    there. Its Laplacian drops self loops from A but keeps them in the degrees, which takes graphs with loops for
    better expanders than they are, disconnected ones among them; here the gap is that of the graph itself.
    """

    version: ClassVar[int] = 2
    outputs: ClassVar[tuple[str, ...]] = ("index", "ptr")
    level: Level = "edge_set"

    def __init__(
        self,
        degree: int = 5,
        algorithm: Literal["Random-d", "Random-d-2", "Random-d2", "Hamiltonian"] = "Random-d",
        max_num_iters: int = 100,
        seed: int = 0,
    ) -> None:
        check_at_least(1, degree=degree, max_num_iters=max_num_iters)
        check_one_of(DRAW, algorithm=algorithm)
        self.degree = degree
        self.algorithm = algorithm
        self.max_num_iters = max_num_iters
        self.seed = seed

    def __call__(self, store: GraphStore) -> dict[str, Tensor]:
        """Expanders of all graphs of a store."""
        sizes = store.sizes.numpy()
        counts = np.where(sizes <= COMPLETE, sizes * (sizes - 1), 2 * sizes * np.minimum(self.degree, sizes - 1))
        ptr = np.concatenate([[0], np.cumsum(counts)])
        index = np.empty((2, ptr[-1]), dtype=np.int32)
        done = 0
        for size in np.unique(sizes).tolist():
            members = np.flatnonzero(sizes == size)
            for graph, pairs in self._of_size(size, members, store):
                index[:, ptr[graph] : ptr[graph + 1]] = pairs
                done += pairs.shape[1]
                report(done, index.shape[1])
        return {"index": torch.from_numpy(index), "ptr": torch.from_numpy(ptr)}

    def _of_size(self, size: int, graphs: np.ndarray, store: GraphStore) -> Iterator[tuple[int, np.ndarray]]:
        """The number and the pairs (2, m) of every graph of one size."""
        if size <= COMPLETE:
            pairs = np.array([(s, t) for s in range(size) for t in range(size) if s != t], dtype=np.int32)
            yield from ((graph, pairs.reshape(-1, 2).T) for graph in graphs.tolist())
            return
        edge_index, edge_ptr = store.edge_index.numpy(), store.edge_ptr.tolist()
        together = max(1, _CELLS // size**2) if size <= _DENSE else 1
        for start in range(0, len(graphs), together):
            chunk = graphs[start : start + together].tolist()
            edges = [edge_index[:, edge_ptr[graph] : edge_ptr[graph + 1]] for graph in chunk]
            streams = [np.random.default_rng([self.seed, graph_seed(each, size)]) for each in edges]
            drawn = expanders(size, self.degree, self.algorithm, self.max_num_iters, streams)
            yield from zip(chunk, drawn)


def expanders(
    size: int, degree: int, algorithm: str, max_num_iters: int, streams: list[np.random.Generator]
) -> list[np.ndarray]:
    """Random regular graphs of one size that meet the bound of :class:`Expander`, or the best ones drawn.

    Args:
        size: nodes, more than 10.
        degree: d.
        algorithm: key of :data:`DRAW`.
        max_num_iters: draws per graph.
        streams: one random stream per graph.

    Returns:
        Per stream (2, 2 d size) int64, sources and targets.
    """
    degree = min(degree, size - 1)
    bound = 2 * degree - 2 * math.sqrt(2 * degree - 1) - 0.1
    best: list[np.ndarray] = [np.empty((2, 0), dtype=np.int64)] * len(streams)
    best_gap = np.full(len(streams), -np.inf)
    pending = np.arange(len(streams))
    for _ in range(max_num_iters):
        drawn = [_both_ways(*DRAW[algorithm](size, degree, streams[number])) for number in pending]
        gaps = spectral_gaps(drawn, size, degree)
        for number, pairs, gap in zip(pending, drawn, gaps):
            if gap > best_gap[number]:
                best[number], best_gap[number] = pairs, gap
        pending = pending[best_gap[pending] < bound]
        if not len(pending):
            break
    return best


def spectral_gaps(graphs: list[np.ndarray], size: int, degree: int) -> np.ndarray:
    """Second smallest eigenvalue of 2 d I - A of 2 d-regular graphs, as numbers (len(graphs),).

    Whole spectra of small graphs; for a larger one the second largest eigenvalue of A alone, to about 1e-3 of it.
    """
    if size > _DENSE:
        return np.array([2 * degree - _second_eigenvalue(pairs, size, degree) for pairs in graphs])
    cells = np.concatenate([(number * size + pairs[0]) * size + pairs[1] for number, pairs in enumerate(graphs)])
    adjacency = np.bincount(cells, minlength=len(graphs) * size * size).reshape(len(graphs), size, size)
    spectrum = torch.linalg.eigvalsh(torch.from_numpy(adjacency).to(torch.float64))
    return 2 * degree - spectrum[:, -2].numpy()


def _second_eigenvalue(pairs: np.ndarray, size: int, degree: int) -> float:
    """Largest eigenvalue of A besides that of the constant vector, which a regular graph always has."""
    ones = np.ones(pairs.shape[1])
    adjacency = scipy.sparse.csr_matrix((ones, (pairs[0], pairs[1])), shape=(size, size))

    def without_constant(x: np.ndarray) -> np.ndarray:
        x = x.ravel()
        return adjacency @ x - 2 * degree * x.mean()

    operator = LinearOperator((size, size), matvec=without_constant, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(size)
    try:
        values = eigsh(operator, k=1, which="LA", v0=start, tol=1e-3, maxiter=_STEPS, return_eigenvectors=False)
    except ArpackNoConvergence:
        return 2.0 * degree  # unknown: the gap counts as 0
    return float(values[0])


def _both_ways(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    return np.stack([np.concatenate([source, target]), np.concatenate([target, source])])


def _permutations(size: int, degree: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    nodes = np.arange(size)
    return np.tile(nodes, degree), np.concatenate([rng.permutation(nodes) for _ in range(degree)])


def _one_permutation(size: int, degree: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    nodes = np.tile(np.arange(size), degree)
    return nodes, rng.permutation(nodes)


def _cycles(size: int, degree: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    cycles = [rng.permutation(np.arange(size)) for _ in range(degree)]
    return np.concatenate(cycles), np.concatenate([np.roll(cycle, 1) for cycle in cycles])


DRAW: dict[str, Callable[[int, int, np.random.Generator], tuple[np.ndarray, np.ndarray]]] = {
    "Random-d": _permutations,
    "Random-d-2": _one_permutation,
    "Random-d2": _one_permutation,
    "Hamiltonian": _cycles,
}
"""One direction of the edges of a random regular graph: ``(size, degree, stream) -> sources, targets``."""
