"""Reductions over the rows of every graph, and rows of graphs repeated for their nodes."""

from __future__ import annotations

from torch import Tensor

from graphbench.ops.backend import Backends
from graphbench.ops.library import library_op
from graphbench.ops.segment import cpu, reference
from graphbench.structures import Ragged

__all__ = ["bag_sum", "segment_flip", "segment_max", "segment_mean", "segment_repeat", "segment_softmax", "segment_sum"]


_FLIP = Backends(reference.segment_flip, cpu.segment_flip, gpu=True)
_SUM = Backends(reference.segment_sum, cpu.segment_sum, gpu=True)
_MEAN = Backends(reference.segment_mean, cpu.segment_mean, gpu=True)
_REPEAT = Backends(reference.segment_repeat, cpu.segment_repeat, gpu=True)
_MAX = Backends(reference.segment_max, cpu.segment_max)
_SOFTMAX = Backends(reference.segment_softmax, cpu.segment_softmax)
_BAG = Backends(None, cpu.bag_sum, gpu=True)


def bag_sum(rows: Tensor, index: Tensor, ptr: Tensor, weight: Tensor | None = None, *, backend: str = "auto") -> Tensor:
    """``out[i] = sum over p in ptr[i] .. ptr[i+1] of weight[p] * rows[index[p]]``, without a gradient.

    Args:
        rows: (R, C) floating, not empty.
        index: (P,) int64, not empty.
        ptr: (S+1,) int64, starts at 0, ends at P.
        weight: (P,) of the type of ``rows``, or None for ones.
        backend: ``"auto"``, ``"cpu"`` or ``"gpu"``.

    Returns:
        (S, C).
    """
    return _BAG.choose(backend, rows)(rows, index, ptr, weight)


def _per_graph(x: Tensor, ragged: Ragged, **_: object) -> Tensor:
    return x.new_empty((ragged.num_graphs, *x.shape[1:]))


@library_op(_per_graph)
def segment_sum(x: Tensor, ragged: Ragged, *, backend: str = "auto") -> Tensor:
    """Sum of the rows of every graph.

    Args:
        x: (N, ...) floating, grouped by graph.
        ragged: the partition of the rows.
        backend: ``"auto"``, ``"reference"``, ``"cpu"``, or for sums and means ``"gpu"``.

    Returns:
        (G, ...); 0 for an empty graph.
    """
    return _SUM.choose(backend, x)(_checked(x, ragged), ragged)


@library_op(_per_graph)
def segment_mean(x: Tensor, ragged: Ragged, *, backend: str = "auto") -> Tensor:
    """Mean of the rows of every graph; arguments as :func:`segment_sum`; 0 for an empty graph."""
    return _MEAN.choose(backend, x)(_checked(x, ragged), ragged)


@library_op(_per_graph)
def segment_max(x: Tensor, ragged: Ragged, *, backend: str = "auto") -> Tensor:
    """Maximum over the rows of every graph, per channel; arguments as :func:`segment_sum`; 0 for an empty graph.

    The gradient is shared equally among entries that attain the maximum, as in :func:`torch.amax`.
    """
    return _MAX.choose(backend, x)(_checked(x, ragged), ragged)


@library_op(lambda x, ragged, **_: x.new_empty((ragged.num_rows, *x.shape[1:])))
def segment_repeat(x: Tensor, ragged: Ragged, *, backend: str = "auto") -> Tensor:
    """Row of the graph of every row: the adjoint of :func:`segment_sum`, ``out[i] = x[g]`` for the rows i of graph g.

    The gradient of a graph is the sum over its rows, added in the same order every time (``index_select`` and indexing
    add it in any order on a GPU).

    Args:
        x: (G, ...) floating, one row per graph.
        ragged: the partition of the rows.
        backend: ``"auto"``, ``"reference"``, ``"cpu"`` or ``"gpu"``.

    Returns:
        (N, ...).

    Raises:
        ValueError: there is not one row per graph.
    """
    if x.shape[0] != ragged.num_graphs:
        raise ValueError(f"x must have one row per graph ({ragged.num_graphs}), received shape {tuple(x.shape)}")
    return _REPEAT.choose(backend, x)(x, ragged)


def segment_flip(x: Tensor, coin: Tensor, ragged: Ragged, *, backend: str = "auto") -> Tensor:
    """``x`` with the signs of some columns of a graph changed: those where its coin is 0. Has no gradient.

    Args:
        x: (N, C) floating, grouped by graph.
        coin: (G, C) int64, 0 or 1.
        ragged: the partition of the rows.
        backend: ``"auto"``, ``"reference"``, ``"cpu"`` or ``"gpu"``.

    Raises:
        ValueError: shapes do not fit each other.
    """
    if x.dim() != 2 or coin.shape != (ragged.num_graphs, x.shape[1]):
        expected = (ragged.num_graphs, x.shape[-1])
        raise ValueError(f"coin must be {expected} for x (N, C), received {tuple(coin.shape)} for {tuple(x.shape)}")
    return _FLIP.choose(backend, x)(_checked(x, ragged), coin, ragged)


@library_op(lambda x, *_, **__: x.new_empty(x.shape))
def segment_softmax(x: Tensor, ragged: Ragged, *, backend: str = "auto") -> Tensor:
    """Softmax over the rows of every graph, per channel; arguments as :func:`segment_sum`; returns (N, ...)."""
    return _SOFTMAX.choose(backend, x)(_checked(x, ragged), ragged)


def _checked(x: Tensor, ragged: Ragged) -> Tensor:
    if x.shape[0] != ragged.num_rows:
        raise ValueError(f"x must have one row per node ({ragged.num_rows}), received shape {tuple(x.shape)}")
    return x
