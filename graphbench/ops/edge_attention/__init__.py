"""Attention along given pairs of nodes: graph edges, expander edges, blocks of a sequence."""

from __future__ import annotations

from torch import Tensor

from graphbench.ops.backend import Backends
from graphbench.ops.edge_attention import cpu, reference
from graphbench.ops.library import library_op
from graphbench.ops.operands import check_qkv
from graphbench.structures.adjacency import Adjacency

__all__ = ["edge_attention"]

_IMPLEMENTATIONS = Backends(reference.edge_attention, cpu.edge_attention)


@library_op(lambda adj, q, k, v, *_, **__: v.new_empty(v.shape))
def edge_attention(
    adj: Adjacency,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    e: Tensor | None = None,
    *,
    clamp: float | None = None,
    eps: float = 0.0,
    backend: str = "auto",
) -> Tensor:
    """Every node averages the values of its sources, weighted by attention; per head.

    Equation::

        out[t] = sum_s w(s, t) v[s] / (eps + sum_s w(s, t))      over the edges s -> t
        w(s, t) = exp(sum_c q[t, c] k[s, c] e[s, t, c] / sqrt(d))

    Args:
        adj: adjacency from :func:`~graphbench.structures.adjacency`, N nodes and M edges; its weights are not applied.
        q: (N, H, d) queries.
        k: (N, H, d) keys.
        v: (N, H, f) values.
        e: (M, H, d) factors of the edges, in the order they were given; None for 1.
        clamp: the exponent is limited to -clamp .. clamp (SAN, Exphormer); None: no limit, and the largest exponent
            of every target is subtracted first, which changes nothing but the range of numbers.
        eps: number added to the denominator; only with ``clamp``.
        backend: ``"auto"``, ``"reference"`` or ``"cpu"``.

    Returns:
        (N, H, f) of the type of ``v``; 0 for a node without incoming edges.

    Raises:
        ValueError: shapes do not fit ``adj``, ``clamp`` is not positive, ``eps`` comes without it, or ``backend`` is
            unknown.
    """
    nodes, edges = adj.num_nodes, adj.num_edges
    check_qkv(q, k, v, nodes)
    if e is not None and e.shape != (edges, *q.shape[1:]):
        raise ValueError(f"e must be ({edges}, {q.shape[1]}, {q.shape[2]}), received {tuple(e.shape)}")
    if (clamp is not None and clamp <= 0) or (clamp is None and eps):
        raise ValueError(f"clamp must be positive, and eps needs it; received clamp={clamp}, eps={eps}")
    return _IMPLEMENTATIONS.choose(backend, q)(adj, q, k, v, e, clamp, eps)
