"""Softmax attention that sees the k-hop neighbourhood of a node, or everything, head by head; relations as tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from torch import Tensor

from graphbench.ops.backend import Backends, has_triton
from graphbench.ops.focal_attention import cpu, dense, reference
from graphbench.ops.focal_attention.scope import Relation, Scope, per_head
from graphbench.ops.library import library_op
from graphbench.ops.operands import check_qkv
from graphbench.structures import HopNeighbors, PairBlocks, Ragged

__all__ = ["Relation", "focal_attention"]


_IMPLEMENTATIONS = Backends(reference.focal_attention, cpu.focal_attention, gpu=True, dense=dense.focal_attention)


@library_op(lambda q, k, v, *_, **__: v.new_empty(v.shape))
def focal_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    ragged: Ragged,
    distances: PairBlocks | HopNeighbors,
    max_hops: int | Sequence[int | None] | None,
    *,
    relations: Sequence[Relation] = (),
    bias: Tensor | None = None,
    unreachable: Literal["mask", "full"] = "mask",
    dropout_p: float = 0.0,
    backend: str = "auto",
) -> Tensor:
    r"""``out[i] = sum_j a_ij (v[j] + sum_t value_t[r_t(i, j)])`` over the nodes j that head h sees from i.

    Equation::

        a_i. = softmax_j( s_ij ),   j with distance(i, j) <= max_hops_h
        s_ij = (q_i . k_j + sum_t q_i . query_t[r_t(i, j)] + k_i . key_t[r_t(i, j)]) / sqrt(d) + bias_ij

    r_t(i, j) is the number of a relation of the pair: its hops, the type of its edge. The key term takes the key of
    the row node i, as the released code of GRPE does, where the paper (https://arxiv.org/abs/2201.12787) has that of
    j. A graph token (distance 254) sees all and is seen by all whatever the limit.

    Args:
        q: (N, H, d) queries, rows grouped by graph.
        k: (N, H, d) keys.
        v: (N, H, e) values.
        ragged: the partition of the rows.
        distances: distances of all pairs, or lists of the nodes within a cut-off of every node: then time and memory,
            with gradients, are those of the lists.
        max_hops: largest number of hops seen; None: the whole graph (not with lists). One for all heads, or one per
            head.
        relations: relations of pairs; ``index`` and ``bias`` are in the order of ``distances`` (P pairs).
        bias: (P, H) added to the scores, or None.
        unreachable: treatment of pairs without a path in a limited head: ``mask`` leaves them out, ``full`` sees
            them, as FFGT's released code does (not with lists).
        dropout_p: probability of dropping an attention weight; the caller passes 0 in evaluation. Reproducible from
            torch's global generator.
        backend: ``"auto"``, ``"reference"``, ``"cpu"``, ``"gpu"`` (Triton) or ``"dense"``, which is what other devices
            take without it.

    Returns:
        (N, H, e) of the type of ``v``.

    Raises:
        ValueError: shapes do not fit, ``max_hops`` is negative or not possible with lists, the probability is outside
            [0, 1], or ``unreachable`` or ``backend`` is unknown.
    """
    check_qkv(q, k, v, ragged.num_rows)
    if unreachable not in ("mask", "full"):
        raise ValueError(f"unreachable must be mask or full, received {unreachable!r}")
    if not 0.0 <= dropout_p <= 1.0:
        raise ValueError(f"dropout_p must lie in [0, 1], received {dropout_p}")
    scope = Scope(ragged, distances, per_head(max_hops, q.shape[1]), unreachable == "full")
    scope.check()
    heads, d, e = q.shape[1], q.shape[2], v.shape[2]
    if bias is not None and bias.shape != (scope.pairs, heads):
        raise ValueError(f"bias must be ({scope.pairs}, {heads}) (pairs, heads), received {tuple(bias.shape)}")
    for relation in relations:
        relation.check(scope.pairs, heads, d, e)
    if backend == "auto" and not (scope.has_blocks and has_triton(q)):
        backend = "dense" if scope.has_blocks and q.device.type != "cpu" else "cpu"
    return _IMPLEMENTATIONS.choose(backend, q)(q, k, v, scope, tuple(relations), bias, dropout_p)
