"""Softmax attention approximated by positive random features (FAVOR+) inside every graph of a ragged batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from graphbench.ops.backend import choose
from graphbench.ops.kernel_attention import cpu, reference

if TYPE_CHECKING:
    from graphbench.structures import Ragged

__all__ = ["kernel_attention"]

_IMPLEMENTATIONS = {"reference": reference.kernel_attention, "cpu": cpu.kernel_attention}


def kernel_attention(
    q: Tensor, k: Tensor, v: Tensor, projection: Tensor, ragged: Ragged, *, eps: float = 1e-4, backend: str = "auto"
) -> Tensor:
    """Attention with weights ``phi(q_i) . phi(k_j)``, in O(N) and per head (derivation in the README).

    Equation::

        out_i = sum_j (phi(q_i) . phi(k_j)) v_j / sum_j (phi(q_i) . phi(k_j))       over the nodes j of i's graph
        phi(x)_r = exp(w_r . y - |y|^2 / 2 - c) + eps,   y = x / d^(1/4)

    with rows w_r of ``projection``; c is the largest w_r . y of the row for queries, and of the whole graph for keys.

    Args:
        q: (N, H, d) queries, rows grouped by graph.
        k: (N, H, d) keys.
        v: (N, H, f) values.
        projection: (m, d) random directions, shared by the heads; gets no gradient.
        ragged: the partition of the rows.
        eps: keeps every weight positive.
        backend: ``"auto"``, ``"reference"`` or ``"cpu"``.

    Returns:
        (N, H, f) of the type of ``v``.

    Raises:
        ValueError: shapes do not fit each other, ``eps`` is not positive, or ``backend`` is unknown.
    """
    if not (q.shape == k.shape and q.dim() == 3 and q.shape[:2] == v.shape[:2] and q.shape[0] == ragged.num_rows):
        raise ValueError(
            f"q, k must be ({ragged.num_rows}, H, d) and v ({ragged.num_rows}, H, f), received "
            f"{tuple(q.shape)}, {tuple(k.shape)}, {tuple(v.shape)}"
        )
    if projection.dim() != 2 or projection.shape[0] < 1 or projection.shape[1] != q.shape[2]:
        raise ValueError(
            f"projection must be (m, {q.shape[2]}) with at least one row, received {tuple(projection.shape)}"
        )
    if eps <= 0:
        raise ValueError(f"eps must be positive, received {eps}")
    return choose("kernel_attention", backend, _IMPLEMENTATIONS)(q, k, v, projection.detach(), ragged, eps)
