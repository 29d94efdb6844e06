"""Reductions over the rows of every graph."""

from __future__ import annotations

from torch import Tensor

from graphbench.ops.backend import choose, has_triton
from graphbench.ops.segment import cpu, reference
from graphbench.structures import Ragged

__all__ = ["segment_max", "segment_mean", "segment_softmax", "segment_sum"]


def _sum_on_gpu(x: Tensor, ragged: Ragged) -> Tensor:
    from graphbench.ops.segment import gpu  # needs Triton

    return gpu.segment_sum(x, ragged)


def _mean_on_gpu(x: Tensor, ragged: Ragged) -> Tensor:
    from graphbench.ops.segment import gpu  # needs Triton

    return gpu.segment_mean(x, ragged)


_SUM = {"reference": reference.segment_sum, "gpu": _sum_on_gpu, "cpu": cpu.segment_sum}
_MEAN = {"reference": reference.segment_mean, "gpu": _mean_on_gpu, "cpu": cpu.segment_mean}
_MAX = {"reference": reference.segment_max, "cpu": cpu.segment_max}
_SOFTMAX = {"reference": reference.segment_softmax, "cpu": cpu.segment_softmax}


def segment_sum(x: Tensor, ragged: Ragged, *, backend: str = "auto") -> Tensor:
    """Sum of the rows of every graph.

    Args:
        x: (N, ...) floating, grouped by graph.
        ragged: the partition of the rows.
        backend: ``"auto"``, ``"reference"``, ``"cpu"``, or for sums and means ``"gpu"``.

    Returns:
        (G, ...); 0 for an empty graph.
    """
    return choose("segment_sum", _named(backend, x), _SUM)(_checked(x, ragged), ragged)


def segment_mean(x: Tensor, ragged: Ragged, *, backend: str = "auto") -> Tensor:
    """Mean of the rows of every graph; arguments as :func:`segment_sum`; 0 for an empty graph."""
    return choose("segment_mean", _named(backend, x), _MEAN)(_checked(x, ragged), ragged)


def segment_max(x: Tensor, ragged: Ragged, *, backend: str = "auto") -> Tensor:
    """Maximum over the rows of every graph, per channel; arguments as :func:`segment_sum`; 0 for an empty graph.

    The gradient is shared equally among entries that attain the maximum, as in :func:`torch.amax`.
    """
    return choose("segment_max", backend, _MAX)(_checked(x, ragged), ragged)


def segment_softmax(x: Tensor, ragged: Ragged, *, backend: str = "auto") -> Tensor:
    """Softmax over the rows of every graph, per channel; arguments as :func:`segment_sum`; returns (N, ...)."""
    return choose("segment_softmax", backend, _SOFTMAX)(_checked(x, ragged), ragged)


def _named(backend: str, x: Tensor) -> str:
    return "gpu" if backend == "auto" and has_triton(x) else backend


def _checked(x: Tensor, ragged: Ragged) -> Tensor:
    if x.shape[0] != ragged.num_rows:
        raise ValueError(f"x must have one row per node ({ragged.num_rows}), received shape {tuple(x.shape)}")
    return x
