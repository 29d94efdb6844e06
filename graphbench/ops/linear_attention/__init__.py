"""SGFormer's linear attention inside every graph of a ragged batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from torch import Tensor

from graphbench.ops.backend import choose
from graphbench.ops.linear_attention import cpu, reference
from graphbench.ops.linear_attention.sums import Sums, linear_attention_of_sums, linear_attention_sums

if TYPE_CHECKING:
    from graphbench.structures import Ragged

__all__ = ["NORMS", "Sums", "linear_attention", "linear_attention_of_sums", "linear_attention_sums"]

NORMS = ("frobenius", "l2")

_IMPLEMENTATIONS = {"reference": reference.linear_attention, "cpu": cpu.linear_attention}


def linear_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    ragged: Ragged,
    *,
    norm: Literal["frobenius", "l2"] = "frobenius",
    backend: str = "auto",
) -> Tensor:
    """Attention with weights ``q~ . k~`` plus n on the diagonal, in O(N) and per head (derivation in the README).

    Equation::

        out[i] = (n v[i] + q~[i] (k~^T v)) / (n + q~[i] . sum_j k~[j])        q~ = q / |q|,  k~ = k / |k|

    with n the nodes of i's graph. ``frobenius``: one norm per graph, over its nodes, heads and channels;
    ``l2``: one norm per row and head. A norm of zero is replaced by one.

    Args:
        q: (N, H, d) queries, rows grouped by graph.
        k: (N, H, d) keys.
        v: (N, H, e) values, or (N, 1, e) shared by all heads.
        ragged: the partition of the rows.
        norm: what q and k are divided by.
        backend: ``"auto"``, ``"reference"`` or ``"cpu"``.

    Returns:
        (N, H, e) of the type of ``v``.

    Raises:
        ValueError: shapes do not fit ``ragged``, or ``norm`` or ``backend`` is unknown.
    """
    heads = q.shape[1]
    if not (q.shape == k.shape and q.shape[0] == v.shape[0] == ragged.num_rows and v.shape[1] in (1, heads)):
        raise ValueError(
            f"q, k must be ({ragged.num_rows}, H, d) and v ({ragged.num_rows}, H or 1, e), received "
            f"{tuple(q.shape)}, {tuple(k.shape)}, {tuple(v.shape)}"
        )
    if norm not in NORMS:
        raise ValueError(f"norm must be one of {NORMS}, received {norm!r}")
    return choose("linear_attention", backend, _IMPLEMENTATIONS)(q, k, v, ragged, norm)
