"""Attention whose weights are a positive function of a pair of nodes, inside every graph of a ragged batch."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from graphbench.ops.backend import Backends
from graphbench.ops.library import library_op
from graphbench.ops.pair_attention import cpu, reference
from graphbench.ops.pair_attention.weights import WEIGHTS
from graphbench.structures import Ragged

__all__ = ["WEIGHTS", "pair_attention"]

_IMPLEMENTATIONS = Backends(reference.pair_attention, cpu.pair_attention, loops_over_graphs=True)


@library_op(lambda q, k, v, *_, **__: v.new_empty((*q.shape[:2], v.shape[2])))
def pair_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    ragged: Ragged,
    *,
    weight: Literal["sigmoid", "additive"],
    backend: str = "auto",
) -> Tensor:
    """``out[i] = sum_j w(i, j) v[j] / sum_j w(i, j)`` over the nodes j of i's graph, per head.

    Weights::

        sigmoid    w(i, j) = sigmoid(q[i] . k[j])                        DIFFormer-a
        additive   w(i, j) = exp(leaky_relu_0.2(sum q[i] + sum k[j]))    GAT, over all pairs

    O(sum n^2) time. Memory is O(N) and one block of pairs, also for gradients: blocks are computed again backward.

    Args:
        q: (N, H, d) queries, rows grouped by graph.
        k: (N, H, d) keys.
        v: (N, H, f) values, or (N, 1, f) shared by all heads.
        ragged: the partition of the rows.
        weight: ``sigmoid`` or ``additive``.
        backend: ``"auto"``, ``"reference"`` or ``"cpu"``.

    Returns:
        (N, H, f) of the type of ``v``.

    Raises:
        ValueError: shapes do not fit ``ragged``, or ``weight`` or ``backend`` is unknown.
    """
    rows, heads = ragged.num_rows, q.shape[1]
    if not (q.shape == k.shape and q.dim() == v.dim() == 3 and q.shape[0] == v.shape[0] == rows):
        raise ValueError(
            f"q, k must be ({rows}, H, d) and v ({rows}, H or 1, f), received {tuple(q.shape)}, {tuple(k.shape)}, "
            f"{tuple(v.shape)}"
        )
    if v.shape[1] not in (1, heads):
        raise ValueError(f"v must have {heads} heads or 1, received {v.shape[1]}")
    if weight not in WEIGHTS:
        raise ValueError(f"weight must be one of {tuple(WEIGHTS)}, received {weight!r}")
    return _IMPLEMENTATIONS.choose(backend, q)(q, k, v, ragged, weight)
