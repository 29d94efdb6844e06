"""The linear attention of SGFormer and of DIFFormer inside every graph of a ragged batch."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from graphbench.ops.backend import Backends
from graphbench.ops.library import library_op
from graphbench.ops.linear_attention import cpu, reference
from graphbench.ops.linear_attention.norms import BASES, NORMS, without_cancelled
from graphbench.ops.linear_attention.sums import Sums, linear_attention_of_sums, linear_attention_sums
from graphbench.structures import Ragged

__all__ = ["BASES", "NORMS", "Sums", "linear_attention", "linear_attention_of_sums", "linear_attention_sums"]


_IMPLEMENTATIONS = Backends(reference.linear_attention, cpu.linear_attention, gpu=True, loops_over_graphs=True)


@library_op(lambda q, k, v, *_, **__: v.new_empty((*q.shape[:2], v.shape[2])))
def linear_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    ragged: Ragged,
    *,
    norm: Literal["frobenius", "l2"] = "frobenius",
    base: Literal["self", "uniform", "none"] = "self",
    backend: str = "auto",
) -> Tensor:
    """Attention with weights ``q~ . k~`` plus a base, in O(N) and per head (derivation in the README).

    Equation::

        self      out[i] = (n v[i] + q~[i] (k~^T v)) / (n + q~[i] . sum_j k~[j])        q~ = q / |q|,  k~ = k / |k|
        uniform   out[i] = (sum_j v[j] + q~[i] (k~^T v)) / (n + q~[i] . sum_j k~[j])
        none      out[i] = q~[i] (k~^T v) / (q~[i] . sum_j k~[j])

    with n the nodes of i's graph. Where a denominator with a base is 0 up to rounding, q~[i] counts as 0 (``self``:
    out[i] = v[i]; ``uniform``: the mean of v). ``frobenius``: one norm per graph, over its nodes, heads and channels;
    ``l2``: one norm per row and head. A norm of zero is replaced by one. ``none`` divides by a sum that may cancel: its
    size is kept at 0.01 times ``|q~[i]| sum_j |k~[j]|`` or more, its sign stays.

    Args:
        q: (N, H, d) queries, rows grouped by graph.
        k: (N, H, d) keys.
        v: (N, H, e) values, or (N, 1, e) shared by all heads.
        ragged: the partition of the rows.
        norm: norm that q and k are divided by.
        base: base added to every weight: n to that of a node to itself (SGFormer), 1 to all (DIFFormer), or nothing.
        backend: ``"auto"``, ``"reference"``, ``"gpu"`` or ``"cpu"``.

    Returns:
        (N, H, e) of the type of ``v``.

    Raises:
        ValueError: shapes do not fit ``ragged``, or ``norm``, ``base`` or ``backend`` is unknown.
    """
    fits = q.shape == k.shape and q.dim() == v.dim() == 3 and q.shape[0] == v.shape[0] == ragged.num_rows
    if not (fits and v.shape[1] in (1, q.shape[1])):
        raise ValueError(
            f"q, k must be ({ragged.num_rows}, H, d) and v ({ragged.num_rows}, H or 1, e), received "
            f"{tuple(q.shape)}, {tuple(k.shape)}, {tuple(v.shape)}"
        )
    if norm not in NORMS:
        raise ValueError(f"norm must be one of {NORMS}, received {norm!r}")
    if base not in BASES:
        raise ValueError(f"base must be one of {BASES}, received {base!r}")
    # A Frobenius norm keeps |q~ . sum k~| below sqrt(n), so that only a graph of one node can cancel.
    if base != "none" and ragged.num_rows and (norm == "l2" or 1 in ragged.sizes):
        q = without_cancelled(q, k, ragged, norm)
    return _IMPLEMENTATIONS.choose(backend, q)(q, k, v, ragged, norm, base)
