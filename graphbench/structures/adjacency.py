"""The edges of a batch sorted by target and by source, with the weights of a normalisation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from torch import Tensor

from graphbench.structures.memo import Memo
from graphbench.structures.side_stream import read_by_all, tensor_property

NORMS = ("sym", "row", "none")
PIECE = 32
# Edges from which it is worth waiting for the answer whether anybody has many.
_MANY = 1 << 17


@dataclass(frozen=True, eq=False)
class Pieces:
    """Edges of every node in pieces of at most :data:`PIECE`: a GPU sums a list one after the other.

    Attributes:
        ptr: (P+1,) int64, edges of every piece; P is a bound, so that nobody has to be asked, and some are empty.
        number: (P,) int64, 0 .. P-1.
        of_node: (N+1,) int64, pieces of every node.
    """

    ptr: Tensor
    number: Tensor
    of_node: Tensor


@dataclass(frozen=True, eq=False)
class Csr:
    """Edges grouped by one of their ends.

    Attributes:
        ptr: (N+1,) int64, edges of every node.
        entry: (E,) int64, number of the edge (in the order of the edge list).
        other: (E,) int64, the node at its other end.
        pieces: the edges of every node cut into pieces, or None where nobody has many.
    """

    ptr: Tensor
    entry: Tensor
    other: Tensor
    pieces: Pieces | None = None


@dataclass(frozen=True, eq=False)
class Adjacency(Memo):
    """Sparse (N, N) matrix, rows = targets, with its transpose; nothing is rebuilt in a backward pass.

    Worked example, the path 0 - 1 - 2 as edges 0->1, 1->0, 1->2, 2->1 (numbered 0..3)::

        by_target.ptr [0, 1, 3, 4]   entry [1, 0, 3, 2]   other (sources) [1, 0, 2, 1]

    Attributes:
        num_nodes: N.
        source: (E,) int64; added self loops come after the given edges.
        target: (E,) int64.
        by_target: edges grouped by target.
        by_source: edges grouped by source.
        weight: (E,) float64, or None when every edge weighs 1.
    """

    num_nodes: int
    source: Tensor
    target: Tensor
    by_target: Csr
    by_source: Csr
    weight: Tensor | None
    _cast: dict[torch.dtype, tuple[Tensor, Tensor]] = field(default_factory=dict, repr=False)

    @property
    def num_edges(self) -> int:
        """E, added self loops included."""
        return self.source.numel()

    def sorted_weights(self, dtype: torch.dtype) -> tuple[Tensor | None, Tensor | None]:
        """Weights in the order of ``by_target`` and of ``by_source``."""
        if self.weight is None:
            return None, None
        if dtype not in self._cast:
            weight = self.weight.to(dtype)
            self._cast[dtype] = read_by_all(lambda: (weight[self.by_target.entry], weight[self.by_source.entry]))
        return self._cast[dtype]


class LoopedAdjacency(Adjacency):
    """D^-1/2 (A + I) D^-1/2 whose sorted lists, loops among them, are made when somebody reads them.

    An operator with kernels reads :attr:`plain` instead, for which a batch needs no further lists.

    Args:
        plain: A, without weights.
        make: makes the adjacency with all lists.
    """

    def __init__(self, plain: Adjacency, make: Callable[[], Adjacency]) -> None:
        vars(self).update(num_nodes=plain.num_nodes, plain=plain, _cast={}, _make=make)

    @property
    def plain(self) -> Adjacency:
        """The edges as they were given."""
        return vars(self)["plain"]

    @tensor_property
    def _made(self) -> Adjacency:
        return vars(self)["_make"]()

    @property
    def source(self) -> Tensor:
        """(E + N,) int64."""
        return self._made.source

    @property
    def target(self) -> Tensor:
        """(E + N,) int64."""
        return self._made.target

    @property
    def by_target(self) -> Csr:
        """Edges and loops grouped by target."""
        return self._made.by_target

    @property
    def by_source(self) -> Csr:
        """Edges and loops grouped by source."""
        return self._made.by_source

    @property
    def weight(self) -> Tensor | None:
        """(E + N,) float64."""
        return self._made.weight

    def inverse_root_degrees(self, compute: Callable[[Adjacency, torch.dtype], Tensor], dtype: torch.dtype) -> Tensor:
        """(N,) diagonal of D^-1/2, computed once."""
        known: dict[torch.dtype, Tensor] = vars(self).setdefault("roots", {})
        if dtype not in known:
            known[dtype] = read_by_all(lambda: compute(self.plain, dtype))
        return known[dtype]


def adjacency(
    edge_index: Tensor,
    num_nodes: int,
    *,
    norm: Literal["sym", "row", "none"] = "none",
    self_loops: bool = False,
    order: Tensor | None = None,
) -> Adjacency:
    """Sorts the edges both ways and computes the weights of a normalisation.

    ``sym``: 1 / sqrt(deg(source) deg(target)); ``row``: 1 / deg(target); ``none``: 1. ``deg`` is the in-degree,
    self loops included, of the receiving end for both factors; a node of degree 0 gives weight 0.

    Args:
        edge_index: (2, E) int64, sources and targets.
        num_nodes: N.
        norm: normalisation.
        self_loops: give every node exactly one self loop (loops among the edges get weight 0).
        order: (2, E) int64 numbers of the edges sorted by target and by source, where they are known.

    Raises:
        ValueError: ``norm`` is unknown.
    """
    if norm not in NORMS:
        raise ValueError(f"norm must be one of {NORMS}, received {norm!r}")
    source, target = edge_index
    weight: Tensor | None = None
    if self_loops:
        # Loops that are already there are switched off by their weight: removing them would need their number,
        # and asking for it stalls a GPU.
        nodes = torch.arange(num_nodes, device=source.device)
        weight = torch.cat([(source != target).double(), nodes.new_ones(num_nodes, dtype=torch.float64)])
        source, target = torch.cat([source, nodes]), torch.cat([target, nodes])
    if norm != "none":
        if weight is None:
            weight = torch.ones(source.shape, dtype=torch.float64, device=source.device)
        degree = torch.zeros(num_nodes, dtype=torch.float64, device=source.device).scatter_add_(0, target, weight)
        weight = normalised(weight, source, target, degree, norm)
    if order is None:
        lists = _sorted(target, source, num_nodes, None), _sorted(source, target, num_nodes, None)
    elif self_loops:
        by_target = _with_loops(edge_index[1], order[0], num_nodes)
        by_source = _with_loops(edge_index[0], order[1], num_nodes)
        lists = _sorted(target, source, num_nodes, by_target), _sorted(source, target, num_nodes, by_source)
    else:
        lists = _ordered(edge_index, num_nodes, order)
    return Adjacency(num_nodes, source, target, *lists, weight)


def _ordered(edge_index: Tensor, num_nodes: int, order: Tensor) -> tuple[Csr, Csr]:
    """Edges grouped by target and by source, all ends of both orders from one kernel."""
    edges = edge_index.shape[1]
    # [order, end, edge]
    ends = edge_index.expand(2, 2, edges).gather(2, order[:, None].expand(2, 2, edges))
    return (
        Csr(torch._convert_indices_from_coo_to_csr(ends[0, 1], num_nodes), order[0], ends[0, 0]),
        Csr(torch._convert_indices_from_coo_to_csr(ends[1, 0], num_nodes), order[1], ends[1, 1]),
    )


def _with_loops(key: Tensor, entry: Tensor, num_nodes: int) -> Tensor:
    """(E + N,) edges sorted by ``key``, and behind the edges of every node its loop, numbered from E on.

    Args:
        key: (E,) int64 node of every edge.
        entry: (E,) int64 edges sorted by it.
        num_nodes: N.
    """
    edges = len(entry)
    numbers = torch.arange(edges + num_nodes, device=key.device)
    ordered, nodes = key.index_select(0, entry), numbers[:num_nodes]
    # In front of an edge lie the edges before it and a loop per smaller node.
    place = torch.cat([ordered, torch.searchsorted(ordered, nodes, right=True)])
    place = torch.add(place, torch.cat([numbers[:edges], nodes]))
    return torch.empty_like(numbers).scatter_(0, place, torch.cat([entry, numbers[edges:]]))


def normalised(weight: Tensor, source: Tensor, target: Tensor, degree: Tensor, norm: str) -> Tensor:
    """Weights of the edges divided by the degrees of their ends, see :func:`adjacency`.

    Args:
        weight: (E,) float64.
        source: (E,) int64.
        target: (E,) int64.
        degree: (N,) float64, of all nodes that are an end.
        norm: ``sym`` or ``row``.
    """
    inverse = torch.where(degree > 0, degree.pow(-0.5 if norm == "sym" else -1.0), 0.0)
    return weight * inverse[target] * (inverse[source] if norm == "sym" else 1.0)


def _sorted(key: Tensor, other: Tensor, num_nodes: int, entry: Tensor | None) -> Csr:
    """Edges grouped by ``key``, ``entry`` the edges sorted by it where that is known."""
    if key.device.type == "cpu" and entry is None:
        entry = torch.argsort(key, stable=True)
        count = key.new_zeros(num_nodes + 1)
        count.scatter_add_(0, key + 1, torch.ones_like(key))
        return Csr(count.cumsum(0), entry, other[entry])
    # On a GPU few kernels count more than what they compute.
    ordered = key.sort(stable=True) if entry is None else (key.index_select(0, entry), entry)
    ptr = torch._convert_indices_from_coo_to_csr(ordered[0], num_nodes)
    return Csr(ptr, ordered[1], other.index_select(0, ordered[1]))


def in_pieces(adj: Adjacency) -> Adjacency:
    """Adjacency with its long lists of edges cut, for graphs that may have hubs (README)."""
    return replace(adj, by_target=_cut(adj.by_target), by_source=_cut(adj.by_source))


def _cut(lists: Csr) -> Csr:
    edges, nodes, start = lists.entry.numel(), lists.ptr.numel() - 1, lists.ptr[:-1]
    degree = lists.ptr[1:] - start
    if edges <= PIECE or (edges > _MANY and int(degree.max()) <= 2 * PIECE):
        return lists
    last = ((degree + (PIECE - 1)) // PIECE).cumsum(0)
    number = torch.arange(nodes + edges // PIECE, device=last.device)
    # Behind the last piece there are empty ones, which the last node gets.
    of_node = torch.cat([last.new_zeros(1), last[:-1], last.new_full((1,), len(number))])
    node = torch.searchsorted(last, number, right=True).clamp_(max=nodes - 1)
    begin = start[node] + PIECE * (number - of_node[node])
    ptr = torch.cat([torch.where(number < last[-1], begin, edges), lists.ptr[-1:]])
    return replace(lists, pieces=Pieces(ptr, number, of_node))
