"""Softmax attention inside every graph of a ragged batch, its scores (or weights) damped with distance."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from graphbench.ops.backend import Backends
from graphbench.ops.decay_attention import cpu, reference
from graphbench.ops.decay_attention.mask import Decay
from graphbench.ops.library import library_op
from graphbench.ops.operands import check_qkv
from graphbench.structures import Ragged

__all__ = ["Decay", "decay_attention"]


_IMPLEMENTATIONS = Backends(reference.decay_attention, cpu.decay_attention, gpu=True, loops_over_graphs=True)


@library_op(lambda q, k, v, *_, **__: v.new_empty(v.shape))
def decay_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    ragged: Ragged,
    index: Tensor,
    start: Tensor,
    *,
    decay: float,
    slope: float = 0.0,
    kind: Literal["exponential", "linear"] = "exponential",
    end: float | None = None,
    mask_on: Literal["scores", "probs"] = "scores",
    unreachable: Literal["far", "full", "mask"] = "far",
    dropout_p: float = 0.0,
    packed: Tensor | None = None,
    backend: str = "auto",
) -> Tensor:
    r"""``out[i] = sum_j softmax_j(M[i, j] q[i] . k[j] / sqrt(d)) v[j]`` over the nodes j of i's graph, per head.

    .. math:: M_{ij} = \lambda^{x_{ij}}, \qquad x_{ij} = \mathrm{LeakyReLU}(\psi_{ij} - s) \qquad (exponential)
    .. math:: M_{ij} = \max(0,\, 1 - x_{ij} / \max(e - s,\, 1)) \qquad (linear)

    The mask flattens: a far pair has score 0, not weight 0. With ``mask_on="probs"`` it multiplies the softmax
    instead, and rows are divided by their sum again.

    Args:
        q: (N, H, d) queries, rows grouped by graph.
        k: (N, H, d) keys.
        v: (N, H, e) values.
        ragged: the partition of the rows.
        index: (P,) psi, P = sum n_g^2 pairs, graph after graph and row-major as in
            :class:`~graphbench.structures.PairBlocks`: uint8 hops with its two special values, or floating distances of
            any other kind, infinite where there is no path. No gradient.
        start: (H,) s, in the units of psi.
        decay: lambda, 0 .. 1; 1 is plain attention. Not read by ``kind="linear"``.
        slope: slope of LeakyReLU below the start point, 0 .. 1; amplifies pairs below s. 0 counts at psi = s, too.
        kind: ``exponential`` or ``linear``.
        end: e, from where on a linear mask is 0; needed there, and not read elsewhere.
        mask_on: ``scores`` or ``probs``.
        unreachable: pairs without a path are at 510 (``far``: as released, M is nearly 0), have M = 1 (``full``) or
            weight 0 (``mask``). M = 1 for pairs with the graph token in any case.
        dropout_p: probability of dropping an attention weight; the caller passes 0 in evaluation. Reproducible from
            torch's global generator.
        packed: (N, 3, H, d), of which q, k and v are views, or None: kernels then read it as it is, and its gradient
            is written in one piece.
        backend: ``"auto"``, ``"reference"``, ``"cpu"`` (which runs on every device) or ``"gpu"`` (Triton). ``"auto"``
            takes ``"gpu"`` for CUDA tensors where Triton is installed.

    Returns:
        (N, H, e) of the type of ``v``.

    Raises:
        ValueError: shapes do not fit ``ragged``, or an argument is out of range.
    """
    check_qkv(q, k, v, ragged.num_rows)
    pairs = ragged.num_pairs
    if index.shape != (pairs,) or not (index.dtype == torch.uint8 or index.is_floating_point()):
        raise ValueError(
            f"index must be uint8 or floating of shape ({pairs},), received {index.dtype} of shape {tuple(index.shape)}"
        )
    if index.requires_grad:
        raise ValueError("index gets no gradient, received a tensor that requires one")
    if start.shape != (q.shape[1],):
        raise ValueError(f"start must be ({q.shape[1]},), one number per head, received {tuple(start.shape)}")
    if not 0.0 <= dropout_p <= 1.0:
        raise ValueError(f"dropout_p must lie in [0, 1], received {dropout_p}")
    mask = Decay(decay, slope, kind, end, mask_on, unreachable)
    return _IMPLEMENTATIONS.choose(backend, q)(q, k, v, ragged, index, start, mask, dropout_p, packed)
