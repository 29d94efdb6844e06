"""Graphs too large for a dense matrix: sparse matrices and their eigenpairs."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from functools import cached_property

import numpy as np
import scipy  # its packages are imported where they are used first: together they take a quarter of a second

from graphbench.data.files.progress import report
from graphbench.data.store import GraphStore
from graphbench.transforms.algorithms.threads import in_threads

_DENSE = 1024  # largest component whose whole spectrum is computed
_RESTARTS = 1000
_ACCURACY = 1e-10  # of eigenvalues, relative to the largest one
_CELLS = 1 << 22  # 32 MiB of float64 per block of columns


class LargeGraph:
    """One graph of a store.

    Attributes:
        nodes: rows of its nodes among those of the store.
        edges: rows of its edges among those of the store.
        ends: (2, m) int64, source and target of its edges, numbered from 0.
        size: n.
    """

    def __init__(self, store: GraphStore, number: int) -> None:
        self.nodes = slice(int(store.node_ptr[number]), int(store.node_ptr[number + 1]))
        self.edges = slice(int(store.edge_ptr[number]), int(store.edge_ptr[number + 1]))
        self.ends = store.edge_index[:, self.edges].numpy().astype(np.int64)
        self.size = self.nodes.stop - self.nodes.start

    @cached_property
    def adjacency(self) -> scipy.sparse.csr_array:
        """(n, n), entry (i, j) the number of edges from i to j."""
        ones = np.ones(self.ends.shape[1])
        return scipy.sparse.coo_array((ones, tuple(self.ends)), shape=(self.size, self.size)).tocsr()

    def laplacian(self, norm: str) -> scipy.sparse.csr_array:
        """(n, n), symmetric; graphs are made undirected as in :class:`.dense_blocks.Stack`.

        ``rw``: what its lower triangle makes of it.
        """
        weights = self.adjacency
        if abs(weights - weights.T).sum():
            weights = ((weights + weights.T) > 0).astype(np.float64)
        weights = weights - scipy.sparse.diags_array(weights.diagonal())
        degree = weights.sum(1)
        if norm == "none":
            return (scipy.sparse.diags_array(degree) - weights).tocsr()
        inverse = np.zeros(self.size)
        inverse[degree > 0] = degree[degree > 0] ** (-0.5 if norm == "sym" else -1.0)
        scaled = scipy.sparse.diags_array(inverse) @ weights
        scaled = (
            scaled @ scipy.sparse.diags_array(inverse)
            if norm == "sym"
            else scipy.sparse.tril(scaled) + scipy.sparse.tril(scaled).T
        )
        return (scipy.sparse.eye_array(self.size) - scaled).tocsr()

    def walk(self) -> scipy.sparse.csr_array:
        """(n, n), D^-1 A of the graph as stored."""
        return (scipy.sparse.diags_array(1 / np.maximum(self.adjacency.sum(1), 1)) @ self.adjacency).tocsr()

    def in_columns(self, work: Callable[[int, np.ndarray], None]) -> None:
        """Works on the columns of the identity, so many at a time that they make a dense block of bounded size.

        Args:
            work: takes the number of the first column and the block (n, columns); called from several threads.
        """
        width = columns_at_a_time(self.size)

        def block(first: int) -> None:
            columns = np.arange(first, min(first + width, self.size))
            unit = np.zeros((self.size, len(columns)))
            unit[columns, np.arange(len(columns))] = 1
            work(first, unit)

        starts = range(0, self.size, width)
        for done, _ in enumerate(in_threads(block, starts), start=1):
            report(done, len(starts))


def columns_at_a_time(size: int) -> int:
    """Columns of ``size`` float64 that make a block of bounded size."""
    return max(1, _CELLS // max(size, 1))


def smallest_eigenpairs(matrix: scipy.sparse.csr_array, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The smallest eigenvalues of a sparse symmetric matrix, and their eigenvectors.

    Components are decomposed one by one: whole spectra of small ones, the lower end of large ones by Lanczos
    iterations, which find one copy for certain of an eigenvalue that repeats inside one component.

    Args:
        matrix: (n, n).
        count: k.

    Returns:
        ``(k,)`` ascending and ``(n, k)`` in columns, fewer where n is smaller.
    """
    _, component = scipy.sparse.csgraph.connected_components(matrix, directed=False)
    order = np.argsort(component, kind="stable")
    together = matrix[order][:, order]  # one component after the other
    limits = [0, *(np.flatnonzero(np.diff(component[order])) + 1).tolist(), len(order)]
    best: list[tuple[float, slice, np.ndarray]] = []
    for nodes in itertools.starmap(slice, itertools.pairwise(limits)):
        values, basis = _lower_end(together[nodes, nodes], count)
        best += [(value, nodes, basis[:, column]) for column, value in enumerate(values.tolist())]
        best = sorted(best, key=operator.itemgetter(0))[:count]
    vectors = np.zeros((matrix.shape[0], len(best)))
    for column, (_, nodes, vector) in enumerate(best):
        vectors[order[nodes], column] = vector
    return np.array([value for value, _, _ in best]), vectors


def _lower_end(matrix: scipy.sparse.csr_array, count: int) -> tuple[np.ndarray, np.ndarray]:
    size = matrix.shape[0]
    if size <= max(_DENSE, 2 * count + 1):
        values, vectors = np.linalg.eigh(matrix.toarray())
        return values[:count], vectors[:, :count]
    bound = float(abs(matrix).sum(1).max())  # no eigenvalue is larger (Gershgorin)
    start = np.random.default_rng(0).standard_normal(size)
    basis = min(size, max(4 * count, 40))
    try:
        turned = (bound * scipy.sparse.eye_array(size) - matrix).tocsr()
        values, vectors = scipy.sparse.linalg.eigsh(
            turned, count, which="LA", v0=start, ncv=basis, maxiter=_RESTARTS, tol=_ACCURACY
        )
        values = bound - values
    except scipy.sparse.linalg.ArpackNoConvergence:
        # Eigenvalues too close to each other for their size (long thin graphs, whose factors are sparse).
        values, vectors = scipy.sparse.linalg.eigsh(matrix.tocsc(), count, sigma=-1e-6 * bound, v0=start, ncv=basis)
    order = np.argsort(values)
    return values[order], vectors[:, order]
