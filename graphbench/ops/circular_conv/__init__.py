"""Circular convolution along the nodes of a graph, with a filter as long as the graph (GECO)."""

from __future__ import annotations

from torch import Tensor

from graphbench.ops.backend import Backends
from graphbench.ops.circular_conv import cpu, reference
from graphbench.ops.circular_conv.fourier import reads_columns
from graphbench.ops.library import library_op
from graphbench.structures import Ragged
from graphbench.structures.size_groups import num_taps

__all__ = ["circular_conv", "reads_columns"]

_IMPLEMENTATIONS = Backends(reference.circular_conv, cpu.circular_conv, gpu=True)


@library_op(lambda u, *_, **__: u.new_empty(u.shape))
def circular_conv(
    u: Tensor, filters: Tensor, ragged: Ragged, *, gate: Tensor | None = None, backend: str = "auto"
) -> Tensor:
    """``out[t] = gate[t] * sum_i u[i] * f_n[(t - i) mod n]`` per channel, inside every graph of n nodes.

    GECO (https://arxiv.org/abs/2406.12059), step 3 of Algorithm 1; positions are counted from the first node of a
    graph. One filter serves all graphs of the same size. Worked example, graphs of 2, 3 and 2 nodes: the distinct sizes
    are (2, 3), ``filters`` has 5 rows, the first two for graphs 0 and 2, the last three for graph 1.

    Args:
        u: (N, d), rows grouped by graph. The result lies in memory as ``u`` does, see also :func:`reads_columns`.
        filters: (M, d), M the sum of the distinct sizes: the taps 0 .. n-1 of every distinct size n, sizes ascending
            (:mod:`~graphbench.structures.size_groups`).
        ragged: the partition of the rows of ``u``.
        gate: (N, d) factor of the output, or None for 1. The same as multiplying the result, but what is multiplied
            is computed again in the backward pass instead of being kept: (N, d) less memory, a tenth more time.
        backend: ``"auto"``, ``"reference"``, ``"gpu"`` or ``"cpu"``; the last two differ for small graphs on a GPU.

    Returns:
        (N, d) of the type of ``u``. Half precision is computed in float32, also under autocast.

    Raises:
        ValueError: shapes do not fit each other or ``backend`` is unknown.
    """
    taps = num_taps(ragged)
    if u.dim() != 2 or u.shape[0] != ragged.num_rows:
        raise ValueError(f"u must be ({ragged.num_rows}, d), received {tuple(u.shape)}")
    if filters.shape != (taps, u.shape[1]):
        raise ValueError(
            f"filters must be ({taps}, {u.shape[1]}), one row per tap of every distinct size, "
            f"received {tuple(filters.shape)}"
        )
    if gate is not None and gate.shape != u.shape:
        raise ValueError(f"gate must be {tuple(u.shape)}, as u, received {tuple(gate.shape)}")
    return _IMPLEMENTATIONS.choose(backend, u)(u, filters, gate, ragged)
