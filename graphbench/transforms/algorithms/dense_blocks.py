"""Graphs of equal size as stacks of dense matrices: one pass over the data serves several transforms.

Most encodings are functions of the adjacency or of the eigenvectors of a Laplacian. :func:`encode` builds every stack
once, keeps what its transforms ask of it (one eigendecomposition gives Laplacian eigenvectors and random-walk
probabilities alike) and throws it away. Small matrices are a poor match for LAPACK's own threads: several stacks are
worked on at a time, one thread each.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from graphbench.data.files.progress import report
from graphbench.data.store import GraphStore
from graphbench.errors import UserError
from graphbench.transforms.algorithms.large_graphs import LargeGraph
from graphbench.transforms.algorithms.threads import in_threads
from graphbench.transforms.base import JointTransform

MAX_NODES = 16_384
"""Largest graph that is treated as a dense matrix: 2 GiB of float64 per copy, and hours for its eigenvectors."""

_CELLS = 1 << 21  # 16 MiB of float64 per stack
_ALONE = 1024  # larger graphs get all threads, one after the other


class Stack:
    """B graphs of n nodes. Everything is computed when it is first asked for, and kept.

    Attributes:
        graphs: (B,) int64, numbers of the graphs in the store.
        rows: (B, n) int64, their nodes.
        adjacency: (B, n, n) float64, entry (i, j) the number of edges from i to j.
    """

    def __init__(self, store: GraphStore, graphs: Tensor, size: int) -> None:
        self.graphs = graphs
        self.rows = store.node_ptr[graphs].unsqueeze(1) + torch.arange(size)
        self._store, self._size = store, size
        cells = torch.zeros(len(graphs) * size * size, dtype=torch.float64)
        cells.index_add_(0, self.edges[1], torch.ones(len(self.edges[1]), dtype=cells.dtype))
        self.adjacency = cells.view(len(graphs), size, size)
        self._eigen: dict[str, tuple[Tensor, Tensor]] = {}

    @cached_property
    def edges(self) -> tuple[Tensor, Tensor]:
        """Edges (M,) int64 of these graphs in the store, and their entries (M,) in the flat B * n * n cells."""
        store = self._store
        counts = store.edge_counts[self.graphs]
        block = torch.repeat_interleave(torch.arange(len(self.graphs)), counts)
        first = torch.repeat_interleave(store.edge_ptr[self.graphs] - (counts.cumsum(0) - counts), counts)
        edges = first + torch.arange(len(block))
        source, target = store.edge_index[:, edges].to(torch.int64)
        return edges, (block * self._size + source) * self._size + target

    @cached_property
    def pairs(self) -> Tensor:
        """(B, n * n) int64, places of their pairs of nodes among those of the store, row-major."""
        first = torch.from_numpy(self._store.pair_ptr)[self.graphs]
        return first.unsqueeze(1) + torch.arange(self._size * self._size)

    @cached_property
    def directed(self) -> Tensor:
        """(B,) bool, graphs with a one-way edge."""
        return (self.adjacency != self.adjacency.mT).flatten(1).any(1)

    @cached_property
    def undirected(self) -> Tensor:
        """(B, n, n): a directed graph has the reverse of all its edges, repeated edges counted once.

        Graphs that are symmetric already keep the multiplicity of their edges.
        """
        if not bool(self.directed.any()):
            return self.adjacency
        both = self.adjacency.clone()
        one_way = both[self.directed]
        both[self.directed] = ((one_way + one_way.mT) > 0).to(both.dtype)
        return both

    def laplacian(self, norm: str) -> Tensor:
        """(B, n, n), see :func:`laplacian`."""
        return laplacian(self.undirected, norm)

    def eigen(self, norm: str) -> tuple[Tensor, Tensor]:
        """Eigenvalues (B, n), ascending, and eigenvectors (B, n, n), in columns, of the Laplacian.

        ``rw`` is decomposed as if it were symmetric, from its lower triangle.
        """
        if norm not in self._eigen:
            self._eigen[norm] = torch.linalg.eigh(self.laplacian(norm))
        return self._eigen[norm]

    @cached_property
    def pseudo_inverse(self) -> Tensor:
        """(B, n, n), of D - A."""
        values, vectors = self.eigen("none")
        # A zero eigenvalue comes out as a few rounding errors.
        rounding = max(1e-13, self._size * torch.finfo(values.dtype).eps)
        kept = values.abs() > rounding * values.abs().amax(1, keepdim=True)
        inverse = torch.where(kept, 1 / values, 0.0)
        return (vectors * inverse.unsqueeze(1)) @ vectors.mT


class StackTransform(JointTransform):
    """A transform that works on stacks of dense matrices.

    Attributes:
        large_from: graphs of at least so many nodes go to :meth:`fill_large`, None for none. Set in the constructor
            where it depends on arguments.
        by_graph: whether the rows of a graph, and their width, depend on its edges alone, not on its number or on other
            graphs: such encodings can be computed in shards.
    """

    large_from: int | None = None
    by_graph: ClassVar[bool] = False

    @staticmethod
    def together(store: GraphStore, transforms: Sequence[StackTransform]) -> list[dict[str, Tensor]]:
        """:func:`encode` in float32."""
        return encode(store, transforms)

    def exact(self, store: GraphStore) -> dict[str, Tensor]:
        """Encoding of a store in float64."""
        return encode(store, [self], torch.float64)[0]

    @abstractmethod
    def blank(self, store: GraphStore, dtype: torch.dtype) -> dict[str, Tensor]:
        """Outputs to be filled."""

    @abstractmethod
    def fill(self, stack: Stack, out: Mapping[str, Tensor]) -> None:
        """Writes the rows of the graphs of a stack; called from several threads."""

    def fill_large(self, graph: LargeGraph, out: Mapping[str, Tensor]) -> None:
        """Writes the rows of one graph that is too large for a dense matrix; needed with ``large_from`` only."""
        raise NotImplementedError


def encode(
    store: GraphStore, transforms: Sequence[StackTransform], dtype: torch.dtype = torch.float32
) -> list[dict[str, Tensor]]:
    """The outputs of some transforms, from one pass over the graphs.

    Args:
        store: the graphs.
        transforms: computed together.
        dtype: type of the outputs; computed in float64.

    Raises:
        UserError: a graph is too large for a dense matrix, and a transform has no other way.
    """
    largest = store.max_nodes()
    for transform in transforms:
        if transform.large_from is None and largest > MAX_NODES:
            raise UserError(
                f"{transform.registered_name} needs a dense matrix per graph: the largest graph has {largest:,} nodes "
                f"and its matrix {largest**2 * 8 / 2**30:,.0f} GiB, several times over; allowed are {MAX_NODES:,} "
                "nodes. Leave the encoding out (posenc_*.enable: False, and out of node_encoder_name)."
            )
    outputs = [transform.blank(store, dtype) for transform in transforms]

    def work(job: tuple[int, Tensor]) -> None:
        size, graphs = job
        is_large = [transform.large_from is not None and size >= transform.large_from for transform in transforms]
        if not all(is_large):
            stack = Stack(store, graphs, size)
            for transform, out, large in zip(transforms, outputs, is_large, strict=True):
                if not large:
                    transform.fill(stack, out)
        if any(is_large):
            for number in graphs.tolist():
                graph = LargeGraph(store, number)
                for transform, out, large in zip(transforms, outputs, is_large, strict=True):
                    if large:
                        transform.fill_large(graph, out)

    jobs = list(_jobs(store))
    costs = [size**3 * len(graphs) for size, graphs in jobs]
    done = 0
    for number in in_threads(work, jobs, alone=[size > _ALONE for size, _ in jobs]):
        done += costs[number]
        report(done, sum(costs))
    return outputs


def laplacian(adjacency: Tensor, norm: str) -> Tensor:
    """Laplacians of a stack of graphs.

    Args:
        adjacency: (B, n, n); the diagonal (self loops) is not counted.
        norm: ``none`` (D - A), ``sym`` (I - D^-1/2 A D^-1/2) or ``rw`` (I - D^-1 A).

    Returns:
        (B, n, n).
    """
    weights = adjacency - torch.diag_embed(adjacency.diagonal(dim1=1, dim2=2))
    degree = weights.sum(2)
    if norm == "none":
        return torch.diag_embed(degree) - weights
    identity = torch.eye(weights.shape[1], dtype=weights.dtype)
    power = -0.5 if norm == "sym" else -1.0
    inverse = torch.where(degree > 0, degree.clamp_min(1).pow(power), 0.0)
    scaled = inverse.unsqueeze(2) * weights
    return identity - (scaled * inverse.unsqueeze(1) if norm == "sym" else scaled)


def _jobs(store: GraphStore) -> Iterator[tuple[int, Tensor]]:
    """Sizes and numbers of graphs of that size, not too many at a time; the largest come first."""
    for size in store.sizes.unique().flip(0).tolist():
        members = (store.sizes == size).nonzero().view(-1)
        if size:
            yield from ((size, graphs) for graphs in members.split(max(1, _CELLS // (size * size))))
