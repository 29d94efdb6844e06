"""Shapes that attention operators share."""

from __future__ import annotations

from torch import Tensor


def check_qkv(q: Tensor, k: Tensor, v: Tensor, rows: int) -> None:
    """Refuses queries, keys and values of other shapes than (rows, H, d), the same, and (rows, H, e).

    Raises:
        ValueError: with the shapes received.
    """
    if not (q.shape == k.shape and q.dim() == v.dim() == 3 and q.shape[:2] == v.shape[:2] and q.shape[0] == rows):
        received = f"{tuple(q.shape)}, {tuple(k.shape)}, {tuple(v.shape)}"
        raise ValueError(f"q, k must be ({rows}, H, d) and v ({rows}, H, e), received {received}")
