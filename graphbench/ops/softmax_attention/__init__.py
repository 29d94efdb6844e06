"""Softmax attention inside every graph of a ragged batch."""

from __future__ import annotations

from torch import Tensor

from graphbench.ops.backend import Backends
from graphbench.ops.library import library_op
from graphbench.ops.operands import check_qkv
from graphbench.ops.softmax_attention import cpu, reference
from graphbench.structures import Ragged

__all__ = ["softmax_attention"]


_IMPLEMENTATIONS = Backends(reference.softmax_attention, cpu.softmax_attention, gpu=True, loops_over_graphs=True)


@library_op(lambda q, k, v, *_, **__: v.new_empty(v.shape))
def softmax_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    ragged: Ragged,
    *,
    dropout_p: float = 0.0,
    bias: Tensor | None = None,
    packed: Tensor | None = None,
    backend: str = "auto",
) -> Tensor:
    """``out[i] = sum_j softmax_j(q[i] . k[j] / sqrt(d) + bias[i, j]) v[j]`` over the nodes j of i's graph, per head.

    Args:
        q: (N, H, d) queries, rows grouped by graph.
        k: (N, H, d) keys.
        v: (N, H, e) values.
        ragged: the partition of the rows.
        dropout_p: probability of dropping an attention weight; the caller passes 0 in evaluation. Reproducible from
            torch's global generator.
        bias: (P, H) added to the scaled scores, P = sum n_g^2 pairs, graph after graph and row-major as in
            :class:`~graphbench.structures.PairBlocks`; or None. A row without a finite score has no weights: it is NaN
            or 0, by the path that computes it.
        packed: (N, 3, H, d), of which q, k and v are views, or None: fast paths then read it as it is, and its gradient
            is written in one piece.
        backend: ``"auto"``, ``"reference"``, ``"cpu"`` or ``"gpu"`` (Triton), which ``"auto"`` takes for CUDA tensors
            where it is installed.

    Returns:
        (N, H, e) of the type of ``v``.

    Raises:
        ValueError: shapes do not fit ``ragged``, the probability is outside [0, 1] or ``backend`` is unknown.
    """
    check_qkv(q, k, v, ragged.num_rows)
    if bias is not None and bias.shape != (ragged.num_pairs, q.shape[1]):
        expected = f"({ragged.num_pairs}, {q.shape[1]})"
        raise ValueError(f"bias must be {expected} (pairs, heads), received {tuple(bias.shape)}")
    if not 0.0 <= dropout_p <= 1.0:
        raise ValueError(f"dropout_p must lie in [0, 1], received {dropout_p}")
    return _IMPLEMENTATIONS.choose(backend, q)(q, k, v, ragged, dropout_p, bias, packed)
