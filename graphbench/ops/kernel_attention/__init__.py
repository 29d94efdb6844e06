"""Softmax attention approximated by positive random features (FAVOR+) inside every graph of a ragged batch."""

from __future__ import annotations

from torch import Tensor

from graphbench.ops.backend import Backends, compute_dtype
from graphbench.ops.kernel_attention import cpu, reference
from graphbench.ops.kernel_attention.sums import KeySums, kernel_attention_of_sums, kernel_attention_sums
from graphbench.ops.library import library_op
from graphbench.structures import Ragged

__all__ = [
    "KeySums",
    "edge_weights",
    "feature_attention",
    "kernel_attention",
    "kernel_attention_of_sums",
    "kernel_attention_sums",
]

_IMPLEMENTATIONS = Backends(reference.kernel_attention, cpu.kernel_attention, loops_over_graphs=True)
_OF_FEATURES = Backends(reference.feature_attention, cpu.feature_attention)
_EDGE_WEIGHTS = Backends(reference.edge_weights, cpu.edge_weights)


@library_op(lambda q, k, v, *_, **__: v.new_empty(v.shape))
def kernel_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    projection: Tensor,
    ragged: Ragged,
    *,
    eps: float = 1e-4,
    key_weights: Tensor | None = None,
    backend: str = "auto",
) -> Tensor:
    """Attention with weights ``phi(q_i) . phi(k_j)``, in O(N) and per head (derivation in the README).

    Equation::

        out_i = 1/S sum_s [sum_j w_ijs v_j / sum_j w_ijs]      over the nodes j of i's graph
        w_ijs = (phi(q_i) . phi(k_j)) u_js
        phi(x)_r = exp(w_r . y - |y|^2 / 2 - c) + eps,   y = x / d^(1/4)

    with rows w_r of ``projection``; c is the largest w_r . y of the row for queries, and of the whole graph for keys.

    Args:
        q: (N, H, d) queries, rows grouped by graph.
        k: (N, H, d) keys.
        v: (N, H, f) values.
        projection: (m, d) random directions, shared by the heads; gets no gradient.
        ragged: the partition of the rows.
        eps: keeps every weight positive.
        key_weights: (N, H, S) positive u, S samples of weights of the keys over which outputs are averaged; None is
            one sample of ones.
        backend: ``"auto"``, ``"reference"`` or ``"cpu"``.

    Returns:
        (N, H, f) of the type of ``v``.

    Raises:
        ValueError: shapes do not fit each other, ``eps`` is not positive, or ``backend`` is unknown.
    """
    _check_values(q, v, ragged, key_weights)
    _check(q, k, projection, ragged, eps)
    implementation = _IMPLEMENTATIONS.choose(backend, q)
    return implementation(q, k, v, projection.detach(), ragged, eps, key_weights)


@library_op(lambda q, k, v, *_, **__: v.new_empty(v.shape))
def feature_attention(
    q: Tensor, k: Tensor, v: Tensor, ragged: Ragged, *, key_weights: Tensor | None = None, backend: str = "auto"
) -> Tensor:
    """The sums of :func:`kernel_attention` for features that are given, such as the sigmoid of queries and keys.

    Equation::

        out_i = 1/S sum_s [sum_j w_ijs v_j / sum_j w_ijs],   w_ijs = (q_i . k_j) u_js      over the nodes j of i's graph

    Args:
        q: (N, H, m) features of queries; positive, or w may add up to 0.
        k: (N, H, m) features of keys, positive.
        v: (N, H, f) values.
        ragged: the partition of the rows.
        key_weights: weights of the keys, see :func:`kernel_attention`.
        backend: ``"auto"``, ``"reference"`` or ``"cpu"``.

    Returns:
        (N, H, f) of the type of ``v``.

    Raises:
        ValueError: shapes do not fit each other, or ``backend`` is unknown.
    """
    _check_rows(q, k, ragged, "m")
    _check_values(q, v, ragged, key_weights)
    return _OF_FEATURES.choose(backend, q)(q, k, v, ragged, key_weights)


@library_op(
    lambda q, k, projection, ragged, edge_index, **_: q.new_empty(
        (edge_index.shape[1], q.shape[1]), dtype=compute_dtype(q)
    )
)
def edge_weights(
    q: Tensor,
    k: Tensor,
    projection: Tensor,
    ragged: Ragged,
    edge_index: Tensor,
    *,
    eps: float = 1e-4,
    backend: str = "auto",
) -> Tensor:
    """The weights that :func:`kernel_attention` gives to some pairs, without those of all others, in O(N + E).

    Args:
        q: (N, H, d) queries.
        k: (N, H, d) keys.
        projection: (m, d) random directions.
        ragged: the partition of the rows.
        edge_index: (2, E) int64; row 1 attends to row 0, both in one graph.
        eps: number added to the features, see :func:`kernel_attention`.
        backend: ``"auto"``, ``"reference"`` or ``"cpu"``.

    Returns:
        (E, H) in float32 or wider, positive; over all nodes of a graph the weights of one target sum to one.

    Raises:
        ValueError: as in :func:`kernel_attention`.
    """
    _check(q, k, projection, ragged, eps)
    implementation = _EDGE_WEIGHTS.choose(backend, q)
    return implementation(q, k, projection.detach(), ragged, edge_index[0], edge_index[1], eps)


def _check_rows(q: Tensor, k: Tensor, ragged: Ragged, width: str) -> None:
    if not (q.shape == k.shape and q.dim() == 3 and q.shape[0] == ragged.num_rows):
        raise ValueError(f"q, k must be ({ragged.num_rows}, H, {width}), received {tuple(q.shape)}, {tuple(k.shape)}")


def _check_values(q: Tensor, v: Tensor, ragged: Ragged, key_weights: Tensor | None) -> None:
    if not (v.dim() == 3 and v.shape[:2] == q.shape[:2]):
        raise ValueError(f"v must be ({ragged.num_rows}, H, f) next to q {tuple(q.shape)}, received {tuple(v.shape)}")
    if key_weights is not None and not (
        key_weights.dim() == 3 and key_weights.shape[:2] == q.shape[:2] and key_weights.shape[2]
    ):
        shapes = f"q {tuple(q.shape)}, received {tuple(key_weights.shape)}"
        raise ValueError(f"key_weights must be ({ragged.num_rows}, H, 1 or more) next to {shapes}")


def _check(q: Tensor, k: Tensor, projection: Tensor, ragged: Ragged, eps: float) -> None:
    _check_rows(q, k, ragged, "d")
    if projection.dim() != 2 or projection.shape[0] < 1 or projection.shape[1] != q.shape[2]:
        raise ValueError(
            f"projection must be (m, {q.shape[2]}) with at least one row, received {tuple(projection.shape)}"
        )
    if eps <= 0:
        raise ValueError(f"eps must be positive, received {eps}")
